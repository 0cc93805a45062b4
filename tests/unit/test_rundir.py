"""The run directory: atomic, found by path, id or `latest`, and one clear line where it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from profiler import frames, rundir
from profiler.errors import Exit, LadderError, UsageError
from profiler.rundir import RunDir, find


def make(path: Path) -> RunDir:
    return RunDir.create(path, {"experiment": {"name": path.parent.name}})


def names(run: RunDir, frame: str = "samples") -> list[str]:
    return [row["variant"] for row in frames.rows_of(run.frame(frame))]


def test_create_and_open(tmp_path: Path) -> None:
    run = make(tmp_path / "runs" / "gemm" / "1")
    again = RunDir.open(run.path)
    assert again.manifest == run.manifest
    assert again.manifest["schema"] == rundir.MANIFEST_SCHEMA
    assert (run.path / "raw").is_dir()
    assert (run.path / "sources").is_dir()


def test_create_does_not_write_over_a_run(tmp_path: Path) -> None:
    make(tmp_path / "gemm" / "1")
    with pytest.raises(LadderError, match="exists already") as caught:
        make(tmp_path / "gemm" / "1")
    assert caught.value.code == Exit.USAGE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LadderError, match=r"cannot write the run directory.*\n.*--runs-dir"):
            make(tmp_path / "gemm" / "1")
    finally:
        tmp_path.chmod(0o700)


def test_a_place_that_cannot_hold_a_folder_is_one_line(tmp_path: Path) -> None:
    """What root meets too: a file where the folder should be."""
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(LadderError) as caught:
        make(tmp_path / "runs" / "gemm" / "1")
    assert "cannot write the run directory" in caught.value.message
    assert "--runs-dir" in caught.value.hint
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no manifest.json"),
        ("", "unreadable"),
        ("{", "unreadable"),
        ("[]", "schema None"),
        ('{"schema": "1"}', "schema '1'"),
        ('{"schema": 99}', "schema 99; this version reads up to 1"),
    ],
)
def test_a_folder_that_is_no_run_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        RunDir.open(tmp_path)


def test_a_manifest_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="unreadable"):
        RunDir.open(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path / "gemm" / "1")
    before = (run.path / "manifest.json").read_text(encoding="utf-8")

    def full(self: Path, target: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    run.manifest["note"] = "new"
    with pytest.raises(OSError, match="No space"):
        run.save()
    assert (run.path / "manifest.json").read_text(encoding="utf-8") == before
    assert json.loads(before) == RunDir.open(run.path).manifest


def test_a_frame_that_no_stage_wrote_is_empty(tmp_path: Path) -> None:
    assert names(make(tmp_path / "gemm" / "1")) == []


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all" * 20])
def test_a_damaged_frame_is_one_line(content: bytes, tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    (run.path / "samples.parquet").write_bytes(content)
    with pytest.raises(UsageError, match=r"samples\.parquet: unreadable"):
        run.frame("samples")


def test_update_replaces_only_what_it_names(tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    run.write_frame("samples", [{"variant": "a", "process": 0}, {"variant": "a", "process": 1}, {"variant": "b"}])
    run.update_frame("samples", [{"variant": "new"}], replacing={"variant": ["a"], "process": [1]})
    assert names(run) == ["a", "b", "new"]
    run.update_frame("samples", [], replacing={"variant": ["a", "b"]})
    assert names(run) == ["new"]


def test_update_of_a_frame_that_is_not_there(tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    run.update_frame("samples", [{"variant": "a"}], replacing={"variant": ["a"]})
    assert names(run) == ["a"]


def test_stages_are_remembered(tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    run.mark_stage("build", "running")
    assert not run.stage_done("build")
    run.mark_stage("build", "done", seconds=1.5)
    again = RunDir.open(run.path)
    assert again.stage_done("build")
    assert again.manifest["stages"]["build"]["seconds"] == 1.5
    assert not again.stage_done("verify")


def test_raw_files_have_their_folder(tmp_path: Path) -> None:
    path = make(tmp_path / "gemm" / "1").raw("naive/log.txt")
    path.write_text("x", encoding="utf-8")
    assert path.parent.name == "naive"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for run in (
        "gemm/20261129T1000-aa",
        "gemm/20261129T1200-bb",
        "softmax/20261129T1100-cc",
        "softmax/20261129T1000-aa",
    ):
        make(tmp_path / "runs" / run)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("latest", "gemm/20261129T1200-bb"),
        ("20261129T1100-cc", "softmax/20261129T1100-cc"),
        ("gemm/20261129T1000-aa", "gemm/20261129T1000-aa"),
    ],
)
def test_find_by_id(runs: Path, wanted: str, found: str) -> None:
    assert find(runs, wanted) == runs / found


def test_find_by_path(runs: Path) -> None:
    path = str(runs / "gemm" / "20261129T1000-aa")
    assert find(Path("elsewhere"), path) == Path(path)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("20261129T1000-aa", "names 2 runs"),
        ("nonsense", "no run 'nonsense'"),
        ("gemm", "no run 'gemm'"),
        ("", "no run ''"),
    ],
)
def test_find_says_what_is_wrong(runs: Path, wanted: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find(runs, wanted)


def test_latest_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run in"):
        find(tmp_path, "latest")


def test_an_edited_frame_is_told_from_a_written_one(tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    run.write_frame("samples", [{"variant": "a", "time_ns": 1.0}])
    run.write_frame("checks", [{"variant": "a"}])
    run.update_frame("samples", [{"variant": "b", "time_ns": 2.0}], replacing={"variant": {"b"}})
    assert RunDir.open(run.path).edited_frames() == []
    frames.write(run.path / "samples.parquet", "samples", [{"variant": "a", "time_ns": 0.5}])
    (run.path / "checks.parquet").unlink()
    assert set(RunDir.open(run.path).edited_frames()) == {"samples", "checks"}


def test_a_run_of_an_older_version_keeps_no_hashes(tmp_path: Path) -> None:
    run = make(tmp_path / "gemm" / "1")
    run.write_frame("samples", [{"variant": "a"}])
    for kept in ({}, None, [], {"../x": "y"}):
        run.manifest["frames"] = kept
        assert run.edited_frames() == []


def test_a_copy_of_a_manifest_has_no_hashes_of_what_it_was_copied_from(tmp_path: Path) -> None:
    first = make(tmp_path / "gemm" / "1")
    first.write_frame("samples", [{"variant": "a"}])
    assert RunDir.create(tmp_path / "gemm" / "2", first.manifest).edited_frames() == []
