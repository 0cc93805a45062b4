"""An experiment file as the pipeline sees it: read, checked all at once, defaults merged, paths resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from profiler import experiment_checks
from profiler.errors import UsageError
from profiler.experiment_files import find_experiment, find_source, is_file, missing_experiment, split_function
from profiler.model import (
    BuildOptions,
    CommandOptions,
    Dims,
    Experiment,
    Kind,
    Measure,
    ProblemRef,
    ProfileOptions,
    Variant,
)
from profiler.problem_file import literals_of
from profiler.problems import REGISTRY
from profiler.schema import (
    BuildKeys,
    DefaultKeys,
    ExperimentFile,
    NamedVariant,
    StdoutTime,
    VariantKeys,
    structure_issues,
)
from profiler.yaml_lines import Entries, Issue, Items, Scalar, load

__all__ = [
    "ExperimentError",
    "Issue",
    "check_text",
    "find_experiment",
    "load_experiment",
    "parse_experiment",
    "place_of",
    "stored_experiment",
]

_KINDS: tuple[Kind, ...] = ("cuda", "triton", "python", "command")


class ExperimentError(UsageError):
    """An experiment file with errors, all of them; the message has a line for each."""

    def __init__(self, path: Path, issues: Sequence[Issue]) -> None:
        self.path = path
        self.issues = tuple(issues)
        count = "1 error" if len(issues) == 1 else f"{len(issues)} errors"
        super().__init__(
            "\n".join(issue.text(display_path(path)) for issue in issues),
            hint=f"{count}; docs/experiment-file.md describes every key",
        )


def display_path(path: Path) -> str:
    """Return a path as errors name it: relative to the current folder where it lies inside, else as it was given."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return os.fspath(path)


def load_experiment(path: Path) -> Experiment:
    """Return the experiment of a file.

    ``ExperimentError`` has everything that is wrong with it; a file that is not there or cannot be read is a
    ``UsageError``.
    """
    if not is_file(path):
        raise missing_experiment(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error.strerror}") from error
    return parse_experiment(content, path)


def check_text(text: str | bytes, path: Path) -> list[Issue]:
    """Return everything that is wrong with the text of an experiment file at ``path``, by position; empty when it is
    good. No code of the experiment runs.
    """
    return _read(text, path)[1]


def parse_experiment(text: str | bytes, path: Path) -> Experiment:
    """Return the experiment of a text that stands, or would stand, at ``path``; raises ``ExperimentError``."""
    file, issues = _read(text, path)
    if issues or file is None:
        raise ExperimentError(path, issues)
    decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
    return _build(file, path.resolve(), decoded)


def stored_experiment(text: str, path: Path, problem_file: Path | None) -> Experiment:
    """Return the experiment whose text a run keeps; the files that it names need not be there any more.

    ``path`` is taken for its place, and ``problem_file`` for the problem's own file. A variant's source is what the
    text says, unresolved, and folders of headers are left out: the caller knows where the run keeps its copies.
    ``UsageError`` when the text is not one of this version.
    """
    root, issues = load(text)
    file, structural = (None, []) if root is None else structure_issues(root)
    if file is None:
        raise ExperimentError(path, sorted({*issues, *structural}))

    def unresolved(text: str, path: Path, *, folder: bool = False) -> Path | None:
        return None if folder else Path(text)

    return _build(file, path, text, problem_file, unresolved)


def place_of(experiment: Experiment, variant: Variant, key: str) -> str:
    """Return where a key of a variant stands in its file, as ``gemm_ladder.yaml:31``: the variant's own or, behind it,
    the defaults'; ``--call`` and the like where the experiment was made of the command line.
    """
    if experiment.path.suffix not in (".yaml", ".yml"):
        return f"--{key}"
    root, _ = load(experiment.text)
    listed = root.get("variants") if root is not None else None
    rows = [node for node in listed.items if isinstance(node, Entries)] if isinstance(listed, Items) else []
    own = next((n for n in rows if isinstance(name := n.get("name"), Scalar) and name.text == variant.name), None)
    for holder in (own, root.get("defaults") if root is not None else None):
        node = holder.get(key) if isinstance(holder, Entries) else None
        if node is not None:
            return f"{experiment.path.name}:{node.line}"
    return experiment.path.name


def _read(text: str | bytes, path: Path) -> tuple[ExperimentFile | None, list[Issue]]:
    root, issues = load(text)
    if root is None:
        return None, issues
    file, structural = structure_issues(root)
    found = {*issues, *structural, *experiment_checks.check(root, path)}
    return file, _without_echoes(sorted(found))


def _without_echoes(issues: list[Issue]) -> list[Issue]:
    """Drop what is wrong with the value of a key that is unknown anyway."""
    unknown = {issue.path for issue in issues if issue.message.startswith("unknown key")}
    return [issue for issue in issues if issue.path not in unknown or issue.message.startswith("unknown key")]


# -- from a checked file to the pipeline's dataclasses


class _Locate(Protocol):
    def __call__(self, text: str, path: Path, *, folder: bool = False) -> Path | None: ...


