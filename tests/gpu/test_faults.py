"""A ladder of faults on a real GPU: each gets its own status, and the good variant is measured all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.rundir import RunDir
from tests.gpu.command import document_of, run_experiment

pytestmark = pytest.mark.gpu

EXPECTED = {
    "good": ("ok", ""),
    "writes_nothing": ("wrong_result", "NaN"),
    "out_of_bounds": ("wrong_result", "4 bytes behind it"),
    "returns_nan": ("wrong_result", "1 NaN"),
    "never_ends": ("timeout", "no answer"),
    "illegal_address": ("crashed", "illegal"),
    "other_stream": ("wrong_result", "another stream"),
    "synchronises": ("wrong_result", "synchronises"),
    "wrong_later": ("wrong_after_timing", "timed launch"),
    "too_much_shared": ("launch_failed", "cudaErrorInvalidValue"),
    "segfault": ("crashed", "SIGSEGV"),
    "changes_input": ("wrong_result", "changes its input A"),
    "last_tile": ("wrong_result", "the reference"),
    "returns_error": ("launch_failed", "cudaErrorNotSupported"),
    "no_symbol": ("build_failed", "launch"),
    "does_not_compile": ("build_failed", "undeclared_function"),
    "skipped": ("skipped", "M % 1024 == 0"),
}


def test_every_fault_has_its_status_and_the_good_row_is_measured(tmp_path: Path) -> None:
    experiment = Path(__file__).parent / "faults" / "faults.yaml"
    done = run_experiment(
        [str(experiment), "--runs-dir", str(tmp_path), "--timeout", "20", "--skip", "profile", "--json"]
    )
    assert done.returncode == 1, done.output
    document = document_of(done)
    got = {row["name"]: row for row in document["variants"]}
    told = {name: (row["status"], row["reason"]) for name, row in got.items()}
    wrong = {
        name: told[name]
        for name, (status, words) in EXPECTED.items()
        if told[name][0] != status or words not in (told[name][1] or "")
    }
    assert not wrong
    run = RunDir.open(Path(document["run"]))
    assert set(run.frame("samples")["variant"]) == {"good"}
    assert Path(document["report"]).is_file()
