"""Names as a page needs them: shortened for labels, made into ids, safe inside plotly's labels."""

from __future__ import annotations

import hashlib
import re

from profiler.analysis.formatting import short

__all__ = ["plotly_text", "short", "size_slug", "slug"]


def slug(name: str) -> str:
    """Return an id for a name: the name itself when it can be one, and different for different names."""
    if re.fullmatch(r"[a-z0-9_]{1,48}", name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].strip("-")
    return f"{plain or 'x'}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def size_slug(size: str) -> str:
    """Return the part of an id that names a size: ``m4096-n4096-k4096``."""
    return re.sub(r"[^a-z0-9]+", "-", size.lower().replace("=", "")).strip("-") or "size"


def plotly_text(text: str) -> str:
    """Return text that plotly shows as it is: its labels understand a few tags and entities, names must not."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
