"""Stage build: every CUDA variant as a library of its own, compiled side by side, into a content-addressed cache.

An entry is ``builds/<key>/``: ``src/`` (what was compiled), ``variant.so``, ``ptxas.log`` and, written last,
``command.json``. The key is the hash of all that decides the result, so two runs that build the same thing at once
write the same files, each moved into place whole; no lock is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from profiler import build_sources, data_files, parallel, process
from profiler.arch import gencode
from profiler.build_errors import compiler_error, in_terms_of_the_call
from profiler.build_sources import Layout, folder_name
from profiler.errors import Exit, LadderError
from profiler.hashing import digest
from profiler.header import header_text
from profiler.model import BuildOptions, ParamValue, Variant
from profiler.parse import elf, ptxas
from profiler.parse.folders import without_folders
from profiler.run import Run, cache_root
from profiler.rundir import write_text
from profiler.toolchain import Toolchain, library_folder, tool_env

LIBRARY, LOG, COMMAND = "variant.so", "ptxas.log", "command.json"
_CACHE_VERSION = 1
_ENTRY_POINT = "launch"
#: As in -I/a, -L/a, -isystem=/a, -Wl,-rpath,/a.
_FOLDER_IN_WORD = re.compile(r"(^-[A-Za-z]|[=,])(/[^=,]+)")


@dataclass(frozen=True)
class Built:
    """What became of one variant: an entry of the cache, or a status and a reason."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    status: str = "ok"
    reason: str = ""
    log: str = ""


def build_stage(run: Run) -> None:
    """Copy every source into the run directory and build the CUDA variants; failures become statuses of their rows."""
    layouts, outcomes = _copy_sources(run)
    build_layouts(run, layouts, outcomes)


def build_layouts(run: Run, layouts: Mapping[str, Layout], unreadable: Mapping[str, Built] | None = None) -> None:
    """Build variants, by name, from copies of their files; ``unreadable`` are those that have failed already."""
    outcomes = dict(unreadable or {})
    jobs = {name: partial(_build_one, run, run.experiment.variant(name), files) for name, files in layouts.items()}
    for name, outcome in parallel.run_all(jobs, run.settings.jobs):
        outcomes[name] = outcome
        _say(run, name, outcome)
    for name, outcome in outcomes.items():
        if outcome.log:
            write_text(run.dir.raw(f"build/{folder_name(name)}.log"), outcome.log)
    run.note("builds", {name: dict(one.facts) for name, one in outcomes.items() if one.status == "ok"})
    alive = {variant.name for variant in run.alive()}
    failed = {name: one for name, one in outcomes.items() if one.status != "ok" and name in alive}
    run.fail({name: (one.status, without_folders(one.reason)) for name, one in failed.items()})


def build_folder(key: str) -> Path:
    """Return the folder of a build in the cache."""
    return cache_root() / "builds" / key


def nvcc_argv(
    nvcc: Path | str,
    *,
    source: str,
    output: str,
    arch: str,
    options: BuildOptions,
    params: Mapping[str, ParamValue],
    include: Sequence[str],
    ccbin: Path | None = None,
    library: Path | None = None,
) -> list[str]:
    """Return the argument list that compiles one variant."""
    return [
        str(nvcc),
        f"-std={options.std}",
        "-O3",
        "-lineinfo",
        *("-Xptxas", "-v"),
        *("-Xcompiler", "-fPIC,-fvisibility=hidden"),
        "-shared",
        *("-cudart", "static"),
        gencode(arch),
        *(f"-D{name}={macro_value(value)}" for name, value in params.items()),
        *options.flags,
        *(f"-I{folder}" for folder in include),
        *(f"-I{folder}" for folder in options.include),
        *(() if ccbin is None else ("-ccbin", str(ccbin))),
        *("-o", output),
        source,
        *(() if library is None else (f"-L{library}",)),
        *options.link,
    ]


