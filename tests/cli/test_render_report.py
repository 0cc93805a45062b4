from __future__ import annotations

import json
from pathlib import Path

import pytest
from make_run import make_run

from profiler.cli.render_report import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "gemm_ladder"
    folder.mkdir(parents=True)
    return make_run(folder / "20261129T200000Z-aaaa", timed=False).path


def test_a_run_is_rendered_beside_its_frames(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["latest", "20261129T200000Z-aaaa", "gemm_ladder/20261129T200000Z-aaaa"])
def test_a_run_is_found_by_id(run: Path, name: str) -> None:
    assert main([name, "--runs-dir", str(run.parents[1]), "-q"]) == 0
    assert (run / "report.html").is_file()


def test_output_and_json(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mail.html"
    assert main([str(run), "-o", str(target), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"reports": [{"path": str(target), "bytes": target.stat().st_size}]}
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no run 'nowhere'"),
        ([], "Missing argument"),
        (["{run}", "{run}", "-o", "x.html"], "--output names one file, but 2 runs are given"),
        (["{run}", "-o", "{run}/no/such/x.html"], "cannot write the report"),
        (["{file}"], "k.ncu-rep holds no launches"),
        (["{nsys}"], "k.nsys-rep is a Nsight Systems report, which must be exported first"),
        (["{folder}"], "is a folder, not a file"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("KERNEL_LADDER_TOOLS", str(tmp_path / "none"))
    file, nsys, folder = (tmp_path / name for name in ("k.ncu-rep", "k.nsys-rep", "folder.ncu-rep"))
    file.write_bytes(b"NVR\0")
    nsys.write_bytes(b"NSYS")
    folder.mkdir()
    filled = [part.format(run=run, file=file, nsys=nsys, folder=folder) for part in arguments]
    assert main([*filled, "--runs-dir", str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err
