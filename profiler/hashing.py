"""What a source is, apart from its layout: text without comments and white space, and the hash that recordings match.

Two sources that differ in comments, indentation or line breaks have one hash; a change of a string (inline PTX is one)
or of a preprocessor line changes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from profiler.build_sources import project_files
from profiler.model import ProblemRef, Variant

_WORD = re.compile(r"\w")
_OPERATORS = set("+-*/%&|^<>=!:#~?.\\@")
_RAW = re.compile(r'R"([^()\\\s]{0,16})\(')
_PYTHON_STRING = re.compile(r"(\"\"\"|'''|\"|')")


def source_hash(variant: Variant, problem: ProblemRef, arch: str) -> str:
    """Return the hash of everything that must be the same for a recorded measurement to stand for this variant.

    Sizes, the compiler's version and search folders are not part of it. A source that cannot be read hashes as absent.
    """
    build = variant.build
    facts: dict[str, Any] = {
        "kind": variant.kind,
        "dtype": variant.dtype,
        "problem": problem.kind,
        "problem_file": None if problem.file is None else _stripped_hash(problem.file),
        "options": dict(problem.options),
        "init": dict(problem.init),
        "function": variant.function,
        "call": None if variant.call is None else strip_cpp(variant.call),
        "params": dict(variant.params),
        "sources": [(file.name, _stripped_hash(file.path)) for file in project_files(variant)],
    }
    if variant.kind == "cuda":
        facts |= {"flags": list(build.flags), "link": list(build.link), "std": build.std}
    if variant.kind in {"cuda", "triton"}:
        facts["arch"] = arch
    if variant.command is not None:
        program = variant.command
        facts |= {"argv": list(program.argv), "env": dict(program.env), "build_command": list(program.build_command)}
        facts |= {"inputs": [(file.name, _stripped_hash(file)) for file in program.build_inputs]}
        facts |= {"launches": dict(program.launches), "time": program.time}
    return digest(facts)


def digest(facts: Any) -> str:
    """Return the sha256 of a JSON-like value, independent of the order of its keys."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def strip_cpp(text: str) -> str:
    """Return C++ text without comments and without white space that means nothing."""
    text = text.replace("\r\n", "\n").replace("\\\n", " ")
    out: list[str] = []
    position, size = 0, len(text)
    while position < size:
        char = text[position]
        if text.startswith("//", position):
            end = text.find("\n", position)
            position = size if end < 0 else end
            continue
        if text.startswith("/*", position):
            end = text.find("*/", position + 2)
            position = size if end < 0 else end + 2
            out.append(" ")
            continue
        if char == "R" and (raw := _RAW.match(text, position)) and not _word_before(text, position):
            closing = f'){raw[1]}"'
            end = text.find(closing, raw.end())
            end = size if end < 0 else end + len(closing)
            out.append(_opaque(text[position:end]))
            position = end
            continue
        if char == '"' or (char == "'" and not _word_before(text, position)):
            end = _quoted_end(text, position, char)
            out.append(_opaque(text[position:end]))
            position = end
            continue
        out.append(char)
        position += 1
    return _restore(_squeeze_cpp("".join(out)))


def strip_python(text: str) -> str:
    """Return Python text without comments, blank lines and white space that means nothing; indentation stays."""
    text = text.replace("\r\n", "\n").replace("\\\n", " ")
    out: list[str] = []
    position, depth, size = 0, 0, len(text)
    while position < size:
        char = text[position]
        if char == "#":
            end = text.find("\n", position)
            position = size if end < 0 else end
            continue
        match = _PYTHON_STRING.match(text, position)
        if match:
            end = _python_end(text, match.end(), match[1])
            out.append(_opaque(text[position:end]))
            position = end
            continue
        depth += (char in "([{") - (char in ")]}")
        out.append(" " if char == "\n" and depth > 0 else char)
        position += 1
    lines = []
    for line in "".join(out).split("\n"):
        body = line.lstrip()
        if body.strip():
            lines.append(line[: len(line) - len(body)].expandtabs(8) + _squeeze(body))
    return _restore("\n".join(lines))


def _stripped_hash(path: Path) -> str:
    text = _text(path)
    return "absent" if text is None else _text_hash(text, path.suffix == ".py")


@lru_cache(maxsize=256)  # many variants share a header, a source or a problem
def _text_hash(text: str, is_python: bool) -> str:
    stripped = strip_python(text) if is_python else strip_cpp(text)
    return hashlib.sha256(stripped.encode()).hexdigest()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _word_before(text: str, position: int) -> bool:
    return position > 0 and _WORD.match(text[position - 1]) is not None


def _quoted_end(text: str, start: int, quote: str) -> int:
    position = start + 1
    while position < len(text) and text[position] != "\n":
        if text[position] == "\\":
            position += 2
            continue
        if text[position] == quote:
            return position + 1
        position += 1
    return min(position, len(text))


def _python_end(text: str, start: int, quote: str) -> int:
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text.startswith(quote, position):
            return position + len(quote)
        if len(quote) == 1 and text[position] == "\n":
            return position
        position += 1
    return len(text)


# Strings pass through the squeezing as private characters, which no source that matters holds.
_HIDE = {" ": "\ue000", "\t": "\ue001", "\n": "\ue002", "#": "\ue003"}


def _opaque(text: str) -> str:
    return "\ue004" + "".join(_HIDE.get(char, char) for char in text) + "\ue005"


def _restore(text: str) -> str:
    for plain, hidden in _HIDE.items():
        text = text.replace(hidden, plain)
    return text.replace("\ue004", "").replace("\ue005", "")


def _squeeze_cpp(text: str) -> str:
    parts: list[str] = []
    code: list[str] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#"):  # in a directive, a space may matter and the line break does
            if code:
                parts.append(_squeeze(" ".join(code)))
                code = []
            parts.append(" ".join(line.split()))
        elif line.strip():
            code.append(line)
    if code:
        parts.append(_squeeze(" ".join(code)))
    return "\n".join(parts)


def _squeeze(code: str) -> str:
    """Return code with a space only where two words or two operators would otherwise become one."""
    words = code.split()
    out = words[:1]
    for word in words[1:]:
        before, after = out[-1][-1], word[0]
        both_words = bool(_WORD.match(before)) and bool(_WORD.match(after))
        both_operators = before in _OPERATORS and after in _OPERATORS
        out.append(f" {word}" if both_words or both_operators else word)
    return "".join(out)
