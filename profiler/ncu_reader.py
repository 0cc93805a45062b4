"""Reads a ``.ncu-rep`` in a child process and hands its plain values to the parent.

NVIDIA's reader can crash on a damaged file, or return nothing without saying so; both must cost one file, not the run.
So ``python -m profiler.ncu_reader REPORT OUT.json`` extracts everything there is into one JSON document, or writes the
reason why not, and :func:`read_report` runs it, judges how it ended, and returns the values for ``profiler.parse.ncu``.
Disassembling is half of the work, so in a large report one child disassembles while another reads the values
(``--only``), and several may share the launches (``--part 0/4``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler import process
from profiler.errors import Exit, LadderError
from profiler.parallel import run_all
from profiler.parse.ncu_session import session_facts

if TYPE_CHECKING:
    from profiler.parse.ncu import RawReport

#: Exit codes of the child. Each comes with one line of reason in the JSON document.
OK, UNUSABLE, NO_READER, DAMAGED = 0, 2, 3, 4

_HINTS = {
    NO_READER: (
        "install it with `pip install ncu-report`, or install Nsight Compute; or, where ncu is, export the values with "
        "`ncu --import REPORT --page raw --csv --print-units base > x.csv`, and give x.csv"
    ),
    DAMAGED: "the file may be truncated or altered; copy it again, or profile again",
}
#: Where Nsight Compute is usually installed: a folder and a pattern of versions.
_INSTALLED = (Path("/opt/nvidia/nsight-compute"), "*")
#: From this size on, the time that a second child saves is more than what it costs to start.
_WORTH_TWO_BYTES = 300_000
_ROOT = Path(__file__).resolve().parent.parent
_MAGIC = b"NVR\0"
_DROP = re.compile(r"^(group:|breakdown:|regex:|derived_tempMetric)|\.TriageCompute\.|^pmsampling:")
_OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
_SAMPLED = re.compile(r"^smsp__pcsamp_warps_issue_stalled_(?!.*_not_issued$)(.+)$")
#: Values that a source line or an instruction has: column of the table -> ncu's name.
_PER_PC: dict[str, str] = {
    "executed": "inst_executed",
    "samples": "smsp__pcsamp_sample_count",
    "sectors": "memory_l2_theoretical_sectors_global",
    "sectors_ideal": "memory_l2_theoretical_sectors_global_ideal",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
}


class Unreadable(Exception):
    """The report cannot be used; carries the child's exit code and one line of reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def reader_paths(ncu: Path, installed: tuple[Path, str] = _INSTALLED) -> list[Path]:
    """Return the folders that hold Nsight Compute's own copy of the reader: near the executable first, then (``ncu`` on
    PATH is often a wrapper that lies elsewhere) where it is usually installed, newest first.
    """
    found: list[Path] = []
    for start in (ncu.parent, ncu.resolve().parent):
        for folder in (start, *list(start.parents)[:4]):
            own = folder / "extras" / "python"
            beside = sorted(folder.glob("nsight-compute*/extras/python"), reverse=True)
            found += [path for path in (own, *beside) if path not in found and path.is_dir()]
    usual = sorted(installed[0].glob(f"{installed[1]}/extras/python"), reverse=True)
    return found + [path for path in usual if path not in found]


def check_file(report: Path) -> bytes:
    """Return the file's content; ``Unreadable`` when it is not a report at all, said in words."""
    try:
        content = report.read_bytes()
    except OSError as error:
        raise Unreadable(UNUSABLE, f"{report.name}: {error.strerror or error}") from error
    if not content:
        raise Unreadable(UNUSABLE, f"{report.name} is empty")
    if content.startswith(b"version https://git-lfs"):
        raise Unreadable(UNUSABLE, f"{report.name} is a git-LFS pointer, not the report; run `git lfs pull`")
    if content.startswith(b"SQLite format 3"):
        raise Unreadable(UNUSABLE, f"{report.name} is an SQLite file (an nsys export?), not a Nsight Compute report")
    if content.startswith((b"NSYS", b"QDSTRM")) or report.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        raise Unreadable(UNUSABLE, f"{report.name} is a Nsight Systems report, not a Nsight Compute report")
    if report.suffix != ".ncu-repz" and not content.startswith(_MAGIC):
        raise Unreadable(UNUSABLE, f"{report.name} is not a Nsight Compute report (its first bytes are not NVR)")
    return content


