"""The rule and its rivals on the samples that ``scripts/noise_check.py`` took of a card: identical and slowed kernels.

``tests/data/noise/h200*.parquet`` are the files that the script wrote, the longest kernels in one of their own. The
same is held against simulated kernels, whose processes differ, so that what is said here is checked without them, too.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import rival_rules

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted((ROOT / "tests" / "data" / "noise").glob("h200*.parquet"))
needs_samples = pytest.mark.skipif(not RECORDED, reason="no samples of a card are kept in tests/data/noise")
Rule = Callable[[Any, Any], bool]
RIVALS: dict[str, Rule] = {"mann_whitney": rival_rules.mann_whitney, "nvbench": rival_rules.nvbench_legacy}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """Return the module that reads and judges the samples."""
    spec = importlib.util.spec_from_file_location("noise_tables", ROOT / "scripts" / "noise_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["noise_tables"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(tables: Any) -> tuple[Any, dict[str, Any]]:
    """Return the rows that can be judged, and the facts of the card."""
    files = [tables.read(path) for path in RECORDED]
    assert len({(facts["gpu"], facts["design"]) for _, facts in files}) == 1
    return {name: sides for rows, _ in files for name, sides in tables.whole(rows).items()}, files[0][1]


def share_flagged(rows: Any, rule: Rule, processes: int) -> float:
    """Return which part of the rows of identical code a rule flags, from the samples of so many processes a side."""
    flags = [
        rule(*(np.asarray([one["time_ns"] for one in side if one["process"] < processes]) for side in sides))
        for name, sides in rows.items()
        if name.startswith("same ")
    ]
    assert flags
    return sum(flags) / len(flags)


@needs_samples
def test_on_a_card_the_rule_keeps_what_is_promised(tables: Any, recorded: Any) -> None:
    rows, facts = recorded
    broken = [
        one for one in tables.promises(tables.judge_all(rows, facts["gpu"], facts["design"])) if one.kept is False
    ]
    assert not broken


@needs_samples
@pytest.mark.parametrize(("rival", "processes"), [("mann_whitney", 1), ("mann_whitney", 3), ("nvbench", 1)])
def test_on_a_card_rivals_flag_identical_code(recorded: Any, rival: str, processes: int) -> None:
    assert share_flagged(recorded[0], RIVALS[rival], processes) > 0.05


def simulated(rows: int) -> Any:
    """Return rows as a card's: processes differ by 0.3 %, samples within by 0.2 %; the last of five is 5 % slower."""
    rng = np.random.default_rng(4)
    found: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for index in range(rows):
        slow = index % 5 == 4
        name = f"{'slower by 5%' if slow else 'same'} 100us {index:04d}"
        found[name] = ([], [])
        for after, side in enumerate(found[name]):
            for process in (0, 1, 2, 1000, 1001, 1002, 1003, 1004):
                level = 1e5 * (1 + 0.05 * after * slow) * (1 + rng.normal(0, 0.003))
                side += [
                    {
                        "process": process,
                        "order": i,
                        "launches": 1,
                        "time_ns": round(level * (1 + rng.normal(0, 0.002))),
                    }
                    for i in range(8)
                ]
    return found


def test_the_same_on_simulated_kernels(tables: Any) -> None:
    rows = simulated(100)
    judged = tables.judge_all(tables.whole(rows), "NVIDIA H200", "two_process")
    assert [(one.length_us, one.permille) for one in judged] == [(100, 0)] * 80 + [(100, 50)] * 20
    assert not any(one.row.verdict in tables.FLAGS for one in judged if not one.permille)
    assert all(one.row.verdict == "regressed" for one in judged if one.permille)
    assert share_flagged(rows, rival_rules.mann_whitney, 1) > 0.5
    assert share_flagged(rows, rival_rules.nvbench_legacy, 1) > 0.3
    kept = {one.words: one.kept for one in tables.promises(judged)}
    assert kept["identical code: at most 1 of them flagged"] is True
    assert kept["identical code: at least 1500 rows"] is False
    assert kept["2 % slower at 100 us: 57 of 59 found"] is None


def test_rows_that_a_measurement_left_out_are_not_judged(tables: Any) -> None:
    rows = simulated(5)
    name = next(iter(rows))
    rows[name][1][:] = [one for one in rows[name][1] if one["process"] != 2]  # a pair takes both sides
    assert set(tables.whole(rows)) == set(rows) - {name}
