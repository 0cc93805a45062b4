"""GPU architectures as people write them and as the compiler wants them."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)([af]?)", re.I | re.ASCII)


def normalise(text: str) -> str:
    """Return ``sm_90a`` for ``sm_90a``, ``90a``, ``9.0a`` or ``compute_90a``; ``auto`` stays; else ``ValueError``."""
    word = text.strip()
    if word == "auto":
        return word
    match = _FORM.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not an architecture: write one such as sm_90a, or auto")
    return f"sm_{match[1]}{match[2]}{match[3].lower()}"


def gencode(arch: str) -> str:
    """Return the compiler's flag for exactly one chip (the short form adds a plain pass that fails with wgmma)."""
    return f"-gencode=arch=compute_{arch.removeprefix('sm_')},code={arch}"
