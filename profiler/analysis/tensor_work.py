"""How much a launch gave the tensor cores to do, by which instruction, and how busy that kept them."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.analysis.rundata import Launch, RunData

_PATHS = tuple(f"{source}_{opcode}" for source in ("bf16", "fp16", "tf32") for opcode in ("hgmma", "hmma"))
#: Counts of operations that differ by less are the same work: padding at the edges of tiles.
_SAME = 0.01


@dataclass(frozen=True)
class TensorWork:
    """One launch on the tensor cores."""

    path: str  #: ``bf16_hgmma``: what it multiplies and by which instruction
    operations: float
    busy: float  #: the share of active cycles in which the tensor pipe worked, 0 to 1

    def same_as(self, other: TensorWork) -> bool:
        """Whether both launches give the pipe the same to do."""
        most = max(self.operations, other.operations)
        return self.path == other.path and abs(self.operations - other.operations) <= _SAME * most


def tensor_work(data: RunData, variant: str, size: str, launch: Launch) -> TensorWork | None:
    """Return what a launch does on the tensor cores; None where it does nothing there or it was not counted."""
    counted = {path: data.launch_value(variant, size, launch, f"tensor_ops_{path}").value or 0.0 for path in _PATHS}
    path = max(counted, key=lambda one: counted[one])
    busy = data.launch_value(variant, size, launch, "pipe_tensor").value
    return TensorWork(path, counted[path], busy / 100) if counted[path] and busy else None