def macro_value(value: ParamValue) -> str:
    """Return a param as the text of its macro."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def build_key(files: Layout, argv: Sequence[str], compiler: str, arch: str) -> str:
    """Return the key of a build: the hash of every file, the arguments, both compilers and the architecture."""
    contents = {name: hashlib.sha256(data).hexdigest() for name, data in files.contents.items()}
    return digest([_CACHE_VERSION, contents, list(argv), compiler, arch])


def compiler_text(toolchain: Toolchain) -> str:
    """Return the compilers and their versions in words, as the key and the manifest have them."""
    parts = [("nvcc", toolchain.nvcc), ("host", toolchain.host_compiler)]
    return ", ".join(f"{tool.path.name if name == 'host' else name} {tool.version}" for name, tool in parts if tool)


def host_argument(toolchain: Toolchain, env: Mapping[str, str]) -> Path | None:
    """Return the compiler to name with ``-ccbin``; None when nvcc finds the same one by itself."""
    host = toolchain.host_compiler
    if host is None or env.get("NVCC_CCBIN"):
        return None
    default = shutil.which("g++", path=env.get("PATH"))
    return None if default is not None and Path(default) == host.path else host.path


def _copy_sources(run: Run) -> tuple[dict[str, Layout], dict[str, Built]]:
    alive = {variant.name for variant in run.alive()}
    layouts: dict[str, Layout] = {}
    outcomes: dict[str, Built] = {}
    problem = {file.name: file.path.read_bytes() for file in build_sources.problem_files(run.experiment.problem)}
    write_files(run.dir.path / "sources" / build_sources.PROBLEM_FOLDER, problem)
    for variant in run.variants:
        if variant.source is None:
            continue
        target = run.dir.path / "sources" / folder_name(variant.name)
        try:
            if variant.kind == "cuda":
                header = header_text(run.problem, variant.dtype, run.experiment.problem.options)
                files = build_sources.layout(variant, run.problem, header)
                write_files(target, files.contents)
                if variant.name in alive:
                    layouts[variant.name] = files
            else:
                copies = build_sources.project_files(variant)
                write_files(target, {file.name: file.path.read_bytes() for file in copies})
        except OSError as error:
            if error.filename is not None and Path(str(error.filename)).is_relative_to(run.dir.path):
                raise LadderError(f"cannot write the run directory: {error.strerror}", code=Exit.USAGE) from error
            unreadable = Path(str(error.filename or variant.source))
            reason = f"cannot read {shown_path(unreadable, run)}: {error.strerror}"
            outcomes[variant.name] = Built(status="build_failed", reason=reason)
    return layouts, outcomes


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files of a folder, each moved into place whole; what is there already stays."""
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
            partial.write_bytes(data)
            partial.replace(path)


def _build_one(run: Run, variant: Variant, files: Layout) -> Built:
    """Return a variant's build: from the cache, or made now. Runs in a thread."""
    tools, env = run.toolchain, tool_env(run.toolchain)
    arch = variant.build.arch if variant.build.arch != "auto" else str(run.dir.manifest["arch"])
    arguments = partial(
        nvcc_argv,
        source=files.main,
        arch=arch,
        options=variant.build,
        params=variant.params,
        include=files.include,
        ccbin=host_argument(tools, env),
    )
    argv = arguments("nvcc", output=LIBRARY)
    if tools.nvcc is None:
        found = None if run.settings.force else _any_build(variant, files, argv)
        why = tools.why_missing("nvcc") or "nvcc was not found"
        return found or Built(status="not_run", reason=f"not built: {why}")
    compiler = compiler_text(tools)
    key = build_key(files, argv, compiler, arch)
    facts: dict[str, Any] = {
        "key": key,
        "arch": arch,
        "compiler": compiler,
        "command": [_shown_word(word, run) for word in argv],
        "files": {name: shown_path(path, run) for name, path in files.originals.items()},
    }
    try:
        cached = None if run.settings.force else _cached(key)
        where = f"{variant.name}: build {key[:12]} (source, header, flags, compiler, {arch})"
        if cached is not None:
            run.detail(f"{where}: in the cache")
            return _finished(facts, cached, variant.build.refuse, cached=True)
        if tools.host_compiler is None:
            return Built(status="not_run", reason=f"not built: {tools.why_missing('host_compiler')}")
        run.detail(f"{where}: {'--force: built anew' if run.settings.force else 'not in the cache: built'}")
        library = library_folder(tools.nvcc.path)
        nvcc = partial(arguments, tools.nvcc.path, library=library)
        built = _compile(run, variant, files, nvcc, facts, _inputs(files, argv))
        return replace(built, reason=in_terms_of_the_call(run, variant, built.reason))
    except OSError as error:
        raise LadderError(
            f"cannot use the build cache: {error.filename or ''}: {error.strerror or error}",
            hint="set XDG_CACHE_HOME to a writable folder with space",
        ) from error


