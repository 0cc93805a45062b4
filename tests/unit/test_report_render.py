"""The page as text: what it holds, what it escapes, what its policy lets in, how large it is and how long it takes."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from make_run import FAULTS, RUNGS, SIZE, SMALL_SIZES, make_run

from profiler.errors import LadderError, UsageError
from reports.page import json_in_html, policy
from reports.render import render_run

EVIL = (
    "</script><script>alert(1)</script>",
    "x" * 2000,
    "größe<!--😀",
    "a&amp;b \"q\" 's'",
    "cublas_fp32",
    "<b>bold</b>",
    "行列",
    "cublas_bf16",
)


class Page(HTMLParser):
    """Scripts by type, ids, fragment links, and the visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.meta: dict[str, str] = {}
        self.text = ""
        self.html = html
        self._inside: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if tag == "script":
            self.scripts.append((found.get("type", ""), ""))
        self._inside = tag if tag in ("script", "style") else None
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "meta":
            self.meta[found.get("http-equiv", found.get("name", ""))] = found.get("content", "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self._inside is None:
            self.text += data


def page(path: Path, **options: Any) -> Page:
    make_run(path / "run", **options)
    return Page(render_run(path / "run").read_text(encoding="utf-8"))


def words(found: Page) -> str:
    return re.sub(r"\s+", " ", found.text)


def test_full_run_has_its_parts_and_opens_on_the_verdict(tmp_path: Path) -> None:
    found = page(tmp_path)
    text = words(found)
    assert text.index("double_buffer reaches 0.641×") < text.index("Ladder at 4096³")
    assert [i for i in found.ids if i in ("verdict", "ladder", "roofline", "stalls", "method")] == [
        "verdict", "ladder", "roofline", "stalls", "method",
    ]  # fmt: skip
    assert all(rung.name in text and rung.idea in text for rung in RUNGS)
    assert "Only reasons above 10 %" in text
    assert "measured on Synthetic H200" in text


def test_every_link_leads_to_an_id_and_ids_are_unique(tmp_path: Path) -> None:
    found = page(tmp_path, sizes=SMALL_SIZES, faults=FAULTS)
    assert len(found.ids) == len(set(found.ids))
    assert {link for link in found.links if not link.startswith("#")} == set()
    assert {link[1:].partition("&")[0] for link in found.links} <= set(found.ids)  # the rest are choices


def test_policy_allows_exactly_the_scripts_of_the_page(tmp_path: Path) -> None:
    found = page(tmp_path)
    content = found.meta["Content-Security-Policy"]
    assert content.startswith("default-src 'none'; script-src 'sha256-")
    allowed = set(re.findall(r"'sha256-([^']+)'", content))
    scripts = [text for kind, text in found.scripts if kind in ("", "text/plain")]  # the latter is plotly
    assert len(scripts) == 2
    assert {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts} == allowed
    assert "unsafe-eval" not in content
    assert re.search(r"script-src[^;]*unsafe-inline", content) is None


def test_nothing_in_the_page_points_outside_it(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    html = render_run(tmp_path / "run").read_text(encoding="utf-8")
    markup = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.S)
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", markup) == []
    assert "@import" not in markup
    assert "url(" not in markup


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rungs = [dataclasses.replace(rung, name=name) for rung, name in zip(RUNGS, EVIL, strict=True)]
    title = "</title><script>alert(2)</script> <!--"
    found = page(tmp_path, rungs=rungs, title=title)
    assert [kind for kind, _ in found.scripts if kind != "application/json"] == ["text/plain", ""]
    assert all(name in found.text for name in EVIL)
    assert title in found.text
    figures = [json.loads(text) for kind, text in found.scripts if kind == "application/json"]
    assert {figure["id"] for figure in figures} == {"chart-ladder", "chart-roofline", "chart-stalls", "chart-why"}
    assert "<script" not in json.dumps([figure["annotations"] for figure in figures])
    raw = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', raw, flags=re.S):
        assert "<" not in block


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timed": False}, ["Nothing was timed: there is no GPU here", "No dot can be placed", "No stall reasons"]),
        ({"counters": False}, ["Model.", "ERR_NVGPUCTRPERM", "load the nvidia module"]),
        ({"recorded": True}, ["recorded on Synthetic H200, 2026-11-29, driver 580.159; nothing was measured here"]),
        (
            {"faults": {rung.name: FAULTS["triton"] for rung in RUNGS}},
            ["Nothing was timed", "All 8 variants: crashed: an illegal memory access"],
        ),
        ({"rungs": ()}, ["Nothing was timed"]),
        ({"baseline": {}}, ["is the fastest fp32 variant at 4096³ (this contract has no baseline)"]),
        ({"samples": 1}, ["too few samples"]),
    ],
    ids=["static", "no-counters", "recorded", "failures", "empty", "no-baseline", "one-sample"],
)
def test_a_run_with_less_in_it_still_renders_and_says_why(
    tmp_path: Path, options: dict[str, Any], expected: list[str]
) -> None:
    text = words(page(tmp_path, **options))
    for part in expected:
        assert part in text


