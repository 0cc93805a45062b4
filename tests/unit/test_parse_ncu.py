"""Nsight Compute's values -> frames: on real reports, and on values bent in every way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import frames
from profiler.metrics import METRICS, STALL_REASONS, requests
from profiler.ncu_command import DOMAIN, range_name
from profiler.parse.ncu import (
    RawLaunch,
    RawReport,
    latency_remark,
    metric_rows,
    places_by_name,
    places_by_range,
    plain_text,
    reason_rows,
    rows_of_report,
    rule_rows,
    source_rows,
    stall_rows,
    to_si,
)
from tests.unit.ncu_samples import FULL, LADDER, OTHERS, report, rows

GOLDEN = Path(__file__).parent / "golden_ncu"
N, M = 2048, 4096  # the FP32 launches of the samples are N^3, the BF16 and FP8 ones M^3
KEY = {"variant": "v", "size": "M=1", "launch": 0, "kernel": "k"}
WHY = {"not_collected", "not_supported", "not_applicable", "failed"}


def made(scalars: dict[str, Any], **others: Any) -> RawLaunch:
    """Return a launch with these values."""
    return RawLaunch("k", "k", "k", (), scalars, **others)


def values(name: str) -> dict[str, list[Any]]:
    """Return a sample's metrics: by name, one value, text or reason per launch."""
    found: dict[str, list[Any]] = {}
    for row in rows(name).metrics:
        found.setdefault(row["metric"], []).append(row.get("value", row.get("text", row.get("why"))))
    return found


# ---- real reports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LADDER, FULL, *OTHERS])
def test_golden(name: str) -> None:
    wanted = json.loads((GOLDEN / (Path(name).name.removesuffix(".ncu-rep") + ".json")).read_text())
    got = rows(name)
    assert {kind: len(listed) for kind, listed in got.frames().items()} == wanted["rows"]
    assert got.remarks == wanted["remarks"]
    now = values(name)
    assert now.keys() >= {name for name, one in METRICS.items() if one.asked}
    assert now.keys() == wanted["metrics"].keys()
    for metric, expected in wanted["metrics"].items():
        assert now[metric] == [pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for v in expected], metric


@pytest.mark.parametrize("name", [LADDER, FULL, *OTHERS])
def test_rows_fit_the_frames(name: str) -> None:
    for frame, listed in rows(name).frames().items():
        assert len(frames.frame(frame, listed)) == len(listed)


@pytest.mark.parametrize("name", [LADDER, FULL, *OTHERS])
def test_a_row_has_a_value_or_a_reason(name: str) -> None:
    for row in rows(name).metrics:
        has = [key for key in ("value", "text", "why") if row.get(key) is not None]
        assert len(has) == 1, row
        assert "why" not in row or row["why"] in WHY


@pytest.mark.parametrize("name", OTHERS)
def test_no_zero_is_invented(name: str) -> None:
    """With the report's own zeros taken away no metric is 0, but for the difference of two equal counts."""
    for launch in report(name).launches:
        kept = {n: pair for n, pair in launch.scalars.items() if pair is None or pair[0] != 0}
        zeros = {row["metric"] for row in metric_rows(made(kept), KEY, None) if row.get("value") == 0}
        assert zeros <= {"global_sectors_excess", "shared_wavefronts_excess"}


def test_operations_are_exact() -> None:
    now = values(LADDER)
    assert now["ffma_instructions"][:3] == [N**3] * 3
    assert now["fp32_flop"][:2] == [2 * N**3] * 2
    assert now["tensor_ops_bf16"] == [0, 0, 0, 2 * M**3, 0]
    assert now["tensor_ops_bf16_hgmma"] == [0, 0, 0, 2 * M**3, 0]
    assert now["tensor_ops_fp8"] == [0, 0, 0, 0, 2 * M**3]
    assert values(FULL)["fp32_flop"] == [pytest.approx(2 * N**3, rel=1e-12)] * 2


