"""Colours that a colour-blind reader can tell apart, a pattern or a shape wherever colour would be the only sign."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from make_run import SMALL_SIZES, make_run
from report_colours import contrast, distance, palettes

from reports.render import render_run

SERIES = [f"c{index}" for index in range(8)]
TEXTS = ("ink", "ink2", "muted", "accent", "good", "warn", "bad")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_series_differ_also_with_deuteranopia(theme: str) -> None:
    colours = palettes()[theme]
    near = {(a, b): distance(colours[a], colours[b]) for a, b in itertools.combinations(SERIES, 2)}
    assert {pair: value for pair, value in near.items() if value < 14} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_the_paper(theme: str) -> None:
    colours = palettes()[theme]
    found = {name: contrast(colours[name], colours["paper"]) for name in TEXTS}
    assert {name: value for name, value in found.items() if value < 4.5} == {}


def test_the_theme_by_button_is_that_of_the_system() -> None:
    from reports.page_assets import STYLE, asset

    css = asset(STYLE)
    blocks = re.findall(r"--paper: #15171a;.*?\}", css, flags=re.S)
    assert len(blocks) == 2
    assert len({re.sub(r"\s+", " ", block) for block in blocks}) == 1


def test_the_simulation_confuses_what_it_should() -> None:
    assert distance("#00a000", "#b08000") < distance("#00a000", "#0000ff") / 3


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    run: Path = make_run(tmp_path_factory.mktemp("run") / "run", sizes=SMALL_SIZES, samples=5).path
    html = render_run(run).read_text(encoding="utf-8")
    return [json.loads(text) for text in re.findall(r'class="figure-spec">(.*?)</script>', html, flags=re.S)]


def _sign(trace: dict[str, Any]) -> str:
    """What tells a trace from others apart from its colour: pattern, symbol, dash."""
    marker, line = trace.get("marker") or {}, trace.get("line") or {}
    return json.dumps([(marker.get("pattern") or {}).get("shape"), marker.get("symbol"), line.get("dash")])


def test_no_two_series_of_a_choice_look_the_same(figures: list[dict[str, Any]]) -> None:
    assert {figure["id"] for figure in figures} >= {"chart-ladder", "chart-sizes", "chart-roofline", "chart-stalls"}
    same = []
    for figure in figures:
        looks: dict[tuple[str, str, str], set[str]] = {}
        for trace, tags in zip(figure["data"], figure["tags"], strict=True):
            colour = json.dumps((trace.get("marker") or trace.get("line") or {}).get("color"))
            if trace.get("mode") != "lines":  # a roof carries its name
                looks.setdefault((json.dumps(tags), colour, _sign(trace)), set()).add(str(trace.get("name")))
        same += [(figure["id"], sorted(names)) for names in looks.values() if len(names) > 1]
    assert same == []


def test_bars_of_contracts_are_named_beside_them(figures: list[dict[str, Any]]) -> None:
    ladder = next(figure for figure in figures if figure["id"] == "chart-ladder")
    tags = ladder["annotationTags"]
    texts = [a["text"] for a, t in zip(ladder["annotations"], tags, strict=True) if t["contract"] == "all"]
    assert texts.count("fp32") == texts.count("bf16") == 3
    single = [a["text"] for a, t in zip(ladder["annotations"], tags, strict=True) if t["contract"] == "fp32"]
    assert "fp32" not in single
