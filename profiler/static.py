"""Stage static: what the binaries say without running: registers, spills, shared memory, opcode mix, access widths,
occupancy at the launch bounds, and the hash of the machine code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from profiler import frames, occupancy, parallel, process
from profiler.build import LOG, build_folder
from profiler.build_sources import folder_name
from profiler.errors import LadderError
from profiler.model import Variant
from profiler.parse import cuobjdump, ptxas, sass
from profiler.run import Run
from profiler.static_metrics import PREDICTION
from profiler.toolchain import Toolchain, tool_env

Row = dict[str, Any]

#: Listings that are kept beside the library: file -> flag of cuobjdump.
STATIC_LISTINGS: dict[str, str] = {"sass.txt": "-sass", "elf.txt": "-elf"}
_DYNAMIC_SHARED = re.compile(r"\bextern\b[^;{}()]*\b__shared__\b")
_TRITON_EXIT_NO_TRITON, _TRITON_EXIT_NO_FUNCTION = 3, 4


@dataclass(frozen=True)
class Analysis:
    """One variant's rows, the hash of its code, and what to tell the user."""

    rows: tuple[Row, ...]
    binary_hash: str | None = None
    note: str = ""


@dataclass(frozen=True)
class KernelFacts:
    """What is known of one kernel."""

    name: str  #: as shown
    resources: ptxas.KernelResources | None
    code: sass.SassKernel | None
    max_threads: int | None
    dynamic_shared: bool  #: whether shared memory may be added at launch


def static_stage(run: Run) -> None:
    """Write the rows of every built CUDA variant and of every Triton variant that compiles ahead of time."""
    builds = run.builds
    jobs = {
        variant.name: partial(_triton if variant.kind == "triton" else _cuda, run, variant)
        for variant in run.variants
        if variant.name in builds or (variant.kind == "triton" and variant.source is not None)
    }
    done = dict(parallel.run_all(jobs, run.settings.jobs))
    rows = [row for analysis in done.values() for row in analysis.rows]
    rows += [row for variant in run.variants if variant.name in done for row in _predictions(run, variant)]
    run.dir.update_frame(
        "metrics", rows, replacing={"variant": list(done), "size": [""], "origin": ["ptxas", "sass", "model"]}
    )
    variants = frames.rows_of(run.dir.frame("variants"))
    for row in variants:
        if (analysis := done.get(row["name"])) is not None and analysis.binary_hash is not None:
            row["binary_hash"] = analysis.binary_hash
    run.dir.write_frame("variants", variants)
    for line in dict.fromkeys(analysis.note for analysis in done.values() if analysis.note):
        run.say(line)


def cuobjdump_argv(tool: Path | str, flag: str, binary: Path) -> list[str]:
    """Return the argument list of one listing: ``-sass``, ``-elf`` or ``-res-usage``."""
    return [str(tool), flag, str(binary)]


def kernel_rows(variant: str, kernels: Sequence[KernelFacts], arch: str, why_no_code: str) -> list[Row]:
    """Return the rows of a variant's kernels. What is not known is a row that says why."""
    rows: list[Row] = []
    for index, kernel in enumerate(kernels):
        base: Row = {"variant": variant, "size": "", "launch": index, "kernel": kernel.name}
        rows.extend(base | row for row in _resource_rows(kernel))
        rows.extend(base | row for row in _code_rows(kernel, why_no_code))
        rows.extend(base | row for row in _occupancy_rows(kernel, arch))
    return rows


def binary_hash(kernels: Sequence[sass.SassKernel]) -> str:
    """Return the hash of the machine code, the same for every build of one source by one compiler."""
    return hashlib.sha256(sass.normalised(kernels).encode()).hexdigest()


def _resource_rows(kernel: KernelFacts) -> list[Row]:
    known = kernel.resources or ptxas.KernelResources(kernel.name, "")
    values: dict[str, tuple[int | None, str]] = {
        "registers": (known.registers, "1"),
        "barriers": (known.barriers, "1"),
        "stack_bytes": (known.stack_bytes, "byte"),
        "spill_store_bytes": (known.spill_store_bytes, "byte"),
        "spill_load_bytes": (known.spill_load_bytes, "byte"),
        "shared_bytes": (known.shared_bytes, "byte"),
    }
    return [_row(f"ptxas.{name}", value, unit, "ptxas") for name, (value, unit) in values.items()]


