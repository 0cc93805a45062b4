"""The sample reports, each read once per session."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path

import pytest

from profiler.ncu_reader import read_report
from profiler.parse.ncu import RawReport, Rows, places_by_name, rows_of_report

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
LADDER = "h200/ladder_set_5kernels.ncu-rep"
FULL = "h200/sgemm_naive_smem_2048_full.ncu-rep"
OTHERS = (
    "ncu/a100_2020.3_full_1launch.ncu-rep",
    "ncu/a100_2021.2_basic_4launches.ncu-rep",
    "ncu/a100_2021.2_full_1launch.ncu-rep",
    "ncu/a100_2024.1_tensorcore_1launch.ncu-rep",
    "ncu/gtx1660ti_2022.4_basic_4launches.ncu-rep",
    "ncu/rtx3070_2022.3_before.ncu-rep",
    "ncu/rtx3070_2022.3_after.ncu-rep",
)


def sample(name: str) -> Path:
    """Return the path of a sample; skips the test where it, or NVIDIA's reader, is absent."""
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no sample reports in {SAMPLES}")
    if importlib.util.find_spec("ncu_report") is None:
        pytest.skip("NVIDIA's reader (ncu-report) is not installed")
    return path


@functools.cache
def _read(path: Path) -> RawReport:
    with tempfile.TemporaryDirectory() as folder:
        return read_report(path, Path(folder))


def report(name: str) -> RawReport:
    """Return a sample's values."""
    return _read(sample(name))


def rows(name: str) -> Rows:
    """Return a sample's rows, its launches named as for a report from elsewhere."""
    raw = report(name)
    return rows_of_report(raw, places_by_name(raw))
