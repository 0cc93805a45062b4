"""The command lines of Nsight Compute, and what its output means. Pure: argument lists and text in, values out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profiler.parse.folders import without_folders
from profiler.parse.launches import Wanted, regex_of
from profiler.toolchain import Tool

#: The profiled program pushes one range per (variant, size) in this domain, named :func:`range_name` of its index.
DOMAIN = "kernel-ladder"
#: The range around each single launch of a pair, where a pair is launched several times (stage trace).
LAUNCH_RANGE = "kl.launch"
CLOCK_CONTROL = "none"
CACHE_CONTROL = "all"

#: Chip names of ``ncu --query-metrics --chip`` by compute capability.
_CHIPS: dict[tuple[int, int], str] = {
    (7, 0): "gv100", (7, 5): "tu102", (8, 0): "ga100", (8, 6): "ga102", (8, 9): "ad102", (9, 0): "gh100",
    (10, 0): "gb100", (12, 0): "gb202",
}  # fmt: skip

Kind = Literal[
    "ok",
    "permission",
    "busy",
    "unsupported",
    "too_old",
    "unknown_metric",
    "bad_option",
    "app_failed",
    "no_kernels",
    "silent",
    "other",
]


@dataclass(frozen=True)
class Outcome:
    """How one run of ncu ended: its kind, one clear line, and the next step. ``names`` are refused metrics."""

    kind: Kind
    message: str = ""
    hint: str = ""
    names: tuple[str, ...] = ()
    returncode: int = 0

    @property
    def final(self) -> bool:
        """Whether asking again on this machine can only give the same answer."""
        return self.kind in ("permission", "busy", "unsupported", "too_old", "bad_option")


@dataclass(frozen=True)
class ProfileOptions:
    """What to collect and how."""

    set: Literal["ladder", "full"] = "ladder"
    sources: bool = True
    clock_control: str = CLOCK_CONTROL
    cache_control: str = CACHE_CONTROL


def range_name(index: int) -> str:
    """Return the name of the range of the pair with this index; nothing in it needs escaping."""
    return f"kl.{index:04d}"


def range_expression(name: str) -> str:
    """Return ncu's filter for one push/pop range: ``domain@range/``; without the slash it means start/end ranges."""
    return f"{DOMAIN}@{name}/"


def chip_name(compute_capability: tuple[int, int] | None) -> str | None:
    """Return ncu's name of the chip, or None where it is not known (ncu then asks the GPU)."""
    return None if compute_capability is None else _CHIPS.get(compute_capability)


def profile_argv(
    ncu: Tool,
    program: Sequence[str],
    report: Path,
    log: Path,
    metrics: Sequence[str],
    ranges: Sequence[str],
    options: ProfileOptions = ProfileOptions(),
) -> list[str]:
    """Return the command line that profiles the launches of ``program`` inside ``ranges`` (names) into ``report``.

    Only the program's own process is profiled: compilers that it starts are not slowed down, and never counted.
    """
    which = ["--nvtx"]
    for name in ranges:
        which += ["--nvtx-include", range_expression(name)]
    return _argv(ncu, "application-only", which, program, report, log, metrics, options)


def program_argv(
    ncu: Tool,
    program: Sequence[str],
    report: Path,
    log: Path,
    metrics: Sequence[str],
    wanted: Wanted,
    options: ProfileOptions = ProfileOptions(),
) -> list[str]:
    """Return the command line that profiles the launches of somebody's program that are meant by name, skip and count;
    those of its child processes, too.
    """
    which = []
    if wanted.match is not None:
        which += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{regex_of(wanted.match)}"]
    which += ["--launch-skip", str(wanted.skip), "--launch-count", str(wanted.profiled)]
    return _argv(ncu, "all", which, program, report, log, metrics, options)


def _argv(
    ncu: Tool,
    processes: str,
    which: Sequence[str],
    program: Sequence[str],
    report: Path,
    log: Path,
    metrics: Sequence[str],
    options: ProfileOptions,
) -> list[str]:
    argv = [str(ncu.path), "--target-processes", processes]
    argv += ["--clock-control", options.clock_control, "--cache-control", options.cache_control, *which]
    if options.set == "full":
        argv += ["--set", "full"]
    elif options.sources:
        argv += ["--section", "SourceCounters"]
    if options.sources:
        argv += ["--import-source", "yes"]
    if metrics:
        argv += ["--metrics", ",".join(metrics)]
    # ncu appends the suffix where it is missing; old versions append it in any case.
    argv += ["--log-file", str(log), "-f", "-o", str(report.with_suffix("") if report.suffix == ".ncu-rep" else report)]
    return [*argv, *program]


