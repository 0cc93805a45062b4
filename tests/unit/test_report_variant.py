"""The page's part on each variant: from the recorded ladder, from runs with less in them, and with hostile texts."""

from __future__ import annotations

import html as markup
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from make_run import FAULTS, RUNGS, make_run
from variant_data import KERNEL, NAME, run_data

from profiler.analysis.access import banks, global_access, spills
from profiler.analysis.kernels import kernels, profiled_size
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.leads import leads
from profiler.analysis.occupancy_view import Curve, occupancy_view
from profiler.analysis.rundata import RunData
from profiler.analysis.traffic import traffic
from profiler.analysis.verdicts import verdicts
from profiler.rundir import RunDir
from reports.render import render, render_run
from reports.sections import variant as section
from reports.variant_figures import steps_text

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "experiments" / "recorded" / "h200" / "gemm_ladder"
PARTS = ("limits", "occupancy", "mix", "traffic", "coalescing", "spills", "advice", "banks", "identity")


def section_of(data: RunData) -> dict[str, Any]:
    rows = ladder_rows(data)
    return section.build(data, rows, leads(data, rows))


@pytest.fixture(scope="module")
def recorded() -> RunData:
    return RunData.load(RunDir.open(RECORDED), details=True)


@pytest.fixture(scope="module")
def built(recorded: RunData) -> dict[str, Any]:
    return section_of(recorded)


@pytest.fixture(scope="module")
def page(recorded: RunData) -> str:
    return render(recorded)


def block(page: str, name: str) -> str:
    """The text of a variant's block, marks and all."""
    start = page.index(f'<div class="variant" data-variant="{markup.escape(name)}">')
    end = page.find('<div class="variant"', start + 1)
    part = page[start : end if end > 0 else page.index("</main>")]
    return re.sub(r"\s+", " ", markup.unescape(re.sub(r"<[^>]*>", " ", part)))


def build(**options: Any) -> dict[str, Any]:
    data = run_data(**options)
    return section_of(data)


def test_every_variant_has_a_block_and_the_best_rung_is_open(
    recorded: RunData, built: dict[str, Any], page: str
) -> None:
    names = [str(row["name"]) for row in recorded.variants]
    assert re.findall(r'<div class="variant" data-variant="([^"]+)">', page) == names
    best = verdicts(recorded, leads(recorded, ladder_rows(recorded)))[0].row.variant
    assert re.findall(r'<details id="(variant-[^"]+)" open>', page) == [f"variant-{best}"]
    assert [row["name"] for row in built["table"]] == names
    for name in names:
        assert f'href="#variant-{name}"' in page
        for part in PARTS:
            assert f'id="variant-{name}-{part}"' in page


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {link for link in re.findall(r'href="#([^"&]+)"', page)} <= set(ids)


def test_the_page_says_what_the_analysis_found(recorded: RunData, page: str) -> None:
    for row in recorded.variants:
        name = str(row["name"])
        text, size = block(page, name), profiled_size(recorded, name)
        kernel = kernels(recorded, name, size)[0]
        assert occupancy_view(kernel).sentence in text
        assert traffic(recorded, name, str(row["dtype"]), size).sentence in text
        for judged in (global_access(kernel), banks(kernel), spills(kernel)):
            assert judged.text in text
        if row["kind"] == "python":
            assert "a library's kernel: its binary is not part of this run" in text


def test_the_naive_kernel_is_not_coalesced_and_its_line_is_named(page: str) -> None:
    naive = block(page, "naive")
    assert "look here Not coalesced. Loads: 28 of the 32 bytes of each sector are moved for nothing" in naive
    assert re.search(r"01_naive\.cu:\d+ ", naive)


def test_registers_are_those_of_the_kernel_that_ran(recorded: RunData, built: dict[str, Any]) -> None:
    shown = {row["name"]: row["registers"]["text"] for row in built["table"]}
    rows = {row.variant: row for row in ladder_rows(recorded)}
    several = 0
    for name, text in shown.items():
        size = profiled_size(recorded, name)
        counted = kernels(recorded, name, size)[0].counted("registers").value
        assert counted is not None
        assert text == f"{counted:.0f}"
        assert rows[name].registers.value == counted
        several += len(recorded.compiled_kernels(name)) > 1
    assert several  # of them a binary holds more kernels than the one that ran


def test_the_curves_are_small_and_have_a_table_twin(built: dict[str, Any], page: str) -> None:
    specs = [figure.spec() for figure in built["figures"]]
    assert {spec["id"] for spec in specs} == {f"chart-occupancy-{row['name']}" for row in built["table"]}
    assert max(len(json.dumps(spec)) for spec in specs) < 9_000
    tile = next(one for one in built["blocks"] if one["name"] == "tile_2d")
    steps = {one["axis"]: one["steps"] for one in tile["occupancy"]["curves"]}
    assert steps["registers a thread"].startswith("up to 32: 100 %")
    assert 'id="variant-tile_2d-curve"' in page
    assert "best at" in steps["threads a block"]


