"""A comparison as JSON, with the JSON Schema that it keeps."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler import __version__
from profiler.comparison.gate import exit_code
from profiler.comparison.model import Comparison, Control, Mismatch, RowComparison, Settings
from profiler.comparison.words import outcome, worst_first

#: Rises when a key changes its meaning or goes; new keys do not raise it.
SCHEMA_VERSION = 1


class CompareReport(BaseModel):
    """What ``compare_runs --json`` prints. Ratios are time after over time before; a null is not known, never zero."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null", populate_by_name=True)

    schema_version: Literal[1] = Field(default=1, alias="schema", description="Version of this document.")
    tool_version: str = Field(description="Version of kernel-ladder.")
    before: str = Field(description="The run that is held against, or its file.")
    after: str = Field(description="The run that is judged, or its file.")
    kind: Literal["stored", "side_by_side", "self", "counters_only"] = Field(description="Where the times come from.")
    design: Literal["stored", "two_process", "in_process"] = Field(description="How the two sides were interleaved.")
    exit_code: int = Field(description="0 passed, 1 regressed, 3 incomparable, 4 suspected or inconclusive, 5 broken.")
    outcome: str = Field(description="The exit code in words.")
    passed: bool = Field(description="Whether the exit code is 0.")
    counts: dict[str, int] = Field(description="Rows by verdict; verdicts without a row are left out.")
    latent: int = Field(description="Rows whose exact counters are worse at an unchanged time.")
    same_run: bool = Field(description="Whether before and after are one and the same.")
    refused: list[str] = Field(description="Keys that stand in the way of a comparison.")
    allowed: list[str] = Field(description="Keys whose mismatch was accepted.")
    edited: list[str] = Field(description="Files that no longer are what their run says.")
    drift: float | None = Field(description="The controls' median shift, as a ratio.")
    notes: list[str]
    facts: dict[str, str] = Field(description="What was held against what.")
    settings: Settings
    mismatches: list[Mismatch]
    controls: list[Control]
    rows: list[RowComparison] = Field(description="Worst first.")

    @classmethod
    def of(cls, comparison: Comparison) -> CompareReport:
        """Return the document of a comparison."""
        code = exit_code(comparison)
        return cls(
            tool_version=__version__,
            before=comparison.before,
            after=comparison.after,
            kind=comparison.kind,
            design=comparison.design,
            exit_code=int(code),
            outcome=outcome(comparison),
            passed=int(code) == 0,
            counts=comparison.counts,
            latent=len(comparison.latent),
            same_run=comparison.same_run,
            refused=list(comparison.refused),
            allowed=list(comparison.allowed),
            edited=list(comparison.edited),
            drift=comparison.drift,
            notes=list(comparison.notes),
            facts=dict(comparison.facts),
            settings=comparison.settings,
            mismatches=list(comparison.mismatches),
            controls=list(comparison.controls),
            rows=worst_first(comparison.rows),
        )


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as a JSON document; infinite and undefined numbers are null."""
    found: dict[str, Any] = _finite(CompareReport.of(comparison).model_dump(mode="json", by_alias=True))
    return found


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **CompareReport.model_json_schema(by_alias=True, mode="serialization"),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
