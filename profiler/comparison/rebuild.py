"""A run's own copies of its sources as something that can be built and measured again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from profiler.build_sources import GENERATED, PROBLEM_FOLDER, Layout, folder_name
from profiler.errors import UsageError
from profiler.experiment import stored_experiment
from profiler.model import Experiment, Variant
from profiler.problems import REGISTRY
from profiler.rundir import RunDir


@dataclass(frozen=True)
class Side:
    """One side of a measurement: an experiment whose sources are copies that a run keeps.

    ``layouts`` has the files of each CUDA variant as they were compiled; ``unreadable`` what is not there any more, by
    variant, and why.
    """

    experiment: Experiment
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    run: RunDir | None = None


def stored_side(run: RunDir) -> Side:
    """Return a run as a side; ``UsageError`` when it keeps too little to be measured again."""
    stored = run.manifest.get("experiment") or {}
    text, name = stored.get("text"), run.path.name
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{name} keeps no experiment file, so nothing of it can be measured again")
    sources = (run.path / "sources").resolve()
    kind = str((run.manifest.get("problem") or {}).get("kind") or "")
    problem_file = None
    if kind and kind not in REGISTRY:
        problem_file = sources / PROBLEM_FOLDER / PurePosixPath(kind.rpartition(":")[0]).name
        if not problem_file.is_file():
            raise UsageError(
                f"{name} keeps no copy of its problem's file {problem_file.name}",
                hint="run the experiment again with this version, and compare with that run",
            )
    experiment = stored_experiment(
        text, run.path.resolve() / str(stored.get("file") or "experiment.yaml"), problem_file
    )
    layouts: dict[str, Layout] = {}
    unreadable: dict[str, str] = {}
    variants: list[Variant] = []
    for variant in experiment.variants:
        folder = sources / folder_name(variant.name)
        main = None if variant.source is None else stored_source(folder, variant.source)
        if variant.source is not None and main is None:
            unreadable[variant.name] = f"the run keeps no copy of {variant.source.name}"
        elif variant.kind == "cuda" and main is not None:
            layouts[variant.name] = _layout(folder, main, variant, _command(run, variant.name))
        variants.append(replace(variant, source=main))
    return Side(replace(experiment, variants=tuple(variants)), layouts, unreadable, run)


def stored_source(folder: Path, named: Path) -> Path | None:
    """Return the copy of a source in a variant's folder: of the files of that name, the one whose path ends most like
    the one that the experiment gives; None when there is none.
    """
    wanted = PurePosixPath(named.as_posix()).parts[::-1]

    def alike(path: Path) -> tuple[int, int]:
        parts = path.relative_to(folder).parts[::-1]
        pairs = zip(parts, wanted, strict=False)
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return (equal, -len(parts))

    found = [path for path in folder.rglob(named.name) if path.is_file()]
    return max(found, key=alike) if found else None


def _layout(folder: Path, main: Path, variant: Variant, command: list[str]) -> Layout:
    """Return the files as they were compiled; the folders that were searched are those of the recorded command."""
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}
    searched = [word[2:] for word in command if word.startswith("-I") and not word.startswith("-I/")]
    include = [name for name in searched or ["."] if (folder / name).is_dir()]
    name = main.relative_to(folder).as_posix()
    compiled = GENERATED if variant.call is not None and GENERATED in contents else name
    copies = [name, *(one for one in contents if one not in (name, GENERATED))]
    return Layout(contents, compiled, tuple(dict.fromkeys(include)), {one: folder / one for one in copies})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".partial"))


def _command(run: RunDir, name: str) -> list[str]:
    build: Any = (run.manifest.get("builds") or {}).get(name) or {}
    return [str(word) for word in build.get("command") or ()]