def extract(report: Path, reader: Any, part: int = 0, parts: int = 1, only: str = "all") -> dict[str, Any]:
    """Return a report's launches as plain values; ``Unreadable`` when the reader lost some of it in silence.

    Of several children, each takes every ``parts``-th launch; ``only`` its ``values`` or its ``sass``.
    """
    read = {"all": _launch, "values": _launch, "sass": _listing}[only]
    context = reader.load_report(str(report))
    places = [(group, number) for group in context for number in range(len(group))]
    if not places:
        raise Unreadable(DAMAGED, f"{report.name} holds no launches: empty, or damaged beyond reading")
    launches = [
        {"index": index, **read(group[number], index, report.name, only == "all")}
        for index, (group, number) in enumerate(places)
        if index % parts == part
    ]
    return {"total": len(places), "launches": launches}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the child: read, write the JSON document, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m profiler.ncu_reader", description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reader-path", action="append", default=[], help="a folder with the ncu_report module")
    parser.add_argument("--part", default="0/1", help="which share of the launches, as 1/4")
    parser.add_argument("--only", default="all", choices=("all", "values", "sass"), help="what to read of each launch")
    args = parser.parse_args(argv)
    part, parts = (int(number) for number in args.part.split("/"))
    started = time.perf_counter()
    result: dict[str, Any]
    try:
        content = check_file(args.report)
        reader = _import_reader(args.reader_path)
        result = {"ok": True, **extract(args.report, reader, part, parts, args.only)}
        if part == 0 and args.only != "sass":
            result["sha256"] = hashlib.sha256(content).hexdigest()
            result |= {"reader": _version(reader), "session": session_facts(content)}
        code = OK
    except Unreadable as error:
        result, code = {"ok": False, "reason": str(error)}, error.code
    result["seconds"] = time.perf_counter() - started
    args.out.write_text(json.dumps(result, allow_nan=False, separators=(",", ":")), encoding="utf-8")
    return code


def _import_reader(paths: Sequence[str]) -> Any:
    try:
        import ncu_report
    except ImportError:
        sys.path[:0] = list(paths)
        try:
            import ncu_report
        except ImportError as error:
            raise Unreadable(
                NO_READER, "NVIDIA's report reader (ncu_report) is neither installed nor beside ncu"
            ) from error
    return ncu_report


def _version(reader: Any) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ncu-report")
    except PackageNotFoundError:
        return f"beside ncu: {Path(str(reader.__file__)).parent.name}"


def _launch(action: Any, index: int, file: str, with_sass: bool = True) -> dict[str, Any]:
    name = action.name()
    names = action.metric_names()
    if name is None or not names:
        lost = "name" if name is None else "values"
        raise Unreadable(DAMAGED, f"{file} is damaged or truncated: launch {index} has no {lost}")
    metrics = {n: action.metric_by_name(n) for n in names if not _DROP.search(n)}
    opcodes = metrics.get(_OPCODES)
    return {
        "function": name,
        "demangled": action.name(action.NameBase_DEMANGLED) or name,
        "mangled": action.name(action.NameBase_MANGLED) or name,
        "ranges": _ranges(action),
        "scalars": {n: _scalar(m) for n, m in metrics.items()},
        "pcs": _pcs(action, metrics, with_sass),
        "rules": [_rule(rule) for rule in action.rule_results_as_dicts()],
        "opcodes": _instances(opcodes) if opcodes is not None and opcodes.num_instances() else None,
    }


def _listing(action: Any, *_: Any) -> dict[str, Any]:
    """The disassembly of every address that may stand in the table of instructions."""
    names = [*_PER_PC.values(), *(n for n in action.metric_names() or () if _SAMPLED.match(n))]
    seen: set[int] = set()
    for metric in (action.metric_by_name(n) for n in names):
        if metric is not None and metric.num_instances():
            ids = metric.correlation_ids()
            seen |= {ids.as_uint64(i) for i in range(metric.num_instances())}
    return {"sass": {pc: _sass(action, pc) for pc in sorted(seen)}}


def _sass(action: Any, pc: int) -> str:
    return (action.sass_by_pc(pc) or "").strip()


def _ranges(action: Any) -> list[list[Any]]:
    state = action.nvtx_state()
    if state is None:
        return []
    domains = [state[domain] for domain in state.domains()]
    return [[d.name(), list(d.push_pop_ranges()), list(d.start_end_ranges())] for d in domains]


def _scalar(metric: Any) -> list[Any] | None:
    """Value and unit; None when the profiler itself says that there is no value (its number would be 0.0)."""
    if metric is None or not metric.has_value():
        return None
    value = metric.value()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return [value, metric.unit()]


def _rule(rule: Any) -> dict[str, Any]:
    """What the frame `rules` has of a rule; an estimate that is no number is none."""
    kept = {key: rule[key] for key in ("rule_identifier", "name", "rule_message") if key in rule}
    estimate = dict(rule.get("speedup_estimation") or {})
    return {**kept, "speedup_estimation": estimate} if math.isfinite(estimate.get("speedup", math.nan)) else kept


