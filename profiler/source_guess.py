"""What a source probably is: its problem, contract, tunable macros, and the call of its host function.

Guesses serve ``--init`` and the hints of errors; whoever uses one says so. Text in, guesses out: nothing is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler.model import ProblemRef
from profiler.problem import In, InOut, Out, Scalar
from profiler.problem_file import ProblemFileError, ProblemLiterals, literals_of, read_literals
from profiler.problems import REGISTRY
from profiler.python_source import PythonSourceError, parse_python

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<](?:[^">]*/)?([^">/]+)\.h[">]', re.M)
_TUNABLE = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+([0-9]{1,9})[ \t]*(?://.*|/\*.*)?$", re.M
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# The bound on the words before the name keeps a table of a million numbers from taking hours.
_FUNCTION = re.compile(r"(?:^|[;}])\s*((?:[\w:<>,*&\"]+\s+){1,40}[*&]*)(\w+)\s*\(([^(){};]*)\)\s*\{", re.M)
_LAUNCH = re.compile(r"\blaunch\s*\(\s*const\s+Args\b")
_ENTRIES = frozenset({"launch", "prepare", "destroy", "workspace_bytes", "main"})
#: Words that speak for a registered problem where no header does.
_WORDS = {"gemm": re.compile(r"(?i)[a-z]*gemm|matmul|matrix[ _]mul")}
#: What a torch dtype looks like in a source.
_TYPES = {
    "float64": re.compile(r"\bdouble\b|float64"),
    "float32": re.compile(r"\bfloat[24]?\b|float32"),
    "float16": re.compile(r"\b(?:__)?half2?\b|float16"),
    "bfloat16": re.compile(r"bfloat16|\bbf16"),
    "float8_e4m3fn": re.compile(r"e4m3"),
    "float8_e5m2": re.compile(r"e5m2"),
    "int8": re.compile(r"\bint8(?:_t)?\b|dp4a|\bchar4\b"),
}
_INTEGER = re.compile(r"\b(?:int|int32_t|int64_t|size_t|long|unsigned|uint32_t|uint64_t)\b")
_FACTORS = {"alpha": "1.0f", "beta": "0.0f"}


@dataclass(frozen=True)
class Guess:
    """A guess and what speaks for it, in words that follow "guessed: "."""

    value: str
    why: str


def guess_problem(text: str, path: Path) -> Guess | None:
    """Return the problem that a source computes: by the header it includes, its name, a problem's file beside it, or
    its words.
    """
    included = set(_INCLUDE.findall(text))
    for name in REGISTRY:
        header = literals_of(ProblemRef(name, None, {}, (), (), {})).name
        if header in included:
            return Guess(name, f'the source includes "{header}.h"')
    beside = list(problems_beside(path.parent))
    for kind, literals in beside:
        if literals.name in included:
            return Guess(kind, f'the source includes "{literals.name}.h"')
    for name, words in _WORDS.items():
        if match := words.search(path.stem):
            return Guess(name, f"its name speaks of {match[0]}")
    if len(beside) == 1:
        return Guess(beside[0][0], f"{beside[0][0].partition(':')[0]} lies beside it")
    for name, words in _WORDS.items():
        if match := words.search(text):
            return Guess(name, f"the source speaks of {match[0]}")
    return None


def problems_beside(folder: Path) -> Iterator[tuple[str, ProblemLiterals]]:
    """Yield (``file.py:Class``, literals) of the problems that Python files in a folder define; none is run."""
    for path in sorted(folder.glob("*.py"))[:200]:
        try:
            tree = parse_python(path)
        except PythonSourceError:
            continue
        for node in tree.body:
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.ClassDef) and any(base.rpartition(".")[2] == "Problem" for base in bases):
                try:
                    yield f"{path.name}:{node.name}", read_literals(path, node.name)
                except ProblemFileError:
                    continue


def guess_dtype(text: str, path: Path, literals: ProblemLiterals) -> Guess:
    """Return the contract of a source: by its folder or name, else by the types it uses, else the problem's first."""
    parts = [part.lower() for part in (path.parent.name, *re.split(r"[_.\-]", path.stem))]
    for dtype in literals.dtypes:
        if dtype.lower() in parts:
            return Guess(dtype, f"{path.name} is named or kept so")
    code = _COMMENT.sub(" ", text)
    best: tuple[int, str] | None = None
    for dtype in literals.dtypes:
        used = {arg.dtype_in(dtype) for arg in literals.args if not isinstance(arg, Scalar)}
        if all(name in _TYPES and _TYPES[name].search(code) for name in used):
            special = len(used - {"float32"})
            if best is None or special > best[0]:
                best = (special, dtype)
    if best is not None:
        return Guess(best[1], "by the types in the source")
    return Guess(literals.dtypes[0], f"the first of {', '.join(literals.dtypes)}")


