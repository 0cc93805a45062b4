"""Python files that are read but never run: what they define."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from pathlib import Path

from profiler.errors import UsageError


class PythonSourceError(UsageError):
    """A file that is no Python, or cannot be read; the message is ``file.py:line: reason``."""


def parse_python(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file without running it; ``PythonSourceError`` when there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the user's file is not ours to report
            return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise PythonSourceError(f"{path.name}:{error.lineno or 1}: {error.msg}") from error
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PythonSourceError(f"{path.name}:1: cannot be read: {reason}") from error


def module_names(body: Iterable[ast.stmt]) -> tuple[set[str], bool]:
    """Return the names that a module binds, and whether a star import may bind others."""
    names: set[str] = set()
    open_ended = False
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
        elif isinstance(statement, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
            open_ended = open_ended or any(alias.name == "*" for alias in statement.names)
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            inner = [*statement.body, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]
            inner += [s for handler in getattr(statement, "handlers", []) for s in handler.body]
            more, more_open = module_names(inner)
            names, open_ended = names | more, open_ended or more_open
    return names, open_ended


def keyword_names(tree: ast.Module, functions: Iterable[str]) -> set[str] | None:
    """Return the keyword-only parameters of these functions, of which the first must be there; None when that cannot be
    told: one takes all keywords, is decorated, or the first is not defined with ``def``.
    """
    found: set[str] = set()
    wanted = list(functions)
    defined = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
    if wanted[0] not in defined:
        return None
    for name in wanted:
        if name in defined:
            arguments = defined[name].args
            if arguments.kwarg is not None or defined[name].decorator_list:
                return None
            found |= {argument.arg for argument in arguments.kwonlyargs}
    return found
