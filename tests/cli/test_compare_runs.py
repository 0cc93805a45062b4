"""compare_runs as it is called: exit codes, streams, every kind of bad input, baselines, outputs."""

from __future__ import annotations

import json
import shutil
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from make_run import FAULTS, Rung, make_run

from profiler import frames
from profiler.cli.compare_runs import main
from profiler.rundir import RunDir

SLOWER = "double_buffer"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs of synthetic numbers, of the same code, and stand above it."""
    folder = tmp_path / "runs" / "gemm_ladder"
    make_run(folder / "1-before", seed=1)
    make_run(folder / "2-after", seed=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return folder


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def verdicts(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the exit code, the rows by variant, and the whole document."""
    code, out, _ = call(capsys, *argv, "--json")
    document = json.loads(out)
    assert document["exit_code"] == code
    return code, {row["variant"]: row for row in document["rows"]}, document


def edit(run: Path, frame: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the rows of a frame as the pipeline would: the manifest keeps the new hash."""
    directory = RunDir.open(run)
    directory.write_frame(frame, change(frames.rows_of(directory.frame(frame))))


def slow_down(run: Path, factor: float, name: str = SLOWER) -> None:
    """Make a variant other code, so many times slower."""

    def other(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = {"source_hash": "f" * 64, "binary_hash": "e" * 64}
        return [{**row, **changed} if row["name"] == name else row for row in rows]

    edit(run, "variants", other)
    edit(
        run,
        "samples",
        lambda rows: [{**r, "time_ns": r["time_ns"] * factor} if r["variant"] == name else r for r in rows],
    )


def of(name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[[Any], Any]:
    """Return a change of the rows of one variant; None drops a row."""
    return lambda rows: [
        new
        for row in rows
        if (new := change(row) if name in (row.get("name"), row.get("variant")) else row) is not None
    ]


# -- what passes and what does not


def test_two_runs_of_the_same_code_pass(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "1-before", "latest")
    assert (code, err) == (0, "")
    assert "gemm_ladder/1-before" in out
    assert "gemm_ladder/2-after" in out
    assert "(exit 0)" in out
    assert "same run" not in out


def test_a_run_against_itself_is_the_same_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows, document = verdicts(capsys, "1-before", "1-before")
    assert code == 0
    assert document["same_run"] is True
    assert {row["verdict"] for row in rows.values()} == {"unchanged"}


def test_a_copy_of_a_run_is_the_same_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "1-before", runs / "3-copy")
    code, _, document = verdicts(capsys, "1-before", "3-copy")
    assert (code, document["same_run"]) == (0, True)


def test_a_large_slow_down_is_regressed_with_its_cause(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.4)
    code, rows, _ = verdicts(capsys, "1-before", "2-after")
    assert code == 1
    assert rows[SLOWER]["verdict"] == "regressed"
    assert 1.35 < rows[SLOWER]["ratio"]["value"] < 1.45
    assert {row["verdict"] for name, row in rows.items() if name != SLOWER} == {"unchanged"}


def test_a_small_one_is_suspected_and_says_what_to_do(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.06)
    code, out, _ = call(capsys, "1-before", "2-after")
    assert code == 4
    assert "suspected" in out
    assert "--remeasure" in out


def test_the_other_way_round_it_is_improved_and_passes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.4)
    code, rows, _ = verdicts(capsys, "2-after", "1-before")
    assert code == 0
    assert rows[SLOWER]["verdict"] == "improved"


def test_quiet_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "-q", "1-before", "2-after")
    assert (code, len(out.splitlines())) == (0, 1)


def test_verbose_lists_every_counter(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, short, _ = call(capsys, "1-before", "2-after")
    _, long, _ = call(capsys, "-v", "1-before", "2-after")
    assert "registers" not in short
    assert "next: -v lists every counter" in short
    assert "registers" in long
    assert "next: -v" not in long


def test_only_some_variants(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.4)
    assert verdicts(capsys, "1-before", "2-after", "--only", "naive")[0] == 0
    code, rows, _ = verdicts(capsys, "1-before", "2-after", "--only", SLOWER, "--only", "naive")
    assert set(rows) == {SLOWER, "naive"}
    assert code in (1, 4)  # with fewer controls a stored run may only suspect


# -- input that is not a whole, sound run


def without(name: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        for frame in ("variants", "samples", "checks", "metrics", "stalls"):
            edit(run, frame, of(name, lambda row: None))

    return change


def rename(run: Path) -> None:
    for frame in ("variants", "samples", "checks", "metrics", "stalls"):
        key = "name" if frame == "variants" else "variant"
        edit(run, frame, of(SLOWER, lambda row, key=key: {**row, key: "newer"}))  # type: ignore[misc]


def times(value: float | None, keep: int | None = None) -> Callable[[Path], None]:
    """Give a variant's samples another time, or keep only the first of them."""

    def change(run: Path) -> None:
        left = [keep]

        def one(row: dict[str, Any]) -> dict[str, Any] | None:
            if left[0] is None:
                return {**row, "time_ns": value}
            left[0] -= 1
            return row if left[0] >= 0 else None

        edit(run, "samples", of(SLOWER, one))

    return change


def manifest(**changes: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        directory = RunDir.open(run)
        directory.manifest.update(changes)
        directory.save()

    return change


def gpu(**changes: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        directory = RunDir.open(run)
        directory.manifest["gpu"].update(changes)
        directory.save()

    return change


def interrupted(run: Path) -> None:
    """Leave a run as an interrupt in the stage time does: no samples, nothing timed."""
    (run / "samples.parquet").unlink()
    edit(run, "variants", lambda rows: [{**row, "origin": "none"} for row in rows])
    manifest(stages={"build": {"status": "done"}, "time": {"status": "interrupted"}}, frames={})(run)


def drop_a_sample(run: Path) -> None:
    """Change a frame behind the back of its manifest."""
    frames.write(run / "samples.parquet", "samples", RunDir.open(run).frame("samples")[:-1])


BAD: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "a variant is gone": (without(SLOWER), 5, "no such variant"),
    "a variant was renamed": (rename, 5, "was it renamed?"),
    "no samples": (lambda run: (run / "samples.parquet").unlink(), 5, "no times"),
    "times of zero": (times(0.0), 5, ""),
    "times that are no number": (times(float("nan")), 5, ""),
    "one sample": (times(None, keep=1), 4, "few samples"),
    "interrupted": (interrupted, 5, "not measured"),
    "another kind of GPU": (gpu(compute_capability="8.0", sm_count=108), 3, "--allow-mismatch compute_capability"),
    "another card of its kind": (gpu(uuid="GPU-other"), 0, ""),
    "an edited frame": (drop_a_sample, 0, "after: samples.parquet"),
    "an older schema": (manifest(schema=0, frames=None, tool_version=None, stages=None), 3, "schema"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_run_with_faults(runs: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    change, expected, words = BAD[what]
    change(runs / "2-after")
    code, out, err = call(capsys, "1-before", "2-after")
    assert code == expected, out
    assert words in " ".join((out + err).split())
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "what", ["no samples", "times of zero", "times that are no number", "one sample", "interrupted"]
)
def test_the_same_fault_on_both_sides_passes_no_more(runs: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("1-before", "2-after"):
        BAD[what][0](runs / name)
    assert call(capsys, "1-before", "2-after")[0] in (4, 5)


def test_a_failed_variant_is_5_and_keeps_its_reason(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-broken", faults=FAULTS)
    code, out, _ = call(capsys, "1-before", "3-broken")
    assert code == 5
    assert "error 0.31 is above the tolerance" in out
    assert "C[64, 0]" in out  # brackets are text, not markup


def test_a_replay_is_not_a_measurement(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-replay", recorded=True)
    code, out, _ = call(capsys, "1-before", "3-replay", "--allow-mismatch", "compute_capability")
    assert code in (3, 5)
    assert "passed" not in out
    assert call(capsys, "3-replay", "3-replay")[0] in (3, 5)


def test_a_run_without_a_gpu_measured_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-static", timed=False)
    assert call(capsys, "3-static", "3-static")[0] in (3, 5)


def test_an_allowed_mismatch_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu(sm_count=108)(runs / "2-after")
    assert call(capsys, "1-before", "2-after")[0] == 3
    code, _, document = verdicts(capsys, "1-before", "2-after", "--allow-mismatch", "sm_count")
    assert code != 3
    assert document["allowed"] == ["sm_count"]


@pytest.mark.parametrize("file", ["manifest.json", "samples.parquet", "variants.parquet"])
@pytest.mark.parametrize("how", ["empty", "cut", "foreign"])
def test_a_damaged_file_is_2(runs: Path, file: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "2-after" / file
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "foreign": b"PK\x03\x04 damaged"}[how])
    code, out, err = call(capsys, str(runs / "1-before"), str(runs / "2-after"))
    assert (code, out) == (2, "")
    assert file in err
    assert "unreadable" in err
    assert "Traceback" not in err


def test_a_newer_schema_is_2(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest(schema=99)(runs / "2-after")
    code, _, err = call(capsys, "1-before", str(runs / "2-after"))
    assert code == 2
    assert "schema 99; this version reads up to" in err


def test_a_thousand_variants(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = Rung("", "fp32", "cuda", "one of many", 0.5, "ffma", 128, 1.9, 1.3, 16, 17, 0.66, {"selected": 1.0}, 16.0)
    many = tuple(replace(one, name=f"v{i:04d}") for i in range(1000))
    for name, seed in (("3-many", 3), ("4-many", 4)):
        make_run(runs / name, rungs=many, samples=8, seed=seed, baseline={}, counters=False)
    slow_down(runs / "4-many", 1.5, "v0500")
    page = tmp_path / "many.md"
    code, rows, _ = verdicts(capsys, "3-many", "4-many", "--markdown", str(page))
    assert code == 1
    assert len(rows) == 1000
    assert [name for name, row in rows.items() if row["verdict"] == "regressed"] == ["v0500"]
    assert len(page.read_text()) <= 60_000


# -- the command line


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "none are given"),
        (["1-before"], "only gemm_ladder/1-before is given"),
        (["1-before", "2-after", "3"], "3 are given"),
        (["1-before", "nonsense"], "no run 'nonsense'"),
        (["1-before", "2-after", "--nonsense"], "No such option"),
        (["1-before", "2-after", "--allow-mismatch", "sm_counts"], 'did you mean "sm_count"?'),
        (["1-before", "2-after", "--allow-mismatch", "zzz"], "the keys are schema"),
        (["1-before", "2-after", "--runs-dir", "elsewhere"], "no id in elsewhere"),
        (["1-before", "2-after", "--only", "nobody"], "neither run has such a variant"),
        (["1-before", "2-after", "--max-regression", "much"], "expected a percentage"),
        (["1-before", "2-after", "--min-effect", "-1"], "expected a percentage"),
        (["1-before", "2-after", "--fail-on", "everything"], "only latent is known"),
        (["1-before", "2-after", "--in-process"], "add --remeasure"),
        (["1-before", "2-after", "--pairs", "3"], "add --remeasure"),
        (["1-before", "2-after", "--remeasure", "--in-process", "--two-process"], "exclude each other"),
        (["1-before", "--self", "2-after"], "--self takes one run"),
        (["--self", "2-after", "--remeasure"], "--self measures and keeps nothing"),
        (["1-before", "--save-baseline", "latest"], "is not latest"),
        (["1-before", "--save-baseline", "../x"], "a name is made of"),
        (["1-before", "2-after", "--html", "runs/gemm_ladder/1-before/manifest.json/x.html"], "cannot"),
        (["1-before", "2-after", "--markdown", "runs/gemm_ladder/1-before/manifest.json/x.md"], "cannot be written"),
        (["1-before", "x.ncu-rep"], "is a file and 1-before is a run"),
        (["x.ncu-rep", "y.ncu-rep"], "there is no such file"),
        (["x.ncu-rep"], "one is given"),
    ],
)
def test_a_wrong_command_line_is_2(
    runs: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *argv)
    assert code == 2
    assert out == ""
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    words = " ".join(out.split())
    assert "BEFORE AFTER" in words
    assert "0 passed, 1 regressed, 2 usage or unreadable input, 3 incomparable" in words
    assert "never by time" in words


def test_all_outputs_at_once(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.4)
    files = {name: tmp_path / "out" / f"c.{name}" for name in ("html", "markdown", "junit")}
    flags = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    code, out, _ = call(capsys, "1-before", "2-after", *flags)
    assert code == 1
    assert f"report: {files['html']}" in out
    assert SLOWER in files["markdown"].read_text()
    assert "Content-Security-Policy" in files["html"].read_text()
    suite = ET.parse(files["junit"]).getroot()
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] != []


# -- a run against itself


def test_a_signal_means_afterwards_what_it_meant_before(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def mine(signum: int, frame: object) -> None:
        raise AssertionError

    earlier = signal.signal(signal.SIGTERM, mine)
    try:
        assert call(capsys, str(runs / "1-before"), str(runs / "1-before"))[0] == 0
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, earlier)


def test_a_run_against_itself_prints_its_rate(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--self", "1-before")
    assert code == 0
    assert "flagged" in out
    assert "of 1600 = " in out
    document = json.loads(call(capsys, "--self", "1-before", "--json")[1])
    assert document["flagged"]["low"] <= document["flagged"]["share"] <= document["flagged"]["high"]
    assert (document["exit_code"], document["rows"], document["trials"]) == (0, 8, 200)


def test_a_run_with_too_few_samples_cannot_be_split(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-few", samples=8)
    code, out, _ = call(capsys, "--self", "3-few")
    assert code == 5
    assert "nothing of this run can be split" in out


# -- baselines


def test_a_baseline_is_kept_found_and_replaced(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "1-before", "--save-baseline", "main")
    assert (code, out.strip()) == (0, "baseline main: gemm_ladder/1-before")
    shutil.rmtree(runs / "1-before")
    code, _, document = verdicts(capsys, "main", "latest")
    assert code == 0
    assert document["before"] == "main (gemm_ladder/1-before)"
    code, _, err = call(capsys, "main", "2-after", "--save-baseline", "main")
    assert code == 0
    assert "baseline main: gemm_ladder/2-after" in err
    assert verdicts(capsys, "main", "2-after")[2]["before"] == "main (gemm_ladder/2-after)"
    assert "did you mean the baseline" in call(capsys, "mian", "latest")[2]
    assert not list(Path("runs").glob("baselines/*/.*partial"))


def test_no_baseline_of_a_comparison_that_fails(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(runs / "2-after", 1.4)
    code, _, err = call(capsys, "1-before", "2-after", "--save-baseline", "main")
    assert code == 1
    assert "the baseline main is not saved" in err
    assert not Path("runs/baselines").exists()


INCOMPLETE: dict[str, tuple[Callable[[Path], None], str]] = {
    "interrupted": (interrupted, "the stage verify is missing"),
    "no times": (lambda run: edit(run, "samples", lambda rows: []), "has no times at M=4096"),
    "one variant without": (lambda run: edit(run, "samples", of(SLOWER, lambda row: None)), f"{SLOWER} has no times"),
    "a failed variant": (
        lambda run: edit(run, "variants", of("naive", lambda row: {**row, "status": "crashed"})), "naive is crashed"
    ),
    "a recorded variant": (
        lambda run: edit(run, "variants", of("naive", lambda row: {**row, "origin": "recorded"})), "origin recorded"
    ),
    "nothing": (lambda run: edit(run, "variants", lambda rows: []), "it measured nothing"),
}  # fmt: skip


@pytest.mark.parametrize("what", INCOMPLETE)
def test_no_baseline_of_an_incomplete_run(runs: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    change, words = INCOMPLETE[what]
    change(runs / "2-after")
    code, out, err = call(capsys, "2-after", "--save-baseline", "main")
    assert (code, out) == (5, "")
    assert "is incomplete" in err
    assert words in err
    assert not Path("runs/baselines").exists()
