from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from make_run import FAULTS, make_run

from profiler.analysis.environment import environment, recorded_text
from profiler.analysis.rundata import RunData


def load(path: Path, **options: Any) -> RunData:
    return RunData.load(make_run(path / "run", **options))


def test_method_says_how_times_were_taken(tmp_path: Path) -> None:
    method = " ".join(environment(load(tmp_path)).method)
    assert "device events around one launch" in method
    assert "L2 cache: cold (256 MiB written, then a clean 128 MiB buffer read)." in method
    assert "one process, so differences between processes are not in them" in method
    assert "Nsight Compute 2025.3.1" in method
    assert "differs from the event times" in method


def test_several_processes_are_said(tmp_path: Path) -> None:
    assert "3 processes, resampled first" in " ".join(environment(load(tmp_path, processes=3, samples=4)).method)


def test_nothing_is_claimed_of_a_run_without_times(tmp_path: Path) -> None:
    method = " ".join(environment(load(tmp_path, timed=False)).method)
    assert "Times:" not in method
    assert "Intervals" not in method


def test_gaps_name_failed_variants_refused_counters_and_missing_metrics(tmp_path: Path) -> None:
    data = load(tmp_path, counters=False, faults=FAULTS)
    gaps = {(gap.what, gap.where): gap for gap in environment(data).gaps}
    assert gaps["wrong result", "shared"].why == FAULTS["shared"].reason
    refused = gaps["counters", "all variants"]
    assert "ERR_NVGPUCTRPERM" in refused.why
    assert "NVreg_RestrictProfilingToAdminUsers" in refused.hint
    assert any(gap.why == "the driver does not permit counters here" for gap in gaps.values())


def test_stages_come_in_the_order_of_the_pipeline(tmp_path: Path) -> None:
    stages = [name for name, _, _ in environment(load(tmp_path)).stages]
    assert stages == ["plan", "build", "static", "verify", "time", "profile"]


def test_origins_of_a_replay_say_where_from(tmp_path: Path) -> None:
    origins = dict(environment(load(tmp_path, recorded=True)).origins)
    assert origins["recorded"] == "recorded on Synthetic H200, 2026-11-29, driver 580.159"
    assert "measured" not in origins
    assert "binary" in origins


def test_a_recording_may_name_its_gpu_in_either_way() -> None:
    assert recorded_text({"gpu": "H200", "date": "2026-11-29"}) == "recorded on H200, 2026-11-29"
    assert recorded_text({}) == "recorded on another machine"


def test_an_empty_manifest_is_no_error(tmp_path: Path) -> None:
    data = dataclasses.replace(load(tmp_path), manifest={})
    facts = environment(data)
    assert facts.machine == ()
    assert facts.command == ""