def _build(
    file: ExperimentFile, path: Path, text: str, problem_file: Path | None = None, locate: _Locate = find_source
) -> Experiment:
    keys = file.problem
    if keys.kind not in REGISTRY and problem_file is None:
        problem_file = (path.parent / split_function(keys.kind)[0]).resolve()
    literals = literals_of(ProblemRef(keys.kind, problem_file, {}, (), (), {}))

    def size(given: Any) -> Dims:
        values = [given[name] for name in literals.dims] if isinstance(given, Mapping) else given
        return dict(zip(literals.dims, values, strict=True))

    problem = ProblemRef(
        kind=keys.kind,
        file=problem_file,
        options=literals.chosen(keys.model_extra or {}),
        sizes=tuple(size(given) for given in keys.sizes),
        check_sizes=tuple(size(given) for given in keys.check_sizes),
        init=keys.init.model_dump(),
        check_distributions=tuple(keys.check_distributions),
    )
    variants = tuple(_variant(row, file, path, locate) for row in file.variants)
    sustained = file.measure.sustained
    return Experiment(
        path=path,
        text=text,
        name=file.name,
        title=file.title or file.name,
        problem=problem,
        baseline=_baseline(file.baseline, variants),
        measure=Measure(
            cache=file.measure.cache,
            samples=file.measure.samples,
            warmup_ms=file.measure.warmup_ms,
            processes=file.measure.processes,
            sustained=sustained if isinstance(sustained, bool) else tuple(size(given) for given in sustained),
        ),
        profile=ProfileOptions(
            file.profile.set,
            tuple(file.profile.metrics),
            file.profile.sources,
            tuple(size(given) for given in file.profile.sizes),
            tuple(file.profile.skip),
        ),
        trace=file.trace,
        variants=variants,
    )


def _baseline(given: str | Mapping[str, str], variants: Sequence[Variant]) -> dict[str, str]:
    if not isinstance(given, str):
        return dict(given)
    return {variant.dtype: given for variant in variants if variant.dtype}


def _variant(row: NamedVariant, file: ExperimentFile, path: Path, locate: _Locate) -> Variant:
    defaults = file.defaults
    kind = _kind(row) or _kind(defaults)
    assert kind is not None, "a variant without a source is refused by the checks"
    text = getattr(row, kind) if _kind(row) else getattr(defaults, kind)
    source = function = command = None
    if kind == "cuda":
        source = locate(text, path)
    elif kind == "command":
        command = _command(row, defaults, tuple(text), path)
    else:
        file_name, function = split_function(text)
        source = locate(file_name, path)
    return Variant(
        name=row.name,
        kind=kind,
        dtype=str(_either(row, defaults, "dtype") or ""),
        source=source,
        function=function,
        call=_either(row, defaults, "call") if kind == "cuda" else None,
        params={**defaults.params, **row.params},
        requires=tuple(_either(row, defaults, "requires")),
        idea=_either(row, defaults, "idea") or "",
        build=_build_options([file.build, defaults.build, row.build] if kind == "cuda" else [file.build], path, locate),
        command=command,
    )


def _kind(keys: VariantKeys) -> Kind | None:
    return next((kind for kind in _KINDS if getattr(keys, kind) is not None), None)


def _either(row: NamedVariant, defaults: DefaultKeys, key: str) -> Any:
    return getattr(row if key in row.model_fields_set else defaults, key)


def _command(row: NamedVariant, defaults: DefaultKeys, argv: tuple[str, ...], path: Path) -> CommandOptions:
    cwd = _either(row, defaults, "cwd")
    time = _either(row, defaults, "time")
    launches = {**defaults.launches.model_dump(exclude_unset=True), **row.launches.model_dump(exclude_unset=True)}
    return CommandOptions(
        argv=argv,
        cwd=(path.parent / cwd).resolve() if cwd is not None else None,
        env={**defaults.env, **row.env},
        build_command=tuple(_either(row, defaults, "build_command") or ()),
        build_inputs=tuple((path.parent / name).resolve() for name in _either(row, defaults, "build_inputs")),
        launches={"skip": 0, "count": 1, "combine": "sum", **launches},
        time=time.model_dump() if isinstance(time, StdoutTime) else str(time),
    )


def _build_options(layers: Sequence[BuildKeys], path: Path, locate: _Locate) -> BuildOptions:
    """Return the layers as one: lists add up, single values are the last one given."""
    given = {key: getattr(layer, key) for layer in layers for key in ("std", "arch") if key in layer.model_fields_set}
    refused = [layer.refuse for layer in layers if "refuse" in layer.model_fields_set]
    folders = [locate(folder, path, folder=True) for layer in layers for folder in layer.include]
    return BuildOptions(
        flags=tuple(flag for layer in layers for flag in layer.flags),
        include=tuple(folder for folder in folders if folder is not None),
        link=tuple(item for layer in layers for item in layer.link),
        refuse=tuple(refused[-1]) if refused else BuildOptions().refuse,
        **given,
    )
