"""Markdown, JUnit, JSON, terminal: counts first, worst first, within their limits, and safe whatever the names are."""

from __future__ import annotations

import io
import json
import re
import time
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from compare_data import regression, row
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from profiler.comparison import terminal, words
from profiler.comparison.gate import exit_code
from profiler.comparison.json_report import CompareReport, json_schema, to_json
from profiler.comparison.junit import junit
from profiler.comparison.markdown import LIMIT, escape, markdown
from profiler.comparison.model import VERDICTS, Cause, Comparison, Diff, Mismatch, RowComparison

GOLDEN = Path(__file__).resolve().parent / "golden" / "comparison" / "regression.md"
EVIL = (
    "</script><script>alert(1)</script>", "a|b\\|c\\", "`code` ```fence", "@someone", "#12 [x](http://e.x) ![i](j)",
    "_x_ *y* ~z~ $m$", "line\nbreak\r\n| row |", "größe<!--😀-->", "nul\0\x1b[31m", "x" * 5000,
    "www.example.com :tada:",
)  # fmt: skip


def of(*rows: RowComparison, **more: object) -> Comparison:
    return replace(Comparison("before", "after", "stored", rows), **more)  # type: ignore[arg-type]


def many(count: int = 1000) -> Comparison:
    base = regression().rows[1]
    verdicts = ("unchanged", "regressed", "suspected", "improved", "inconclusive")
    rows = [
        replace(base, variant=f"variant_{i:04d}", verdict=verdicts[i % 5], reason="noise" if i % 5 == 4 else "")
        for i in range(count)
    ]
    return of(*rows)


def hostile() -> Comparison:
    cause = Cause("exact", "m", 1.0, 2.0, "1", 0.5, "worst at </script>|`@x`.cu:1", fault="spills")
    diff = Diff("a|b<`.cu", "@@ -1 +1 @@\n-```\n+````\n+</details><script>")
    rows = [
        row(name, "regressed", 1.3, causes=(cause,), diffs=(diff,), words=name, explanation="explained")
        for name in EVIL
    ]
    return of(
        *rows, before=EVIL[0], after=EVIL[1], notes=EVIL, mismatches=(Mismatch(EVIL[3], EVIL[0], EVIL[6], "warn"),)
    )


# --- Markdown -------------------------------------------------------------------------------------------------------


def test_markdown_of_a_regression_is_the_golden_one() -> None:
    assert markdown(regression()) == GOLDEN.read_text(encoding="utf-8")


def test_counts_come_first_and_the_worst_row_leads() -> None:
    lines = markdown(regression()).splitlines()
    assert lines[0] == "### 1 regressed, 1 suspected, 1 unchanged"
    assert lines[2].startswith("**regressed (exit 1)**")
    table = [line for line in lines if line.startswith("| ")][2:]
    assert [line.split("|")[2].strip() for line in table] == [
        "<code>transpose</code>", "<code>naive</code>", "<code>tile_2d</code>",
    ]  # fmt: skip


def test_a_thousand_rows_stay_within_the_limit_and_are_counted() -> None:
    start = time.perf_counter()
    text = markdown(many())
    assert time.perf_counter() - start < 2
    assert len(text) <= LIMIT
    assert text.startswith("### 200 regressed, 200 suspected, 200 inconclusive, 200 improved, 200 unchanged")
    shown = len([line for line in text.splitlines() if line.startswith("| ")]) - 2
    left = re.search(r"\*\*(\d+) more rows\*\*: (.*)\.", text)
    assert left is not None
    assert shown + int(left[1]) == 1000
    assert "unchanged" in left[2]
    assert re.search(r"Causes of \d+ more rows are in the HTML and JSON reports", text)
    assert text.rstrip().endswith("</sub>")


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8), st.integers(2000, 9000))
def test_any_input_stays_within_any_limit(texts: list[str], limit: int) -> None:
    cause = Cause("near", "m", None, None, "", None, texts[0])
    rows = [row(text, "regressed", 1.5, causes=(cause,) * 9, words=text, notes=tuple(texts)) for text in texts * 3]
    found = markdown(of(*rows, notes=tuple(texts * 20), before=texts[0] * 50), limit)
    assert len(found) <= limit
    assert found.startswith("### ")


