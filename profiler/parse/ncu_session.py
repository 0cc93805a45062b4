"""What a ``.ncu-rep`` says of the session that wrote it: tool, driver, date, two options. Pure.

NVIDIA's reader gives none of it. Only values of a closed form are taken from the bytes, so that no user, host or path
of the machine that wrote the file comes along.
"""

from __future__ import annotations

import re

_TOOL = re.compile(rb"(20[1-9]\d\.\d{1,2}\.\d{1,2})\.\d{1,3} \(build \d{6,12}\)")
_DRIVER = re.compile(rb"Display Driver Version\x12.(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)[^\d.]", re.DOTALL)
_OPTIONS = {
    "cache_control": re.compile(rb"--cache-control[ =](all|none)\b"),
    "clock_control": re.compile(rb"--clock-control[ =](base|none|boost|reset)\b"),
}
#: What the tool does when the option is not given.
_DEFAULTS = {"cache_control": "all", "clock_control": "base"}
#: The head of the file: a block that begins with the time, as a number of seconds in groups of seven bits.
_STAMP = slice(16, 40)
_SECONDS = re.compile(rb"\x1a.{1,2}?\x10([\x80-\xff]{4}[\x01-\x0f])", re.DOTALL)
_COMMAND_BYTES = 20_000


def session_facts(content: bytes) -> dict[str, str]:
    """Return ``tool``, ``driver``, ``taken`` (seconds since 1970), ``cache_control`` and ``clock_control``.

    Only those that the bytes tell.
    """
    facts: dict[str, str] = {}
    tools = list(_TOOL.finditer(content))
    if tools:
        facts["tool"] = tools[-1].group(1).decode()
        command = content[tools[-1].end() : tools[-1].end() + _COMMAND_BYTES]
        given = {name: option.search(command) for name, option in _OPTIONS.items()}
        if b"ncu" in command[:400] or any(given.values()):
            for name, found in given.items():
                facts[name] = found.group(1).decode() if found else _DEFAULTS[name]
    if driver := _DRIVER.search(content):
        facts["driver"] = driver.group(1).decode()
    if taken := _stamp(content[_STAMP]):
        facts["taken"] = taken
    return facts


def _stamp(head: bytes) -> str:
    found = _SECONDS.search(head)
    if found is None:
        return ""
    seconds = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(found.group(1)))
    # A year that no report can be from means that the bytes are something else.
    if not 1_500_000_000 < seconds < 4_000_000_000:
        return ""
    return str(seconds)
