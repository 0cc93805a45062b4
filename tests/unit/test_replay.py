"""Recordings: which rows they stand in for, and that a row without a match says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_less_run import make_run

from profiler import replay
from profiler.analysis.rundata import RunData
from profiler.errors import LadderError
from profiler.pipeline import finish
from profiler.rundir import RunDir

SIZE = "M=64,N=64,K=64"


def recording(folder: Path, rows: list[dict[str, Any]], sizes: list[str] | None = None) -> RunDir:
    """Return a recorded run with samples, counters and static values for each row."""
    run = RunDir.create(
        folder / "recorded",
        {
            "created": "2026-01-01T00:00:00+00:00",
            "problem": {"sizes": sizes or [SIZE], "check_sizes": ["M=67,N=131,K=35"]},
            "gpu": {"name": "NVIDIA H200", "driver": "580.159"}, "tools": {"nvcc": "13.0.88"}, "arch": "sm_90a",
            "timing": {"cache": "cold"}, "profile": {"outcome": "ok"},
        },
    )  # fmt: skip
    run.write_frame("variants", rows)
    names = [row["name"] for row in rows]
    run.write_frame("samples", [{"variant": n, "size": SIZE, "time_ns": 5.0, "method": "single"} for n in names])
    run.write_frame(
        "metrics",
        [{"variant": n, "size": SIZE, "metric": "duration", "value": 1e-3, "origin": "ncu"} for n in names]
        + [{"variant": n, "size": "", "metric": "ptxas.registers", "value": 99.0, "origin": "ptxas"} for n in names],
    )
    return run


def recorded_row(variant: str, **changes: Any) -> dict[str, Any]:
    """Return a measured row that matches the variant of :func:`make_run` with that name."""
    row = {
        "name": variant, "status": "ok", "reason": "", "verified": "yes", "origin": "measured",
        "source_hash": f"hash-{variant}",
        "binary_hash": f"binary-{variant}",
    }  # fmt: skip
    return {**row, **changes}


def test_matching_rows_are_lent_with_their_frames_and_labelled(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good", "other")
    replay.replay(run, recording(tmp_path, [recorded_row("good"), recorded_row("other", status="wrong_result")]))
    rows = run.dir.frame("variants").set_index("name")
    assert list(rows["origin"]) == ["recorded", "recorded"]
    assert list(rows["status"]) == ["ok", "wrong_result"]
    assert set(run.dir.frame("samples")["variant"]) == {"good", "other"}
    assert run.dir.manifest["replay"]["gpu"]["name"] == "NVIDIA H200"
    assert run.dir.manifest["timing"] == {"cache": "cold"}


@pytest.mark.parametrize(("nvcc", "built", "said"), [("13.0.88", True, 0), ("13.1.2", True, 1), ("13.1.2", False, 0)])
def test_another_compiler_is_said_and_not_fatal(tmp_path: Path, nvcc: str, built: bool, said: int) -> None:
    run = make_run(tmp_path, "good")
    run.dir.manifest["tools"] = {"nvcc": nvcc}
    if built:
        run.note("builds", {"good": {"key": "k"}})
    for turn in range(2):  # said once, also where a run is resumed
        replay.replay(run, recording(tmp_path / str(turn), [recorded_row("good")]))
    lines = [line for line in run.dir.manifest["notes"] if "nvcc 13.0.88" in line and f"nvcc {nvcc}" in line]
    assert len(lines) == said
    assert list(run.dir.frame("variants")["origin"]) == ["recorded"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_hash": "another"}, "have changed"),
        ({"origin": "recorded"}, "not measured"),
        ({"name": "renamed"}, "no variant of this name"),
    ],
)
def test_a_row_without_a_match_is_not_run_and_says_why(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    run = make_run(tmp_path, "good", "other")
    replay.replay(run, recording(tmp_path, [recorded_row("good"), recorded_row("other", **changes)]))
    rows = run.dir.frame("variants").set_index("name")
    assert rows.loc["other", "status"] == "not_run"
    assert words in rows.loc["other", "reason"]
    assert set(run.dir.frame("samples")["variant"]) == {"good"}


def test_a_size_that_was_not_recorded_does_not_match(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good")
    replay.replay(run, recording(tmp_path, [recorded_row("good")], sizes=["M=8,N=8,K=8"]))
    rows = run.dir.frame("variants")
    assert "M=64,N=64,K=64 is not in it" in rows["reason"][0]


def test_live_static_values_win_over_recorded_ones(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good", "other")
    live = {"variant": "good", "size": "", "metric": "ptxas.registers", "value": 32.0, "origin": "ptxas"}
    missing = {"variant": "other", "size": "", "metric": "ptxas.registers", "origin": "ptxas", "why": "not_collected"}
    run.dir.write_frame("metrics", [live, missing])
    replay.replay(run, recording(tmp_path, [recorded_row("good"), recorded_row("other")]))
    metrics = run.dir.frame("metrics")
    registers = metrics[metrics["metric"] == "ptxas.registers"].set_index("variant")["value"]
    assert dict(registers) == {"good": 32.0, "other": 99.0}
    assert sorted(metrics.loc[metrics["metric"] == "duration", "variant"]) == ["good", "other"]


def test_a_variant_that_does_not_build_here_keeps_that_status(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good", "other")
    run.fail({"other": ("build_failed", "other.cu:4: error")})
    replay.replay(run, recording(tmp_path, [recorded_row("good"), recorded_row("other")]))
    assert run.status() == {"good": "ok", "other": "build_failed"}
    assert set(run.dir.frame("samples")["variant"]) == {"good"}  # or it would have a time, and seem measured here
    finish(run)
    assert list(run.dir.frame("variants")["origin"]) == ["recorded", "none"]


def test_a_run_without_measurements_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.data_files.recorded", lambda: tmp_path / "recorded")
    run = make_run(tmp_path, "good")
    with pytest.raises(LadderError, match="measured here"):
        replay.record(run.dir)
    assert not (tmp_path / "recorded").exists()
    run.note("gpu", {"name": "NVIDIA H200"})
    run.dir.write_frame("variants", [{"name": "good", "status": "ok", "origin": "measured"}])
    assert replay.record(run.dir) == tmp_path / "recorded" / "h200" / "made"


def test_without_a_recording_nothing_is_invented(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good")
    replay.replay(run, None)
    assert run.status() == {"good": "not_run"}
    assert len(run.dir.frame("samples")) == 0
    assert "replay" not in run.dir.manifest


@pytest.mark.parametrize(
    ("name", "slug"),
    [("NVIDIA H200", "h200"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb")],
)
def test_the_folder_of_a_gpu_is_its_short_name(name: str, slug: str) -> None:
    assert replay.gpu_slug(name) == slug


def test_a_recorded_timeline_is_lent_with_how_it_was_taken(tmp_path: Path) -> None:
    run, recorded = make_run(tmp_path, "good", "other"), recording(tmp_path, [recorded_row("good")])
    rows = [{"variant": n, "size": SIZE, "kind": "kernel", "name": "k", "start_ns": 0} for n in ("good", "other")]
    recorded.write_frame("spans", rows)
    recorded.manifest["trace"] = {"outcome": "ok", "route": "nsys"}
    replay.replay(run, recorded)
    assert list(run.dir.frame("spans")["variant"]) == ["good"]
    assert run.dir.manifest["trace"]["route"] == "nsys"


def test_what_the_recording_left_out_of_its_profile_still_says_so(tmp_path: Path) -> None:
    run, recorded = make_run(tmp_path, "good"), recording(tmp_path, [recorded_row("good")])
    recorded.manifest["profile"] = {"outcome": "ok", "skip": ["good"]}
    replay.replay(run, recorded)
    assert RunData.load(run.dir).profile_why("good") == "left_out"
