"""An experiment from a bare file: ``run_experiment kernel.cu --problem gemm``, or ``file.py:function``.

The text of an experiment file is made and read as any other, so that the run keeps it, is checked in the same way and
resumes; what is wrong is said in terms of the command line.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from profiler.draft import Draft, draft_text
from profiler.errors import UsageError
from profiler.experiment import ExperimentError, parse_experiment
from profiler.experiment_files import is_file, split_function
from profiler.model import Experiment, ProblemRef
from profiler.problem_file import ProblemLiterals, literals_of
from profiler.problems import REGISTRY, SIZES
from profiler.source_guess import exports_launch, guess_call, guess_dtype, guess_problem
from profiler.suggest import near_match, one_of

CUDA_SUFFIXES = (".cu", ".cuh")
#: Keys of the made experiment file as the command line calls them.
_FLAGS = (
    ("problem.sizes", "--size"), ("problem.check_sizes", "--size"), ("problem.kind", "--problem"),
    ("problem", "--option"), ("defaults.dtype", "--dtype"), ("variants[0].params", "--set-param"),
    ("variants[0].call", "--call"),
)  # fmt: skip


@dataclass(frozen=True)
class BareFlags:
    """The flags that say what a bare file is."""

    problem: str | None = None
    sizes: tuple[str, ...] = ()
    dtype: str | None = None
    params: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    call: str | None = None

    @property
    def given(self) -> list[str]:
        """The flags that were given, as they are written."""
        named = {
            "--problem": self.problem, "--size": self.sizes, "--dtype": self.dtype, "--set-param": self.params,
            "--option": self.options, "--call": self.call,
        }  # fmt: skip
        return [flag for flag, value in named.items() if value]


def is_bare(text: str) -> bool:
    """Return whether an EXPERIMENT names a source and no experiment file."""
    file, function = split_function(text)
    return Path(text).suffix in CUDA_SUFFIXES or Path(text).suffix == ".py" or (file.endswith(".py") and bool(function))


def bare_path(text: str) -> Path:
    """Return the file of a bare EXPERIMENT."""
    return Path(text if Path(text).suffix in CUDA_SUFFIXES else split_function(text)[0])


def bare_experiment(text: str, flags: BareFlags) -> Experiment:
    """Return the experiment of a bare file: one variant named after it, and the problem's usual baseline."""
    if flags.problem is None:
        raise _no_problem(text)
    draft = make_draft(text, flags)
    if not draft.sizes and draft.problem not in SIZES:
        dims = ",".join(draft.literals.dims)
        raise UsageError(f"{text}: {draft.literals.name} has no usual size", hint=f"give one with --size {dims}")
    path = bare_path(text)
    try:
        return parse_experiment(draft_text(draft, [f"Made of the command line for {path.name}"]), path)
    except ExperimentError as error:
        said = [_in_flags(issue.path, issue.message) for issue in error.issues]
        raise UsageError("\n".join(f"{text}: {line}" for line in dict.fromkeys(said))) from error


def make_draft(text: str, flags: BareFlags) -> Draft:
    """Return what a bare file and the flags amount to; the problem must be known. Raises ``UsageError``."""
    path = bare_path(text)
    source = read_source(path)
    kind, written = _source(text, path, source)
    problem = _problem(str(flags.problem), path)
    file = None if problem in REGISTRY else path.parent / split_function(problem)[0]
    literals = literals_of(ProblemRef(problem, file, {}, (), (), {}))
    guessed = guess_dtype(source, path, literals)
    if flags.dtype is not None and flags.dtype not in literals.dtypes:
        raise UsageError(f"--dtype {one_of(flags.dtype, literals.dtypes)}")
    call = flags.call
    if call is None and kind == "cuda" and not exports_launch(source):
        call = guess_call(source, literals)
    return Draft(
        name=re.sub(r"[^A-Za-z0-9_.+-]+", "_", path.stem).lstrip(".+-")[:80] or "kernel",
        kind=kind,
        source=written,
        problem=problem,
        literals=literals,
        dtype=flags.dtype or guessed.value,
        sizes=[_size(size, literals) for size in flags.sizes],
        options=_options(flags.options, literals),
        params=_pairs(flags.params, "--set-param", "BM=128"),
        call=call,
        notes={} if flags.dtype else {"dtype": f"guessed: {guessed.why}"},
    )


