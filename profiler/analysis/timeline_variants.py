"""What a trace says of the variants of a run: time of their kernels per launch, and what launching adds to it. Pure.

Durations of a trace are the tracer's own; they stand beside one another here and rank nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analysis import intervals
from profiler.analysis.timeline import NVTX, Timeline
from profiler.ncu_command import LAUNCH_RANGE


@dataclass(frozen=True)
class TracedVariant:
    """One variant at one size: means over its launches, in nanoseconds."""

    variant: str
    size: str
    launches: int
    spans_per_launch: float  #: kernels, copies, memsets
    kernel_ns: float | None  #: time in which a kernel of it ran, per launch
    period_ns: float | None  #: from the first start to the last end, per launch
    overhead_ns: float | None  #: period less the time in which the device worked
    busy_share: float | None  #: of the time from its first start to its last end


def traced_variants(spans: pd.DataFrame, line: Timeline) -> list[TracedVariant]:
    """Return the variants of a trace in the order in which they ran; none for a trace from elsewhere.

    ``spans`` is the frame that ``line`` was made from.
    """
    own = spans[spans["start_ns"].notna()].sort_values("start_ns", kind="stable")
    variant, size = own["variant"].astype("category"), own["size"].astype("category")
    variants, sizes = variant.cat.codes.to_numpy(), size.cat.codes.to_numpy()
    rows = np.flatnonzero((variants >= 0) & (sizes >= 0))
    if not len(rows):
        return []
    keys, first = np.unique(np.stack([variants[rows], sizes[rows]], axis=1), axis=0, return_index=True)
    launch = np.array([name == LAUNCH_RANGE for name in line.names] or [False])[np.maximum(line.name, 0)]
    found = []
    for place in np.argsort(first).tolist():
        mine = rows[(variants[rows] == keys[place][0]) & (sizes[rows] == keys[place][1])]
        launches = int(((line.kind[mine] == NVTX) & launch[mine]).sum())
        work = mine[line.on_device[mine] & (line.end[mine] > line.start[mine])]
        names = (str(variant.cat.categories[keys[place][0]]), str(size.cat.categories[keys[place][1]]))
        if not len(work) or not launches:
            found.append(TracedVariant(*names, launches, 0.0, None, None, None, None))
            continue
        busy = intervals.length(line.covered(work))
        kernels = intervals.length(line.covered(work[line.computes[work]]))
        window = int(line.end[work].max() - line.start[work].min())
        several = launches > 1
        found.append(
            TracedVariant(
                *names, launches, len(work) / launches, kernels / launches, window / launches if several else None,
                (window - busy) / launches if several else None, busy / window if window else None,
            )
        )  # fmt: skip
    return found
