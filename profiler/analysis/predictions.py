"""What a problem says in advance of a variant's counters, beside what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profiler.analysis.kernels import Kernel, kernels, profiled_size
from profiler.analysis.rundata import Row, RunData, Value
from profiler.analysis.sass_mix import instruction
from profiler.static_metrics import PREDICTION

#: A warp's counts are whole numbers, the same in every launch: what differs by more than this share is another number.
SAME = 0.001

#: Metric -> (opcodes, column of the frame ``source``): what one instruction takes, from the counters per instruction.
BY_INSTRUCTION: Mapping[str, tuple[frozenset[str], str]] = {
    "wavefronts_per_shared_load": (frozenset({"LDS"}), "shared_wavefronts"),
    "wavefronts_per_shared_store": (frozenset({"STS"}), "shared_wavefronts"),
}

LABELS: Mapping[str, str] = {
    "wavefronts_per_shared_load": "wavefronts a shared load",
    "wavefronts_per_shared_store": "wavefronts a shared store",
    "sectors_per_load_request": "sectors a global load",
}


@dataclass(frozen=True)
class Prediction:
    """One metric of one variant: predicted, and counted at the size it was profiled at."""

    variant: str
    metric: str
    label: str
    predicted: float
    counted: Value

    @property
    def holds(self) -> bool | None:
        """Whether the count is what was predicted; None when it was not counted."""
        if self.counted.value is None:
            return None
        return abs(self.counted.value - self.predicted) <= SAME * max(abs(self.predicted), 1.0)


def predictions(data: RunData) -> list[Prediction]:
    """Return every prediction of a run, in the order of its variants."""
    said: dict[str, dict[str, float]] = {}
    for row in data.rows.get("metrics", ()):
        metric = str(row["metric"])
        if metric.startswith(PREDICTION) and row["value"] is not None:
            said.setdefault(str(row["variant"]), {})[metric.removeprefix(PREDICTION)] = float(row["value"])
    found = []
    for name in (str(variant["name"]) for variant in data.variants):
        if name not in said:
            continue
        first = next(iter(kernels(data, name, profiled_size(data, name))), None)
        for metric, predicted in said[name].items():
            found.append(Prediction(name, metric, LABELS.get(metric, metric), predicted, _counted(first, metric)))
    return found


def _counted(kernel: Kernel | None, metric: str) -> Value:
    if kernel is None:
        return Value(None, why="not_collected")
    if metric not in BY_INSTRUCTION:
        return kernel.counted(metric)
    opcodes, column = BY_INSTRUCTION[metric]
    if not kernel.instructions:
        return Value(None, why=kernel.no_instructions)
    return per_instruction(kernel.instructions, opcodes, column)


def per_instruction(rows: Iterable[Row], opcodes: frozenset[str], column: str) -> Value:
    """Return a count over the executions of instructions: sum of ``column`` / sum of ``executed``."""
    total = executed = 0
    for row in rows:
        if instruction(str(row["sass"] or "")).base in opcodes and row["executed"]:
            total += int(row[column] or 0)
            executed += int(row["executed"])
    if not executed:
        return Value(None, why="not_applicable")
    return Value(total / executed, "1", "ncu")
