"""Where the files that an experiment names lie, and what was probably meant when there is none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from profiler import data_files
from profiler.errors import UsageError
from profiler.yaml_lines import Issue, Node

_SUFFIXES = (".yaml", ".yml")


def is_file(path: Path) -> bool:
    """Return whether a file is there; a name that cannot be one is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether a folder is there; a name that cannot be one is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def split_function(text: str) -> tuple[str, str]:
    """Return the parts of ``file.py:function``; the function is empty when there is none."""
    file, _, function = text.rpartition(":")
    return (file, function) if file else (text, "")


def find_source(text: str, path: Path, *, folder: bool = False) -> Path | None:
    """Return a file (or folder) beside the experiment file at ``path``, else under ``kernels/``; None when there is
    none.
    """
    for base in (path.parent, data_files.kernels()):
        candidate = base / text
        if is_folder(candidate) if folder else is_file(candidate):
            return candidate.resolve()
    return None


def file_issue(
    node: Node, text: str, experiment: Path, suffixes: tuple[str, ...], *, kernels_too: bool = True
) -> Issue:
    """Return the issue for a file that is not there, with what was probably meant."""
    known = _beside(experiment.parent, text, suffixes)
    where = f"beside {experiment.name}"
    if kernels_too:
        root = data_files.kernels()
        known += [str(p.relative_to(root)) for p in sorted(root.rglob("*")) if p.suffix in suffixes and p.is_file()]
        where += " or under kernels/"
    near = _near(text, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return node.issue(f"no file {text!r} {where}{hint}")


def find_experiment(text: str) -> Path:
    """Return the experiment file that a user means: a path, or the name of one in ``experiments/``, with or without
    ``.yaml``. Raises ``UsageError`` with near matches.
    """
    path = Path(text)
    shipped = data_files.experiments()
    candidates = [path, *(path.with_name(path.name + suffix) for suffix in _SUFFIXES if path.name)]
    if len(path.parts) == 1:
        candidates += [shipped / candidate.name for candidate in list(candidates)]
        candidates += [shipped / path.stem / f"{path.stem}{suffix}" for suffix in _SUFFIXES]  # with files of its own
        candidates += [shipped / "tuning" / f"{path.stem}{suffix}" for suffix in _SUFFIXES]
    for candidate in candidates:
        if is_file(candidate):
            return candidate
    raise missing_experiment(path)


def missing_experiment(path: Path) -> UsageError:
    """Return the error for an experiment file that is not there."""
    if is_folder(path):
        inside = _beside(path, "", _SUFFIXES)
        hint = f"it holds {', '.join(inside[:5])}" if inside else "name a YAML file"
        return UsageError(f"{path} is a folder, not an experiment file", hint=hint)
    beside = _beside(path.parent, path.name, _SUFFIXES)
    folder = data_files.experiments()
    own = [p for p in folder.glob("*/*") if p.parent.name in (p.stem, "tuning")]
    shipped = [p.name for p in sorted([*folder.glob("*"), *own]) if p.suffix in _SUFFIXES]
    near = _near(path.name, [*beside, *shipped]) or _near(f"{path.name}.yaml", [*beside, *shipped])
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"in experiments/: {', '.join(shipped)}" if shipped else "--init FILE.cu writes one for a kernel"
    return UsageError(f"no experiment file {str(path)!r}", hint=hint)


def _beside(folder: Path, text: str, suffixes: Iterable[str]) -> list[str]:
    """The files of the folder that ``text`` names a file of, written as ``text`` would be."""
    parent = Path(text).parent
    try:
        found = [p for p in sorted((folder / parent).iterdir()) if p.suffix in suffixes and p.is_file()]
    except (OSError, ValueError):
        return []
    return [str(parent / p.name) for p in found][:500]


def _near(text: str, known: Iterable[str]) -> list[str]:
    listed = list(dict.fromkeys(known))
    name = Path(text).name
    same = [path for path in listed if Path(path).name.lower() == name.lower()]
    close = difflib.get_close_matches(text, listed, n=3, cutoff=0.75)
    by_name = difflib.get_close_matches(name, [Path(path).name for path in listed], n=2, cutoff=0.75)
    close += [path for path in listed if Path(path).name in by_name]
    return list(dict.fromkeys([*same, *close]))[:3]