def _instances(metric: Any) -> dict[Any, Any]:
    count = metric.num_instances() if metric is not None else 0
    if not count:
        return {}
    ids = metric.correlation_ids()
    # The reader's own value() asks for the kind each time, which is most of its cost.
    key = ids.as_uint64 if ids.kind() == metric.ValueKind_UINT64 else ids.value
    value = metric.as_uint64 if metric.kind() == metric.ValueKind_UINT64 else metric.value
    return {key(i): value(i) for i in range(count)}


def _pcs(action: Any, metrics: dict[str, Any], with_sass: bool) -> dict[str, Any] | None:
    """The table of instructions, addresses counted from the start of the function; None when none was collected."""
    columns = {column: _instances(metrics.get(name)) for column, name in _PER_PC.items()}
    reasons: dict[str, dict[int, int]] = {}
    for name, metric in metrics.items():
        found = _SAMPLED.match(name)
        # Most reasons are zero everywhere; their scalar says so without a walk over the instances.
        if found and metric is not None and metric.value():
            reasons[found.group(1)] = _instances(metric)
    counted = [columns["executed"], columns["samples"], *reasons.values()]
    seen = {pc for values in counted for pc, count in values.items() if count}
    if not columns["executed"] and not columns["samples"]:
        return None
    bases = metrics.get("launch__function_pcs")
    base = bases.value(0) if bases is not None and bases.num_instances() else min(seen, default=0)
    rows = []
    for pc in sorted(seen):  # what never ran and was never sampled is left out
        info = action.source_info(pc)
        stalls = {reason: values[pc] for reason, values in reasons.items() if values.get(pc)}
        rows.append(
            [pc - base, _sass(action, pc) if with_sass else str(pc), info.file_name() if info else None]
            + [info.line() if info else None, stalls]
            + [values.get(pc) for values in columns.values()]
        )
    return {"columns": ["pc", "sass", "file", "line", "stalls", *columns], "rows": rows}


def read_report(
    report: Path,
    out_dir: Path,
    *,
    timeout_s: float = 120.0,
    reader_path: Sequence[Path] = (),
    parts: int | None = None,
    sass: bool = True,
) -> RawReport:
    """Return a report's values; ``LadderError`` with the reason when it cannot be read.

    Raises rather than returning less than the file holds. ``out_dir`` takes the children's JSON files; ``parts`` is how
    many children share the work. Without ``sass`` nothing is disassembled, which saves half of the time.
    """
    from profiler.parse.ncu import RawReport

    size = report.stat().st_size if report.is_file() else 0
    cpus = os.cpu_count() or 1
    kinds: tuple[str, ...] = ("all",)
    if parts is None:
        parts = max(1, min(8, cpus // 2, size // 1_000_000))
        kinds = ("values", "sass") if cpus > 1 and size > _WORTH_TWO_BYTES else kinds
    if not sass:
        kinds = ("values",)

    def child(kind: str, part: int) -> dict[str, Any]:
        out = out_dir / f"ncu-{kind}-{part}.json"
        out.unlink(missing_ok=True)
        argv = [sys.executable, "-P", "-m", "profiler.ncu_reader", report, out]
        argv += ["--part", f"{part}/{parts}", "--only", kind]
        for path in reader_path:
            argv += ["--reader-path", path]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        done = process.run([str(a) for a in argv], timeout=timeout_s, env=env, label="ncu_reader")
        if done.timed_out:
            raise _unreadable(report, f"the reader did not finish in {timeout_s:.0f} s")
        try:
            result: dict[str, Any] = json.loads(out.read_bytes())
        except (OSError, ValueError):
            said = process.tail(done.stderr, 1)
            how = process.describe_exit(done.returncode)
            raise _unreadable(report, f"the reader ended with {how}{': ' + said if said else ''}") from None
        if not result["ok"]:
            raise LadderError(str(result["reason"]), hint=_HINTS.get(done.returncode, ""), code=Exit.USAGE)
        return result

    jobs = {f"{kind} {part}": partial(child, kind, part) for kind in kinds for part in range(parts)}
    results = [result for _, result in run_all(jobs, len(jobs))]
    launches = [launch for result in results[:parts] for launch in result["launches"]]
    launches.sort(key=lambda launch: int(launch["index"]))
    if len(launches) != results[0]["total"]:
        raise _unreadable(report, f"{len(launches)} of {results[0]['total']} launches came back")
    if kinds[0] == "values":
        listings = {one["index"]: one["sass"] for result in results[parts:] for one in result["launches"]}
        for launch in launches:
            for row in launch["pcs"]["rows"] if launch["pcs"] else ():
                row[1] = listings[launch["index"]][row[1]] if sass else ""
    return RawReport.from_json({**results[0], "launches": launches})


def _unreadable(report: Path, reason: str) -> LadderError:
    return LadderError(f"{report.name} cannot be read: {reason}", hint=_HINTS[DAMAGED], code=Exit.USAGE)


if __name__ == "__main__":
    sys.exit(main())