def test_roofs_at_the_clock_of_the_pass() -> None:
    now = values(LADDER)
    for i in range(5):
        clock = now["sm_clock"][i]
        assert now["roof.ffma"][i] == pytest.approx(2 * 16896 * clock)
        assert now["roof.shared"][i] == now["roof.l1"][i] == pytest.approx(132 * 128 * clock)
        assert now["roof.hgmma_bf16"][i] == pytest.approx(540672 * clock)
        assert now["roof.hmma_bf16"][i] == pytest.approx(360448 * clock)
        assert now["roof.fp8"][i] == pytest.approx(1081344 * clock)
        assert now["roof.dmma_fp64"][i] == pytest.approx(33792 * clock)
        assert now["roof.dram"][i] == pytest.approx(1504 * now["dram_clock"][i])
    assert now["roof.l2"] == ["not_collected"] * 5  # not the tag rate of 282 sectors, which is no roof
    full = values(FULL)
    assert full["roof.l2"] == [pytest.approx(188 * 32 * clock) for clock in full["l2_clock"]]
    assert [round(v / 1e12, 1) for v in (full["roof.hgmma_bf16"][0], full["roof.hmma_fp16"][0])] == [1068.6, 712.4]


def test_shared_memory_is_a_level_of_its_own() -> None:
    now = values(FULL)
    use = [now["shared_bandwidth"][i] / now["roof.shared"][i] for i in range(2)]
    assert use == [pytest.approx(0.0, abs=1e-3), pytest.approx(0.881, abs=1e-3)]
    assert now["l1_bandwidth"][0] / now["roof.l1"][0] == pytest.approx(now["l1_pipe_utilization"][0] / 100, rel=0.01)


def test_the_two_sets_agree_on_the_same_kernels() -> None:
    one, other = values(LADDER), values(FULL)
    for name, tolerance in [
        ("dram_bytes", 0.02), ("l2_bytes", 0.02), ("l1_bytes", 0.01), ("shared_wavefronts", 0.001),
        ("ffma_instructions", 1e-9), ("warp_latency", 0.01), ("instructions", 0), ("roof.ffma", 0.01),
    ]:  # fmt: skip
        for i in range(2):
            assert other[name][i] == pytest.approx(one[name][i], rel=tolerance), name


def test_identity_of_time() -> None:
    now = values(LADDER)
    for i in range(5):
        rebuilt = (
            now["instructions_per_scheduler"][i] * now["warp_latency"][i] / now["warps_per_scheduler"][i]
            / now["active_share"][i] / now["sm_clock"][i]
        )  # fmt: skip
        assert rebuilt == pytest.approx(now["duration"][i], rel=0.002)
    assert [round(v, 3) for v in now["active_share"]] == [0.977, 0.982, 0.957, 0.954, 0.940]


def test_stalls_add_up_and_share_one_set_of_names() -> None:
    names = {reason.name for reason in STALL_REASONS}
    got = rows(LADDER)
    latency = values(LADDER)["warp_latency"]
    for i, place in enumerate(places_by_name(report(LADDER)).values()):
        mine = [row for row in got.stalls if row["variant"] == place.variant]
        assert {row["reason"] for row in mine} == names
        assert sum(row["cycles_per_issue"] for row in mine) == pytest.approx(latency[i], rel=0.01)
        assert sum(row["samples"] for row in mine) == values(LADDER)["pc_samples"][i]
    naive = {row["reason"]: row for row in got.stalls if row["variant"] == "launch_naive"}
    assert naive["lg_throttle"]["cycles_per_issue"] == pytest.approx(13.9, abs=0.1)
    assert naive["lg_throttle"]["samples"] == 131578
    bf16 = {row["reason"]: row for row in got.stalls if row["variant"] == "cublas_bf16"}
    assert bf16["gmma"]["samples"] == 3802
    assert len([row for row in rows(OTHERS[0]).stalls]) == 18  # Ampere has no gmma
    assert not rows(OTHERS[1]).stalls


