"""Numbers in ncu's CSV: the C locale with or without thousands commas, ``n/a`` kept apart from zero. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_GROUPED = re.compile(r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$")
_DECIMAL_COMMA = re.compile(r"^[+-]?(\d{1,3}([.' \u00a0\u202f]\d{3})*|\d+),\d+$")
_DOTTED_TWICE = re.compile(r"^[+-]?\d{1,3}(\.\d{3}){2,}(,\d+)?$")
_OTHER_GROUPS = re.compile(r"^[+-]?\d{1,3}(['\u2019 \u00a0\u202f]\d{3})+([.,]\d+)?$")
_DOTTED_ONCE = re.compile(r"^[+-]?\d{1,3}\.\d{3}$")
_NONE = frozenset({"n/a", "na", "nan", "-nan", "nan(ind)", "inf", "-inf", "+inf", "no data", "(null)", "null", "none"})
#: What is counted in whole numbers, so that a fraction is a sign of dots between thousands.
_WHOLE = frozenset({"ns", "nsecond", "byte", "inst", "sector", "request", "register/thread", "thread", "block", "warp"})
_HINT = (
    "its numbers follow another locale; export it with LC_ALL=C: "
    "LC_ALL=C ncu --import x.ncu-rep --page raw --csv --print-units base > x.csv"
)


class NotCsv(ValueError):
    """The text cannot be read; carries one line of reason and the next step."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason = " ".join(reason.split())
        super().__init__(self.reason)
        self.hint = hint


@dataclass(frozen=True)
class Number:
    """A number as the file writes it, and where."""

    text: str
    unit: str
    name: str
    line: int


def number_in(text: str, name: str, line: int) -> float | str | None:
    """Return a cell's number; None when the profiler says that it has none; the text when it is no number at all.

    ``NotCsv`` for a number of another locale: a decimal comma, or other marks between thousands.
    """
    word = text.strip()
    if not word or word.lower() in _NONE:
        return None
    if _PLAIN.match(word):
        value = float(word)
        return value if math.isfinite(value) else None
    if _GROUPED.match(word):
        return float(word.replace(",", ""))
    for form, what in (
        (_DECIMAL_COMMA, "a decimal comma"),
        (_DOTTED_TWICE, "dots between thousands"),
        (_OTHER_GROUPS, "other marks between thousands"),
    ):
        if form.match(word):
            raise NotCsv(f'line {line}: "{word}" ({name}) has {what}', _HINT)
    return word


def check_locale(numbers: Sequence[Number]) -> None:
    """Raise ``NotCsv`` when all fractions look like dots between thousands, one of something that has no fractions.

    ``117.344`` nanoseconds are 117 344 in some locales, and nothing in such a file says which is meant.
    """
    dotted = [number for number in numbers if "." in number.text]
    if any(not _DOTTED_ONCE.match(number.text) for number in dotted):
        return
    for number in dotted:
        if number.unit.strip() in _WHOLE:
            raise NotCsv(
                f'line {number.line}: "{number.text}" {number.unit} ({number.name}) is ambiguous: a fraction of what '
                "is counted whole, or dots between thousands",
                _HINT,
            )
