"""The page of a comparison as text: what it holds, what it escapes, how large it is and how long it takes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from compare_data import BASE, SIZE, merged, planted_comparison, regression, row

from profiler.comparison.model import Comparison
from reports.compare import render_comparison, write_comparison
from reports.compare_figures import roofline_pairs, rows_figure

EVIL = "</script><script>window.pwned=1</script>"


class Page(HTMLParser):
    """Ids, links and the visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.text = ""
        self._hidden = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._hidden = tag in ("script", "style")
        self.scripts += tag == "script"
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text += data


def words(html: str) -> str:
    return re.sub(r"\s+", " ", Page(html).text)


def test_the_page_has_every_part() -> None:
    html = render_comparison(*planted_comparison())
    text = words(html)
    for part in (
        "1 removed", "3 regressed", "1 suspected", "1 unchanged", "broken, removed, or nothing measured (exit 5)",
        "each shared store now takes 32.0 wavefronts instead of 1.0: 32-way bank conflicts",
        "the compiler spills registers", "global loads are 32 bits wide instead of 128",
        "2 blocks of 256 threads fit on an SM instead of 4", "Where the cycles went", "Roofline, from before to after",
        "Sources side by side", "tile[col][row] = value;", "Environments", "Thresholds used", "equivalence margin",
        "driver", "a warning", "after is 3.00× slower than before",
    ):  # fmt: skip
        assert part in text, part
    assert [one for one in re.findall(r'"id":"(chart-\w+)"', html)] == ["chart-rows", "chart-why", "chart-roofline"]


def test_every_link_within_the_page_has_its_place() -> None:
    found = Page(render_comparison(*planted_comparison()))
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") for link in found.links)


def test_a_comparison_without_its_runs_still_has_rows_causes_and_sources() -> None:
    html = render_comparison(regression())
    text = words(html)
    assert "32-way bank conflicts" in text
    assert "Sources side by side" in text
    assert "Where the cycles went" not in text
    assert re.findall(r'"id":"(chart-\w+)"', html) == ["chart-rows"]


def test_nothing_compared_is_said_and_draws_nothing() -> None:
    html = render_comparison(Comparison("a", "b", "stored", ()))
    assert "no rows" in words(html)
    assert "No row has a time on both sides." in words(html)
    assert 'id="plotly"' not in html
    assert len(html) < 150_000


def test_names_are_escaped_wherever_they_stand() -> None:
    comparison, before, after = planted_comparison({"spills": EVIL, "narrow": "größe<!--😀", "conflicts": "x" * 2000})
    html = render_comparison(replace(comparison, notes=(EVIL,), before=EVIL), before, after)
    assert EVIL not in html
    assert EVIL in Page(html).text
    plain = Page(render_comparison(*planted_comparison()))
    assert Page(html).scripts == plain.scripts


def test_the_policy_lets_nothing_in_and_only_the_pages_own_scripts() -> None:
    html = render_comparison(*planted_comparison())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert policy[1].count("sha256-") == 2
    page = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert "http" not in page.replace("http-equiv", "")


def test_a_thousand_rows_are_one_page_of_bearable_size() -> None:
    base = regression().rows[1]
    rows = tuple(replace(base, variant=f"v{i:04d}", ratio=base.ratio if i % 2 else None) for i in range(1000))
    start = time.perf_counter()
    html = render_comparison(replace(regression(), rows=rows))
    assert time.perf_counter() - start < 8
    assert len(html) < 5_000_000
    assert "The worst 60 of 500 rows." in words(html)
    assert "940 more rows have differences" in words(html)


def test_the_page_is_written_and_shares_its_assets_on_request(tmp_path: Path) -> None:
    comparison, before, after = planted_comparison()
    target = write_comparison(tmp_path / "compare.html", comparison, before, after, tmp_path / "assets")
    text = target.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert 'src="assets/' in text


@pytest.mark.parametrize(("ratios", "kind"), [((1.01, 0.97), None), ((1.01, 4.0), "log"), ((0.3, 1.0), "log")])
def test_the_axis_of_the_rows_suits_their_spread(ratios: tuple[float, ...], kind: str | None) -> None:
    figure = rows_figure([row(f"r{i}", ratio=ratio) for i, ratio in enumerate(ratios)], 0.02)
    assert figure is not None
    axis = figure.layout["xaxis"]
    assert axis.get("type") == kind
    low, high = (10**v if kind else v for v in axis["range"])
    assert low < min(ratios) * 0.995
    assert high > max(ratios) * 1.005


def test_rows_without_a_ratio_have_no_mark() -> None:
    assert rows_figure([row("a", "broken", None), row("b", ratio=float("nan"))], 0.02) is None


def test_the_arrows_run_from_before_to_after() -> None:
    comparison, before, after = planted_comparison()
    lines = roofline_pairs(before, after, comparison.rows)
    arrows = [arrow for line in lines for arrow in line.arrows]
    assert {(a.before.variant, a.after.variant) for a in arrows} == {
        (f"{name}, before", name) for name in ("conflicts", "spills", "narrow", "occupancy")
    }
    for arrow in arrows:
        assert arrow.before.performance is not None
        assert arrow.after.performance is not None
        assert arrow.after.performance < arrow.before.performance


def test_runs_that_lack_a_side_draw_no_arrow() -> None:
    lines = roofline_pairs(merged({"a": BASE}), merged({"b": BASE}), [row("a"), row("b")])
    assert [line.size for line in lines] == [SIZE]
    assert lines[0].arrows == ()
