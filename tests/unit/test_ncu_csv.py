"""ncu's CSV in every shape that real files have: wide and long, with and without units, junk, locales, n/a."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.parse.ncu import metric_rows, places_by_name
from profiler.parse.ncu_csv import CsvReport, NotCsv, parse
from profiler.parse.ncu_pages import short_name
from profiler.parse.ncu_units import scaled

IDENTITY = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC"]  # fmt: skip
LONG = [*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
GEMM = "void gemm<(int)128, (int)64>(const float *, float *, int)"
KEY = {"variant": "v", "size": "", "launch": 0, "kernel": "k"}


def line(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def identity(number: int = 0, name: str = GEMM) -> list[str]:
    return [str(number), "12", "app", "secret-host", name, "1", "7", "(256, 1, 1)", "(32, 32, 1)", "0", "9.0"]


def wide(metrics: dict[str, tuple[str, str]], *, units: bool = True, rows: int = 1, name: str = GEMM) -> str:
    lines = [line([*IDENTITY, *metrics])]
    if units:
        lines.append(line([""] * len(IDENTITY) + [unit for unit, _ in metrics.values()]))
    lines += [line([*identity(i, name), *(value for _, value in metrics.values())]) for i in range(rows)]
    return "\n".join(lines) + "\n"


def long(*rows: tuple[str, str, str, str], name: str = GEMM) -> str:
    return "\n".join([line(LONG), *(line([*identity(0, name), *row]) for row in rows)]) + "\n"


def values(report: CsvReport, launch: int = 0) -> dict[str, object]:
    rows = metric_rows(report.report.launches[launch], KEY, None)
    return {row["metric"]: row.get("value", row.get("text", row.get("why"))) for row in rows}


def test_junk_before_between_and_after() -> None:
    rows = long(
        ("Command line profiler metrics", "gpu__time_duration.sum", "us", "1,234.56"),
        ("Command line profiler metrics", "dram__bytes.sum", "Mbyte", "12.58"),
    ).splitlines()
    text = "\r\n".join(
        [
            "==PROF== Connected to process 12 (/x)", 'max err = 1,2 "ok"', '\x1b[31mred\x1b[0m, "ID"', rows[0], rows[1],
            "iteration 3 done", "3, 4", "", rows[2], "==PROF== Disconnected from process 12", "\x00\ufffd, done",
        ]
    )  # fmt: skip
    report = parse("\ufeff" + text)
    assert report.page == "details"
    assert len(report.report.launches) == 1
    assert values(report)["duration"] == pytest.approx(1.23456e-3)
    assert values(report)["dram_bytes"] == pytest.approx(12.58e6)
    assert report.report.launches[0].function == "gemm"
    assert report.report.launches[0].demangled == GEMM


def test_wide_page_with_units() -> None:
    report = parse(
        wide(
            {
                "gpu__time_duration.sum": ("usecond", "5.50"),
                "dram__bytes_read.sum": ("Kbyte", "1,000.00"),
                "dram__bytes_write.sum": ("byte", "24"),
                "smsp__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.98"),
                "device__attribute_display_name": ("", "NVIDIA H200"),
                "launch__func_cache_config": ("", "CachePreferNone"),
                "breakdown:sm__throughput": ("", "1, 2,5"),
            },
            rows=3,
        )
    )
    assert (report.page, report.remarks, len(report.report.launches)) == ("raw", (), 3)
    now = values(report, 2)
    assert now["duration"] == pytest.approx(5.5e-6)
    assert now["dram_bytes"] == pytest.approx(1_000_024)
    assert now["sm_clock"] == pytest.approx(1.98e9)
    assert (now["gpu_name"], now["compute_capability"]) == ("NVIDIA H200", 9.0)
    assert (now["grid"], now["block"]) == (1024, 256)
    assert [place.variant for place in places_by_name(report.report).values()] == ["gemm", "gemm #2", "gemm #3"]
    assert "secret-host" not in repr(report)


def test_wide_page_without_units_says_what_is_assumed() -> None:
    report = parse(wide({"gpu__time_duration.sum": ("", "5500")}, units=False))
    assert values(report)["duration"] == pytest.approx(5.5e-6)
    assert "no row of units" in report.remarks[0]


@pytest.mark.parametrize("rows", [0])
@pytest.mark.parametrize("units", [True, False])
def test_no_kernels(rows: int, units: bool) -> None:
    with pytest.raises(NotCsv, match="holds no kernels"):
        parse(wide({"gpu__time_duration.sum": ("us", "1")}, units=units, rows=rows))


@pytest.mark.parametrize("word", ["n/a", "N/A", "nan", "inf", "no data"])
def test_what_is_not_available_is_not_zero(word: str) -> None:
    cells = {
        "gpu__time_duration.sum": ("us", "1"), "dram__bytes_read.sum": ("byte", word),
        "smsp__inst_executed.sum": ("inst", "0"), "lts__t_sectors.sum": ("sector", ""),
    }  # fmt: skip
    now = values(parse(wide(cells)))
    assert now["dram_bytes_read"] == "failed"
    assert now["dram_bytes"] == "failed"
    assert now["instructions"] == 0
    assert now["l2_sectors"] == "not_collected"


def test_the_same_quantity_in_any_unit() -> None:
    cases = [("byte", "12582912"), ("Kbyte", "12,582.91"), ("Mbyte", "12.58"), ("Gbyte", "0.0125829")]
    found = [values(parse(wide({"dram__bytes.sum": case})))["dram_bytes"] for case in cases]
    assert found == [pytest.approx(12582912, rel=1e-3)] * 4
    assert [scaled(unit) for unit in ("register/thread", "byte/block", "Kinst", "cycle/nsecond", "")] == [
        (1.0, "register/thread"), (1.0, "byte/block"), (1e3, "inst"), (1e9, "hz"), (1.0, ""),
    ]  # fmt: skip


def test_an_unknown_unit_is_left_out_and_said() -> None:
    report = parse(wide({"gpu__time_duration.sum": ("furlong", "3"), "smsp__inst_executed.sum": ("inst", "7")}))
    assert values(report)["duration"] == "failed"
    assert values(report)["instructions"] == 7
    assert report.remarks == ("the unit 'furlong' is not known: gpu__time_duration.sum is left out",)


@pytest.mark.parametrize(
    ("unit", "value", "reason"),
    [
        ("%", "65,77", "decimal comma"), ("Mbyte", "12,58", "decimal comma"), ("ns", "27.595.520", "dots between"),
        ("ns", "1.234,56", "decimal comma"), ("ns", "1 234 567", "other marks"), ("ns", "1'234", "other marks"),
        ("ns", "117.344", "ambiguous"),
    ],
)  # fmt: skip
def test_another_locale_is_refused_with_the_line(unit: str, value: str, reason: str) -> None:
    with pytest.raises(NotCsv, match=reason) as error:
        parse(wide({"smsp__inst_executed.sum": ("inst", "12"), "gpu__time_duration.sum": (unit, value)}))
    assert "line 3" in error.value.reason
    assert "LC_ALL=C" in error.value.hint


def test_a_fraction_of_three_digits_is_no_doubt_where_others_are_plain() -> None:
    report = parse(wide({"a.pct": ("%", "12.5"), "gpu__time_duration.sum": ("us", "9.344")}))
    assert values(report)["duration"] == pytest.approx(9.344e-6)
    assert values(parse(wide({"gpu__time_duration.sum": ("us", "9.344")})))["duration"] == pytest.approx(9.344e-6)


def test_details_page_with_rules_and_short_rows() -> None:
    header = [*LONG, "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
    name = "copy[abi:v1,cw51cXTLS](Array<long long, 1, C, mutable>, Array<long long, 1, C>)"
    sol = "GPU Speed Of Light Throughput"
    rows = [
        line(header),
        line([*identity(0, name), sol, "Duration", "nsecond", "12,345"]),
        line([*identity(0, name), sol, "Memory Throughput", "%", "71.25"]),
        line([*identity(0, name), "Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "887.91"]),
        line([*identity(0, name), "Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"]),
        line([*identity(0, name), "Occupancy", "", "", "", "CPIStall", "OPT", 'say "x", y', "global", "8.28"]),
    ]
    report = parse("\n".join(rows))
    now = values(report)
    assert (now["duration"], now["memory_throughput"]) == (pytest.approx(12345e-9), 71.25)
    assert now["dram_bandwidth"] == pytest.approx(887.91e9)
    launch = report.report.launches[0]
    assert launch.function == "copy"
    assert launch.rules[0]["rule_message"]["message"] == 'say "x", y'
    assert launch.rules[0]["speedup_estimation"] == {"type": 2, "speedup": 8.28}


def test_nvtx_columns() -> None:
    tail = "PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    nvtx = [f"thread Domain:Push/Pop_Range:{tail}", f"Id:Domain:Start/Stop_Range:{tail}"]
    header = [*IDENTITY[:4], *nvtx, *IDENTITY[4:], "a.pct"]
    cells = identity()
    text = "\n".join(line(row) for row in (
        header, [""] * (len(header) - 1) + ["%"],
        [*cells[:4], "<default domain>:launch_smem:none:none:none:none:none:none", "", *cells[4:], "5"],
    ))  # fmt: skip
    report = parse(text).report
    assert report.launches[0].ranges == (("<default domain>", ("launch_smem",), ()),)
    assert places_by_name(report)[0].variant == "launch_smem"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no line has the columns"),
        ("a,b,c\n1,2,3\n", "no line has the columns"),
        ("  k (1, 1, 1)\n    Section: GPU Speed Of Light\n    ------------- ---\n", "ncu's text page"),
        ("Time (%),Total Time (ns),Instances\n1,2,3\n", "nsys stats"),
    ],
)
def test_what_is_something_else(text: str, reason: str) -> None:
    with pytest.raises(NotCsv, match=reason) as error:
        parse(text)
    assert error.value.hint


def test_a_row_cut_short() -> None:
    text = wide({"gpu__time_duration.sum": ("us", "1"), "a.pct": ("%", "2")}, rows=2)
    with pytest.raises(NotCsv, match=r"line 4 has 12 of 13 cells"):
        parse(text[: text.rindex(",")])


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (GEMM, "gemm"), ("sgemm_naive", "sgemm_naive"), ("void ns::k<a::b<int>>(int)", "k"),
        ("void (anonymous namespace)::softmax<float, 4>(float *)", "softmax"), ("f(unsigned char*,int)", "f"),
        ("k[v1,cw51](Array<long long, 1, C>)", "k"), ("<>", "<>"), ("größe(int)", "größe"),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(NotCsv):
        parse(text)


def test_a_bent_file_is_read_or_refused() -> None:
    whole = wide({"gpu__time_duration.sum": ("us", "1.5"), "a.pct": ("%", "2")}, rows=3)
    chance = random.Random(7)
    read, reasons = 0, []
    for _ in range(400):
        letters = list(whole)
        for _ in range(3):
            letters[chance.randrange(len(letters))] = chance.choice('",\n0x\0(')
        try:
            read += len(parse("".join(letters)).report.launches) > 0
        except NotCsv as error:
            reasons.append(error.reason)
    assert read > 50
    assert reasons
    assert all(reason and "\n" not in reason for reason in reasons)
