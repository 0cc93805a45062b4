"""Colours of the style sheet as a reader with deuteranopia sees them, and how far apart two of them are."""

from __future__ import annotations

import re
from math import sqrt

from reports.page_assets import STYLE, asset

RGB = tuple[float, float, float]
#: Deuteranopia in linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.
_DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))


def palettes() -> dict[str, dict[str, str]]:
    """Return the colours by name, light and dark."""
    css = asset(STYLE)
    light = css[: css.index("@media (prefers-color-scheme: dark)")]
    dark = css[css.index(':root[data-theme="dark"]') :]
    return {
        theme: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text[:1500]))
        for theme, text in (("light", light), ("dark", dark))
    }


def linear(colour: str) -> RGB:
    """Return a colour's linear RGB."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return red, green, blue


def seen(colour: str) -> RGB:
    """Return the linear RGB that stands for what a reader with deuteranopia sees."""
    source = linear(colour)
    red, green, blue = (max(0.0, sum(k * c for k, c in zip(row, source, strict=True))) for row in _DEUTERANOPIA)
    return red, green, blue


def luminance(rgb: RGB) -> float:
    """Return the relative luminance."""
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, as WCAG defines it."""
    a, b = sorted((luminance(linear(one)), luminance(linear(other))))
    return (b + 0.05) / (a + 0.05)


def distance(one: str, other: str) -> float:
    """Return the distance (CIE 1976) of two colours as a reader with deuteranopia sees them."""
    a, b = _lab(seen(one)), _lab(seen(other))
    return sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def _lab(rgb: RGB) -> RGB:
    red, green, blue = rgb
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = luminance(rgb)
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