def test_no_charts_no_plotly(tmp_path: Path) -> None:
    make_run(tmp_path / "run", timed=False)
    assert render_run(tmp_path / "run").stat().st_size < 350_000


def test_a_missing_value_says_why_and_is_never_zero(tmp_path: Path) -> None:
    text = words(page(tmp_path, faults=FAULTS))
    assert "missing: error 0.31 is above the tolerance" in text
    assert "0.00 FLOP/s" not in text


def test_rendering_twice_gives_the_same_file(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    first = render_run(tmp_path / "run").read_bytes()
    assert render_run(tmp_path / "run", tmp_path / "again.html").read_bytes().replace(
        b"report.html", b""
    ) == first.replace(b"report.html", b"")
    assert [path.name for path in (tmp_path / "run").iterdir() if "partial" in path.name] == []


def test_an_unwritable_output_is_one_clear_line(tmp_path: Path) -> None:
    make_run(tmp_path / "run", timed=False)
    with pytest.raises(LadderError, match="cannot write the report"):
        render_run(tmp_path / "run", tmp_path / "no" / "such" / "report.html")


def test_what_is_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        render_run(tmp_path)


def test_a_damaged_frame_is_said_so(tmp_path: Path) -> None:
    make_run(tmp_path / "run", timed=False)
    (tmp_path / "run" / "metrics.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UsageError, match=r"metrics\.parquet: unreadable"):
        render_run(tmp_path / "run")


def test_sixteen_variants_fit_the_limits(tmp_path: Path) -> None:
    """At most 4 MB; 3 s on an idle machine, three times that here because the machine may be busy."""
    rungs = [dataclasses.replace(rung, name=f"{rung.name}_{i}" if i else rung.name) for i in range(2) for rung in RUNGS]
    make_run(tmp_path / "run", rungs=rungs, sizes=SMALL_SIZES)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", f"from reports.render import render_run; from pathlib import Path; "
         f"render_run(Path({str(tmp_path / 'run')!r}))"],
        check=True, timeout=60, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert time.perf_counter() - start < 9
    assert (tmp_path / "run" / "report.html").stat().st_size <= 4_000_000


def test_json_cannot_end_its_element() -> None:
    text = json_in_html({"a": "</script><!-- \u2028 &"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- \u2028 &"}


def test_policy_hashes_each_script() -> None:
    empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert f"script-src 'sha256-{empty}';" in policy([""])


def test_origin_of_each_row_is_said(tmp_path: Path) -> None:
    make_run(tmp_path / "run", sizes=(SIZE,), faults={"shared": FAULTS["shared"]})
    html = render_run(tmp_path / "run").read_text(encoding="utf-8")
    assert html.count('class="from">measured') == 7
    assert html.count('class="from">the binary') == 1


def test_a_run_that_replays_says_so_in_each_part(tmp_path: Path) -> None:
    origin = "Times and counters: recorded on Synthetic H200, 2026-11-29, driver 580.159"
    replayed, measured = (page(tmp_path / name, recorded=name == "r") for name in "rm")
    parts = [part.split("</section>")[0] for part in replayed.html.split("<section ")[1:]]
    assert [origin in part for part in parts] == [True] * 5 + [False]
    assert origin not in words(measured)
    assert re.search(r'<body data-gpu="recorded on Synthetic H200', replayed.html)
    assert re.search(r'<body data-gpu="Synthetic H200', measured.html)


def test_the_time_of_a_replay_is_not_that_of_its_numbers(tmp_path: Path) -> None:
    replayed, measured = (page(tmp_path / name, recorded=name == "r").html for name in "rm")
    when = "<dd>2026-11-29 20:00:00 UTC</dd>"
    assert f"<dt>Replayed</dt>{when}" in replayed
    assert not re.search("<dt>taken</dt>", replayed, re.I)
    assert f"<dt>Taken</dt>{when}" in measured


def test_the_report_does_not_call_itself_unfinished(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.manifest["stages"]["report"] = {"status": "running"}
    run.manifest["stages"]["trace"] = {"status": "running"}
    run.save()
    text = words(Page(render_run(run.path).read_text(encoding="utf-8")))
    assert "trace running" in text
    assert "report running" not in text


def test_one_contract_is_no_choice(tmp_path: Path) -> None:
    found = page(tmp_path, rungs=RUNGS[:5])
    figures = [json.loads(text) for kind, text in found.scripts if kind == "application/json"]
    ladder = next(figure for figure in figures if figure["id"] == "chart-ladder")
    assert ladder["controls"] == []
    assert [len(trace["y"]) for trace in ladder["data"]] == [4, 1]


def test_counters_that_were_refused_are_not_said_to_be_measured(tmp_path: Path) -> None:
    text = words(page(tmp_path, counters=False))
    assert "Times: measured on Synthetic H200." in text
    assert "Times and counters" not in text
