"""What ``run_experiment`` does with an EXPERIMENT before anything runs: open, check, draft, print its header."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from profiler.bare import BareFlags, bare_experiment, bare_path, is_bare, notice
from profiler.cli.common import stderr_console
from profiler.errors import Exit, UsageError
from profiler.experiment import find_experiment, load_experiment
from profiler.header import header_text
from profiler.init_file import write_init
from profiler.model import Experiment, Variant
from profiler.plan import DEFAULT_ARCH, skips
from profiler.problem_file import literals_of


def open_experiment(text: str, bare: BareFlags, *, quiet: bool = False) -> Experiment:
    """Return the experiment that a user means: a YAML file, a name in experiments/, or a bare source with flags."""
    if is_bare(text):
        experiment = bare_experiment(text, bare)
        if not quiet and (said := notice(experiment, bare)):
            stderr_console().print(said, markup=False)
        return experiment
    if bare.given:
        raise UsageError(
            f"{bare.given[0]} is for a bare kernel.cu or file.py:function; {text} is an experiment file",
            hint="change the file, or name the kernel itself",
        )
    return load_experiment(find_experiment(text))


def locate_experiment(text: str) -> Path:
    """Return where the file of an experiment lies, a bare source or an experiment file."""
    return bare_path(text) if is_bare(text) else find_experiment(text)


def check_one(text: str, bare: BareFlags) -> tuple[Exit, dict[str, Any]]:
    """Validate and plan one experiment; run none of its code."""
    experiment = open_experiment(text, bare)
    arch = experiment.variants[0].build.arch
    skipped = skips(experiment, DEFAULT_ARCH if arch == "auto" else arch)
    document = {
        "experiment": experiment.name,
        "ok": True,
        "variants": [
            {"name": v.name, "kind": v.kind, "dtype": v.dtype, "skipped": skipped.get(v.name, {})}
            for v in experiment.variants
        ],
        "sizes": list(experiment.size_keys),
    }
    counts = ((len(experiment.variants), "variant"), (len(experiment.size_keys), "size"))
    stderr_console().print(
        f"{experiment.path.name}: ok: " + ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts),
        markup=False,
    )
    return Exit.OK, document


def init_file(text: str, bare: BareFlags) -> Exit:
    """Write a commented experiment file beside a kernel and say so."""
    target, todo = write_init(text, bare)
    console = stderr_console()
    console.print(f"wrote {target}", markup=False)
    for line in todo:
        console.print(f"to do: {line}", markup=False)
    console.print(f"next: run_experiment --check {shlex.quote(str(target))}", markup=False)
    return Exit.OK


def print_header(text: str, bare: BareFlags, only: tuple[str, ...]) -> Exit:
    """Print the generated header of an experiment on standard output; its problem's file is not run."""
    # --dtype chooses among the contracts of an experiment file, and is a flag of the bare file itself otherwise.
    experiment = open_experiment(text, bare if is_bare(text) else BareFlags(), quiet=True)
    cuda = [v for v in experiment.variants if v.kind == "cuda"] or list(experiment.variants)
    chosen = _chosen(experiment, cuda, only, None if is_bare(text) else bare.dtype)
    contracts = list(dict.fromkeys(v.dtype for v in chosen))
    if len(contracts) > 1:
        raise UsageError(
            f"{text}: the header depends on the contract, and there are {', '.join(contracts)}",
            hint=f"choose with --dtype {contracts[0]}, or a variant with --only {chosen[0].name}",
        )
    literals = literals_of(experiment.problem)
    sys.stdout.write(header_text(literals, contracts[0], experiment.problem.options))
    return Exit.OK


def _chosen(experiment: Experiment, cuda: list[Variant], only: tuple[str, ...], dtype: str | None) -> list[Variant]:
    names = {v.name for v in experiment.variants}
    for name in only:
        if name not in names:
            raise UsageError(f"--only {name}: no such variant", hint="it has " + ", ".join(sorted(names)))
    chosen = [v for v in experiment.variants if v.name in only] if only else cuda
    of_dtype = [v for v in chosen if dtype is None or v.dtype == dtype]
    if not of_dtype:
        known = ", ".join(dict.fromkeys(v.dtype for v in chosen))
        raise UsageError(f"--dtype {dtype}: no such variant", hint=f"there are {known}")
    return of_dtype
