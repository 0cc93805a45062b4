"""A planted bank conflict, spill, lost vectorisation and lower occupancy are each named by ``compare_runs``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.command import document_of, run_command, run_experiment
from tests.gpu.planted import FAULTS, write_experiments

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of the comparison: one run of the good kernels, one of the planted ones."""
    folder = tmp_path_factory.mktemp("planted")
    runs = []
    for path in write_experiments(folder):
        done = run_experiment([str(path), "--runs-dir", str(folder / "runs"), "--json"])
        assert done.returncode == 0, done.output
        runs.append(document_of(done)["run"])
    done = run_command("compare_runs", [*runs, "--html", str(folder / "compare.html"), "--json"], timeout=120)
    document = document_of(done)
    assert (folder / "compare.html").is_file()
    return document


@pytest.mark.parametrize("variant", [name for name, (fault, _, _) in FAULTS.items() if fault])
def test_the_planted_fault_is_named(compared: dict[str, Any], variant: str) -> None:
    row = next(one for one in compared["rows"] if one["variant"] == variant)
    fault = FAULTS[variant][0]
    named = [one for one in row["causes"] if one["fault"] == fault and one["worse"]]
    assert named, row["causes"]
    assert named[0]["cls"] == "exact"
    shown = row["verdict"] == "inconclusive" and row["ratio"]["low"] > 1  # such as two modes, both of them slower
    if shown or (row["verdict"] in ("regressed", "suspected") and row["direction"] == "slower"):
        assert row["explanation"] == "explained"
        assert row["causes"][0]["fault"] == fault
    else:  # a fault that costs nothing here is told all the same
        assert row["verdict"] != "unchanged" or row["explanation"] == "latent"


def test_the_good_kernel_is_identical_code(compared: dict[str, Any]) -> None:
    row = next(one for one in compared["rows"] if one["variant"] == "good")
    assert row["identity"]["code"] == "same"
    assert row["verdict"] not in ("regressed", "suspected", "improved")
