"""Texts of tools without the folders of the machine that wrote them. Pure."""

from __future__ import annotations

import re

_FOLDERS = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?[/\\](?:[^\s/\\:*?\"<>|]+[/\\])+(?=[^\s/\\])")


def without_folders(text: str) -> str:
    """Return a text in which only the last name is left of each absolute path."""
    return _FOLDERS.sub("", text)