def query_argv(ncu: Tool, chip: str | None) -> list[str]:
    """Return the command line that lists a chip's metrics; without a chip, those of the GPUs that are there."""
    return [str(ncu.path), "--query-metrics", *(["--chip", chip] if chip else [])]


def parse_query_metrics(text: str) -> set[str]:
    """Return the base names that ``--query-metrics`` lists, in any of its layouts; empty when there are none."""
    return set(re.findall(r'^\s*"?([a-z0-9]+__[A-Za-z0-9_]+)\b', text, flags=re.MULTILINE))


def too_old(version: str, oldest: int) -> bool:
    """Whether an ncu of this version is older than a year's first; an unreadable version is not called old."""
    year = re.match(r"(\d{4})\b", version)
    return year is not None and int(year.group(1)) < oldest


_PERMISSION = "ERR_NVGPUCTRPERM"
_FIND = re.compile(r"Failed to find metric(?:s)?:?\s+(?:regex:\^?)?([A-Za-z0-9_:.]+)")
_ACCESS = re.compile(r"Failed to access the following (?:\d+ )?metrics?:\s*([^\n]+)")
_APP = re.compile(r"application returned an error code \((-?\d+)\)", re.IGNORECASE)
_OPTION = re.compile(r"(?:unrecogni[sz]ed option|the (?:argument|option)) '([^']+)'", re.IGNORECASE)
_OLD = re.compile(
    r"driver (?:version )?is (?:not compatible|insufficient|too old)|not supported by this (?:driver|version)", re.I
)


def classify_log(text: str, returncode: int) -> Outcome:
    """Return what ncu's output means. ``text`` is everything it wrote: its log, stdout and stderr, for it prints its
    errors on any of them, and may exit with 0 all the same.
    """

    def outcome(kind: Kind, message: str, hint: str = "", names: tuple[str, ...] = ()) -> Outcome:
        return Outcome(kind, message, hint, names, returncode)

    if _PERMISSION in text:
        return outcome(
            "permission",
            "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
            "run as root, start the container with --cap-add=SYS_ADMIN, or load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0",
        )
    if "driver resource was unavailable" in text:
        return outcome(
            "busy",
            "another tool holds the GPU's counters",
            "end other profilers; where DCGM runs, `dcgmi profile --pause` and later `--resume`",
        )
    if re.search(r"Profiling is not supported on (?:this )?device|profiling is not supported", text):
        return outcome("unsupported", "this ncu cannot profile this GPU", "`ncu --list-chips` names those it can")
    names = tuple(match.rstrip(".") for match in _FIND.findall(text.replace("\\.", ".")))
    for found in _ACCESS.findall(text):
        names += tuple(name.strip() for name in found.split(",") if name.strip())
    if names:
        listed = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
        message = f"ncu does not know {listed} on this chip"
        return outcome("unknown_metric", message, "leave the name out of profile.metrics", names)
    own = "\n".join(line for line in text.splitlines() if line.startswith("=="))  # not what the program printed
    option = _OPTION.search(own)
    if option:
        message = f"this ncu does not take {option.group(1)}"
        return outcome("bad_option", message, "install Nsight Compute 2022 or newer")
    if _OLD.search(own):
        return outcome("too_old", "ncu and the driver do not fit together", "install an ncu that matches the driver")
    failed = _APP.search(text)
    if failed:
        return outcome(
            "app_failed", f"the profiled program failed with exit code {failed.group(1)}", "its output is in raw/"
        )
    if re.search(r"No kernels were profiled", text, re.IGNORECASE):
        children = "child process" in text or "target-processes" in text
        message = "ncu saw no launch inside the marked ranges"
        message += "; the launches may be in a child process" if children else ""
        return outcome("no_kernels", message, "its log is in raw/")
    error = re.search(r"==ERROR==\s*(.+)", text)
    if error:
        return outcome("other", f"ncu: {without_folders(error.group(1).strip())}", "its log is in raw/")
    if not text.strip():
        return outcome("silent", f"ncu wrote nothing (exit code {returncode})", "run `ncu --version` by hand")
    if returncode != 0:
        return outcome("other", f"ncu ended with exit code {returncode}", "its log is in raw/")
    return outcome("ok", "")
