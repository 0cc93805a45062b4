"""The verdict in words: of each contract the fastest rung against its baseline, what ties with it, and other sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.leads import Lead, elsewhere, leads, name_text
from profiler.analysis.own_times import own_verdict
from profiler.analysis.roofline import Limit
from profiler.analysis.rundata import RunData
from profiler.frames import SKIPPED

#: Two variants of one process differ by this share for reasons of their place in it (alignment, order); a ratio nearer
#: to one is called a match.
_NO_DIFFERENCE = 0.005


@dataclass(frozen=True)
class Verdict:
    """One contract's sentences: the fastest rung against its baseline at the main size, and what other sizes say."""

    dtype: str
    size: str
    row: LadderRow
    ratio: str  #: ``0.86×``, or the rate when there is no baseline to compare with
    sentence: str
    lead: Lead
    elsewhere: str  #: whether another rung is the fastest at another size; empty where there is one size only

    @property
    def sentences(self) -> list[str]:
        """What it says, a line each."""
        return [self.sentence, *([self.elsewhere] if self.elsewhere else [])]


def verdicts(data: RunData, fastest: Mapping[tuple[str, str], Lead]) -> list[Verdict]:
    """Return one verdict per contract that has a timed rung at the main size, in the order of the experiment.

    ``fastest``: what :func:`profiler.analysis.leads.leads` returns.
    """
    made = []
    for dtype in dict.fromkeys(dtype for dtype, _ in fastest):
        main = fastest.get((dtype, data.main_size))
        if main is None:
            continue
        others = [fastest[dtype, size] for size in data.sizes if size != data.main_size and (dtype, size) in fastest]
        figure, sentence = _said(main)
        made.append(Verdict(dtype, data.main_size, main.row, figure, sentence, main, elsewhere(main, others)))
    return made


def _said(lead: Lead) -> tuple[str, str]:
    """The figure of a lead and its sentence."""
    row = lead.row
    size = formatting.size(row.size)
    tied = f"{lead.tied_text}. " if lead.ties else ""
    tail = f"{_copy_sentence(row)}{_bound_sentence(row.limit)}."
    if row.ratio is None or row.baseline is None:
        time = formatting.time_ns(row.time.value) if row.time else ""
        figure = formatting.si(row.rate, row.rate_unit) if row.rate else time
        why = f" ({row.ratio_why})" if row.ratio_why else ""
        what = f"has the lowest {row.dtype} median" if lead.ties else f"is the fastest {row.dtype} variant"
        return figure, f"{tied}{name_text(row.variant)} {what} at {size}{why}{tail}"
    low, high = row.ratio.low, row.ratio.high
    verb = "reaches"
    if low is not None and high is not None:
        if low > 1 + _NO_DIFFERENCE:
            verb = "beats its baseline: it reaches"
        elif high >= 1 - _NO_DIFFERENCE:
            verb = "matches its baseline: it reaches"
    other = f" (which keeps another contract, {row.baseline_dtype})" if row.cross_contract else ""
    ratio = formatting.bounded_ratio(row.ratio.value, low, high)
    return (
        f"{formatting.number(row.ratio.value)}×",
        f"{tied}{name_text(row.variant)} {verb} {ratio} of {name_text(row.baseline)}{other} at {size}{tail}",
    )


def verdict_document(found: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return verdicts as JSON can carry them; ratios of tied rungs are their times over the leader's."""
    return [
        {
            "dtype": verdict.dtype,
            "size": verdict.size,
            "fastest": verdict.row.variant,
            "ties": [
                {"variant": t.row.variant, "ratio": t.ratio.value, "ratio_interval": [t.ratio.low, t.ratio.high]}
                for t in verdict.lead.ties
            ],
            "sentences": verdict.sentences,
        }
        for verdict in found
    ]


def _copy_sentence(row: LadderRow) -> str:
    if row.copy is None:
        return ""
    what = "copying" if row.copy.kind == "copy" else "only reading"
    return f", {formatting.percent(row.copy.share, 1)} of {what} the same bytes"


def _bound_sentence(limit: Limit) -> str:
    if limit.verdict == "near":
        return f"; bound by {limit.text}"
    if limit.verdict in ("between", "latency"):
        return f"; {'limited by' if limit.verdict == 'latency' else 'it uses'} {limit.text}"
    return ""


def fastest_programs(data: RunData, rows: Sequence[LadderRow]) -> list[LadderRow]:
    """Return the fastest program of each contract at the main size, of those with a ratio if any has one."""
    found = [r for r in rows if r.kind == "command" and r.own is not None and r.size == data.main_size]
    found = [r for r in found if not r.is_baseline]
    best: dict[str, LadderRow] = {}
    for row in sorted(found, key=lambda r: (r.own.ratio is None, r.own.time.value) if r.own else (True, math.inf)):
        best.setdefault(row.dtype, row)
    return list(best.values())


def verdict_lines(data: RunData, rows: Sequence[LadderRow]) -> list[str]:
    """Return the verdict as plain sentences."""
    return all_lines(data, rows, verdicts(data, leads(data, rows)))


def all_lines(data: RunData, rows: Sequence[LadderRow], found: Sequence[Verdict]) -> list[str]:
    """Return verdicts that are known as plain sentences, with what is said beside them."""
    return [line for verdict in found for line in verdict.sentences] + remarks(data, rows, found)


def remarks(data: RunData, rows: Sequence[LadderRow], found: Sequence[Verdict]) -> list[str]:
    """Return what is said beside the verdicts: of programs, of failures, and why there is no verdict at all."""
    lines = [own_verdict(row.variant, row.size, row.own) for row in fastest_programs(data, rows) if row.own]
    if not lines and not found:
        lines.append(_nothing_measured(data))
    failed = _failures(data)
    if failed and len({status for _, status in failed}) == 1 and len(failed) == len(data.variants):
        reasons = {str(row["reason"] or "") for row in data.variants}
        why = f": {reasons.pop()}" if len(reasons) == 1 and any(reasons) else ""
        whole = f"All {len(failed)} variants" if len(failed) > 1 else name_text(failed[0][0])
        lines.append(f"{whole}: {formatting.status(failed[0][1])}{why}.")
    elif failed:
        names = formatting.listed(f"{name_text(name)} ({formatting.status(status)})" for name, status in failed)
        lines.append(f"{len(failed)} of {len(data.variants)} variants {_has(failed)} no result: {names}.")
    return lines


def _has(items: Sequence[object]) -> str:
    return "has" if len(items) == 1 else "have"


def _failures(data: RunData) -> list[tuple[str, str]]:
    good = {"ok", "profile_failed", SKIPPED}
    return [(str(row["name"]), str(row["status"])) for row in data.variants if row["status"] not in good]


def _nothing_measured(data: RunData) -> str:
    stage = (data.manifest.get("stages") or {}).get("time") or {}
    reason = stage.get("reason") or ("there is no GPU here" if not (data.manifest.get("gpu") or {}).get("name") else "")
    built = sum(1 for row in data.variants if data.static(str(row["name"]), "ptxas.registers").value is not None)
    verb = "was analysed from its binary" if built == 1 else "were analysed from their binaries"
    tail = f" {built} of {len(data.variants)} variants {verb}." if built else ""
    return f"Nothing was timed{f': {reason}' if reason else ''}.{tail}"
