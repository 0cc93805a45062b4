"""``--init kernel.cu``: a commented experiment file beside a kernel, its guesses marked as such."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from profiler.bare import BareFlags, bare_path, is_bare, make_draft, read_source
from profiler.draft import draft_text
from profiler.errors import Exit, LadderError, UsageError
from profiler.experiment import ExperimentError, parse_experiment
from profiler.problems import REGISTRY
from profiler.source_guess import exports_launch, guess_problem, tunable_macros


def init_text(text: str, flags: BareFlags) -> tuple[Path, str, list[str]]:
    """Return where the experiment file of a kernel goes, its text, and what is left to be done by hand."""
    if not is_bare(text):
        raise UsageError(f"--init {text}: expected a CUDA source (or file.py:function)")
    path = bare_path(text)
    source = read_source(path)
    notes: dict[str, str] = {}
    todo: list[str] = []
    if flags.problem is None:
        guess = guess_problem(source, path)
        problem = guess.value if guess else next(iter(REGISTRY))
        notes["problem"] = f"guessed: {guess.why if guess else 'nothing in the source says so'}"
        if guess is None:
            todo.append(f"problem: nothing in {path.name} says what it computes; {problem} is a placeholder")
        flags = replace(flags, problem=problem)
    draft = make_draft(text, flags)
    if draft.kind == "cuda":
        params = {name: str(value) for name, value in tunable_macros(source, draft.literals).items()}
        draft = replace(draft, params={**params, **draft.params})
        notes["params"] = "become -D macros"
        if draft.call is not None and flags.call is None:
            notes["call"] = "guessed from its parameters"
        if draft.call is None and not exports_launch(source):
            todo.append(
                f'{path.name} has no `extern "C" cudaError_t launch(const Args *, void *, cudaStream_t)`: write one, '
                f"or add `call:` (--header {path.with_suffix('.yaml').name} prints what it is given)"
            )
    draft = replace(draft, notes={**notes, **draft.notes})
    target = path.with_suffix(".yaml")
    head = [
        f"Written by run_experiment --init {Path(text).name}; correct what is marked as guessed, then",
        "",
        f"  run_experiment --check {shlex.quote(target.name)}",
        f"  run_experiment {shlex.quote(target.name)} --quick",
        *(f"TODO {line}" for line in todo),
    ]
    return target, draft_text(draft, head, commented=True), todo


def write_init(text: str, flags: BareFlags) -> tuple[Path, list[str]]:
    """Write the experiment file of a kernel beside it; return its path and what is left to be done.

    A file that is there is never overwritten.
    """
    target, content, todo = init_text(text, flags)
    try:
        parse_experiment(content, target)
    except ExperimentError as error:
        raise UsageError(f"--init {text}: the file would not pass --check\n{error}") from error
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError(
            f"{target} exists already, and is not overwritten",
            hint=f"run_experiment --check {shlex.quote(str(target))}",
        ) from error
    except OSError as error:
        raise LadderError(f"{target}: cannot be written: {error.strerror}", code=Exit.USAGE) from error
    return target, todo
