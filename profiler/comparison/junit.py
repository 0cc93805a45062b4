"""A comparison as JUnit XML: a test case a row. Failure: regressed. Error: broken, removed, incomparable, not measured.
Skipped: suspected, inconclusive, or left out by its constraints. Whatever is not known is an error.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from profiler.analysis import formatting
from profiler.comparison import words
from profiler.comparison.gate import exit_code
from profiler.comparison.model import Comparison, RowComparison
from profiler.errors import Exit

_PASSED = frozenset({"improved", "unchanged", "new", "counters_only"})
_SKIPPED = frozenset({"suspected", "inconclusive", "skipped"})
#: Characters that XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_TEXT = 4000


def junit(comparison: Comparison) -> str:
    """Return the XML; well-formed for any names. It fails wherever the exit code does not pass."""
    suite = ET.Element("testsuite", name=_clean(f"compare_runs {comparison.before} {comparison.after}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for row in words.worst_first(comparison.rows):
        kind = _add(suite, row, latent_fails=comparison.settings.fail_on_latent)
        counts["tests"] += 1
        if kind:
            counts[kind] += 1
    code = exit_code(comparison)
    if comparison.refused or (code is Exit.BROKEN and not counts["errors"]):
        case = ET.SubElement(suite, "testcase", classname="compare_runs", name="comparable")
        text = (
            f"differs: {', '.join(comparison.refused)}" if comparison.refused else "nothing was measured on both sides"
        )
        ET.SubElement(case, "error", message=_clean(text), type=_clean(words.OUTCOME[code]))
        counts["tests"] += 1
        counts["errors"] += 1
    for name, count in counts.items():
        suite.set(name, str(count))
    root = ET.Element("testsuites", {name: str(count) for name, count in counts.items()})
    root.append(suite)
    ET.indent(root)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _add(suite: ET.Element, row: RowComparison, *, latent_fails: bool) -> str:
    case = ET.SubElement(suite, "testcase", classname=_clean(row.size or "row"), name=_clean(row.variant))
    if row.after is not None:
        case.set("time", f"{row.after.value_ns * 1e-9:.9f}")
    message = _clean(_message(row))
    if row.verdict == "regressed" or (row.explanation == "latent" and latent_fails):
        ET.SubElement(case, "failure", message=message, type=_clean(words.verdict(row))).text = _details(row)
        return "failures"
    if row.verdict in _SKIPPED:
        ET.SubElement(case, "skipped", message=message)
        return "skipped"
    if row.verdict in _PASSED:
        ET.SubElement(case, "system-out").text = _clean(f"{message}\n{_details(row)}".strip())
        return ""
    ET.SubElement(case, "error", message=message, type=_clean(words.verdict(row))).text = _details(row)
    return "errors"


def _message(row: RowComparison) -> str:
    numbers = ""
    if row.before is not None and row.after is not None and row.ratio is not None:
        numbers = f": {words.time(row.before)} before, {words.time(row.after)} after, {words.ratio(row.ratio)}"
    return f"{words.verdict(row)}{numbers}" + (f". {row.words}" if row.words else "")


def _details(row: RowComparison) -> str:
    lines = [f"{formatting.size(row.size)}, {row.dtype}"]
    if words.EXPLANATION_TEXT[row.explanation]:
        lines.append(words.EXPLANATION_TEXT[row.explanation])
    lines += [f"- {cause.words}" + (f": {text}" if (text := words.share(cause)) else "") for cause in row.causes[:8]]
    if len(row.causes) > 8:
        lines.append(f"- {words.more(len(row.causes) - 8, 'difference')}")
    return _clean("\n".join([*lines, *row.notes]))


def _clean(text: str) -> str:
    """Text that XML can hold, cut where no reader would look any further."""
    found = _UNWRITABLE.sub("\ufffd", text)
    return found if len(found) <= _MOST_TEXT else f"{found[:_MOST_TEXT]}…"
