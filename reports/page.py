"""One self-contained page: styles, scripts and data inside it, a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).resolve().parent
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(context: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page's HTML; plotly travels only where there is a chart to draw."""
    css, js = asset("report.css"), asset("report.js")
    plotly = asset("plotly-cartesian.min.js") if specs else ""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            **context,
            csp=policy([plotly, js]),
            css=Markup(css),
            js=Markup(js),
            plotly=Markup(plotly),
            specs=[Markup(json_in_html(spec)) for spec in specs],
        )
    )


def policy(scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy: no network, only these scripts, inline styles (plotly sets them)."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def json_in_html(value: Any) -> str:
    """Return JSON that no text in it can end a script element or open a comment with."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def asset(name: str) -> str:
    """Return an asset's text; a script that could end its own element is refused."""
    text = (_HERE / "assets" / name).read_text(encoding="utf-8")
    if name.endswith(".js") and "</script" in text.lower():
        raise ValueError(f"{name} holds </script and cannot stand inside a page")
    return text


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
