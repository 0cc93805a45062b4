"""--shared-assets of both commands, --open, and the list of runs that run_experiment keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_run import make_run

from profiler.cli import render_report


def test_render_report_writes_the_assets_once_for_many_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    (runs / "gemm").mkdir(parents=True)
    paths = [make_run(runs / "gemm" / name, samples=5).path for name in ("a", "b")]
    assert render_report.main([*map(str, paths), "--runs-dir", str(runs), "--shared-assets"]) == 0
    assert len(list((runs / "assets").glob("*/report.js"))) == 1
    for path in paths:
        html = (path / "report.html").read_text(encoding="utf-8")
        assert 'src="../../assets/' in html
        assert len(html) < 1_500_000
    assert render_report.main([str(paths[0]), "--runs-dir", str(runs), "-q"]) == 0
    assert "../../assets/" not in (paths[0] / "report.html").read_text(encoding="utf-8")


def test_a_page_elsewhere_refers_to_the_assets_from_there(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "gemm").mkdir(parents=True)
    path = make_run(runs / "gemm" / "a", samples=5).path
    target = tmp_path / "out" / "page.html"
    target.parent.mkdir()
    assert render_report.main([str(path), "--runs-dir", str(runs), "--shared-assets", "-o", str(target), "-q"]) == 0
    assert 'src="../runs/assets/' in target.read_text(encoding="utf-8")
