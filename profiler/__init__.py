"""kernel-ladder: from an experiment file to verified, timed and profiled GPU kernels.

In a notebook, ``profiler.load_run(folder)``, ``profiler.load_ncu_report(file)`` and
``profiler.load_nsys_report(file)`` return frames: docs/notebooks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.foreign import RunFrames

__all__ = ["__version__", "load_ncu_report", "load_nsys_report", "load_run"]
__version__ = "0.1.0"


def load_run(path: str | Path) -> RunFrames:
    """Return the frames and the manifest of a run directory; ``UsageError`` when it is none, or damaged."""
    from profiler import foreign  # pandas is loaded with the first call, not with the package

    return foreign.load_run(path)


def load_ncu_report(path: str | Path, *, all_metrics: bool = False, sass: bool = True) -> RunFrames:
    """Return the frames of a ``.ncu-rep``, or of the CSV of ``ncu --csv``, in the shape that a run has.

    ``all_metrics`` adds every scalar of the file to ``metrics``, as ``ncu.<name>``; without ``sass`` nothing is
    disassembled, which is faster.
    """
    from profiler import foreign

    return foreign.load_ncu_report(path, all_metrics=all_metrics, sass=sass)


def load_nsys_report(path: str | Path) -> RunFrames:
    """Return the frames of an SQLite export of Nsight Systems, or of a report, which nsys must be here to export:
    ``spans`` is the timeline, ``findings`` what it shows.
    """
    from profiler import foreign_nsys

    return foreign_nsys.load_nsys_report(path)