def test_source_lines() -> None:
    smem = [row for row in rows(LADDER).source if row["variant"] == "launch_smem"]
    assert min(row["pc"] for row in smem) == 0
    assert {row["file"].rsplit("/")[-1] for row in smem} == {"k.cu"}
    hottest = max(smem, key=lambda row: row["samples"] or 0)
    assert hottest["sass"] == "STS [R17], R22"
    assert hottest["samples"] == sum(json.loads(hottest["samples_by_reason"]).values()) == 34322
    assert (hottest["shared_wavefronts"], hottest["excess"]) == (8388608, 0)
    assert sum(row["samples"] or 0 for row in smem) == values(LADDER)["pc_samples"][1]
    cublas = [row for row in rows(LADDER).source if row["variant"] == "cublas_fp32"]
    assert sum(row["excess"] or 0 for row in cublas) == values(LADDER)["shared_wavefronts_excess"][2] == 10485780
    bf16 = [row for row in rows(LADDER).source if row["variant"] == "cublas_bf16"]
    assert any("gmma" in (row["samples_by_reason"] or "") for row in bf16)
    assert not any("warpgroup_arrive" in (row["samples_by_reason"] or "") for row in bf16)
    assert all(row["executed"] or row["samples"] for row in rows(LADDER).source)


def test_rules_are_plain_text_with_their_kind() -> None:
    got = rows(FULL).rules
    by_rule = {(row["variant"], row["rule"], row["kind"]): row for row in got}
    lg = by_rule["launch_naive", "CPIStall", "global"]
    assert lg["title"] == "Lg Throttle Stalls"
    assert lg["speedup"] == pytest.approx(25.68, abs=0.01)
    assert by_rule["launch_smem", "HighPipeUtilization", "local"]["speedup"] == pytest.approx(85.05, abs=0.01)
    assert not [row for row in got if "@" in row["message"]]
    assert all(row["kind"] is None or row["speedup"] > 0 for row in got)
    assert len(rows(LADDER).rules) == 1  # a rule without a message is not advice
    old = rows(OTHERS[0]).rules
    assert any("at PC 0x1483b1454ae0" in row["message"] for row in old)
    assert {row["kind"] for row in old} == {None}


def test_launches_of_one_name_are_numbered() -> None:
    places = places_by_name(report(OTHERS[1]))
    name = "distanceCalculationsKernel"
    assert [(p.variant, p.launch) for p in places.values()] == [
        (name, 0), (f"{name} #2", 1), (f"{name} #3", 2), (f"{name} #4", 3),
    ]  # fmt: skip


def test_launches_from_elsewhere_have_names_of_their_own() -> None:
    def launch(function: str, *ranges: str) -> RawLaunch:
        return RawLaunch(function, f"{function}()", function, (("d", ranges, ()),) if ranges else (), {})

    raw = RawReport(
        (launch("k"), launch("a", "step", "mine"), launch("k", "step"), launch("j", "step"), launch("k #2"),
         launch("k"), launch("", ""), launch("a", "mine"))
    )  # fmt: skip
    assert [place.variant for place in places_by_name(raw).values()] == [
        "k", "mine", "step: k", "step: j", "k #2", "k #3", "launch #2", "mine #2",
    ]  # fmt: skip


# ---- made values -----------------------------------------------------------------------------------------------------


def test_places_follow_the_range_not_the_position() -> None:
    ranges = {range_name(i): (f"v{i}", "s") for i in range(3)}

    def launch(*names: str, domain: str = DOMAIN) -> RawLaunch:
        return RawLaunch("k", "k", "k", ((domain, names, ()),), {})

    raw = RawReport(
        (launch("kl.0002"), launch("kl.0000"), launch("kl.0002"), launch("kl.0001", domain="other"), launch("kl.0009"),
         launch())
    )  # fmt: skip
    places = places_by_range(raw, DOMAIN, ranges)
    assert {n: (p.variant, p.size, p.launch) for n, p in places.items()} == {
        0: ("v2", "s", 0), 1: ("v0", "s", 0), 2: ("v2", "s", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (12582912, "byte", (12582912, "B")), (12.582912, "Mbyte", (12582912, "B")), (1.5, "us", (1.5e-6, "s")),
        (1500, "nsecond", (1.5e-6, "s")), (1.98, "cycle/nsecond", (1.98e9, "Hz")), (1.98, "Ghz", (1.98e9, "Hz")),
        (4.2, "Gbyte/second", (4.2e9, "B/s")), (50.0, "%", (50.0, "%")), (3, "furlong", (3, "furlong")),
    ],
)  # fmt: skip
def test_units(value: float, unit: str, expected: tuple[float, str]) -> None:
    got = to_si(value, unit)
    assert got == (pytest.approx(expected[0]), expected[1])