@given(st.text())
def test_escaped_text_is_one_line_without_markup(text: str) -> None:
    found = escape(text, 10_000)
    assert not set(found) & set("|`<>\\*[]~$\n\r\0")
    assert not re.search(r"@\w|(?<!&)#\d", found)


def test_hostile_names_keep_the_table_whole() -> None:
    text = markdown(hostile())
    rows = [line for line in text.splitlines() if line.startswith("| 🔴")]
    assert len(rows) == len(EVIL)
    assert {line.count("|") for line in rows} == {9}
    outside = re.sub(r"(`{3,})diff\n.*?\n\1\n", "", text, flags=re.S)
    assert "<script" not in outside
    assert "@someone" not in outside
    assert len(re.findall(r"^`{5,}diff$", text, flags=re.M)) >= 1
    assert text.count("<details>") == text.count("</details>") - text.count("+</details><script>")


def test_refusals_edits_and_the_same_run_are_told() -> None:
    refused = of(row("k", "incomparable", None), mismatches=(Mismatch("cache", "cold", "warm", "refuse"),))
    assert "Incomparable: cache differs: cold before, warm after. --allow-mismatch cache" in markdown(refused)
    assert "**incomparable (exit 3)**" in markdown(refused)
    edited = of(row(), edited=("after: samples.parquet",))
    assert "Changed since they were written: after: samples.parquet." in markdown(edited)
    assert "**same run (exit 0)**" in markdown(of(row(), same_run=True))
    assert "### no rows" in markdown(of())


# --- JUnit ----------------------------------------------------------------------------------------------------------


def test_junit_says_what_failed() -> None:
    suite = ET.fromstring(junit(regression())).find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip
    failed = suite.find("testcase[failure]")
    assert failed is not None
    assert failed.get("name") == "transpose"
    failure = failed.find("failure")
    assert failure is not None
    assert "32-way bank conflicts" in (failure.text or "")
    assert "1.620 [1.612, 1.628]" in failure.get("message", "")


@pytest.mark.parametrize("verdict", [*VERDICTS, "unheard of"])
def test_every_verdict_has_its_kind_and_an_unknown_one_is_an_error(verdict: str) -> None:
    case = ET.fromstring(junit(of(row("k", verdict, None), row("ok")))).find("testsuite/testcase[@name='k']")
    assert case is not None
    kinds = {child.tag for child in case}
    expected = {
        "regressed": "failure", "suspected": "skipped", "inconclusive": "skipped", "skipped": "skipped",
        "improved": "system-out", "unchanged": "system-out", "new": "system-out", "counters_only": "system-out",
    }.get(verdict, "error")  # fmt: skip
    assert kinds == {expected}


def test_junit_is_well_formed_for_any_names() -> None:
    names = [case.get("name") for case in ET.fromstring(junit(hostile())).iter("testcase")]
    assert len(names) == len(EVIL)
    assert EVIL[0] in names


@given(st.text(), st.text())
def test_junit_parses_whatever_it_is_given(name: str, said: str) -> None:
    assert ET.fromstring(junit(of(row(name, "broken", None, words=said)))).get("errors") == "1"


@pytest.mark.parametrize(
    "comparison",
    [of(), of(row("k", "new", None)), of(row(), mismatches=(Mismatch("arch", "sm_90a", "sm_80", "refuse"),))],
)
def test_junit_fails_where_nothing_was_compared(comparison: Comparison) -> None:
    assert exit_code(comparison) != 0
    assert ET.fromstring(junit(comparison)).get("errors") == "1"


