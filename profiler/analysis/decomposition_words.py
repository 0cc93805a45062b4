"""A decomposition in two or three sentences, made from its numbers: what gained, what it cost, which stalls moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from profiler.analysis import formatting
from profiler.analysis.decomposition import EVENT_CYCLES, TIMED_CLOCK, Decomposition, Effect, Part
from profiler.analysis.statistics import Interval
from profiler.metrics import METRICS

#: A factor is named when it moves the time by this much, and by this share of the whole step.
NOTABLE = math.log(1.01)
NOTABLE_SHARE = 0.05
#: A stall reason is named when it moves the latency by this much.
NOTABLE_REASON = math.log(1.03)
MOST_REASONS = 3
#: ``selected`` is the issue itself, ``not_selected`` follows from how many warps are ready: neither is a cause.
_NO_CAUSE = frozenset({"issue"})


@dataclass(frozen=True)
class Piece:
    """A few words; ``metric`` names the row of the metric table, or ``title`` says, what the number in them means."""

    text: str
    metric: str = ""
    title: str = ""


Sentence = tuple[Piece, ...]


@dataclass(frozen=True)
class _Clause:
    words: tuple[Piece, ...]
    log_gain: float


def sentences(one: Decomposition, interval: Interval | None = None) -> tuple[Sentence, ...]:
    """Return why ``after`` is faster or slower than ``before``, or in one sentence why that cannot be said."""
    if one.speedup is None:
        return ((Piece(f"No comparison: {one.why}."),),)
    opening = _opening(one, one.speedup, interval)
    if not one.effects:
        return ((*opening, Piece(f". The factors are not known: {one.why}.")),)
    clauses = sorted(_clauses(one), key=lambda clause: -abs(clause.log_gain))
    least = max(NOTABLE, NOTABLE_SHARE * abs(math.log(one.speedup)))
    notable = [clause for clause in clauses if abs(clause.log_gain) >= least]
    faster, level = one.speedup >= 1, _level(one.speedup, interval)
    causes = [clause.words for clause in notable if (clause.log_gain > 0) == faster]
    against = [clause.words for clause in notable if (clause.log_gain > 0) != faster]
    found: list[Sentence] = []
    if level:
        found.append((*opening, Piece("." if notable else ", and no factor moves by 1 %.")))
    elif causes:
        found.append((*opening, Piece(": "), *_joined(causes), Piece(".")))
    else:
        found.append((*opening, Piece(", and no factor moves by 1 % in that direction.")))
    found += [sentence for sentence in (_tensor(one), _latency(one)) if sentence]
    sides = ("In its favour, ", "Against that, ") if faster else ("Against that, ", "In its favour, ")
    for start, words in zip(sides, (causes if level else [], against), strict=True):
        if words:
            found.append((Piece(start), *_joined(words), Piece(".")))
    return tuple(found)


def plain(found: Iterable[Sentence]) -> str:
    """Return sentences as text."""
    return " ".join("".join(piece.text for piece in sentence) for sentence in found)


def gain(log_gain: float, fine: bool = False) -> str:
    """Return what a factor does to the time, always above one: ``saves 2.31×``, ``costs 1.04×``, ``no change``.

    ``fine`` is for steps of a few percent, of which a factor of 1.002 is a part: ``saves 1.0023×``.
    """
    if abs(log_gain) < math.log(1.0005 if fine else 1.005):
        return "no change"
    factor = math.exp(abs(log_gain))
    text = f"{factor:.4f}×" if fine else formatting.ratio(factor)
    return f"{'saves' if log_gain >= 0 else 'costs'} {text}"


def _level(speedup: float, interval: Interval | None) -> bool:
    """Whether no difference was measured: the interval contains 1."""
    low, high = (interval.low, interval.high) if interval is not None else (None, None)
    return (low is not None and high is not None and low <= 1 <= high) or abs(speedup - 1) < 0.0005


def _opening(one: Decomposition, speedup: float, interval: Interval | None) -> list[Piece]:
    after, before = (formatting.short(side.variant, 60) for side in (one.after, one.before))
    low = interval.low if interval is not None else None
    high = interval.high if interval is not None else None
    clock = "" if one.measured else ", by the profiler's time"
    if _level(speedup, interval):
        return [Piece(f"{after} takes as long as {before}"), *_bounds(low, high), Piece(clock)]
    word = "faster" if speedup > 1 else "slower"
    if speedup < 1:
        low, high = (1 / high, 1 / low) if low and high else (None, None)
    factor = formatting.ratio(max(speedup, 1 / speedup), low, high)
    said = f"time of {before if speedup > 1 else after} over time of {after if speedup > 1 else before}"
    return [
        Piece(f"{after} is "), Piece(factor, title=said), Piece(f" {word} than {before}"), *_bounds(low, high),
        Piece(clock),
    ]  # fmt: skip


def _bounds(low: float | None, high: float | None) -> list[Piece]:
    text = formatting.interval(low, high)
    return [Piece(f" {text}", title="95 % interval of the ratio of the times")] if text else []


def _clauses(one: Decomposition) -> list[_Clause]:
    """Every factor in words; latency and warps as what they make together, the time between two issues."""
    made: dict[str, Callable[[Effect], tuple[Piece, ...]]] = {
        "instructions": _instructions, "active": _active, "clock": _clock, "unexplained": _unexplained,
        "kernels": _kernels, "event": _event, "rest": _rest,
    }  # fmt: skip
    found = [_Clause(made[e.kind.key](e), e.log_gain) for e in one.effects if e.kind.key in made]
    issue = one.issue_cycles
    if issue is not None:
        log_gain = math.log(issue[0] / issue[1])
        words = (
            Piece("a scheduler issues an instruction every "), _changed(issue, "cycles", "issue_active"),
            Piece(f" ({gain(log_gain)})"),
        )  # fmt: skip
        return [*found, _Clause(words, log_gain)]
    for key, words_of in (("latency", _latency_alone), ("warps", _warps_alone)):
        effect = one.effect(key)
        if effect is not None:
            found.append(_Clause(words_of(effect), effect.log_gain))
    return found


def _changed(values: tuple[float, float], unit: str, metric: str) -> Piece:
    before, after = (formatting.number(value) for value in values)
    return Piece(f"{after} {unit} instead of {before}", metric)


def _both(effect: Effect) -> tuple[float, float]:
    return effect.before or 0.0, effect.after or 0.0


def _instructions(effect: Effect) -> tuple[Piece, ...]:
    before, after = (formatting.si(value, "", 4).strip() for value in _both(effect))
    saves = f" ({gain(effect.log_gain)})" if effect.log_gain > 0 else ""  # a cost is the ratio itself
    return (
        Piece("it executes "),
        Piece(formatting.ratio(effect.ratio), effect.kind.metric, f"{after} instead of {before}"),
        Piece(f" the instructions per scheduler{saves}"),
    )


def _active(effect: Effect) -> tuple[Piece, ...]:
    before, after = (formatting.percent(value, 1) for value in _both(effect))
    return (
        Piece("its schedulers have work in "), Piece(f"{after} of the launch instead of {before}", effect.kind.metric),
        Piece(f" ({gain(effect.log_gain)})"),
    )  # fmt: skip


def _clock(effect: Effect) -> tuple[Piece, ...]:
    before, after = (f"{value / 1e9:.3f}" for value in _both(effect))
    timed = effect.kind is TIMED_CLOCK
    said = Piece(f"{after} GHz instead of {before}", effect.kind.metric, effect.kind.meaning if timed else "")
    return (
        Piece("it ran at " if timed else "its pass ran at "), said,
        Piece(f" ({gain(effect.log_gain)})"),
    )  # fmt: skip


def _unexplained(effect: Effect) -> tuple[Piece, ...]:
    factor = formatting.ratio(math.exp(abs(effect.log_gain)))
    return (Piece("the counters leave "), Piece(factor, title=effect.kind.meaning), Piece(" of the time unexplained"))


def _kernels(effect: Effect) -> tuple[Piece, ...]:
    before, after = (formatting.ratio(value) for value in _both(effect))
    said = Piece(f"{after} of its longest one instead of {before}", title=effect.kind.meaning)
    return (Piece("all its kernels take "), said, Piece(f" ({gain(effect.log_gain)})"))


def _event(effect: Effect) -> tuple[Piece, ...]:
    before, after = (formatting.number(value, 4) for value in _both(effect))
    in_cycles = effect.kind is EVENT_CYCLES
    unit = " cycles" if in_cycles else ""
    said = Piece(f"{after} times the profiler's{unit} instead of {before}", title=effect.kind.meaning)
    return (
        Piece("a timed launch takes " if in_cycles else "the event time is "),
        said,
        Piece(f" ({gain(effect.log_gain)})"),
    )


def _rest(effect: Effect) -> tuple[Piece, ...]:
    return (Piece("the factors without a counter together "), Piece(gain(effect.log_gain), title=effect.kind.meaning))


def _latency_alone(effect: Effect) -> tuple[Piece, ...]:
    return (
        Piece("a warp waits "), _changed(_both(effect), "cycles per instruction", effect.kind.metric),
        Piece(f" ({gain(effect.log_gain)})"),
    )  # fmt: skip


def _warps_alone(effect: Effect) -> tuple[Piece, ...]:
    return (
        Piece("a scheduler holds "), _changed(_both(effect), "warps", effect.kind.metric),
        Piece(f" ({gain(effect.log_gain)})"),
    )  # fmt: skip


def _latency(one: Decomposition) -> Sentence:
    """The latency and the warps that hide it, then the stall reasons that moved, those that gained most first."""
    effect, warps = one.effect("latency"), one.effect("warps")
    if effect is None:
        return ()
    found: list[Piece] = []
    if warps is not None:
        found = [Piece("A warp takes "), *_moved(effect, "cycles per instruction")]
        found += [Piece(", with "), *_moved(warps, "warps a scheduler")]
    moved = [p for p in effect.parts if abs(p.log_gain) >= NOTABLE_REASON and p.reason.family not in _NO_CAUSE]
    moved = [part for part in moved if part.reason.name][:MOST_REASONS]
    if moved:
        found.append(Piece(": " if found else "Of the latency, "))
        sign = 1 if effect.log_gain < 0 else -1  # what explains the change comes first, what opposes it last
        found += _joined([_reason(part) for part in sorted(moved, key=lambda part: sign * part.log_gain)])
    return (*found, Piece(".")) if found else ()


def _tensor(one: Decomposition) -> Sentence:
    """Where both give the tensor pipe the same work, the share in which it is busy is what all else comes to."""
    before, after = one.before.tensor, one.after.tensor
    if before is None or after is None or not after.same_as(before):
        return ()
    log_gain = math.log(after.busy / before.busy)
    meaning = METRICS["pipe_tensor"].meaning
    if abs(log_gain) < NOTABLE:
        said = [Piece(f"{formatting.percent(after.busy, 1)} of the active cycles", title=meaning), Piece(" (the same)")]
        end = ": what instructions and latency change makes up for itself."
    else:
        values = (formatting.percent(value, 1) for value in (after.busy, before.busy))
        said = [Piece(" of the active cycles instead of ".join(values), title=meaning), Piece(f" ({gain(log_gain)})")]
        end = ": instructions and latency count as far as they change that."
    return (
        Piece("The tensor pipe has the same work in both and is busy in "), *said, Piece(end),
    )  # fmt: skip


def _moved(effect: Effect, unit: str) -> tuple[Piece, ...]:
    if abs(effect.log_gain) < NOTABLE:
        return (Piece(f"{formatting.number(effect.after or 0.0)} {unit}", effect.kind.metric), Piece(" (the same)"))
    return (_changed(_both(effect), unit, effect.kind.metric), Piece(f" ({gain(effect.log_gain)})"))


def _reason(part: Part) -> tuple[Piece, ...]:
    verb = "fell" if part.after < part.before else "rose"
    before, after = _cycles(part.before, part.after)
    return (
        Piece(f"{part.reason.label} {verb} from {before} to {after}", title=part.reason.meaning),
        Piece(f" ({gain(part.log_gain)})"),
    )


def _cycles(*values: float) -> list[str]:
    """Cycles with a digit that tells them apart, none that says more than the counter does."""
    return [f"{value:.1f}" if value >= 10 else f"{value:.2f}" for value in values]


def _joined(clauses: Sequence[tuple[Piece, ...]]) -> list[Piece]:
    found: list[Piece] = []
    for index, clause in enumerate(clauses):
        if index:
            found.append(Piece(" and " if index == len(clauses) - 1 else ", "))
        found += clause
    return found
