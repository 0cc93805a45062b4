"""Assets inside the page or shared: the policy, the folder, the address of it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from make_run import make_run

from profiler.errors import LadderError
from reports.page import meaning
from reports.page_assets import FILES, PLOTLY, asset, digest, policy, relative_url, script, write_shared
from reports.render import render_run
from reports.sections.ladder import _spread


def test_the_shared_folder_is_written_once(tmp_path: Path) -> None:
    first = write_shared(tmp_path / "assets")
    assert sorted(path.name for path in first.iterdir()) == sorted(FILES)
    assert (first / "report.js").read_text(encoding="utf-8") == script()
    stamps = {path: path.stat().st_mtime_ns for path in first.iterdir()}
    assert write_shared(tmp_path / "assets") == first
    assert {path: path.stat().st_mtime_ns for path in first.iterdir()} == stamps


def test_a_damaged_shared_file_is_written_again(tmp_path: Path) -> None:
    folder = write_shared(tmp_path)
    (folder / PLOTLY).write_bytes(b"cut \xff")
    write_shared(tmp_path)
    assert (folder / PLOTLY).read_text(encoding="utf-8") == asset(PLOTLY)


def test_a_place_that_cannot_be_written_is_one_line_and_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "assets").write_text("a file", encoding="utf-8")
    with pytest.raises(LadderError, match="cannot write the shared assets") as caught:
        write_shared(tmp_path / "assets")
    assert "--runs-dir" in caught.value.hint


@pytest.mark.parametrize(
    ("target", "page", "address"),
    [
        ("runs/assets/ab12", "runs/gemm/2026/report.html", "../../assets/ab12"),
        ("runs/assets/ab12", "report.html", "runs/assets/ab12"),
        ("runs #1/ä b", "out/report.html", "../runs%20%231/%C3%A4%20b"),
    ],
)
def test_the_address_of_the_folder_is_relative_and_quoted(tmp_path: Path, target: str, page: str, address: str) -> None:
    assert relative_url(tmp_path / target, tmp_path / page) == address


def test_a_page_with_shared_assets_holds_no_script_and_names_the_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "gemm" / "1")
    html = unescape(render_run(run.path, None, tmp_path / "runs" / "assets").read_text(encoding="utf-8"))
    folder = next((tmp_path / "runs" / "assets").iterdir()).name
    assert re.findall(r'(?:src|href)="([^"#]+\.(?:js|css))"', html) == [
        f"../../assets/{folder}/report.css", f"../../assets/{folder}/plotly-cartesian.min.js",
        f"../../assets/{folder}/report.js",
    ]  # fmt: skip
    assert "<script>" not in html
    assert "<style>" not in html
    assert "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'" in html


def test_the_policy_of_a_page_inside_itself_names_no_place() -> None:
    text = policy(["a", "b"])
    assert f"script-src 'sha256-{digest('a')}' 'sha256-{digest('b')}';" in text
    assert "self" not in text
    assert "file:" not in text
    assert "script-src 'none';" in policy([])


def test_hover_texts_come_from_the_metric_table() -> None:
    assert meaning("warp_latency").startswith("Cycles between two instructions")
    with pytest.raises(KeyError):
        meaning("no_such_metric")


@pytest.mark.parametrize(
    ("half", "text"),
    [(None, "too few samples"), (0.0, "± < 0.01 %"), (0.00004, "± < 0.01 %"), (0.0004, "± 0.04 %"), (0.012, "± 1.2 %")],
)
def test_a_small_interval_is_not_called_zero(half: float | None, text: str) -> None:
    assert _spread(half) == text
