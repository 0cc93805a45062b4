"""What was probably meant: near matches in the words of an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_match(text: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    known = list(known)
    same = [word for word in known if word.lower() == text.lower()]
    near = same or difflib.get_close_matches(text, known, n=1, cutoff=0.6)
    return near[0] if near else None


def one_of(text: str, allowed: Iterable[str]) -> str:
    """Return the message for a value that is not among the allowed ones."""
    allowed = list(allowed)
    near = near_match(text, allowed)
    hint = f'; did you mean "{near}"?' if near else ""
    return f"{text[:60]!r} is not one of {', '.join(allowed)}{hint}"


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the message for a key that is not among the known ones."""
    known = list(known)
    near = near_match(key, known)
    return f'unknown key, did you mean "{near}"?' if near else f"unknown key; known here: {', '.join(known)}"
