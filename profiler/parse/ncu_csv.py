"""The CSV of ``ncu --csv`` (``--page raw``, wide, and ``--page details``, long) -> the values of a report. Pure.

The way in where NVIDIA's reader is not installed. The header is found by its names; lines of the application and of ncu
itself may stand before, between and after. Numbers are read in the C locale alone: a file that may mean anything else
is refused with the line, never guessed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler.parse.ncu import RawLaunch, RawReport
from profiler.parse.ncu_numbers import NotCsv, Number, check_locale, number_in
from profiler.parse.ncu_pages import DETAILS, short_name
from profiler.parse.ncu_units import scaled

__all__ = ["CsvReport", "NotCsv", "parse"]

EXPORT = "ncu --import x.ncu-rep --page raw --csv --print-units base > x.csv"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TEXT_PAGE = re.compile(r"^\s+Section: .+\n\s+-{5,}", re.MULTILINE)
_NSYS = re.compile(r"Total Time \(ns\)|Time \(%\)")
_DIMS = re.compile(r"^\(?\s*(\d+),\s*(\d+),\s*(\d+)\s*\)?$")
_DROP = re.compile(r"^(group:|breakdown:|regex:)|\.TriageCompute\.|^pmsampling:")
#: Columns that say which launch a row is of. Process and host are never kept.
_IDENTITY = frozenset(
    (
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC", "Thread", "Section Name", "Metric Name", "Metric Unit",
        "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup",
        "Body Item Label",
    )
)  # fmt: skip
_SPEEDUPS = {"local": 1, "global": 2}
_LONGEST_RECORD = 50  # lines
_ADVICE = 2


@dataclass(frozen=True)
class CsvReport:
    """What a CSV holds: the launches, the page it is, and remarks on what was assumed or left out."""

    report: RawReport
    page: str  #: raw or details
    remarks: tuple[str, ...] = ()


@dataclass
class _Made:
    """A launch as its rows add to it."""

    cells: Mapping[str, str]
    scalars: dict[str, tuple[Any, str] | None] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Reading:
    launches: dict[tuple[str, ...], _Made] = field(default_factory=dict)
    numbers: list[Number] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    unitless: bool = False

    def launch(self, cells: Mapping[str, str]) -> _Made:
        key = tuple(cells.get(name, "") for name in ("Process ID", "ID", "Kernel Name"))
        return self.launches.setdefault(key, _Made(cells))

    def add(self, made: _Made, name: str, text: str, unit: str, line: int) -> None:
        """Take one value over: in ncu's base unit, None where the profiler has none; an empty cell is not collected."""
        if not text.strip() or _DROP.search(name) or name in made.scalars:
            return
        value = number_in(text, name, line)
        if isinstance(value, float):
            self.numbers.append(Number(text.strip(), unit, name, line))
            known = scaled(unit.strip())
            if known is None:
                self.unknown.setdefault(unit, []).append(name)
                made.scalars[name] = None
                return
            made.scalars[name] = (value * known[0], known[1])
        else:
            made.scalars[name] = None if value is None else (value, "")


def parse(text: str) -> CsvReport:
    """Return what the CSV of ``ncu`` holds; ``NotCsv`` with the line and the reason when it cannot be read."""
    reading = _Reading()
    header: list[str] = []
    units: Mapping[str, str] = {}
    pages: set[str] = set()
    for line, cells in _records(text):
        names = [cell.strip() for cell in cells]
        if "ID" in names and "Kernel Name" in names:
            if names != header:
                header, units = names, {}
            continue
        if not header:
            continue
        if not cells[0].strip() and "Metric Name" not in header and len(cells) == len(header):
            units = dict(zip(header, cells, strict=True))
            continue
        if not cells[0].strip().isdigit() or header[0] != "ID":
            continue
        if "Metric Name" in header:
            pages.add("details")
            _long_row(reading, header, cells, line)
        else:
            pages.add("raw")
            _wide_row(reading, header, cells, units, line)
    if not header:
        raise NotCsv(*_what_else(text))
    if not reading.launches:
        raise NotCsv("the CSV holds no kernels: a header, and no row of a launch below it", "was anything profiled?")
    check_locale(reading.numbers)
    launches = tuple(_launch(made) for made in reading.launches.values())
    return CsvReport(RawReport(launches), "raw" if "raw" in pages else "details", tuple(_remarks(reading)))


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each line's number and cells; a quoted cell may run over several lines."""
    lines = _ANSI.sub("", text.replace("\0", "").lstrip("\ufeff")).split("\n")
    number = 0
    while number < len(lines):
        line, first = lines[number].rstrip("\r"), number + 1
        number += 1
        if line.startswith('"'):
            joined = line
            for more in range(number, min(number + _LONGEST_RECORD, len(lines))):
                if joined.count('"') % 2 == 0:
                    break
                joined += "\n" + lines[more].rstrip("\r")
                if joined.count('"') % 2 == 0:
                    line, number = joined, more + 1
        if line.strip() and not line.startswith("=="):
            try:
                yield first, next(csv.reader([line], strict=False), [""]) or [""]
            except csv.Error as error:
                if line.startswith('"'):
                    raise NotCsv(f"line {first} is damaged: {error}", f"export it again: {EXPORT}") from error


