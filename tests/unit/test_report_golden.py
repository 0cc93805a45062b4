"""The analysis of a fixed run is what it was; ``scripts/update_golden.py`` writes it anew after a meant change."""

from __future__ import annotations

import json

import golden_report
import pytest

DOCUMENTS = golden_report.documents()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_analysis_is_unchanged(name: str) -> None:
    expected = json.loads((golden_report.FOLDER / name).read_text(encoding="utf-8"))
    assert DOCUMENTS[name] == expected


def test_every_golden_file_is_read() -> None:
    assert {path.name for path in golden_report.FOLDER.glob("*.json")} == set(DOCUMENTS)