def why_of(scalars: dict[str, Any], metric: str, available: set[str] | None = None) -> Any:
    row = next(row for row in metric_rows(made(scalars), KEY, available) if row["metric"] == metric)
    return row.get("why", row.get("value"))


def test_reasons_of_absence() -> None:
    assert why_of({}, "dram_bytes") == "not_collected"
    assert why_of({"dram__bytes_read.sum": None, "dram__bytes_write.sum": (1, "byte")}, "dram_bytes") == "failed"
    assert why_of({"dram__bytes_read.sum": (math.nan, "byte")}, "dram_bytes_read") == "failed"
    assert why_of({}, "pipe_fmaheavy", {"sm__warps_active"}) == "not_supported"
    assert why_of({}, "pipe_fmaheavy", {"sm__pipe_fmaheavy_cycles_active"}) == "not_collected"
    assert why_of({}, "registers", {"sm__warps_active"}) == "not_collected"
    nothing = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": (0, "sector"),
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": (0, ""),
    }
    assert why_of(nothing, "sectors_per_load_request") == "not_applicable"
    assert why_of(nothing, "global_load_sectors") == 0
    bytes_used = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    assert why_of({bytes_used: (0.0, "byte/sector")}, "bytes_used_per_load_sector") == "not_applicable"
    assert why_of({"gpu__time_duration.sum": (0.0, "ns")}, "duration") == "failed"
    assert why_of({"device__attribute_display_name": (7, "")}, "gpu_name") == "failed"
    assert why_of({"launch__registers_per_thread": ("n/a", "")}, "registers") == "failed"


def test_values_out_of_range_are_kept() -> None:
    over = {"sm__warps_active.avg.pct_of_peak_sustained_active": (100.66, "%")}
    assert why_of(over, "achieved_occupancy") == 100.66
    below = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": (-4.6e-05, "%")}
    assert why_of(below, "pipe_tensor") == -4.6e-05


def test_files_of_2019_have_no_units() -> None:
    assert why_of({"gpu__time_duration": (1500.0, "")}, "duration") == pytest.approx(1.5e-6)


def test_extra_metrics_keep_ncu_names_behind_a_prefix() -> None:
    launch = made({"idc__requests.sum": (5, ""), "x__bytes.sum": (2, "Kbyte"), "y__name": ("abc", "")})
    got = metric_rows(launch, KEY, {"idc__requests"}, ["idc__requests.sum", "x__bytes.sum", "y__name", "z__gone.sum"])
    extra = {row["metric"]: row for row in got if row["metric"].startswith("ncu.")}
    assert extra["ncu.idc__requests.sum"]["value"] == 5
    assert (extra["ncu.x__bytes.sum"]["value"], extra["ncu.x__bytes.sum"]["unit"]) == (2000, "B")
    assert extra["ncu.y__name"]["text"] == "abc"
    assert extra["ncu.z__gone.sum"]["why"] == "not_supported"
    assert not [row for row in got if "__" in row["metric"] and not row["metric"].startswith("ncu.")]


def test_reason_rows() -> None:
    got = reason_rows({"variant": "v", "size": "s"}, ["duration"], "not_permitted")
    assert got == [
        {"variant": "v", "size": "s", "metric": "duration", "unit": "s", "origin": "ncu", "why": "not_permitted"}
    ]


