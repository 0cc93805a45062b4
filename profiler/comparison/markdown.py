"""A comparison as GitHub Markdown: counts first, worst rows first, at most 60,000 characters whatever comes in.

Names and words are text: no character of theirs is markup, a mention, a reference or a link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from profiler.analysis import formatting
from profiler.comparison import words
from profiler.comparison.model import Cause, Comparison, Diff, RowComparison

#: A comment on GitHub holds 65,536 characters.
LIMIT = 60_000
#: What is kept free for the lines that say how much was left out.
_RESERVE = 600
_MOST_ROWS = 200
_MOST_DETAILS = 30
_MOST_CAUSES = 6
_MOST_DIFF_LINES = 60
_NAME, _WORDS = 80, 400
#: What Markdown, a table, a reference or a link is made of; the rest of the punctuation is left readable.
_PUNCTUATION = re.compile(
    r"[#$&*<>@\[\\\]`|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<!\w):(?=\w)|(?<=[wW]{3})\."
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_MARKS = {
    "regressed": "🔴", "broken": "🔴", "removed": "🔴", "incomparable": "🔴", "not_measured": "🔴", "suspected": "🟠",
    "inconclusive": "🟠", "improved": "🟢", "unchanged": "⚪", "new": "⚪", "skipped": "⚪", "counters_only": "⚪",
}  # fmt: skip
_FAILED = frozenset({"broken", "incomparable"})


def markdown(comparison: Comparison, limit: int = LIMIT) -> str:
    """Return the Markdown, never longer than ``limit`` characters; what is left out is counted."""
    rows = words.worst_first(comparison.rows)
    head = _head(comparison)
    while len(_joined(head)) > limit // 3 and len(head) > 4:
        head = [*head[:-2], "", head[-1]] if not head[-2] else [*head[:-2], head[-1]]
    table, shown = _table(rows, limit - len(_joined(head)) - _RESERVE)
    parts = [*head, *table]
    left = len(rows) - shown
    if left:
        parts += ["", f"**{left} more row{'' if left == 1 else 's'}**: {_rest(rows[shown:])}."]
    foot = ["", _footer(comparison)]
    room = limit - len(_joined([*parts, *foot])) - _RESERVE // 2
    parts += _details([row for row in rows if _wants_details(row)], room)
    text = _joined([*parts, *foot]) + "\n"
    return text if len(text) <= limit else f"{text[: limit - 2]}…\n"


def escape(text: str, most: int = _WORDS) -> str:
    """Return text that Markdown shows as it is: cut, on one line, its markup as entities, its mentions broken."""
    plain = formatting.short(_CONTROL.sub(" ", text).strip(), most)
    found = _PUNCTUATION.sub(lambda match: f"&#{ord(match.group())};", plain)
    return re.sub(r"(&#(?:64|35);)(?=\w)", "\\1\u200b", found)


def code(text: str, most: int = _NAME) -> str:
    """Return a name as code, with nothing in it that Markdown or a table could read."""
    return f"<code>{escape(text, most)}</code>"


# --- the parts ------------------------------------------------------------------------------------------------------


def _head(comparison: Comparison) -> list[str]:
    lines = [f"### {escape(words.counts_line(comparison))}", ""]
    kind = words.KIND_TEXT.get(comparison.kind, comparison.kind)
    lines.append(
        f"**{escape(words.outcome(comparison))}** · before {code(comparison.before, 120)} · after "
        f"{code(comparison.after, 120)} · {escape(kind)}"
    )
    found = words.notices(comparison)
    if found:
        lines += ["", *(f"> {escape(text)}" + "  " for text in found[:8])]
        if len(found) > 8:
            lines.append(f"> {len(found) - 8} more notes")
    return [*lines, ""]


_COLUMNS = "| | variant | size | before | after | after / before | detectable | verdict |"
_RULE = "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"


def _table(rows: Sequence[RowComparison], room: int) -> tuple[list[str], int]:
    """The rows that fit, and how many they are."""
    if not rows:
        return ["No rows."], 0
    lines = [_COLUMNS, _RULE]
    used = len(_joined(lines))
    for row in rows[:_MOST_ROWS]:
        line = _row(row)
        if used + len(line) + 1 > room:
            break
        lines.append(line)
        used += len(line) + 1
    return lines, len(lines) - 2


def _row(row: RowComparison) -> str:
    cells = [
        _MARKS.get(row.verdict, "🔴"), code(row.variant), escape(formatting.size(row.size), 60), words.time(row.before),
        words.time(row.after), _ratio(row), words.percent(row.detectable), escape(_verdict(row)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _ratio(row: RowComparison) -> str:
    return f"{words.ratio(row.ratio)}, {words.change(row.ratio)}" if row.ratio is not None else ""


def _verdict(row: RowComparison) -> str:
    """The verdict, and in a few words why: the leading cause where there is one."""
    text = words.verdict(row)
    cause = _leading(row)
    if cause is not None and row.verdict in ("regressed", "suspected", "improved"):
        return f"{text}: {cause.words}"
    if cause is not None and row.explanation == "latent":
        return f"{text}: {cause.words}"
    return text if row.verdict in ("unchanged", "improved") else words.said(row)


def _leading(row: RowComparison) -> Cause | None:
    return next((cause for cause in row.causes if not cause.neutral), None)


def _wants_details(row: RowComparison) -> bool:
    return (words.shows_causes(row) or row.verdict in _FAILED) and bool(row.causes or row.diffs or row.notes)


def _details(rows: Sequence[RowComparison], room: int) -> list[str]:
    parts: list[str] = []
    used = 0
    for index, row in enumerate(rows):
        block = _block(row) if index < _MOST_DETAILS else ""
        if not block or used + len(block) + 1 > room:
            left = len(rows) - index
            return [
                *parts,
                "",
                f"Causes of {left} more row{'' if left == 1 else 's'} are in the HTML and JSON reports.",
            ]
        parts += ["", block]
        used += len(block) + 2
    return parts


def _block(row: RowComparison) -> str:
    title = f"{code(row.variant)} at {escape(formatting.size(row.size), 60)}: {escape(words.verdict(row))}"
    lines = [f"<details><summary>{title}</summary>", ""]
    if row.words:
        lines += [escape(row.words), ""]
    label = words.EXPLANATION_TEXT[row.explanation]
    if label:
        lines += [f"**{escape(label[:1].upper() + label[1:])}.**", ""]
    for cause in row.causes[:_MOST_CAUSES]:
        share = words.share(cause)
        near = "" if cause.cls == "exact" else " (a noisy counter)"
        lines.append(f"- {escape(cause.words)}{near}" + (f": {escape(share)}" if share else ""))
    if len(row.causes) > _MOST_CAUSES:
        lines.append(f"- {words.more(len(row.causes) - _MOST_CAUSES, 'difference')}")
    lines += [f"- {escape(note)}" for note in row.notes[:3]]
    lines += [part for diff in row.diffs[:4] for part in _diff(diff)]
    if len(row.diffs) > 4:
        lines += ["", f"{len(row.diffs) - 4} more files changed."]
    return _joined([*lines, "", "</details>"])


def _diff(diff: Diff) -> list[str]:
    kept = diff.text.splitlines()[:_MOST_DIFF_LINES]
    left = diff.lines_left_out + len(diff.text.splitlines()) - len(kept)
    body = "\n".join(_CONTROL.sub(" ", formatting.short(line, 200)) for line in kept)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    lines = ["", code(diff.title)]
    if body:
        lines += ["", f"{fence}diff", body, fence]
    if left:
        lines += ["", f"{left} more line{'' if left == 1 else 's'} of this diff."]
    return lines


def _rest(rows: Sequence[RowComparison]) -> str:
    found: dict[str, int] = {}
    for row in rows:
        name = words.VERDICT_TEXT.get(row.verdict, row.verdict)
        found[name] = found.get(name, 0) + 1
    return ", ".join(f"{count} {escape(name)}" for name, count in found.items())


def _footer(comparison: Comparison) -> str:
    settings = comparison.settings
    return (
        f"<sub>after / before: below one is faster, with its {100 * (1 - settings.alpha_flag):g} % interval. "
        "detectable: the smallest change that would have been found. least effect "
        f"{words.percent(settings.min_effect)}, max regression {words.percent(settings.max_regression)}.</sub>"
    )


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines)