def _code_rows(kernel: KernelFacts, why: str) -> list[Row]:
    rows = [_row("sass.max_threads", kernel.max_threads, "1", "sass", why if kernel.code is None else "not_applicable")]
    code = kernel.code
    if code is None:
        return [*rows, _row("sass.instructions", None, "inst", "sass", why)]
    local = sum(instruction.kind == "local" for instruction in code.instructions)
    rows += [
        _row("sass.instructions", len(code.instructions), "inst", "sass"),
        _row("sass.local_accesses", local, "inst", "sass"),
    ]
    rows += [_row(f"sass.class.{name}", count, "inst", "sass") for name, count in code.class_mix().items()]
    rows += [_row(f"sass.opcode.{name}", count, "inst", "sass") for name, count in code.opcode_mix().items()]
    rows += [_row(f"sass.width.{op}.{bits}", count, "inst", "sass") for (op, bits), count in code.widths().items()]
    return rows


def _occupancy_rows(kernel: KernelFacts, arch: str) -> list[Row]:
    capability = occupancy.compute_capability(arch)
    sm = occupancy.limits(capability) if capability else None
    known, threads = kernel.resources, kernel.max_threads
    names = {"blocks": "1", "warps": "1", "percent": "%", "limiter": "text"}
    if sm is None or known is None or known.registers is None or threads is None or kernel.dynamic_shared:
        why = "not_supported" if sm is None else "not_applicable" if kernel.code is not None else "not_collected"
        return [_row(f"model.occupancy.{name}", None, unit, "model", why) for name, unit in names.items()]
    fits = occupancy.occupancy(
        sm,
        block_size=threads,
        registers=known.registers,
        shared_bytes=known.shared_bytes or 0,
        barriers=known.barriers if known.barriers is not None else 1,
    )
    return [
        _row("model.occupancy.blocks", fits.blocks, "1", "model"),
        _row("model.occupancy.warps", fits.warps, "1", "model"),
        _row("model.occupancy.percent", 100 * fits.fraction, "%", "model"),
        {"metric": "model.occupancy.limiter", "text": ", ".join(fits.limiters), "unit": "text", "origin": "model"},
    ]


def _predictions(run: Run, variant: Variant) -> list[Row]:
    """What the problem says in advance of the variant's counters."""
    found = run.problem.predictions(variant.params)
    base: Row = {"variant": variant.name, "size": "", "kernel": ""}
    return [base | _row(f"{PREDICTION}{name}", value, "1", "model") for name, value in found.items()]


def _row(name: str, value: float | None, unit: str, origin: str, why: str = "not_collected") -> Row:
    return {
        "metric": name,
        "value": None if value is None else float(value),
        "unit": unit,
        "origin": origin,
        "why": why if value is None else None,
    }