def tunable_macros(text: str, literals: ProblemLiterals) -> dict[str, int]:
    """Return the macros that a source gives a number only ``#ifndef``: what ``params`` may set."""
    taken = {*literals.dims, *(arg.name for arg in literals.args)}
    return {name: int(value) for name, value in _TUNABLE.findall(text) if name not in taken}


def exports_launch(text: str) -> bool:
    """Return whether a source defines or declares the entry that the generated header asks for."""
    return _LAUNCH.search(_COMMENT.sub(" ", text)) is not None


def guess_call(text: str, literals: ProblemLiterals) -> str | None:
    """Return the call of the one host function that can be given everything it asks for; None when there is none."""
    calls = [call for name, given in host_functions(text) if (call := _call(name, given, literals)) is not None]
    return calls[0] if len(calls) == 1 else None


def host_functions(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the host functions that a source defines: name and (type, name) of each parameter."""
    found = []
    for head, name, listed in _FUNCTION.findall(_COMMENT.sub(" ", text)):
        words = head.split()
        if name in _ENTRIES or not words or words[0] in ("else", "return", "struct", "new"):
            continue
        if any(word.startswith(("__global__", "__device__")) for word in words):
            continue
        parameters = [re.fullmatch(r"\s*(.*?[\s*&])(\w+)\s*", part, re.S) for part in listed.split(",")]
        if all(parameters):
            pairs = [(" ".join(m[1].replace("__restrict__", "").split()), m[2]) for m in parameters if m is not None]
            if any("*" in kind for kind, _ in pairs):
                found.append((name, pairs))
    return found


def _call(name: str, given: list[tuple[str, str]], literals: ProblemLiterals) -> str | None:
    tensors = [arg for arg in literals.args if not isinstance(arg, Scalar)]
    by_kind: Mapping[str, list[str]] = {
        "read": [arg.name for arg in tensors if isinstance(arg, In)],
        "written": [arg.name for arg in tensors if isinstance(arg, Out | InOut)],
        "dim": list(literals.dims),
        "scalar": [arg.name for arg in literals.args if isinstance(arg, Scalar)],
    }
    kinds = [_kind(text, word) for text, word in given]
    words: list[str | None] = []
    for (_, word), kind in zip(given, kinds, strict=True):
        same = [known for known in by_kind.get(kind, []) if known.lower() == word.lower()]
        words.append("stream" if kind == "stream" else _FACTORS.get(word.lower(), same[0] if same else None))
    for kind, known in by_kind.items():  # what no name tells, order does, where every place is taken
        places = [i for i, k in enumerate(kinds) if k == kind and words[i] is None]
        left = [word for word in known if word not in words]
        if len(places) != len(left):
            continue
        for place, word in zip(places, left, strict=True):
            words[place] = word
    wanted = {*by_kind["read"], *by_kind["written"]}
    if any(word is None for word in words) or not wanted <= set(words):
        return None
    return f"{name}({', '.join(str(word) for word in words)})"


def _kind(text: str, word: str) -> str:
    if "cudaStream_t" in text:
        return "stream"
    if "*" in text:
        return "read" if text.startswith("const ") or " const *" in text else "written"
    return "dim" if _INTEGER.search(text) and word.lower() not in _FACTORS else "scalar"
