"""compare_runs on captured files of Nsight Compute: counters launch by launch, and never a verdict on time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.cli.compare_runs import main

pytest.importorskip("ncu_report", reason="NVIDIA's reader of .ncu-rep is not installed")


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def call(capsys: pytest.CaptureFixture[str], *argv: Path | str) -> tuple[int, dict[str, Any], str]:
    code = main([*map(str, argv), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err


def test_two_profiles_of_one_kernel(samples: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [samples / "ncu" / f"rtx3070_2022.3_{side}.ncu-rep" for side in ("before", "after")]
    page = tmp_path / "page.html"
    code, document, _ = call(capsys, *files, "--html", page)
    (row,) = document["rows"]
    assert (code, row["verdict"], row["ratio"]) == (0, "counters_only", None)
    assert document["kind"] == "counters_only"
    pairs = {pair["metric"]: (pair["before"], pair["after"]) for pair in row["counters"]}
    assert pairs["grid"][0] == pairs["grid"][1] is not None
    assert pairs["duration"][0] != pairs["duration"][1]
    assert "counters only" in page.read_text()


def test_the_terminal_says_what_agrees_and_what_is_next(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(samples / "ncu" / f"rtx3070_2022.3_{side}.ncu-rep") for side in ("before", "after")]
    assert main(files) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "6 counts agree: exact ones within 1.0 %, near ones within 5.0 %" in out
    assert "next: -v lists every counter of both sides" in out
    assert "next: for a verdict on time, run_experiment" in out
    assert "detectable" not in out  # no column without a value
    assert "the profiled size" not in out
    assert main([*files, "-v"]) == 0
    out = capsys.readouterr().out
    assert "registers" in out
    assert "next: -v" not in out


def test_launches_of_two_files_that_share_some_kernels(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [samples / "h200" / name for name in ("sgemm_naive_smem_2048_full.ncu-rep", "ladder_set_5kernels.ncu-rep")]
    code, document, _ = call(capsys, *files)
    counts: dict[str, int] = {}
    for row in document["rows"]:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    assert (code, counts) == (0, {"counters_only": 2, "new": 3})
    assert call(capsys, *files[::-1])[0] == 5  # three launches are gone


def test_another_gpu_is_refused(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = (samples / "ncu" / "rtx3070_2022.3_before.ncu-rep", samples / "ncu" / "a100_2021.2_full_1launch.ncu-rep")
    assert call(capsys, *files)[0] in (3, 5)
    assert call(capsys, files[0], files[0])[1]["same_run"] is True
    main([str(files[0]), str(files[0])])
    out = capsys.readouterr().out
    assert "are the same file" in out
    assert "next:" not in out


@pytest.mark.parametrize("flags", [["--remeasure"], ["--only", "x"], ["--save-baseline", "main"]])
def test_what_a_file_cannot(samples: Path, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    file = samples / "ncu" / "rtx3070_2022.3_before.ncu-rep"
    code, _, err = call(capsys, file, file, *flags)
    assert code == 2
    assert "profiler's file" in err


def test_a_damaged_file_is_2(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = samples / "ncu" / "rtx3070_2022.3_before.ncu-rep"
    bad = tmp_path / "bad.ncu-rep"
    for content in (b"", good.read_bytes()[:1000], b"no report at all"):
        bad.write_bytes(content)
        code, document, err = call(capsys, good, bad)
        assert (code, document) == (2, {})
        assert "bad.ncu-rep" in err
        assert "Traceback" not in err
