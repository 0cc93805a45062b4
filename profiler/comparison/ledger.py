"""A card's noise ledger on disk: one private JSON file a card, written atomically under a lock."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from profiler.comparison.noise import CLASSES, SOURCES, Entry, Ledger, NoiseTable, default_table
from profiler.run import cache_root

SCHEMA = 1
_LOCK_S = 10.0


def ledger_path(gpu: Mapping[str, Any]) -> Path:
    """Return where a card's ledger lies: ``$XDG_DATA_HOME/kernel-ladder/noise``, or the cache where that is not set; by
    UUID, else by name.
    """
    base = os.environ.get("XDG_DATA_HOME")
    root = Path(base) / "kernel-ladder" if base else cache_root()
    name = (
        re.sub(r"[^A-Za-z0-9.-]+", "_", str(gpu.get("uuid") or gpu.get("name") or "unknown")).strip("._") or "unknown"
    )
    return root / "noise" / f"{name[:80]}.json"


def read(path: Path, card: str) -> Ledger:
    """Return a card's ledger; an empty one where there is none, or none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA or document["classes"] != [name for _, name in CLASSES]:
            return Ledger(card)
        entries = tuple(_entry(row) for row in document["entries"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Ledger(card)
    return Ledger(str(document.get("card") or card), entries)


def table(gpu: Mapping[str, Any]) -> NoiseTable:
    """Return the noise of a card: its ledger over the defaults."""
    card = str(gpu.get("name") or "")
    return read(ledger_path(gpu), card).table(default_table(card))


def add(gpu: Mapping[str, Any], entries: Iterable[Entry]) -> bool:
    """Add what was seen to a card's ledger; whether it could be written. A ledger is a help: nothing fails for it."""
    listed = list(entries)
    if not listed:
        return True
    path = ledger_path(gpu)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=_LOCK_S, mode=0o600):
            _write(path, read(path, str(gpu.get("name") or "")).with_entries(listed))
    except (OSError, Timeout):
        return False
    return True


def _write(path: Path, ledger: Ledger) -> None:
    document = {
        "schema": SCHEMA,
        "card": ledger.card,
        "classes": [name for _, name in CLASSES],
        "entries": [asdict(entry) for entry in ledger.entries],
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
    partial.replace(path)


def _entry(row: Mapping[str, Any]) -> Entry:
    """Return an entry; ``ValueError`` for one that no version of this program wrote."""
    found = Entry(
        row["source"], int(row["duration_class"]), str(row["key"]), float(row["mean_square"]), float(row["df"]),
        str(row["session"]), float(row["process_var"]),
    )  # fmt: skip
    known = found.source in SOURCES and 0 <= found.duration_class < len(CLASSES)
    if not known or not (0 <= found.mean_square < 100 and 0 < found.df < 1e6 and 0 <= found.process_var < 100):
        raise ValueError("an entry out of range")
    return found
