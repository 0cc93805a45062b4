"""What a page needs beside its data: styles and scripts, inside the page or once in a folder that many pages share."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from profiler.errors import Exit, LadderError
from profiler.rundir import write_text

_HERE = Path(__file__).resolve().parent
STYLE, PLOTLY = "report.css", "plotly-cartesian.min.js"
#: The page's own scripts, in this order; to the browser they are one.
SCRIPTS = ("report.js", "tables.js", "hints.js", "timeline.js")
#: What a shared folder holds.
FILES = (STYLE, "report.js", PLOTLY)


@cache
def asset(name: str) -> str:
    """Return an asset's text; a script that could end its own element is refused."""
    text = (_HERE / "assets" / name).read_text(encoding="utf-8")
    if name.endswith(".js") and "</script" in text.lower():
        raise ValueError(f"{name} holds </script and cannot stand inside a page")
    return text


def script() -> str:
    """Return the page's own script."""
    return "\n".join(asset(name) for name in SCRIPTS)


def digest(text: str) -> str:
    """Return the base64 SHA-256 by which a policy admits a script."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def policy(scripts: Sequence[str], *, shared: bool = False) -> str:
    """Return the Content-Security-Policy: no network, only these scripts, inline styles (plotly sets them).

    A page with ``shared`` assets may also load scripts and styles that lie beside it: ``'self'`` where it is served,
    ``file:`` where it is opened from a disk, for there some browsers hold each file to be an origin of its own.
    """
    sources = [*(["'self'", "file:"] if shared else []), *(f"'sha256-{digest(text)}'" for text in scripts)] or [
        "'none'"
    ]
    styles = "'self' file: 'unsafe-inline'" if shared else "'unsafe-inline'"
    return (
        f"default-src 'none'; script-src {' '.join(sources)}; style-src {styles}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def write_shared(folder: Path) -> Path:
    """Write the assets once into ``folder/<hash>/`` and return that folder; what is there already stays."""
    texts = {STYLE: asset(STYLE), "report.js": script(), PLOTLY: asset(PLOTLY)}
    name = hashlib.sha256("\0".join(texts[file] for file in FILES).encode("utf-8")).hexdigest()[:12]
    target = folder / name
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            path = target / file
            if not path.is_file() or path.read_bytes() != text.encode("utf-8"):
                write_text(path, text)
    except OSError as error:
        raise LadderError(
            f"cannot write the shared assets into {target}: {error.strerror}",
            hint="choose a writable folder with --runs-dir, or leave out --shared-assets",
            code=Exit.USAGE,
        ) from error
    return target


def relative_url(target: Path, page: Path) -> str:
    """Return the address of a file or folder as the page at ``page`` must write it."""
    relative = Path(os.path.relpath(target.resolve(), page.resolve().parent))
    return "/".join(quote(part) for part in relative.parts)