def _wide_row(reading: _Reading, header: Sequence[str], cells: list[str], units: Mapping[str, str], line: int) -> None:
    if len(cells) != len(header):
        if len(cells) < 4:  # a line of the application that begins with a number
            return
        raise NotCsv(
            f"line {line} has {len(cells)} of {len(header)} cells: the file is cut short, or something wrote into it",
            f"export it again: {EXPORT}",
        )
    row = dict(zip(header, cells, strict=True))
    made = reading.launch(row)
    reading.unitless |= not units
    for name, text in row.items():
        if name not in _IDENTITY and "Domain:" not in name:
            reading.add(made, name, text, units.get(name, ""), line)


def _long_row(reading: _Reading, header: Sequence[str], cells: list[str], line: int) -> None:
    needed = header.index("Metric Value") + 1
    if len(cells) < needed:
        if len(cells) < 4:
            return
        raise NotCsv(
            f"line {line} has {len(cells)} of {needed} cells: the file is cut short, or something wrote into it",
            f"export it again: {EXPORT}",
        )
    row = dict(zip(header, cells, strict=False))
    made = reading.launch(row)
    if name := row.get("Metric Name", "").strip():
        known = name.split()[-1] if "__" in name else DETAILS.get((row.get("Section Name", "").strip(), name))
        if known:
            reading.add(made, known, row["Metric Value"], row.get("Metric Unit", ""), line)
    elif said := row.get("Rule Description", "").strip():
        rule = row.get("Rule Name", "").strip()
        speedup = number_in(row.get("Estimated Speedup", ""), "Estimated Speedup", line)
        kind = _SPEEDUPS.get(row.get("Estimated Speedup Type", "").strip().lower())
        made.rules.append(
            {
                "rule_identifier": rule,
                "rule_message": {"title": rule, "message": said, "type": _ADVICE},
                "speedup_estimation": {"type": kind, "speedup": speedup} if kind and speedup else {},
            }
        )


def _launch(made: _Made) -> RawLaunch:
    name = made.cells.get("Kernel Name", "").strip() or "unnamed"
    scalars = dict(made.scalars)
    for column, metric in (("Grid Size", "launch__grid_size"), ("Block Size", "launch__block_size")):
        dims = _DIMS.match(made.cells.get(column, "").strip())
        if dims and metric not in scalars:
            x, y, z = (int(text) for text in dims.groups())
            scalars[metric] = (x * y * z, "")
    major, dot, minor = made.cells.get("CC", "").strip().partition(".")
    if dot and major.isdigit() and minor.isdigit():
        scalars.setdefault("device__attribute_compute_capability_major", (int(major), ""))
        scalars.setdefault("device__attribute_compute_capability_minor", (int(minor), ""))
    return RawLaunch(short_name(name), name, name, _ranges(made.cells), scalars, rules=tuple(made.rules))


def _ranges(cells: Mapping[str, str]) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """The range of a launch: the column's header says which of the parts between colons holds its name."""
    for header, cell in cells.items():
        parts = header.split(":")
        place = next((i for i, part in enumerate(parts) if part in ("Push/Pop_Range", "Start/Stop_Range")), None)
        found = cell.strip().split(":")
        if place is not None and len(found) > place and found[place].strip() not in ("", "none", "(null)"):
            return ((found[place - 1].strip(), (found[place].strip(),), ()),)
    return ()


def _remarks(reading: _Reading) -> Iterator[str]:
    if reading.unitless:
        yield "the file has no row of units: its values are taken to be in ncu's base units (ns, byte, hz, %)"
    for unit, names in reading.unknown.items():
        yield f"the unit {unit!r} is not known: {', '.join(dict.fromkeys(names))} is left out"


def _what_else(text: str) -> tuple[str, str]:
    if _TEXT_PAGE.search(text):
        return "it is ncu's text page, not CSV", f"give the .ncu-rep itself, or export it: {EXPORT}"
    if _NSYS.search(text[:20_000]):
        return "it is a summary of nsys stats, not of ncu", "give the .nsys-rep that it was made from, or its SQLite"
    return "no line has the columns ID and Kernel Name of ncu's CSV", f"export it with: {EXPORT}"