def read_source(path: Path) -> str:
    """Return a source's text; ``UsageError`` with a near name when there is none."""
    if not is_file(path):
        beside = [p.name for p in sorted(path.parent.glob(f"*{path.suffix}"))] if path.parent.is_dir() else []
        near = near_match(path.name, beside)
        raise UsageError(f"no file {str(path)!r}", hint=f"did you mean {path.with_name(near)}?" if near else "")
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def notice(experiment: Experiment, flags: BareFlags) -> str:
    """Return what was taken for granted, in one line; empty when nothing was."""
    own = experiment.variants[0]
    taken = [] if flags.dtype else [f"--dtype {own.dtype}"]
    if not flags.sizes:
        taken += ["--size " + ",".join(str(n) for n in size.values()) for size in experiment.problem.sizes]
    if own.call is not None and flags.call is None:
        taken.append(f"--call '{own.call}'")
    return f"{experiment.path.name}: taken for granted: {' '.join(taken)}" if taken else ""


def _no_problem(text: str) -> UsageError:
    path = bare_path(text)
    guess = guess_problem(read_source(path), path)
    if guess is None:
        known = ", ".join(REGISTRY)
        return UsageError(
            f"{text}: which problem does it compute?", hint=f"--problem {known}, or --problem problem.py:ClassName"
        )
    return UsageError(
        f"{text}: which problem does it compute? {guess.value}? ({guess.why})",
        hint=f"run_experiment {text} --problem {guess.value}",
    )


def _source(text: str, path: Path, source: str) -> tuple[str, str]:
    """Return the kind of the variant and what the experiment file would name."""
    if path.suffix in CUDA_SUFFIXES:
        return "cuda", path.name
    function = split_function(text)[1] if split_function(text)[0].endswith(".py") else ""
    if not function:
        raise UsageError(f"{text}: which function?", hint=f"run_experiment {text}:function --problem gemm")
    triton = re.search(r"^\s*(?:import|from)\s+triton\b", source, re.M)
    return "triton" if triton else "python", f"{path.name}:{function}"


def _problem(given: str, path: Path) -> str:
    """Return the problem as an experiment file beside the source would name it."""
    if given in REGISTRY:
        return given
    file, class_name = split_function(given)
    if not file.endswith(".py") or not class_name:
        near = near_match(given, REGISTRY)
        hint = f'did you mean "{near}"?' if near else f"registered: {', '.join(REGISTRY)}; or problem.py:ClassName"
        raise UsageError(f"--problem {given}: no such problem", hint=hint)
    here = Path(file) if is_file(Path(file)) else path.parent / file
    read_source(here)
    return f"{os.path.relpath(here, path.parent)}:{class_name}"


def _size(text: str, literals: ProblemLiterals) -> list[int]:
    """Return a size of ``4096,4096,4096``, ``4096x4096x4096`` or ``M=4096,N=4096,K=4096``."""
    parts = [part.strip() for part in re.split("," if "=" in text else "[,x]", text)]
    dims = ", ".join(literals.dims)
    if any("=" in part for part in parts):
        named = _pairs(parts, "--size", f"{literals.dims[0]}=4096")
        if set(named) != set(literals.dims):
            raise UsageError(f"--size {text}: expected {dims}, each once")
        parts = [named[dim] for dim in literals.dims]
    if len(parts) != len(literals.dims):
        raise UsageError(f"--size {text}: expected {len(literals.dims)} numbers ({dims}), found {len(parts)}")
    wrong = [part for part in parts if re.fullmatch(r"[1-9][0-9]{0,17}", part, re.ASCII) is None]
    if wrong:
        raise UsageError(f"--size {text}: {wrong[0]!r} is no whole number from 1 on")
    return [int(part) for part in parts]


def _options(given: tuple[str, ...], literals: ProblemLiterals) -> dict[str, str]:
    options = _pairs(given, "--option", "layout=nt")
    for name, value in options.items():
        if name not in literals.options:
            raise UsageError(f"--option {name}={value}: {one_of(name, literals.options or ['none'])}")
        if value not in literals.options[name]:
            raise UsageError(f"--option {name}={value}: {one_of(value, literals.options[name])}")
    return options


def _pairs(given: tuple[str, ...] | list[str], flag: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"{flag} {text}: expected a name and a value, such as {flag} {example}")
        if name.strip() in found:
            raise UsageError(f"{flag} {text}: {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def _in_flags(path: str, message: str) -> str:
    for key, flag in _FLAGS:
        if path == key or path.startswith((f"{key}.", f"{key}[")):
            return f"{flag}: {message}"
    return message