def test_a_latent_regression_fails_junit_only_on_request() -> None:
    latent = of(row("k", explanation="latent"))
    assert ET.fromstring(junit(latent)).get("failures") == "0"
    strict = replace(latent, settings=replace(latent.settings, fail_on_latent=True))
    assert ET.fromstring(junit(strict)).get("failures") == "1"


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_json_is_complete_and_reads_back() -> None:
    found = json.loads(json.dumps(to_json(regression()), allow_nan=False))
    assert (found["schema"], found["exit_code"], found["passed"]) == (1, 1, False)
    assert found["counts"] == {"regressed": 1, "suspected": 1, "unchanged": 1}
    assert [one["variant"] for one in found["rows"]] == ["transpose", "naive", "tile_2d"]
    assert found["rows"][0]["causes"][0]["fault"] == "bank_conflicts"
    again = CompareReport.model_validate(found)
    assert again.rows[0] == regression().rows[1]


def test_json_keeps_no_number_that_json_has_not() -> None:
    odd = replace(row("k", "inconclusive", 1.0), p=float("nan"), detectable=float("inf"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = to_json(of(odd))
    assert found["rows"][0]["p"] is None
    json.dumps(found, allow_nan=False)


def test_the_schema_names_every_key_of_the_document() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(to_json(regression()))
    row_schema = schema["$defs"]["RowComparison"]["properties"]
    assert set(row_schema) == set(to_json(regression())["rows"][0])


# --- terminal -------------------------------------------------------------------------------------------------------


def printed(comparison: Comparison, *, verbose: bool = False, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in terminal.tables(comparison, verbose=verbose):
        console.print(part)
    console.print(terminal.outcome_line(comparison))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_the_terminal_ends_with_the_outcome_and_names_the_cause() -> None:
    text = printed(regression())
    assert text.splitlines()[-1] == "regressed (exit 1): 1 regressed, 1 suspected, 1 unchanged"
    assert "transpose at 4096³: explained" in text
    assert "32-way bank conflicts" in text
    assert "Also differs: driver: 580.1 before, 590.2 after." in text
    assert "94 % of the change (roofline: shared memory at its peak rate)" in " ".join(text.split())


def test_the_terminal_says_where_verbose_shows_more() -> None:
    causes = tuple(Cause("exact", f"m{i}", 1.0, 2.0, "1", None, f"cause {i}") for i in range(5))
    one = of(row("k", "regressed", 1.3, causes=causes))
    assert "2 more differences (-v)" in printed(one)
    assert "cause 4" in printed(one, verbose=True)
    assert "(-v)" not in printed(one, verbose=True)
    assert "next:" not in printed(one)  # there are no counters to list


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_prints_names_as_text(width: int) -> None:
    text = printed(of(row("[bold]x[/bold]", "regressed", 1.3, words="slower in both stages")), width=width)
    assert "[bold]x[/bold]" in text
    assert "…" not in text
    for said in ("regressed", "1.300 [1.294, 1.306]", "slower in both stages"):
        assert said in " ".join(text.split())


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "text"), [(0.0621, "+6.2 %"), (-0.0031, "−0.31 %"), (0.0, "±0.00 %"), (9.03, "+903 %"), (1.0, "+100 %")]
)
def test_changes_keep_their_sign(share: float, text: str) -> None:
    assert words.signed_percent(share) == text


def test_every_verdict_has_a_meaning_and_a_place() -> None:
    assert set(words.VERDICT_MEANING) == set(VERDICTS)
    rows = [row(verdict, verdict, None) for verdict in ("unheard of", *reversed(VERDICTS))]
    found = [one.verdict for one in words.worst_first(rows)]
    assert found[0] == "unheard of"
    assert found.index("regressed") < found.index("suspected") < found.index("improved") < found.index("unchanged")


def test_within_a_verdict_the_largest_slowdown_comes_first() -> None:
    rows = [row("a", "regressed", 1.1), row("b", "regressed", 1.9), row("c", "suspected", 0.8, direction="faster")]
    assert [one.variant for one in words.worst_first(rows)] == ["b", "a", "c"]
