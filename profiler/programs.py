"""Programs, the ``command:`` variants: their words, folders and environment, how they are built, and how one run ends.

A program is the user's own; nothing is taken for granted of it. It may print without end, leave children behind, fail
after good kernels, or never return: each ends its own row only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from profiler import process
from profiler.build import host_argument
from profiler.build_sources import folder_name
from profiler.hashing import digest
from profiler.model import CommandOptions, Dims, Variant
from profiler.parse.folders import without_folders
from profiler.run import Run, cache_root
from profiler.rundir import write_text
from profiler.sizes import size_key
from profiler.toolchain import library_folder

#: Of each stream of a program's output: what is kept of its beginning and of its end.
KEPT_BYTES = 1 << 20
#: All that a program is given of the environment, besides its own ``env``, its GPU and a home folder for the occasion.
KEPT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "TMPDIR", "CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "CC", "CXX", "XDG_CACHE_HOME",
)  # fmt: skip
#: What ``raw/`` keeps of a program's output.
_SAID_LETTERS = 1 << 16
_BUILT = "built.json"
_FIRST_ERROR = re.compile(r"^.*(?:\berror\b(?!s)|undefined reference|No such file or directory).*$", re.I | re.M)


@dataclass(frozen=True)
class Ended:
    """How a program ended: ``ok``, or a status and a reason; and what it printed (its beginning and its end)."""

    status: str = "ok"
    reason: str = ""
    stdout: str = ""
    seconds: float = 0.0


def programs_of(run: Run) -> list[Variant]:
    """Return the living programs, in the order of the file."""
    return [variant for variant in run.alive() if variant.kind == "command"]


def options_of(variant: Variant) -> CommandOptions:
    """Return a program's own keys."""
    assert variant.command is not None
    return variant.command


def build_folder(run: Run, variant: Variant) -> Path:
    """Return what ``{build}`` stands for: a folder that is kept between runs, another one for other inputs.

    Programs that are built in the same way of the same inputs share it; one that states no inputs has its own.
    """
    program = options_of(variant)
    facts = [str(working_folder(run, variant)), list(program.build_command), dict(variant.params), dict(program.env),
             str(run.dir.manifest["arch"]), _hashes(program.build_inputs)]  # fmt: skip
    if not program.build_inputs:
        facts += [str(run.experiment.path), variant.name]
    return cache_root() / "programs" / digest(facts)


def words(run: Run, variant: Variant, texts: Sequence[str], dims: Dims | None = None) -> list[str]:
    """Return arguments with the names in braces filled in."""
    params = {name: int(value) if isinstance(value, bool) else value for name, value in variant.params.items()}
    values = {"build": str(build_folder(run, variant)), "arch": str(run.dir.manifest["arch"]), **params, **(dims or {})}
    return [text.format(**values) for text in texts]


def working_folder(run: Run, variant: Variant) -> Path:
    """Return where a program runs and is built: its ``cwd``, else the folder of the experiment file."""
    return options_of(variant).cwd or run.experiment.path.absolute().parent