def _compile(
    run: Run,
    variant: Variant,
    files: Layout,
    arguments: Callable[..., list[str]],
    facts: Mapping[str, Any],
    inputs: str,
) -> Built:
    folder, timeout = build_folder(facts["key"]), run.settings.timeout_s
    # Line information keeps the path of what was compiled, so that is the entry's own final folder.
    write_files(folder / "src", files.contents)
    work = folder / f".{os.getpid()}.{threading.get_ident()}.partial"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed: in containers, numbers of processes recur
    work.mkdir()
    argv = arguments(output=str(work / LIBRARY))
    try:
        said = process.run(argv, timeout=timeout, cwd=folder / "src", env=tool_env(run.toolchain), label="nvcc")
        log = said.output.strip().replace(f"{work}{os.sep}", "") + "\n"
        if said.timed_out:
            return Built(status="timeout", reason=f"nvcc did not finish within {timeout:g} s", log=log)
        if said.returncode != 0:
            return Built(status="build_failed", reason=compiler_error(run, log, said, facts), log=log)
        if not (work / LIBRARY).is_file():
            return Built(status="build_failed", reason="nvcc reported success and wrote no library", log=log)
        record = {
            "command": facts["command"],
            "compiler": facts["compiler"],
            "arch": facts["arch"],
            "inputs": inputs,
            "sha256": _sha256(work / LIBRARY),
            "seconds": round(said.seconds, 3),
        }
        (work / LOG).write_text(log, encoding="utf-8")
        (work / COMMAND).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        for name in (LIBRARY, LOG, COMMAND):
            (work / name).replace(folder / name)
        return _finished(facts, record, variant.build.refuse, cached=False)
    except process.ToolMissing as error:
        return Built(status="not_run", reason=f"not built: nvcc cannot be started: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _finished(facts: Mapping[str, Any], record: Mapping[str, Any], refuse: Sequence[str], *, cached: bool) -> Built:
    """Return a build whose library exports what it must; ``build_failed`` when it does not, or is refused."""
    folder = build_folder(facts["key"])
    log = (folder / LOG).read_text(encoding="utf-8", errors="replace")
    try:
        exported = elf.exported_symbols((folder / LIBRARY).read_bytes())
    except elf.NotElf as error:
        return Built(status="build_failed", reason=f"nvcc wrote an unusable library: {error}", log=log)
    if _ENTRY_POINT not in exported:
        return Built(status="build_failed", reason=_absent(facts), log=log)
    said = ptxas.parse(log)
    if refused := ptxas.refusal(said, refuse):
        return Built(status="build_failed", reason=refused, log=log)
    warnings = sorted({" ".join([w.code, w.text]).strip() for w in said.warnings})
    return Built(
        {
            **facts,
            "seconds": record["seconds"],
            "cached": cached,
            "exports": sorted(exported & {"launch", "prepare", "destroy", "workspace_bytes"}),
            "warnings": warnings,
        },
        log=log,
    )


def _absent(facts: Mapping[str, Any]) -> str:
    source = next(iter(facts["files"].values()), "the source")
    return (
        f'{source} exports no extern "C" launch: define `extern "C" cudaError_t launch(const Args *, void *, '
        "cudaStream_t)` and include the generated header, or give `call:`"
    )


def _cached(key: str) -> Mapping[str, Any] | None:
    """Return the record of a complete entry whose library is the one that was written."""
    folder = build_folder(key)
    try:
        record = json.loads((folder / COMMAND).read_text(encoding="utf-8"))
        if isinstance(record, dict) and (folder / LOG).is_file() and _sha256(folder / LIBRARY) == record["sha256"]:
            return record
    except (OSError, ValueError, KeyError):
        pass
    return None


def _any_build(variant: Variant, files: Layout, argv: Sequence[str]) -> Built | None:
    """Return a build of the same inputs by any compiler, the newest first: what is left where nvcc is not."""
    wanted = _inputs(files, argv)
    folders = sorted((cache_root() / "builds").glob(f"*/{COMMAND}"), key=lambda p: p.stat().st_mtime, reverse=True)
    for file in folders:
        record = _cached(file.parent.name)
        if record is not None and record.get("inputs") == wanted:
            shown = {name: path.name for name, path in files.originals.items()}
            facts, refuse = {key: record[key] for key in ("arch", "compiler", "command")}, variant.build.refuse
            return _finished({"key": file.parent.name, **facts, "files": shown}, record, refuse, cached=True)
    return None


def _inputs(files: Layout, argv: Iterable[str]) -> str:
    return build_key(files, _without_host(argv), "", "")


def _without_host(argv: Iterable[str]) -> list[str]:
    words = list(argv)
    if "-ccbin" in words:
        at = words.index("-ccbin")
        del words[at : at + 2]
    return words


def shown_path(path: Path, run: Run) -> str:
    """Return a file as the user knows it: relative to the experiment or to the kernels, else its name."""
    for base in (run.experiment.path.absolute().parent, data_files.kernels().absolute()):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return path.name


def _shown_word(word: str, run: Run) -> str:
    """Return an argument without folders of this machine outside the project."""
    if word.startswith("/"):
        return Path(word).name
    return _FOLDER_IN_WORD.sub(lambda found: found[1] + shown_path(Path(found[2]), run), word)


def _say(run: Run, name: str, outcome: Built) -> None:
    if outcome.status != "ok":
        run.say(f"build {name}: {outcome.status}: {outcome.reason}")
    elif outcome.facts["cached"]:
        run.say(f"build {name}: unchanged")
    else:
        run.say(f"build {name}: {outcome.facts['seconds']:.1f} s")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
