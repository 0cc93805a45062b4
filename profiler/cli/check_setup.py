"""``check_setup``: what is on this machine, and what each missing thing costs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer
from rich.table import Table

from profiler import data_files, gpu, occupancy
from profiler.cli.common import print_json, run_app, stdout_console
from profiler.errors import Exit
from profiler.ncu_reader import reader_paths
from profiler.toolchain import Gpu, Tool, Toolchain, find_toolchain

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

State = Literal["ok", "missing", "problem", "unknown"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox", "xdg-open", "open")
_TOOLS: tuple[tuple[str, str, str], ...] = (
    ("nvcc", "nvcc", "CUDA variants are not built; recorded runs are still shown"),
    ("host_compiler", "host compiler", "nvcc cannot build without a C++ compiler that it accepts"),
    ("cuobjdump", "cuobjdump", "no machine code in the report: opcode mix, access widths, launch bounds"),
    ("nvdisasm", "nvdisasm", "cuobjdump lists no machine code without it"),
    ("ncu", "ncu", "no hardware counters: times, static analysis and a model roofline remain"),
    ("nsys", "nsys", "no timeline of copies, launches and gaps"),
    ("sanitizer", "compute-sanitizer", "races and out-of-bounds accesses are not looked for"),
)


@dataclass(frozen=True)
class Item:
    """One line of the table."""

    name: str
    state: State
    found: str
    costs: str = ""  #: what is lost while it is missing
    next_step: str = ""


@app.command()
def check_setup(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print the last line only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also print where each tool lies.")] = False,
) -> int:
    """Say what is here and what each missing thing costs.

    Exit code: 0 something can be measured, built or shown; 3 nothing can.
    """
    tools = find_toolchain()
    gpus, problem = gpu.find_gpus()
    items = all_items(tools, gpus, problem, verbose=verbose)
    usable, summary = verdict(items)
    code = Exit.OK if usable else Exit.NOTHING
    if json_:
        print_json({"usable": usable, "summary": summary, "items": [asdict(item) for item in items]})
    else:
        _print(items if not quiet else [], summary)
    return code


def all_items(tools: Toolchain, gpus: Sequence[Gpu], problem: str | None, *, verbose: bool = False) -> list[Item]:
    """Return every line of the table."""
    return [
        *gpu_items(gpus, problem),
        counters_item(bool(gpus), gpu.counter_permission()),
        *tool_items(tools, verbose=verbose),
        reader_item(tools.ncu),
        torch_item(bool(gpus)),
        triton_item(),
        browser_item(),
        recorded_item(),
    ]


def gpu_items(gpus: Sequence[Gpu], problem: str | None) -> list[Item]:
    """Return a line per GPU and one for the driver."""
    costs = "nothing is measured: builds, static analysis and recorded runs remain"
    if problem is not None:
        step = "see whether `nvidia-smi` works; a driver upgraded under a running kernel needs a reboot"
        return [Item("GPU", "problem", problem, costs, step)]
    if not gpus:
        return [Item("GPU", "missing", "no NVIDIA driver or no visible GPU", costs, "")]
    lines = []
    for one in gpus:
        major, minor = one.compute_capability
        text = f"{one.name}, {one.memory_bytes / 2**30:.0f} GiB, compute capability {major}.{minor}, {one.arch}"
        known = occupancy.limits(one.compute_capability) is not None
        lines.append(
            Item(f"GPU {one.index}", "ok", text, "" if known else "no occupancy model for this compute capability")
        )
    return [*lines, Item("driver", "ok", gpus[0].driver)]


def counters_item(any_gpu: bool, permission: gpu.Permission) -> Item:
    """Return the line on the hardware counters."""
    if not any_gpu:
        return Item("counters", "unknown", "no GPU to read them from")
    if permission == "allowed":
        return Item("counters", "ok", "this user may read hardware counters")
    if permission == "refused":
        costs = "no hardware counters: times, static analysis and a model roofline remain"
        return Item("counters", "problem", "the driver keeps them for administrators", costs,
                    "; or ".join(gpu.COUNTER_REMEDIES))  # fmt: skip
    return Item("counters", "unknown", "the driver does not say; the first profile will tell")


def tool_items(tools: Toolchain, *, verbose: bool = False) -> list[Item]:
    """Return a line per tool."""
    lines = []
    for field, name, costs in _TOOLS:
        tool: Tool | None = getattr(tools, field)
        if tool is None:
            reason, _, step = tools.why_missing(field).rpartition("; ")
            lines.append(Item(name, "missing", reason or "not found", costs, step))
            continue
        text = f"{tool.path.name} {tool.version}" if field == "host_compiler" else tool.version
        lines.append(Item(name, "ok", f"{text}, {tool.path}" if verbose else text))
    return lines


def reader_item(ncu: Tool | None) -> Item:
    """Return the line on the reader of ``.ncu-rep`` files."""
    if importlib.util.find_spec("ncu_report") is not None:
        return Item("ncu-report", "ok", _version("ncu-report") or "importable")
    if ncu is not None and reader_paths(ncu.path):
        return Item("ncu-report", "ok", "the copy inside Nsight Compute")
    costs = "profiles are collected but cannot be read, and .ncu-rep files from elsewhere cannot be shown"
    return Item("ncu-report", "missing", "not installed", costs, "pip install 'kernel-ladder[ncu]'")


def torch_item(any_gpu: bool) -> Item:
    """Return the line on PyTorch, which is looked for and not imported."""
    version = _version("torch") if importlib.util.find_spec("torch") is not None else None
    if version is None:
        step = "pip install 'kernel-ladder[gpu]'" if any_gpu else ""
        return Item("torch", "missing", "not installed", "nothing is verified, timed or compared with cuBLAS", step)
    if any_gpu and version.endswith("+cpu"):
        return Item("torch", "problem", f"{version}, built without CUDA", "nothing is verified or timed on the GPU",
                    "install a CUDA build of torch")  # fmt: skip
    return Item("torch", "ok", version)


def triton_item() -> Item:
    """Return the line on Triton."""
    version = _version("triton") if importlib.util.find_spec("triton") is not None else None
    if version is None:
        return Item("triton", "missing", "not installed", "Triton variants are neither run nor analysed",
                    "pip install triton")  # fmt: skip
    return Item("triton", "ok", version)


def browser_item() -> Item:
    """Return the line on a browser."""
    named = os.environ.get("BROWSER", "").split(os.pathsep)[0]
    found = named or next((name for name in _BROWSERS if shutil.which(name)), "")
    if not found:
        return Item("browser", "missing", "not found", "--open does nothing", "open report.html on another machine")
    return Item("browser", "ok", found)


def recorded_item() -> Item:
    """Return the line on the recorded runs that can be shown without a GPU."""
    found = sorted(path.parent for path in data_files.recorded().glob("*/*/manifest.json"))
    if not found:
        return Item("recorded runs", "missing", "none", "without a GPU there is nothing to replay", "")
    return Item("recorded runs", "ok", ", ".join(f"{path.name} ({path.parent.name})" for path in found))


def verdict(items: Sequence[Item]) -> tuple[bool, str]:
    """Return whether anything can be done here, and one line that says what."""
    state = {item.name: item.state for item in items}
    builds = state.get("nvcc") == "ok" and state.get("host compiler") == "ok"
    device = any(item.name.startswith("GPU ") and item.state == "ok" for item in items)
    replays = state.get("recorded runs") == "ok"
    can = []
    if device and state.get("torch") == "ok":
        can.append("measure")
    counts = all(state.get(name) == "ok" for name in ("ncu", "ncu-report")) and state.get("counters") != "problem"
    if can and counts:
        can.append("profile")
    if builds:
        can.append("build and analyse binaries")
    if replays:
        can.append("show recorded runs")
    if not can:
        return False, "nothing can be measured, built or shown here: see the next steps above"
    return True, f"usable: this machine can {_listed(can)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``check_setup``."""
    return run_app(app, argv)


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print(items: Sequence[Item], summary: str) -> None:
    console = stdout_console()
    if items:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("what")
        table.add_column("state")
        for heading in ("found", "costs and next step"):
            table.add_column(heading, overflow="fold")
        style = {"ok": "green", "missing": "yellow", "problem": "red", "unknown": "dim"}
        for item in items:
            step = f"next: {item.next_step}" if item.next_step else ""
            costs = "\n".join(part for part in (item.costs, step) if part)
            table.add_row(item.name, f"[{style[item.state]}]{item.state}[/]", _plain(item.found), _plain(costs))
        console.print(table)
    console.print(summary, markup=False)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


if __name__ == "__main__":
    import sys

    sys.exit(main())