def test_the_page_stays_small_and_quick(recorded: RunData) -> None:
    """At most 5 MB and 4 s; three times the 4 s, because the machine may be busy."""
    start = time.perf_counter()
    found = render(recorded)
    assert time.perf_counter() - start < 12
    assert len(found.encode()) < 5_000_000


@pytest.mark.parametrize(
    ("options", "name", "words"),
    [
        ({"timed": False}, "tile_2d", ["From the binary", "not profiled: there is no GPU here", "no launch bounds"]),
        ({"faults": FAULTS}, "tile_2d", ["not profiled: build failed; it was not built", "It was not checked."]),
        ({"faults": FAULTS}, "triton", ["not profiled: crashed"]),
        ({"counters": False}, "tile_2d", ["the driver does not permit counters here"]),
    ],
    ids=["static", "build-failed", "crashed", "refused"],
)
def test_what_is_missing_says_why(tmp_path: Path, options: dict[str, Any], name: str, words: list[str]) -> None:
    make_run(tmp_path / "run", **options)
    text = block(render_run(tmp_path / "run").read_text(encoding="utf-8"), name)
    for part in words:
        assert part in text


def test_missing_counters_are_reasons_and_never_zeros() -> None:
    (found,) = build(counters={"registers": "not_supported", "duration": 0.001}, binary={})["blocks"]
    cells = [row["counter"] for row in found["limits"]["rows"]]
    assert {cell["text"] for cell in cells} == {""}
    assert "this chip has no such counter" in {cell["why"] for cell in cells}
    assert found["banks"]["verdict"]["word"] == "not known"
    assert not found["banks"]["known"]
    assert found["figure"] is None


def test_values_that_cannot_be_are_said_to_be_so() -> None:
    counters = {"achieved_occupancy": 104.0, "theoretical_occupancy": 100.0, "registers": 32, "dram_bytes": -4.0}
    (found,) = build(counters=counters, binary={})["blocks"]
    assert any("noise between the passes" in note for note in found["occupancy"]["notes"])


def test_several_launches_are_named_and_their_bytes_added() -> None:
    data = run_data({"duration": 1.0, "dram_bytes": 1e6, "registers": 10}, {})
    second = [
        {**row, "launch": 1, "kernel": "reduce(float*)", "value": (row["value"] or 0) / 4}
        for row in data.rows["metrics"]
    ]
    both = RunData(data.manifest, {**data.rows, "metrics": [*data.rows["metrics"], *second]})
    (found,) = section_of(both)["blocks"]
    assert found["kernel"]["count"] == 2
    assert found["kernel"]["name"] == KERNEL
    assert [one["share"] for one in found["kernel"]["others"]] == ["80 %", "20 %"]
    assert found["traffic"]["levels"][0]["amount"]["text"] == "1.25 MB"
    assert "the longest of 2 launches" in block(render(both), NAME)


EVIL = "</script><img src=x onerror=alert(1)> <!-- größe 行列"


def test_hostile_texts_stay_text() -> None:
    data = run_data(
        {"duration": 1.0, "global_sectors_excess": 5, "global_sectors_sass": 10, "shared_static": 1},
        {},
        kernel=EVIL,
        params={EVIL: EVIL},
        rules=[{"title": EVIL, "message": EVIL, "kind": "local", "speedup": float("nan")}],
        instructions=[{"sass": EVIL, "file": EVIL, "line": 3, "sectors": 3, "excess_sectors": 3, "excess": 2}],
        idea=EVIL,
        manifest={"builds": {NAME: {"command": ["nvcc", EVIL], "compiler": EVIL}}},
    )
    page = render(data)
    assert "<img" not in page
    assert EVIL in markup.unescape(page)
    assert len(re.findall(r"<script", page)) == len(re.findall(r"</script>", page))


def test_two_thousand_characters_of_template_arguments_are_kept_and_clamped() -> None:
    name = f"gemm<{'(int)128, ' * 200}>(float*)"
    page = render(run_data({"duration": 1.0}, {}, kernel=name))
    assert f'<span class="clamp" title="{markup.escape(name)}">' in page


def test_a_run_without_variants_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "run", rungs=())
    assert "This run has no variants." in render_run(tmp_path / "run").read_text(encoding="utf-8")


def test_names_that_are_no_ids_get_one() -> None:
    assert section.block_id("tile_2d") == "variant-tile_2d"
    assert re.fullmatch(r"variant-a-b-[0-9a-f]{8}", section.block_id("a b"))
    assert len({section.block_id(rung.name) for rung in RUNGS}) == len(RUNGS)


def test_a_block_size_that_is_best_twice_is_named_twice() -> None:
    curve = Curve("block_size", ((32, 0.5), (64, 1.0), (96, 0.9), (128, 1.0)), 64, 1.0, None)
    assert steps_text(curve) == "best at 64 and 128: 100 %"
