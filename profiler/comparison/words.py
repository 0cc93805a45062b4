"""What the outputs of a comparison share: order of the rows, counts, the outcome in a line, numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.analysis import formatting
from profiler.comparison.gate import exit_code
from profiler.comparison.model import Cause, Comparison, CounterPair, Estimate, Noise, RowComparison, Settings, Times
from profiler.errors import Exit

VERDICT_TEXT: Mapping[str, str] = {
    "not_measured": "not measured",
    "counters_only": "counters only",
}
#: What each verdict means, for a reader who meets it first.
VERDICT_MEANING: Mapping[str, str] = {
    "regressed": "slower, beyond what noise does, and by more than the least effect",
    "improved": "faster, beyond what noise does, and by more than the least effect",
    "suspected": "moved by more than the least effect, but not shown side by side: measure again with --remeasure",
    "unchanged": "shown to lie within the equivalence margin, or identical code",
    "inconclusive": "neither a change nor its absence is shown",
    "incomparable": "the two sides were not measured alike",
    "new": "there is no such row before",
    "removed": "there is no such row after",
    "broken": "it failed, or its answers are wrong",
    "skipped": "its constraints leave it out on both sides",
    "not_measured": "a side has no times of its own",
    "counters_only": "one launch under a profiler: counters are compared, times are not judged",
}
REASON_TEXT: Mapping[str, str] = {
    "too_short": "too short",
    "few_samples": "too few samples",
}
EXPLANATION_TEXT: Mapping[str, str] = {
    "": "",
    "explained": "explained",
    "unexplained": "unexplained: suspect the environment",
    "latent": "latent regression",
    "identical": "identical code",
}
OUTCOME: Mapping[Exit, str] = {
    Exit.OK: "passed",
    Exit.FAILED: "regressed",
    Exit.USAGE: "unreadable input",
    Exit.NOTHING: "incomparable",
    Exit.SUSPECTED: "suspected or inconclusive",
    Exit.BROKEN: "broken, removed, or nothing measured",
}
KIND_TEXT: Mapping[str, str] = {
    "stored": "two stored runs",
    "side_by_side": "measured side by side",
    "self": "a run against itself",
    "counters_only": "counters only, no times are judged",
}
DESIGN_TEXT: Mapping[str, str] = {
    "stored": "times taken in separate sessions",
    "two_process": "interleaved pairs of processes",
    "in_process": "both sides in one process, launches shuffled",
}
_ORDER = (
    "incomparable", "broken", "removed", "not_measured", "regressed", "suspected", "inconclusive", "counters_only",
    "improved", "unchanged", "new", "skipped",
)  # fmt: skip
_UNITS = {"byte": "B", "register": "", "1": "", "inst": "", "sector": "", "block": "", "thread": "", "bit": " bit"}


_MOVED = frozenset({"regressed", "suspected", "improved", "counters_only"})


def shows_causes(row: RowComparison) -> bool:
    """Whether an output tells a row's causes: it moved, its causes explain it, or they are a latent regression."""
    return row.verdict in _MOVED or row.explanation in ("explained", "latent")


def worst_first(rows: Sequence[RowComparison]) -> list[RowComparison]:
    """Return the rows by what they mean for the exit code, the largest slowdown first within a verdict."""

    def key(row: RowComparison) -> tuple[int, bool, bool, float]:
        place = _ORDER.index(row.verdict) if row.verdict in _ORDER else -1
        return (place, row.direction == "faster", row.explanation != "latent", -(row.ratio.value if row.ratio else 0.0))

    return sorted(rows, key=key)


def verdict(row: RowComparison) -> str:
    """Return a row's verdict with what qualifies it: ``inconclusive (noise)``, ``unchanged, latent regression``."""
    text = VERDICT_TEXT.get(row.verdict, row.verdict)
    if row.verdict == "suspected" and row.direction:
        text += f" {row.direction}"
    if row.reason:
        text += f" ({REASON_TEXT.get(row.reason, row.reason)})"
    return text + (", latent regression" if row.explanation == "latent" else "")


def said(row: RowComparison) -> str:
    """Return a row's verdict with the sentence that says why, which may begin with the verdict itself."""
    text = verdict(row)
    if not row.words:
        return text
    return row.words if row.words.startswith(text) else f"{text}: {row.words}"


def counts(comparison: Comparison) -> list[tuple[str, int]]:
    """Return how many rows have each verdict, worst first."""
    found = comparison.counts
    known = [name for name in _ORDER if name in found]
    return [(VERDICT_TEXT.get(name, name), found[name]) for name in (*(n for n in found if n not in known), *known)]


def counts_line(comparison: Comparison) -> str:
    """Return the counts in a line: ``1 regressed, 12 unchanged, 1 of them a latent regression``."""
    text = ", ".join(f"{count} {name}" for name, count in counts(comparison)) or "no rows"
    latent = len(comparison.latent)
    return text + (f"; {latent} latent regression{'' if latent == 1 else 's'}" if latent else "")


def outcome(comparison: Comparison) -> str:
    """Return what the exit code says, in words: ``regressed (exit 1)``."""
    if comparison.same_run:
        return f"same {_what(comparison)} (exit {int(exit_code(comparison))})"
    code = exit_code(comparison)
    return f"{OUTCOME.get(code, 'not passed')} (exit {int(code)})"


def time(times: Times | None) -> str:
    """Return a side's time; empty when there is none."""
    return "" if times is None else formatting.time_ns(times.value_ns)


