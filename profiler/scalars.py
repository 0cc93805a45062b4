"""What the scalars of an experiment file mean where a text, a name, a number, a flag or an architecture is meant.

Each function takes a scalar as ``profiler.yaml_lines`` keeps it, or a plain Python value, and raises
``PydanticCustomError`` with the remedy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic_core import PydanticCustomError

from profiler.arch import normalise
from profiler.yaml_lines import Broken, Entries, Items, Scalar

NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,79}"
_NAME = re.compile(NAME_PATTERN, re.ASCII)
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", re.ASCII)
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.?(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_DISPUTED = re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]*_[0-9a-fA-F_]*|[0-9]+_[0-9_]*)", re.ASCII)
_MAX_INTEGER = 2**63 - 1


def _fail(message: str) -> PydanticCustomError:
    return PydanticCustomError("value", "{message}", {"message": message})


def shown(value: object) -> str:
    """Return a value as an error quotes it."""
    if isinstance(value, Scalar):
        if value.is_null:
            return "nothing"
        text = value.text if len(value.text) <= 60 else value.text[:57] + "..."
        return text if value.plain and "\n" not in text else repr(text)
    if isinstance(value, Mapping | Entries):
        return "a mapping"
    if isinstance(value, Sequence | Items) and not isinstance(value, str):
        return "a list"
    return repr(value)


def _scalar(value: Any, wanted: str) -> Scalar:
    if isinstance(value, Broken):
        raise PydanticCustomError("broken", "refused already")
    if isinstance(value, bool):
        return Scalar(0, 0, "", "true" if value else "false")
    if isinstance(value, int | float):
        return Scalar(0, 0, "", repr(value))
    if isinstance(value, str):
        return Scalar(0, 0, "", value, plain=False)
    if not isinstance(value, Scalar):
        hint = ": quote it, as a text may hold { } or [ ]" if wanted == "a text" and isinstance(value, dict) else ""
        raise _fail(f"expected {wanted}, found {shown(value)}{hint}")
    if value.is_null:
        raise _fail("has no value: give one, or remove the key")
    return value


def as_text(value: Any) -> str:
    """Return a text; bare ``true`` and ``false`` are refused, numbers are taken as they are written."""
    scalar = _scalar(value, "a text")
    if scalar.is_bool:
        raise _fail(f'expected a text, found {scalar.text}: quote it ("{scalar.text}")')
    if not scalar.text.strip():
        raise _fail("is empty")
    return scalar.text


def as_name(value: Any) -> str:
    """Return a name that can be a folder, a filter and a label."""
    text = as_text(value)
    if _NAME.fullmatch(text) is None:
        raise _fail(
            f"{text!r} is not a name: use letters, digits and _ . + - ([A-Za-z0-9_.+-]+), beginning with a letter, "
            "a digit or _, at most 80 of them"
        )
    return text


def as_flag(value: Any) -> bool:
    """Return a flag: bare ``true`` or ``false``."""
    scalar = _scalar(value, "true or false")
    if scalar.text.lower() not in ("true", "false"):
        raise _fail(f"expected true or false, found {shown(value)}")
    return scalar.text.lower() == "true"


def _decimal(scalar: Scalar, wanted: str) -> Decimal:
    text = scalar.text
    if scalar.is_bool:
        raise _fail(f"expected {wanted}, found {text}")
    if _NOT_FINITE.fullmatch(text):
        raise _fail(f"expected {wanted}, found {text}: a value must be finite")
    if _DISPUTED.fullmatch(text):
        raise _fail(f"{text} is read differently by different YAML readers: write the plain decimal number")
    if _HEX.fullmatch(text):
        return Decimal(int(text, 16))
    if len(text) > 60 or _NUMBER.fullmatch(text) is None:
        raise _fail(f"expected {wanted}, found {shown(scalar)}")
    if re.match(r"[-+]?0[0-9]", text):
        raise _fail(f"{text} has a leading zero: write {text.lstrip('+-').lstrip('0') or '0'}")
    return Decimal(text)


def as_integer(value: Any) -> int:
    """Return a whole number: ``4096``, ``1e5`` and ``"128"`` are ones, ``4096.5``, ``010`` and ``true`` are not."""
    number = _decimal(_scalar(value, "a whole number"), "a whole number")
    if abs(number) > _MAX_INTEGER:
        raise _fail(f"{shown(value)} does not fit 64 bits")
    if number != number.to_integral_value():
        raise _fail(f"expected a whole number, found {shown(value)}")
    return int(number)


def as_param(value: Any) -> int | float | str | bool:
    """Return a param: quoted text as text, a bare flag as a flag, a bare number as a number, anything else as text."""
    scalar = _scalar(value, "a number, a text or a flag")
    text = scalar.text
    if not scalar.plain:
        return as_text(scalar)
    if scalar.is_bool:
        return text.lower() == "true"
    if not any(pattern.fullmatch(text) for pattern in (_NUMBER, _HEX, _DISPUTED, _NOT_FINITE)):
        return as_text(scalar)
    number = _decimal(scalar, "a number")
    if re.fullmatch(r"[-+]?[0-9]+|0x[0-9a-fA-F]+", text) or (number == number.to_integral_value() and "." not in text):
        return as_integer(scalar)
    if not math.isfinite(float(number)):
        raise _fail(f"{text} does not fit a double")
    return float(number)


def as_arch(value: Any) -> str:
    """Return ``auto`` or a real architecture: ``sm_90a`` for ``90a`` and ``9.0a``, ``sm_90`` for ``90`` and ``9.0``."""
    text = as_text(value)
    try:
        arch = normalise(text)
    except ValueError:
        arch = ""
    if arch != "auto" and not 50 <= int("0" + "".join(c for c in arch if c.isdigit())) <= 199:
        raise _fail(f"{text} is not an architecture: write auto, or one such as sm_90a, sm_80, 9.0")
    return arch
