"""Two runs side by side: what is compared, what is refused, and which exit code says so."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from profiler import metrics
from profiler.analysis.rundata import RunData
from profiler.compare import COUNTERS, KEYS, Comparison, compare, to_json
from profiler.errors import Exit

SIZE = "M=64,N=64,K=64"
Rows = dict[str, list[dict[str, Any]]]
Change = Callable[[dict[str, Any], Rows], None]


def run(times: dict[str, float] | None = None, change: Change | None = None) -> RunData:
    """Return a small run, changed."""
    times = {"naive": 400.0, "tiled": 100.0, "cublas_fp32": 50.0} if times is None else times
    manifest: dict[str, Any] = {
        "gpu": {"name": "GPU A", "uuid": "GPU-1", "driver": "580.1"},
        "arch": "sm_90a",
        "problem": {"kind": "gemm", "options": {"layout": "nn"}, "init": {"seed": 0}, "sizes": [SIZE]},
        "timing": {"cache": "cold"},
        "builds": {name: {"arch": "sm_90a", "compiler": "nvcc 13.0.88"} for name in times},
    }
    rows: Rows = {"variants": [], "samples": [], "metrics": [], "checks": [], "stalls": [], "ceilings": []}
    for order, (name, time) in enumerate(times.items()):
        rows["variants"].append(
            {"name": name, "dtype": "fp32", "kind": "cuda", "status": "ok", "reason": None, "verified": "yes",
             "origin": "measured", "order": order, "source_hash": f"s-{name}", "binary_hash": f"b-{name}"}
        )  # fmt: skip
        rows["samples"] += [
            {"variant": name, "size": SIZE, "process": 0, "order": i, "method": "single", "cache": "cold",
             "time_ns": time * (1 + 0.01 * ((i * 7) % 5 - 2)), "foreign": False}
            for i in range(20)
        ]  # fmt: skip
        for launch, metric, value, unit, origin in (
            (None, "ptxas.registers", 40.0, "1", "ptxas"),
            (0, "duration", time * 1e-9, "s", "ncu"),
            (0, "instructions", time * 10, "inst", "ncu"),
        ):
            rows["metrics"].append(
                {"variant": name, "size": None if launch is None else SIZE, "launch": launch, "kernel": "k",
                 "metric": metric, "value": value, "unit": unit, "origin": origin, "why": None}
            )  # fmt: skip
    if change is not None:
        change(manifest, rows)
    return RunData(manifest, rows)


def one(rows: Rows, name: str) -> dict[str, Any]:
    return next(row for row in rows["variants"] if row["name"] == name)


def set_variant(name: str, **values: Any) -> Change:
    return lambda manifest, rows: one(rows, name).update(values)


def set_samples(name: str, **values: Any) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in rows["samples"]:
            if row["variant"] == name:
                row.update(values)

    return change


def set_manifest(path: str, value: Any) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        *parents, last = path.split(".")
        at = manifest
        for parent in parents:
            at = at[parent]
        at[last] = value

    return change


def drop_variant(name: str) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["variants"] = [row for row in rows["variants"] if row["name"] != name]
        rows["samples"] = [row for row in rows["samples"] if row["variant"] != name]

    return change


def drop_samples(name: str) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["samples"] = [row for row in rows["samples"] if row["variant"] != name]

    return change


def held(before: RunData, after: RunData, allow: tuple[str, ...] = ()) -> Comparison:
    return compare(before, after, names=("gemm/1", "gemm/2"), allow=allow)


def status(comparison: Comparison, name: str) -> str:
    return next(row.status for row in comparison.rows if row.variant == name)


def test_a_run_with_itself() -> None:
    result = held(run(), run())
    assert [row.status for row in result.rows] == ["compared"] * 3
    assert result.code == Exit.OK
    assert "BEFORE and AFTER are the same run" in result.notes
    for row in result.rows:
        assert row.ratio is not None
        assert row.ratio.value == 1.0
        assert row.ratio.low is not None
        assert row.ratio.high is not None
        assert row.ratio.low <= 1.0 <= row.ratio.high
        assert (row.source, row.binary) == ("same", "same")
        assert all(pair.before == pair.after for pair in row.counters)


def test_two_runs_share_no_rounds() -> None:
    """Equal numbers of samples must not be taken for pairs: the interval of a run with itself would be nothing wide."""
    ratio = held(run(), run()).rows[0].ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.high > ratio.low


def test_times_counters_and_identity_stand_side_by_side() -> None:
    result = held(
        run(), run({"naive": 400.0, "tiled": 200.0, "cublas_fp32": 50.0}, set_variant("tiled", source_hash="x"))
    )
    row = next(row for row in result.rows if row.variant == "tiled")
    assert row.before is not None
    assert row.after is not None
    assert row.ratio is not None
    assert (row.before.value, row.after.value, row.ratio.value) == pytest.approx((100.0, 200.0, 2.0))
    assert (row.source, row.binary) == ("changed", "same")
    shown = {pair.spec.metric: (pair.before.value, pair.after.value, pair.ratio) for pair in row.counters}
    assert shown["ptxas.registers"] == (40.0, 40.0, 1.0)
    assert shown["instructions"] == (1000.0, 2000.0, 2.0)
    assert result.code == Exit.OK  # slower, and this version gives no verdict
    assert to_json(result)["verdict"] is None


def test_a_counter_that_one_side_lacks_is_missing_not_zero() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["metrics"] = [row for row in rows["metrics"] if row["metric"] != "instructions"]

    row = held(run(), run(change=change)).rows[0]
    pair = next(pair for pair in row.counters if pair.spec.metric == "instructions")
    assert pair.after.value is None
    assert pair.after.why == "not_collected"
    assert pair.ratio is None


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("gpu", set_manifest("gpu.name", "GPU B")),
        ("gpu", set_manifest("gpu", {})),
        ("arch", set_manifest("builds.tiled.arch", "sm_80")),
        ("problem", set_manifest("problem.options.layout", "nt")),
        ("problem", set_manifest("problem.kind", "softmax")),
        ("init", set_manifest("problem.init", {"distribution": "zeros"})),
        ("dtype", set_variant("tiled", dtype="tf32")),
        ("cache", set_samples("tiled", cache="warm")),
        ("method", set_samples("tiled", method="graph")),
    ],
)
def test_what_differs_in_kind_is_refused_until_it_is_allowed(key: str, change: Change) -> None:
    refused = held(run(), run(change=change))
    assert status(refused, "tiled") == "incomparable"
    assert refused.code == Exit.NOTHING
    assert refused.refused == (key,)
    row = next(row for row in refused.rows if row.variant == "tiled")
    assert row.ratio is None
    assert row.reason.startswith(f"{key}: ")
    allowed = held(run(), run(change=change), allow=(key,))
    assert status(allowed, "tiled") == "compared"
    assert allowed.code == Exit.OK
    assert allowed.allowed == (key,)


def test_every_key_has_a_test() -> None:
    tested = {mark.args[1][i][0] for mark in test_what_differs_in_kind_is_refused_until_it_is_allowed.pytestmark
              for i in range(len(mark.args[1]))}  # fmt: skip
    assert tested == set(KEYS)


def test_identity_is_told_of_a_broken_variant_too() -> None:
    result = held(run(), run(change=set_variant("tiled", status="crashed", source_hash="x")))
    row = next(row for row in result.rows if row.variant == "tiled")
    assert (row.status, row.source, row.binary) == ("broken", "changed", "same")


def test_an_unknown_gpu_on_both_sides_is_refused() -> None:
    change = set_manifest("gpu", {})
    assert held(run(change=change), run(change=change)).code == Exit.NOTHING


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        ("gpu.driver", "590.0", "another driver: 580.1 before, 590.0 after"),
        ("gpu.uuid", "GPU-2", "another card"),
        ("builds.tiled.compiler", "nvcc 13.2", "another compiler"),
    ],
)
def test_what_does_not_forbid_a_comparison_is_noted(path: str, value: str, note: str) -> None:
    result = held(run(), run(change=set_manifest(path, value)))
    assert result.code == Exit.OK
    assert any(note in text for text in result.notes)


@pytest.mark.parametrize(
    ("before", "after", "expected", "code"),
    [
        (None, set_variant("tiled", status="wrong_result", reason="error 0.3", verified="no"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="build_failed"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="crashed"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="a_word_of_the_future"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", verified="no"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="profile_failed"), "compared", Exit.OK),
        (None, drop_variant("tiled"), "removed", Exit.BROKEN),
        (None, set_variant("tiled", status="skipped", reason="K % 8"), "removed", Exit.BROKEN),
        (drop_variant("tiled"), None, "new", Exit.OK),
        (set_variant("tiled", status="wrong_result", verified="no"), None, "new", Exit.OK),
        (set_variant("tiled", status="skipped"), set_variant("tiled", status="skipped"), "skipped", Exit.OK),
        (set_variant("tiled", status="crashed"), set_variant("tiled", status="crashed"), "not_measured", Exit.BROKEN),
        (None, set_variant("tiled", status="not_run"), "not_measured", Exit.BROKEN),
        (None, set_variant("tiled", origin="recorded"), "not_measured", Exit.BROKEN),
        (set_variant("tiled", origin="recorded"), None, "not_measured", Exit.BROKEN),
        (set_variant("tiled", origin=None), None, "not_measured", Exit.BROKEN),
        (None, drop_samples("tiled"), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", time_ns=None), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", time_ns=0.0), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", method="sustained"), "not_measured", Exit.BROKEN),
    ],
)  # fmt: skip
def test_what_one_side_lacks(before: Change | None, after: Change | None, expected: str, code: Exit) -> None:
    result = held(run(change=before), run(change=after))
    assert status(result, "tiled") == expected
    assert result.code == code
    row = next(row for row in result.rows if row.variant == "tiled")
    assert expected == "compared" or row.reason
    assert expected == "compared" or row.ratio is None
    assert status(result, "naive") == "compared"  # the others are not touched


def test_two_empty_runs_pass_nothing() -> None:
    assert held(run({}), run({})).code == Exit.BROKEN
    assert held(run(), run({})).code == Exit.BROKEN
    assert held(run({}), run()).code == Exit.BROKEN  # only new rows: nothing was compared


def test_a_size_that_is_gone_is_removed() -> None:
    other = "M=8,N=8,K=8"

    def change(manifest: dict[str, Any], rows: Rows) -> None:
        manifest["problem"]["sizes"] = [SIZE, other]
        rows["samples"] += [{**row, "size": other} for row in copy.deepcopy(rows["samples"])]

    result = held(run(change=change), run())
    assert {row.status for row in result.rows if row.size == other} == {"removed"}
    assert {row.status for row in result.rows if row.size == SIZE} == {"compared"}


def test_incomparable_comes_before_broken() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        manifest["gpu"]["name"] = "GPU B"
        one(rows, "tiled")["status"] = "crashed"

    result = held(run(), run(change=change))
    assert {status(result, "tiled"), status(result, "naive")} == {"broken", "incomparable"}
    assert result.code == Exit.NOTHING


def test_one_sample_has_no_interval() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["samples"] = [row for row in rows["samples"] if row["order"] == 0]

    ratio = held(run(change=change), run(change=change)).rows[0].ratio
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == (1.0, None, None)


def test_the_document_is_json_and_says_what_the_rows_say() -> None:
    result = held(run(), run(change=set_variant("tiled", status="crashed", reason="illegal access")))
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert document["exit_code"] == 5
    assert [row["status"] for row in document["rows"]] == [row.status for row in result.rows]
    tiled = next(row for row in document["rows"] if row["variant"] == "tiled")
    assert tiled["reason"] == "crashed (illegal access)"
    assert tiled["after_ns"] is None


def test_every_counter_is_in_the_metric_table() -> None:
    named = [name for spec in COUNTERS for name in (spec.metric, *spec.otherwise)]
    assert [name for name in named if name not in metrics.table()] == []
