"""What changed in the text: a unified diff of each source, of the compiler's flags and of the parameters.

Pure: sources come as texts by name. Each diff is cut to a stated length and says how many lines it leaves out.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.analysis.identity import declared, identity
from profiler.analysis.kernels import parameters
from profiler.analysis.rundata import RunData
from profiler.comparison.model import Diff

#: Lines of one diff, and files of one row, that are kept.
MOST_LINES = 200
MOST_FILES = 12
#: Longer texts are compared by what is left once equal ends are cut off; lines by this many characters.
_MOST_COLUMNS = 400
_MOST_COMPARED = 4000
_CONTEXT = 3

Sources = Mapping[str, str]


@dataclass(frozen=True)
class _Facts:
    compiler: str
    flags: str
    params: Mapping[str, Any]


def row_diffs(
    before: RunData,
    after: RunData,
    variant: str,
    before_sources: Sources,
    after_sources: Sources,
    *,
    before_name: str = "",
    most_lines: int = MOST_LINES,
) -> tuple[Diff, ...]:
    """Return the differences of a variant's sources, compiler, flags and parameters; nothing where they are equal.

    Sources are the files of ``sources/<variant>/`` by name, as they were built.
    """
    old, new = _facts(before, before_name or variant), _facts(after, variant)
    found = []
    if old is not None and new is not None:
        for title, lines in (
            ("compiler", ([old.compiler], [new.compiler])),
            ("flags", (old.flags.split(), new.flags.split())),
            ("params", (_param_lines(old.params), _param_lines(new.params))),
        ):
            if lines[0] != lines[1] and any(lines[0]) and any(lines[1]):
                found.append(unified(title, lines[0], lines[1], most_lines=most_lines, context=0))
    return (*found, *source_diffs(before_sources, after_sources, most_lines=most_lines))


def source_diffs(before: Sources, after: Sources, *, most_lines: int = MOST_LINES) -> tuple[Diff, ...]:
    """Return a diff for each file that differs, is new or is gone; a renamed file is compared under both names."""
    if not before or not after:  # one side keeps no sources: nothing can be said
        return ()
    pairs = _pairs(before, after)
    changed = [(old, new) for old, new in pairs if before.get(old) != after.get(new)]
    found = []
    for old, new in changed[:MOST_FILES]:
        title = new if old == new or not old else old if not new else f"{old} -> {new}"
        found.append(
            unified(title, before.get(old, "").splitlines(), after.get(new, "").splitlines(), most_lines=most_lines)
        )
    if len(changed) > MOST_FILES:
        rest = len(changed) - MOST_FILES
        found.append(Diff(f"{rest} more file{'' if rest == 1 else 's'}", "", 0))
    return tuple(found)


def unified(
    title: str, before: Sequence[str], after: Sequence[str], *, most_lines: int = MOST_LINES, context: int = _CONTEXT
) -> Diff:
    """Return a unified diff of two lists of lines, cut to ``most_lines`` lines."""
    start, old, new = _trimmed(before, after)
    if len(old) > _MOST_COMPARED or len(new) > _MOST_COMPARED:
        text = f"@@ from line {start + 1}: {len(old)} lines became {len(new)}, too many to compare @@"
        return Diff(title, text, len(old) + len(new))
    lead = min(context, start)
    head = list(before[start - lead : start])
    tail = list(before[start + len(old) : start + len(old) + context])
    lines = list(difflib.unified_diff([*head, *old, *tail], [*head, *new, *tail], lineterm="", n=context))[2:]
    lines = [_shifted(_short(line), start - lead) if line.startswith("@@") else _short(line) for line in lines]
    kept = lines[:most_lines]
    return Diff(title, "\n".join(kept), len(lines) - len(kept))


def _facts(data: RunData, variant: str) -> _Facts | None:
    row = data.variant(variant)
    if row is None:
        return None
    found = identity(data, row, declared(data).get(variant, {})) if data.manifest.get("builds") else None
    if found is None:
        return _Facts("", "", parameters(row))
    return _Facts(found.compiler, found.flags, found.params)


def _param_lines(params: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(params.items())]


def _pairs(before: Sources, after: Sources) -> list[tuple[str, str]]:
    """Files by name; what is left on both sides is paired where one file alone is left, for that is a renaming."""
    both = [(name, name) for name in after if name in before]
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    if len(gone) == len(come) == 1:
        return [*both, (gone[0], come[0])]
    return [*both, *((name, "") for name in gone), *(("", name) for name in come)]


def _trimmed(before: Sequence[str], after: Sequence[str]) -> tuple[int, Sequence[str], Sequence[str]]:
    """Both texts without the equal lines at their beginning and end, and where that begins."""
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, before[start : len(before) - end], after[start : len(after) - end]


def _shifted(header: str, by: int) -> str:
    """A hunk's header with the line numbers of the whole file: ``@@ -1,4 +1,5 @@``."""
    if not by:
        return header
    words = header.split()
    for index in (1, 2):
        sign, (first, comma, count) = words[index][0], words[index][1:].partition(",")
        words[index] = f"{sign}{int(first) + by}{comma}{count}"
    return " ".join(words)


def _short(line: str) -> str:
    return line if len(line) <= _MOST_COLUMNS else f"{line[:_MOST_COLUMNS]}…"
