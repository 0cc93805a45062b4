"""Sources side by side: a unified diff as two columns, each changed line opposite to what it replaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from profiler.comparison.model import Diff

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
#: Two lines with less in common are not marked word by word.
_ALIKE = 0.5
_LONGEST = 300


@dataclass(frozen=True)
class _Line:
    number: int
    text: str


def sources(diffs: Sequence[Diff]) -> list[dict[str, Any]]:
    """Return each diff as the rows of a table with two columns."""
    return [{"title": diff.title, "rows": rows(diff.text), "left": diff.lines_left_out} for diff in diffs if diff.title]


def rows(text: str) -> list[dict[str, Any]]:
    """Return a unified diff's lines as pairs: context on both sides, a removed line opposite to the added one."""
    found: list[dict[str, Any]] = []
    gone: list[_Line] = []
    come: list[_Line] = []
    old = new = 1

    def flush() -> None:
        for index in range(max(len(gone), len(come))):
            left = gone[index] if index < len(gone) else None
            right = come[index] if index < len(come) else None
            found.append(_changed(left, right))
        gone.clear()
        come.clear()

    for line in text.split("\n"):
        header = _HUNK.match(line)
        if header or line.startswith("@@"):
            flush()
            if header:
                old, new = int(header[1]), int(header[2])
            found.append({"kind": "hunk", "text": line})
        elif line.startswith("-"):
            if come:
                flush()
            gone.append(_Line(old, line[1:]))
            old += 1
        elif line.startswith("+"):
            come.append(_Line(new, line[1:]))
            new += 1
        elif line:
            flush()
            plain = [{"text": line[1:], "changed": False}]
            found.append({"kind": "same", "old": old, "new": new, "left": plain, "right": plain})
            old, new = old + 1, new + 1
    flush()
    return found


def _changed(left: _Line | None, right: _Line | None) -> dict[str, Any]:
    pieces = _pieces(left.text, right.text) if left is not None and right is not None else None
    return {
        "kind": "changed",
        "old": left.number if left is not None else None,
        "new": right.number if right is not None else None,
        "left": pieces[0] if pieces else _whole(left),
        "right": pieces[1] if pieces else _whole(right),
    }


def _whole(line: _Line | None) -> list[dict[str, Any]]:
    return [] if line is None else [{"text": line.text, "changed": False}]


def _pieces(old: str, new: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """Both lines cut where they differ, word by word; None when they have little in common or are long."""
    if len(old) > _LONGEST or len(new) > _LONGEST:
        return None
    one, two = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (old, new))
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return None
    left: list[dict[str, Any]] = []
    right: list[dict[str, Any]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if a < b:
            left.append({"text": "".join(one[a:b]), "changed": tag != "equal"})
        if c < d:
            right.append({"text": "".join(two[c:d]), "changed": tag != "equal"})
    return left, right
