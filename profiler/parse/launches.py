"""Which launches of a program count, and how their durations become one. Pure: names and numbers in.

A pattern stands for the whole demangled name, as Nsight Systems and Nsight Compute both write it: ``*`` for any text,
``?`` for one character, everything else for itself (brackets and commas of templates, too).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

#: How durations become one.
COMBINE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}
_SHOWN_NAMES, _SHOWN_LETTERS = 8, 110


class NoSuchLaunch(ValueError):
    """The launches that are meant are not among those that were seen; the message lists the names."""


@dataclass(frozen=True)
class Wanted:
    """The ``launches:`` of a variant: so many matching ones after some are left out, and how they become one."""

    match: str | None = None
    skip: int = 0
    count: int = 1
    combine: str = "sum"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Wanted:
        """Return the wish of an experiment file's mapping."""
        return cls(given.get("match"), int(given["skip"]), int(given["count"]), str(given["combine"]))

    @property
    def of_one_kernel(self) -> bool:
        """Whether one kernel is meant, launched once or again and again; only a sum of several adds up kernels."""
        return self.count == 1 or self.combine != "sum"

    @property
    def profiled(self) -> int:
        """How many launches a profile needs: all parts of a sum, one of what is only repeated."""
        return 1 if self.of_one_kernel else self.count


def regex_of(pattern: str) -> str:
    """Return a pattern as a regular expression of the whole name, in what all dialects agree on."""
    special = set("\\^$.|+()[]{}")
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(letter, f"\\{letter}" if letter in special else letter) for letter in pattern)
    return f"^{text}$"


def chosen(names: Sequence[str], wanted: Wanted) -> list[int]:
    """Return the places of the launches that count; ``names`` are all launches of the program in their order.

    ``NoSuchLaunch`` where there are none, too few, or several kernels although one is meant.
    """
    if not names:
        raise NoSuchLaunch("the program launched no kernel")
    pattern = re.compile(regex_of(wanted.match), re.DOTALL) if wanted.match is not None else None
    matching = [place for place, name in enumerate(names) if pattern is None or pattern.match(name)]
    if not matching:
        raise NoSuchLaunch(f"no launch matches {wanted.match!r}; the program launched {listed(names)}")
    found = matching[wanted.skip : wanted.skip + wanted.count]
    if len(found) < wanted.count:
        what = "the program has" if wanted.match is None else f"{wanted.match!r} matches"
        many = f"{len(matching)} launch{'es' * (len(matching) != 1)}"
        after = f", which after skip: {wanted.skip} leaves {len(found)}" if wanted.skip else ""
        raise NoSuchLaunch(f"{what} {many}{after}, and count is {wanted.count}; it launched {listed(names)}")
    several = list(dict.fromkeys(names[place] for place in found if wanted.of_one_kernel and wanted.count > 1))
    if wanted.of_one_kernel and wanted.count == 1:
        several = list(dict.fromkeys(names[place] for place in matching))
    if len(several) > 1:
        raise NoSuchLaunch(
            f"{'match' if wanted.match else 'launches'} means one kernel and finds {len(several)}: {listed(several)}; "
            "name one with `match`, or add them up with `count` and `combine: sum`"
        )
    return found


def combined(durations_ns: Sequence[float], how: str) -> float:
    """Return durations as one number, in the unit that they have."""
    return float(COMBINE[how](durations_ns))


def listed(names: Sequence[str]) -> str:
    """Return kernels by name, the most frequent first, with how often each was launched."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    shown = [f"{_short(name)}{f' ({count} times)' if count > 1 else ''}" for name, count in
             sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN_NAMES]]  # fmt: skip
    more = f" and {len(counts) - _SHOWN_NAMES} more" if len(counts) > _SHOWN_NAMES else ""
    return ", ".join(shown) + more


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN_LETTERS else name[: _SHOWN_LETTERS - 3] + "..."


def printed_time_ns(text: str, pattern: str, unit: str) -> float:
    """Return the time that a program printed, in ns: what the group of the pattern's last match holds.

    ``ValueError`` says why there is none.
    """
    scale = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}[unit]
    found = None
    for found in re.finditer(pattern, text):  # noqa: B007
        pass
    if found is None:
        raise ValueError(f"it printed nothing that {pattern!r} matches")
    try:
        value = float(found[1]) * scale
    except (TypeError, ValueError):
        raise ValueError(f"{pattern!r} matches {str(found[1])[:40]!r}, which is no number") from None
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"the time that it printed is {found[1][:40]}")
    return value
