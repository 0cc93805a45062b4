"""Names of kernels: one spelling for what demanglers write differently."""

from __future__ import annotations

import re

# What demanglers write differently: (bool)0 or false, 128u or 128, the names of unnamed namespaces.
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<=\d)[uUlL]+\b")
_BOOLEAN = re.compile(r"\b(?:true|false)\b")


def kernel_instance(kernel: str) -> str:
    """Return a kernel's function with its template arguments in one spelling, without result and parameters."""
    named = _CAST.sub("", _UNNAMED.sub("", kernel))
    named = _BOOLEAN.sub(lambda found: str(int(found[0] == "true")), _SUFFIX.sub("", named))
    function, bracket, rest = named.partition("<")
    if not bracket or "(" in function:
        return function.partition("(")[0].split(" ")[-1]
    depth, end = 1, 0
    for end, character in enumerate(rest, start=1):  # noqa: B007
        depth += (character == "<") - (character == ">")
        if depth == 0:
            break
    return function.split(" ")[-1] + bracket + rest[:end].replace(" ", "")