def environment(run: Run, variant: Variant, home: Path) -> dict[str, str]:
    """Return the environment of a program: bare, with the tool's own Python and compiler first on PATH."""
    env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    nvcc = run.toolchain.nvcc
    first = [str(Path(sys.executable).parent), *([str(nvcc.path.parent)] if nvcc is not None else [])]
    env["PATH"] = os.pathsep.join([*first, env.get("PATH", os.defpath)])
    folder = library_folder(nvcc.path) if nvcc is not None else None
    if folder is not None:  # where nvcc of a package does not look by itself
        env["LIBRARY_PATH"] = str(folder)
    host = host_argument(run.toolchain, env)
    if host is not None:
        env["NVCC_CCBIN"] = str(host)
    env |= {"HOME": str(home), "LC_ALL": "C", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**env, "CUDA_VISIBLE_DEVICES": run.settings.gpu, **options_of(variant).env}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, whatever a program leaves in it."""
    folder = tempfile.mkdtemp(prefix="kernel-ladder-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_once(run: Run, variant: Variant, dims: Dims) -> Ended:
    """Run a program by itself to its end."""
    with scratch() as home:
        ended = start(run, variant, words(run, variant, options_of(variant).argv, dims), home)
    said = run.dir.raw(f"programs/{folder_name(variant.name)}.{folder_name(size_key(dims))}.out")
    write_text(said, without_folders(ended.stdout[:_SAID_LETTERS]))
    return ended


def start(run: Run, variant: Variant, argv: Sequence[str], home: Path) -> Ended:
    """Run an argument list as a program of this variant, and return how it ended."""
    timeout = run.settings.timeout_s
    try:
        said = process.run(
            argv, timeout=timeout, cwd=working_folder(run, variant), env=environment(run, variant, home),
            label=variant.name, keep_bytes=KEPT_BYTES,
        )  # fmt: skip
    except process.ToolMissing as error:
        return Ended("launch_failed", f"it cannot be started: {without_folders(str(error))}")
    if said.timed_out:
        return Ended("timeout", f"it did not end within {timeout:g} s", said.stdout, said.seconds)
    if said.returncode:
        last = process.tail(said.stderr, 1) or process.tail(said.stdout, 1)
        how = process.describe_exit(said.returncode)
        reason = f"{how}: {without_folders(last.strip())[:200] or 'it said nothing'}"
        return Ended("crashed" if said.returncode < 0 else "launch_failed", reason, said.stdout, said.seconds)
    return Ended(stdout=said.stdout, seconds=said.seconds)


def build_programs(run: Run) -> None:
    """Build every living program that says how; a failure is ``build_failed`` with its first line of error."""
    failed: dict[str, tuple[str, str]] = {}
    notes: dict[str, dict[str, object]] = {}
    for variant in programs_of(run):
        program = options_of(variant)
        for file in program.build_inputs:
            target = run.dir.path / "sources" / folder_name(variant.name) / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes() if file.is_file() else b"")
        if not program.build_command:
            continue
        ended, cached = _build(run, variant)
        if ended.status != "ok":
            failed[variant.name] = (ended.status, ended.reason)
            run.say(f"build {variant.name}: {ended.status}: {ended.reason}")
            continue
        notes[variant.name] = {"seconds": round(ended.seconds, 3), "cached": cached}
        run.say(f"build {variant.name}: {'unchanged' if cached else f'{ended.seconds:.1f} s'}")
    if notes:
        run.note("programs", notes)
    run.fail(failed)


def _build(run: Run, variant: Variant) -> tuple[Ended, bool]:
    """Run a build command, unless its stated inputs and what it made of them are unchanged."""
    program, folder = options_of(variant), build_folder(run, variant)
    argv = words(run, variant, program.build_command)
    if argv[0] == "nvcc" and run.toolchain.nvcc is None:
        why = run.toolchain.why_missing("nvcc") or "nvcc was not found"
        return Ended("not_run", f"not built: {without_folders(why)}"), False
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"), scratch() as home:
        made = _made(run, variant)
        stamp = folder / _BUILT
        before = _hash(made) if made is not None and program.build_inputs and not run.settings.force else None
        if before is not None and _stamped(stamp) == before:
            return Ended(), True
        stamp.unlink(missing_ok=True)
        timeout = run.settings.timeout_s
        try:
            said = process.run(
                argv, timeout=timeout, cwd=working_folder(run, variant), env=environment(run, variant, home),
                label="build_command", keep_bytes=KEPT_BYTES,
            )  # fmt: skip
        except process.ToolMissing as error:
            return Ended("build_failed", f"{argv[0]} cannot be started: {str(error).rpartition(': ')[2]}"), False
        log = without_folders(said.output.strip().replace(f"{folder}{os.sep}", "")) + "\n"
        write_text(run.dir.raw(f"build/{folder_name(variant.name)}.log"), log)
        if said.timed_out:
            return Ended("timeout", f"{Path(argv[0]).name} did not end within {timeout:g} s"), False
        if said.returncode:
            found = _FIRST_ERROR.search(log)
            line = (found[0] if found else process.tail(log, 1)).strip()
            how = process.describe_exit(said.returncode)
            return Ended("build_failed", f"{line[:300]}" if line else f"{Path(argv[0]).name}: {how}"), False
        made = _made(run, variant)
        if made is not None and not made.is_file():
            name = Path(program.argv[0]).name
            return Ended("build_failed", f"{Path(argv[0]).name} ended well, and there is no program {name}"), False
        if made is not None:
            stamp.write_text(json.dumps({"sha256": _hash(made)}), encoding="utf-8")
        return Ended(seconds=said.seconds), False


def _made(run: Run, variant: Variant) -> Path | None:
    """The program that a command names by a path without dims; None for a name that is looked for on PATH."""
    first = options_of(variant).argv[0]
    try:
        word = words(run, variant, [first])[0]
    except KeyError:
        return None
    return working_folder(run, variant) / word if os.sep in word else None


def _stamped(stamp: Path) -> str | None:
    try:
        return str(json.loads(stamp.read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hashes(files: Sequence[Path]) -> Mapping[str, str | None]:
    return {file.name: _hash(file) for file in files}


def _hash(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