def _cuda(run: Run, variant: Variant) -> Analysis:
    build = run.builds[variant.name]
    folder, arch = build_folder(build["key"]), str(build["arch"])
    try:
        log = ptxas.parse((folder / LOG).read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise LadderError(
            f"{variant.name}: its build is no longer in the cache", hint="start a new run instead of resuming this one"
        ) from error
    listings, why, note = _listings(run, folder, folder / "variant.so")
    code = [kernel for kernel in sass.parse(listings.get("sass.txt", "")) if kernel.arch in {arch, ""}]
    bounds = cuobjdump.launch_bounds(listings.get("elf.txt", ""))
    resources = {kernel.name: kernel for kernel in log.for_arch(arch)}
    by_name = {kernel.name: kernel for kernel in code}
    names = list(resources) or list(by_name)
    shown = demangled(run.toolchain, names)
    dynamic = _may_add_shared(run.dir.path / "sources" / folder_name(variant.name))
    kernels = []
    for name in names:
        kernel = by_name.get(name)
        uses_shared = kernel is None or kernel.uses_shared_memory
        threads = bounds[name].total if name in bounds else None
        kernels.append(KernelFacts(shown[name], resources.get(name), kernel, threads, dynamic and uses_shared))
    rows = kernel_rows(variant.name, kernels, arch, why or "failed")  # read, and this kernel is not among them
    serialised = sum(warning.serialises_wgmma for warning in log.warnings)
    whole: Row = {"variant": variant.name, "size": "", "launch": None, "kernel": None}
    rows.append(whole | _row("ptxas.wgmma_serialised", serialised, "1", "ptxas"))
    return Analysis(tuple(rows), binary_hash(code) if code else None, note)


def _listings(run: Run, folder: Path, binary: Path) -> tuple[dict[str, str], str, str]:
    """Return the listings by file name (kept beside the binary), and why and in which words they are absent."""
    tools = run.toolchain
    texts: dict[str, str] = {}
    for name, flag in STATIC_LISTINGS.items():
        kept = folder / name
        if kept.is_file() and not run.settings.force:
            texts[name] = kept.read_text(encoding="utf-8", errors="replace")
            run.detail(f"{folder.name[:12]}: {name}: in the cache")
            continue
        said = _dump(tools, flag, binary, run.settings.timeout_s)
        if isinstance(said, str):
            return texts, "failed" if tools.cuobjdump and tools.nvdisasm else "not_collected", said
        if not said.stdout.strip():
            return texts, "failed", f"no machine code: cuobjdump {flag} printed nothing"
        texts[name] = said.stdout
        partial = folder / f".{name}.{os.getpid()}.{threading.get_ident()}.partial"
        partial.write_text(said.stdout, encoding="utf-8")
        partial.replace(kept)
    return texts, "", ""


def _dump(tools: Toolchain, flag: str, binary: Path, timeout: float) -> process.Completed | str:
    """Run cuobjdump; a text says why there is no listing."""
    for name, tool in (("cuobjdump", tools.cuobjdump), ("nvdisasm", tools.nvdisasm)):
        if tool is None:
            return f"no machine code: {tools.why_missing(name) or f'{name} was not found'}"
    assert tools.cuobjdump is not None
    argv = cuobjdump_argv(tools.cuobjdump.path, flag, binary)
    try:
        said = process.run(argv, timeout=timeout, env=tool_env(tools), label="cuobjdump")
    except process.ToolMissing as error:
        return f"no machine code: {error}"
    if said.timed_out:
        return f"no machine code: cuobjdump did not finish within {timeout:g} s"
    if said.returncode != 0:
        last = process.tail(said.output, 1) or "and said nothing"
        return f"no machine code: cuobjdump ended with {process.describe_exit(said.returncode)}: {last}"
    return said


def _may_add_shared(sources: Path) -> bool:
    """Whether a source declares shared memory whose size the launch decides."""
    for path in sources.rglob("*"):
        if path.is_file() and _DYNAMIC_SHARED.search(path.read_text(encoding="utf-8", errors="replace")):
            return True
    return False


def demangled(tools: Toolchain, names: Sequence[str]) -> dict[str, str]:
    """Return the names as people read them, with ``cu++filt`` or ``c++filt``; unchanged where there is neither."""
    unchanged = {name: name for name in names}
    beside = [tools.nvcc.path.parent / "cu++filt"] if tools.nvcc else []
    beside += [tools.cuobjdump.path.parent / "cu++filt"] if tools.cuobjdump else []
    found = next((str(path) for path in beside if path.is_file()), None)
    filter_tool = found or shutil.which("cu++filt") or shutil.which("c++filt")
    if filter_tool is None or not names:
        return unchanged
    try:
        said = process.run([filter_tool, *names], timeout=20, label="c++filt")
    except process.ToolMissing:
        return unchanged
    lines = said.stdout.splitlines()
    if said.returncode != 0 or len(lines) != len(names):
        return unchanged
    return dict(zip(names, lines, strict=True))


def _triton(run: Run, variant: Variant) -> Analysis:
    """Compile a Triton variant ahead of time in a child process and analyse its cubins."""
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as folder:
        cubins, why, note = _triton_cubins(run, variant, Path(folder))
        if not cubins:
            return Analysis((_no_code(variant, why),), None, note)
        kernels, codes, note = _cubin_kernels(run, cubins)
    if not kernels:
        why = "failed" if run.toolchain.cuobjdump and run.toolchain.nvdisasm else "not_collected"
        return Analysis((_no_code(variant, why),), None, note)
    rows = kernel_rows(variant.name, kernels, str(run.dir.manifest["arch"]), "failed" if note else "not_collected")
    return Analysis(tuple(rows), binary_hash(codes) if codes else None, note)


def _no_code(variant: Variant, why: str) -> Row:
    row: Row = {"variant": variant.name, "size": "", "launch": 0, "kernel": None}
    return row | _row("sass.instructions", None, "inst", "sass", why)


def _triton_cubins(run: Run, variant: Variant, folder: Path) -> tuple[list[Path], str, str]:
    sizes = [dict(size) for size in run.experiment.problem.sizes]
    arch = str(run.dir.manifest["arch"])
    argv = triton_argv(variant, sizes, folder, arch, run.experiment.problem.options)
    try:
        said = process.run(argv, timeout=run.settings.timeout_s, env=_triton_env(run), label="triton")
    except process.ToolMissing as error:
        return [], "failed", f"{variant.name}: {error}"
    if said.timed_out:
        return [], "failed", f"{variant.name}: Triton did not compile within {run.settings.timeout_s:g} s"
    if said.returncode == _TRITON_EXIT_NO_TRITON:
        return [], "not_collected", "Triton is not installed: its kernels are not analysed (pip install triton)"
    if said.returncode == _TRITON_EXIT_NO_FUNCTION:
        return [], "not_applicable", ""
    if said.returncode != 0:
        last = process.tail(said.output, 1) or process.describe_exit(said.returncode)
        return [], "failed", f"{variant.name}: compile_for failed: {last}"
    return sorted(folder.glob("*.cubin")), "not_collected", ""


def triton_argv(
    variant: Variant, sizes: Sequence[Mapping[str, int]], folder: Path, arch: str, options: Mapping[str, str]
) -> list[str]:
    """Return the argument list of the child that compiles a Triton file ahead of time."""
    major, minor = occupancy.compute_capability(arch) or (9, 0)
    more = {"arch": 10 * major + minor, "options": dict(options)}
    return [
        *(sys.executable, "-P", "-m", "profiler.triton_static"),  # -P: nothing in the current folder shadows ours
        *(str(variant.source), variant.function or ""),
        *(json.dumps(list(map(dict, sizes))), variant.dtype, str(folder), json.dumps(more)),
    ]


def _triton_env(run: Run) -> dict[str, str]:
    env = tool_env(run.toolchain)
    root = str(Path(__file__).resolve().parent.parent)
    env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH", "")])])
    return env


def _cubin_kernels(run: Run, cubins: Sequence[Path]) -> tuple[list[KernelFacts], list[sass.SassKernel], str]:
    arch = str(run.dir.manifest["arch"])
    facts: list[KernelFacts] = []
    codes: list[sass.SassKernel] = []
    for cubin in cubins:
        texts: dict[str, str] = {}
        for flag in ("-sass", "-res-usage", "-elf"):
            said = _dump(run.toolchain, flag, cubin, run.settings.timeout_s)
            if isinstance(said, str):
                return facts, codes, said
            texts[flag] = said.stdout
        code = {kernel.name: kernel for kernel in sass.parse(texts["-sass"])}
        bounds = cuobjdump.launch_bounds(texts["-elf"])
        for usage in cuobjdump.resource_usage(texts["-res-usage"], arch):
            resources = ptxas.KernelResources(
                usage.name, arch, registers=usage.registers, stack_bytes=usage.stack_bytes,
                shared_bytes=usage.shared_bytes, local_bytes=usage.local_bytes,
            )  # fmt: skip
            kernel = code.get(usage.name)
            threads = bounds[usage.name].total if usage.name in bounds else None
            uses_shared = kernel is None or kernel.uses_shared_memory  # Triton's is added at launch
            facts.append(KernelFacts(usage.name, resources, kernel, threads, uses_shared))
        codes.extend(code.values())
    return facts, codes, ""
