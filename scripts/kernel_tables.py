"""Fills tables of README.md and docs/kernels.md from the recorded runs.

A table stands between ``<!-- table: KIND NAME... -->`` and ``<!-- end -->``. Kinds: ``best`` (for each experiment and
size the fastest rung of ours, with those that tie, beside copy and library), ``shares`` (of copy, rungs by sizes),
``rungs`` (every rung of a matrix product with its ratios, pipe, clock and registers), ``ladder`` (where it was
measured, each rung at the main size, the verdict). All but the first are of one experiment. What a recording lacks is
an empty cell; an experiment without one leaves no row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from generated import ROOT, write_or_check  # noqa: E402

from profiler.analysis import formatting  # noqa: E402
from profiler.analysis.ladder import LadderRow, ladder_rows  # noqa: E402
from profiler.analysis.leads import lead  # noqa: E402
from profiler.analysis.rundata import RunData  # noqa: E402
from profiler.analysis.statistics import Interval  # noqa: E402
from profiler.analysis.verdicts import verdict_lines  # noqa: E402
from profiler.rundir import RunDir  # noqa: E402

RECORDED = ROOT / "experiments" / "recorded" / "h200"
DOCUMENTS = ("README.md", "docs/kernels.md")
BEGIN = "<!-- table:"
TABLE = re.compile(rf"({BEGIN} (\w+) ([\w ]+) -->\n)((?:(?!{BEGIN}).)*?)(<!-- end -->)", re.DOTALL)


@cache
def loaded(name: str) -> tuple[RunData, tuple[LadderRow, ...]]:
    data = RunData.load(RunDir.open(RECORDED / name))
    return data, tuple(ladder_rows(data))


def table(head: Sequence[str], lines: Iterable[Sequence[str]], text: Sequence[int] = (0,)) -> str:
    """Return a Markdown table; ``text`` are the columns that hold words, the others hold figures."""
    rule = ["---" if i in text else "---:" for i in range(len(head))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *lines))


def best(names: Sequence[str]) -> str:
    lines = []
    for name in names:
        if not (RECORDED / name).is_dir():
            continue
        data, rows = loaded(name)
        for dtype in dict.fromkeys(row.dtype for row in rows):
            for size in data.sizes:
                here = [row for row in rows if (row.dtype, row.size) == (dtype, size) and row.time is not None]
                ours = [row for row in here if row.kind in ("cuda", "triton") and not row.variant.startswith("cub")]
                first = lead(data, ours)
                if first is None:
                    continue
                row = first.row
                ties = f" (ties with {', '.join(f'`{tie.row.variant}`' for tie in first.ties)})" if first.ties else ""
                theirs = [(one, one.time.value) for one in here if one not in ours and one.time is not None]
                library = ", ".join(
                    f"{value / row.time.value:.2f}x {one.variant}" for one, value in theirs if row.time is not None
                )
                lines.append(
                    [
                        f"`{name}`",
                        dtype,
                        formatting.size(size),
                        f"`{row.variant}`{ties}",
                        formatting.time_ns(row.time.value) if row.time else "",
                        formatting.si(row.rate, row.rate_unit) if row.rate else "",
                        f"{row.copy.share:.3f}" if row.copy else "",
                        library,
                    ]
                )
    head = ["experiment", "contract", "size", "best rung", "time", "rate", "of copy or reading", "others take"]
    return table(head, lines, text=(0, 1, 2, 3, 7))


def shares(names: Sequence[str]) -> str:
    data, rows = loaded(names[0])
    found = {(row.variant, row.size): row for row in rows}
    lines = []
    for variant in dict.fromkeys(row.variant for row in rows):
        cells = [found.get((variant, size)) for size in data.sizes]
        if not any(cell is not None and cell.copy for cell in cells):
            continue
        lines.append([f"`{variant}`", *(f"{cell.copy.share:.3f}" if cell and cell.copy else "" for cell in cells)])
    return table([f"`{names[0]}`", *(formatting.size(size) for size in data.sizes)], lines)


def bounded(ratio: Interval | None) -> str:
    return "" if ratio is None else formatting.bounded_ratio(ratio.value, ratio.low, ratio.high)


def rungs(names: Sequence[str]) -> str:
    data, rows = loaded(names[0])
    sustained = any(row.sustained is not None for row in rows)
    lines = []
    for size in data.sizes:
        for row in rows:
            if row.size != size or row.time is None:
                continue
            pipe = "pipe_fma" if row.dtype == "fp32" else "pipe_tensor"
            active = data.average(row.variant, size, pipe).value
            steady = "" if row.is_baseline else bounded(row.sustained_ratio)
            lines.append(
                [
                    formatting.size(size),
                    row.dtype,
                    f"`{row.variant}`",
                    formatting.si(row.rate, row.rate_unit) if row.rate else "",
                    "baseline" if row.is_baseline else bounded(row.ratio),
                    *([steady] if sustained else []),
                    f"{active:.1f} %" if active is not None else "",
                    f"{row.clock_mhz:.0f} MHz" if row.clock_mhz else "",
                    f"{row.registers.value:.0f}" if row.registers.value is not None else "",
                ]
            )
    head = ["size", "contract", "rung", "rate", "of cuBLAS", *(["sustained"] if sustained else [])]
    return table([*head, "pipe active", "SM clock", "registers"], lines, text=(0, 1, 2))


def ladder(names: Sequence[str]) -> str:
    data, rows = loaded(names[0])
    gpu, created = data.manifest["gpu"], str(data.manifest["created"])[:10]
    place = (
        f"Measured on one {gpu['name']} (driver {gpu['driver']}, {created}), {formatting.size(data.main_size)}, "
        "cold L2, interleaved; the ratio is to cuBLAS in the same contract, with its 95 % interval. "
        "`experiments/recorded/` holds the run."
    )
    lines = []
    for row in rows:
        if row.size != data.main_size:
            continue
        cells = [
            f"`{row.variant}`",
            row.dtype,
            formatting.time_ns(row.time.value) if row.time else formatting.status(row.status),
            formatting.si(row.rate, row.rate_unit) if row.rate else "",
            "baseline" if row.is_baseline else bounded(row.ratio),
            row.limit.text if row.time else row.reason,
            row.idea,
        ]
        lines.append([cell.replace("|", "\\|") for cell in cells])
    head = ["rung", "contract", "time", "rate", "of cuBLAS", "bound by", "idea"]
    made = table(head, lines, text=range(len(head)))
    return "\n".join([place, "", made, *verdict_lines(data, rows), ""])


KINDS: dict[str, Callable[[Sequence[str]], str]] = {"best": best, "shares": shares, "rungs": rungs, "ladder": ladder}


def filled(text: str) -> str:
    """Return the document with its tables made anew; ``ValueError`` for two comments that are not a table's."""

    def made(found: re.Match[str]) -> str:
        names = found[3].split()
        if found[2] not in KINDS or (found[2] != "best" and len(names) != 1):
            raise ValueError(f"no table: {found[1].strip()}")
        recorded = any((RECORDED / name).is_dir() for name in names)
        return found[1] + (KINDS[found[2]](names) if recorded else "Not recorded yet.\n") + found[5]

    if len(TABLE.findall(text)) != text.count(BEGIN):
        raise ValueError(f"a table is not closed, or begins otherwise than {BEGIN} KIND NAME... -->")
    return TABLE.sub(made, text)


def documents() -> dict[Path, str]:
    """Return the documents with their tables made anew; ``ValueError`` for one without a table or a broken one."""
    made = {}
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        if not TABLE.search(text):
            raise ValueError(f"{name} has no table to fill")
        try:
            made[ROOT / name] = filled(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return made


if __name__ == "__main__":
    sys.exit(write_or_check("kernel_tables.py", __doc__, documents))
