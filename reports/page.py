"""One self-contained page: styles, scripts and data inside it, a policy that lets nothing else in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from profiler import metrics
from reports.page_assets import PLOTLY, STYLE, asset, policy, script

_HERE = Path(__file__).resolve().parent
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(
    context: Mapping[str, Any], specs: Sequence[Mapping[str, Any]], shared: str = "", template: str = "page.html.j2"
) -> str:
    """Return the page's HTML; plotly travels only where there is a chart to draw.

    ``shared`` is the relative address of a folder of shared assets; without it everything lies inside the page.
    """
    own, plotly = script(), asset(PLOTLY) if specs else ""
    timeline = context.get("timeline")
    return (
        _environment()
        .get_template(template)
        .render(
            **context,
            timeline_json=Markup(json_in_html(timeline["data"])) if timeline else "",
            csp=policy([], shared=True) if shared else policy([plotly, own] if specs else [own]),
            css="" if shared else Markup(asset(STYLE)),
            js="" if shared else Markup(own),
            plotly="" if shared else Markup(plotly),
            shared=shared,
            specs=[Markup(json_in_html(spec)) for spec in specs],
        )
    )


def render_index(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of the list of runs: no script, no chart."""
    return (
        _environment().get_template("index.html.j2").render(csp=policy([]), css=Markup(asset(STYLE)), runs=list(runs))
    )


def json_in_html(value: Any) -> str:
    """Return JSON that no text in it can end a script element or open a comment with."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def meaning(name: str) -> str:
    """Return the sentence that the metric table has for a name: what a template shows as hover text."""
    return metrics.metric(name).meaning


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["meaning"] = meaning
    return environment