def ratio(estimate: Estimate | None) -> str:
    """Return a ratio with its interval: ``1.062 [1.055, 1.069]``."""
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def change(estimate: Estimate | None) -> str:
    """Return a ratio as a change of time: ``+6.2 %``."""
    return "" if estimate is None else f"{signed_percent(estimate.value - 1)}"


def signed_percent(share: float) -> str:
    """Return a share with its sign: ``+6.2 %``, ``−0.31 %``."""
    value = abs(100 * share)
    digits = 2 if value < 1 else 1 if value < 100 else 0
    sign = "+" if share > 0 else "−" if share < 0 else "±"
    return f"{sign}{value:.{digits}f} %"


def percent(share: float | None) -> str:
    """Return an effect or a margin: ``1.4 %``; empty when it is not known."""
    return "" if share is None else f"{formatting.number(100 * share, 2)} %"


def more(count: int, what: str) -> str:
    """Return how many things are left out: ``3 more differences``."""
    return f"{count} more {what}{'' if count == 1 else 's'}"


def noise(found: Noise | None) -> str:
    """Return a noise floor with where it comes from."""
    return "" if found is None else f"{percent(found.sd)} ({found.source})"


def share(cause: Cause) -> str:
    """Return a cause's predicted share of the change with what it rests on; empty where nothing predicts it."""
    if cause.share is None:
        return ""
    text = "under 1 %" if cause.share < 0.01 else f"{100 * cause.share:.0f} %"
    return f"{text} of the change ({cause.basis})" if cause.basis else f"{text} of the change"


def counter(pair: CounterPair) -> tuple[str, str, str]:
    """Return both values of a counter and their ratio as text; what is missing is empty."""
    texts = [_value(value, pair.unit) for value in (pair.before, pair.after)]
    return texts[0], texts[1], formatting.ratio(pair.ratio) if pair.ratio is not None else ""


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return formatting.time_ns(value * 1e9)
    if unit in ("%", "cycle", "warp"):
        return f"{formatting.number(value)} {unit}"
    if unit in ("B", "byte", "Hz"):
        return formatting.si(value, _UNITS.get(unit, unit), 4)
    if abs(value) >= 1e5:
        return formatting.si(value, "", 4).strip()
    return f"{value:.0f}" if value % 1 == 0 else formatting.number(value, 4)


def thresholds(settings: Settings) -> list[tuple[str, str, str]]:
    """Return the thresholds that were used: name, value, meaning."""
    return [
        ("least effect", percent(settings.min_effect), "no smaller change is flagged"),
        ("max regression", percent(settings.max_regression),
         "an inconclusive row passes where its interval excludes a slowdown above this"),
        ("equivalence margin", percent(settings.equivalence),
         "unchanged is claimed where the 90 % interval lies within this"),
        ("level of a flag", f"{settings.alpha_flag:g}", "its interval is the one that rows show"),
        ("level of each stage", f"{settings.alpha_stage:g}", "a flag takes two measurements that agree"),
        ("level of the comparison", f"{settings.alpha_family:g}", "Holm over all rows"),
        ("stored runs: least effect", percent(settings.stored_share),
         f"and {settings.stored_spreads:g} cross-session spreads; smaller ones are suspected at most"),
        ("controls", f"{settings.controls_needed}",
         f"steady ones, within {percent(settings.controls_agree)} of each other, that a stored verdict takes"),
        ("identical code", percent(settings.identical_share),
         f"and {settings.identical_floors:g} noise floors: beyond this the environment changed"),
        ("excluded samples", percent(settings.excluded_share),
         "more of them, throttled or beside another process, make a row inconclusive"),
    ]  # fmt: skip


def next_steps(comparison: Comparison, *, verbose: bool) -> list[str]:
    """Return what a reader in a terminal can do next: see more of this, or have times judged."""
    found = []
    if not verbose and any(row.counters for row in comparison.rows):
        found.append("-v lists every counter of both sides")
    if any(row.verdict == "counters_only" for row in comparison.rows) and not comparison.same_run:
        found.append("for a verdict on time, run_experiment measures each side, and compare_runs takes the two runs")
    return found


def notices(comparison: Comparison) -> list[str]:
    """Return what a reader must know before the first number: refusals, allowed mismatches, edits, the controls."""
    found = []
    if comparison.same_run:
        found.append(f"Before and after are the same {_what(comparison)}.")
    refused = [mismatch for mismatch in comparison.mismatches if mismatch.action == "refuse"]
    hint = ""
    if any(row.verdict == "incomparable" for row in comparison.rows):
        hint = f" {' '.join(f'--allow-mismatch {key}' for key in comparison.refused)} compares all the same."
    for mismatch in comparison.mismatches:
        if mismatch.before == mismatch.after:
            what = f"neither run states {mismatch.key}"
        else:
            what = f"{mismatch.key} differs: {mismatch.before or 'unknown'} before, {mismatch.after or 'unknown'} after"
        if mismatch.action == "refuse":
            found.append(f"Incomparable: {what}.{hint if mismatch is refused[-1] else ''}")
        elif mismatch.action == "allowed":
            found.append(f"Compared although {what} (--allow-mismatch {mismatch.key}).")
    if comparison.edited:
        found.append(f"Changed since they were written: {formatting.listed(comparison.edited)}.")
    return [*found, *comparison.notes]


def also_differs(comparison: Comparison) -> str:
    """Return, in a sentence, the facts that differ and refuse nothing; empty when there are none."""
    found = [str(mismatch) for mismatch in comparison.mismatches if mismatch.action == "warn"]
    return f"Also differs: {'; '.join(dict.fromkeys(found))}." if found else ""


def _what(comparison: Comparison) -> str:
    return "file" if comparison.kind == "counters_only" else "run"