def test_latency_remark() -> None:
    latency = {"smsp__average_warp_latency_per_inst_issued.ratio": (10.0, "cycle")}
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    parts = {stall.format("wait"): (4.0, "inst"), stall.format("barrier"): (5.95, "inst")}
    assert latency_remark(made(latency | parts)) == ""
    assert "9.000" in latency_remark(made(latency | parts | {stall.format("barrier"): (5.0, "inst")}))
    assert latency_remark(made(latency)) == ""
    assert latency_remark(made(parts)) == ""
    assert latency_remark(made(latency | parts | {stall.format("wait"): None})) == ""


def test_stalls_from_samples_alone() -> None:
    name = "smsp__pcsamp_warps_issue_stalled_no_instructions"
    got = stall_rows(made({name: (7, "inst"), f"{name}_not_issued": (3, "inst")}), KEY)
    assert got == [{**KEY, "reason": "no_instruction", "cycles_per_issue": None, "samples": 7}]


@pytest.mark.parametrize(
    ("markup", "plain"),
    [
        ("See @section:SourceCounters:Source Counters@ here", "See Source Counters here"),
        ("The @url:Best Practices:https://docs.nvidia.com/x/index.html#a@ has", "The Best Practices has"),
        ("at PC @source:1483b1454ae0:0x1483b1454ae0@", "at PC 0x1483b1454ae0"),
        ("one\\ntwo\n  three", "one two three"),
        ("mail a@b.c or x @ y", "mail a@b.c or x @ y"),
        ("<b>&", "<b>&"),
    ],
)  # fmt: skip
def test_plain_text(markup: str, plain: str) -> None:
    assert plain_text(markup) == plain


def test_rules_without_optional_keys() -> None:
    launch = made({}, rules=({}, {"rule_message": {"message": "x"}}, {"rule_message": None}))
    (row,) = rule_rows(launch, KEY)
    assert row.keys() == set(frames.columns("rules"))
    assert (row["message"], row["rule"], row["kind"], row["speedup"]) == ("x", "", None, None)


def test_no_source_table() -> None:
    assert source_rows(made({}), KEY) == []


ANY = st.one_of(
    st.none(),
    st.tuples(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(), st.text(max_size=5)),
        st.sampled_from(["", "ns", "byte", "hz", "%", "inst", "furlong"]),
    ),
)
NAMES = sorted({*requests(), *(n for one in METRICS.values() for f in one.source for n in f.split() if "__" in n)})


@given(st.dictionaries(st.sampled_from(NAMES), ANY, max_size=60), st.booleans())
def test_bent_values_give_finite_numbers_or_reasons(scalars: dict[str, Any], known: bool) -> None:
    available = {name.partition(".")[0] for name in list(scalars)[::2]} if known else None
    raw = RawReport((made(scalars),))
    got = rows_of_report(raw, places_by_name(raw), available=available)
    for row in got.metrics:
        has = [key for key in ("value", "text", "why") if row.get(key) is not None]
        assert len(has) == 1
        if has == ["value"]:
            assert math.isfinite(row["value"])
        if has == ["why"]:
            assert row["why"] in WHY
    for name, listed in got.frames().items():
        assert len(frames.frame(name, listed)) == len(listed)


@given(st.sampled_from(NAMES), st.integers(1, 10**6))
def test_a_lost_value_never_becomes_a_number(name: str, seed: int) -> None:
    """Take one value away from a full launch: what was made from it alone has a reason, and nothing turns to 0."""
    full = {n: (float(1 + (seed * (i + 7)) % 99991), "") for i, n in enumerate(NAMES)}
    before = {row["metric"]: row.get("value") for row in metric_rows(made(full), KEY, None)}
    after = {row["metric"]: row.get("value") for row in metric_rows(made({**full, name: None}), KEY, None)}
    for metric, value in after.items():
        direct = METRICS[metric].source == (name,)
        assert not (direct and value is not None)
        assert value != 0 or before[metric] == 0
