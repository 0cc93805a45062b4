"""Times of programs stand apart from event times: their ratios, their ranks, what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import RunData
from profiler.analysis.verdicts import verdict_lines

SIZE = "M=64,N=64,K=64"


def sample(name: str, method: str, time_ns: float, process: int = 0, order: int = 0) -> dict[str, Any]:
    return {"variant": name, "size": SIZE, "method": method, "cache": "cold" if method == "single" else "own",
            "time_ns": time_ns, "process": process, "order": order, "foreign": False, "launches": 1,
            "sm_clock_mhz": None, "throttle": ""}  # fmt: skip


def variant(name: str, kind: str, order: int, **changed: Any) -> dict[str, Any]:
    verified = "unverified" if kind == "command" else "yes"
    return {"name": name, "dtype": "fp32", "kind": kind, "status": "ok", "reason": "", "verified": verified,
            "origin": "measured", "order": order, "idea": "", "params": "{}", **changed}  # fmt: skip


def run_of(*, traced: dict[str, float], printed: dict[str, float], baseline: str = "vendor") -> RunData:
    """A rung and the vendor with event times of 100 and 80; programs and traces as they are given."""
    names = ["rung", "vendor"]
    variants = [variant(name, "cuda", place) for place, name in enumerate(names)]
    programs = [name for name in {**traced, **printed} if name not in names]
    variants += [variant(name, "command", 2 + place) for place, name in enumerate(programs)]
    samples = [sample(name, "single", time, order=order) for order in range(9)
               for name, time in (("rung", 100.0), ("vendor", 80.0))]  # fmt: skip
    for method, times in (("trace", traced), ("printed", printed)):
        samples += [sample(name, method, time, process) for name, time in times.items() for process in range(6)]
    manifest = {"problem": {"sizes": [SIZE], "flops": {SIZE: 524288}, "min_bytes": {"fp32": {SIZE: 49152}}},
                "baseline": {"fp32": baseline}, "timing": {"cache": "cold"}}  # fmt: skip
    return RunData(manifest, {"variants": variants, "samples": samples})


def test_traced_times_rank_among_themselves_and_never_with_event_times() -> None:
    data = run_of(traced={"rung": 95.0, "vendor": 75.0, "theirs": 50.0}, printed={})
    rows = {row.variant: row for row in ladder_rows(data)}
    theirs = rows["theirs"]
    assert (theirs.time, theirs.rate, theirs.ratio, theirs.rank) == (None, None, None, None)
    assert theirs.own is not None
    assert theirs.own.ratio is not None
    assert theirs.own.ratio.value == pytest.approx(1.5)
    assert theirs.own.ratio.low is not None
    assert [rows[name].own.rank for name in ("theirs", "vendor", "rung")] == [1, 2, 3]  # type: ignore[union-attr]
    assert [rows[name].rank for name in ("vendor", "rung")] == [1, 2]
    assert rows["rung"].time is not None
    assert rows["rung"].time.value == pytest.approx(100.0)  # its trace is no part of it
    assert rows["rung"].time.samples == 9


def test_without_a_traced_baseline_nothing_ranks_and_the_reason_is_said() -> None:
    rows = {row.variant: row for row in ladder_rows(run_of(traced={"theirs": 50.0}, printed={}))}
    own = rows["theirs"].own
    assert own is not None
    assert (own.ratio, own.rank, own.ratio_why) == (None, None, "the baseline vendor has no traced time")


def test_a_printed_time_meets_neither_traces_nor_events() -> None:
    data = run_of(traced={"vendor": 75.0}, printed={"theirs": 50.0})
    rows = {row.variant: row for row in ladder_rows(data)}
    own = rows["theirs"].own
    assert own is not None
    assert (own.method, own.ratio, own.rank) == ("printed", None, None)
    assert own.ratio_why == "the baseline vendor has no printed time"
    said = next(
        line for line in verdict_lines(data, list(rows.values())) if line.startswith("theirs, a program, takes ")
    )
    assert said.endswith("(printed; its answer is unverified).")


def test_programs_that_print_are_held_against_the_ideal_that_prints() -> None:
    data = run_of(traced={}, printed={"loop": 50.0, "ideal": 40.0}, baseline="ideal")
    rows = {row.variant: row for row in ladder_rows(data)}
    loop = rows["loop"].own
    assert loop is not None
    assert loop.ratio is not None
    assert loop.ratio.value == pytest.approx(0.8)
    assert loop.rank is None
    assert rows["rung"].ratio is None  # the ideal has no event time


def test_a_failed_program_has_no_time() -> None:
    data = run_of(traced={}, printed={"theirs": 50.0})
    broken = [row | {"status": "launch_failed"} if row["name"] == "theirs" else row for row in data.rows["variants"]]
    rows = {row.variant: row for row in ladder_rows(RunData(data.manifest, {**data.rows, "variants": broken}))}
    assert rows["theirs"].own is None


def test_the_verdict_speaks_of_the_program_that_can_be_compared() -> None:
    data = run_of(traced={"kernel": 10.0}, printed={"loop": 50.0, "ideal": 40.0}, baseline="ideal")
    lines = [line for line in verdict_lines(data, ladder_rows(data)) if "a program" in line]
    assert len(lines) == 1
    assert lines[0].startswith("loop, a program, takes ")
    assert "of ideal measured the same way" in lines[0]
