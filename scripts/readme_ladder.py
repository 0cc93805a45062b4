"""Fills the README's ladder table from the recorded run: ``python scripts/readme_ladder.py [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from profiler.analysis import formatting  # noqa: E402
from profiler.analysis.ladder import ladder_rows, verdict_lines  # noqa: E402
from profiler.analysis.rundata import RunData  # noqa: E402
from profiler.rundir import RunDir  # noqa: E402

RECORDED = ROOT / "experiments" / "recorded" / "h200" / "gemm_ladder"
README = ROOT / "README.md"
BEGIN, END = "<!-- ladder:begin", "<!-- ladder:end -->"


def section(data: RunData) -> str:
    """Return the Markdown of the ladder: where it was measured, the table, the verdict."""
    gpu, created = data.manifest["gpu"], str(data.manifest["created"])[:10]
    rows = ladder_rows(data)
    size = formatting.size(data.main_size)
    lines = [
        f"Measured on one {gpu['name']} (driver {gpu['driver']}, {created}), {size}, cold L2, interleaved; the ratio "
        "is to cuBLAS in the same contract, with its 95 % interval. `experiments/recorded/` holds the run.",
        "",
        "| rung | contract | time | rate | of cuBLAS | bound by | idea |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row.size != data.main_size:
            continue
        ratio = "" if row.ratio is None else formatting.bounded_ratio(row.ratio.value, row.ratio.low, row.ratio.high)
        cells = [
            f"`{row.variant}`",
            row.dtype,
            formatting.time_ns(row.time.value) if row.time else formatting.status(row.status),
            formatting.si(row.rate, row.rate_unit) if row.rate else "",
            "baseline" if row.is_baseline else ratio,
            row.limit.text if row.time else row.reason,
            row.idea,
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", *verdict_lines(data, rows)])


def main() -> int:
    text = README.read_text(encoding="utf-8")
    start, end = text.index(BEGIN), text.index(END)
    start = text.index("\n", start) + 1
    wanted = text[:start] + section(RunData.load(RunDir.open(RECORDED))) + "\n" + text[end:]
    if "--check" in sys.argv[1:]:
        print("README.md is current" if wanted == text else "README.md: run scripts/readme_ladder.py")
        return 0 if wanted == text else 1
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
