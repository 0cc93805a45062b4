"""The files that a variant is built from: its source and the project headers it includes, and how they are laid out.

The compiler reads copies, laid out as the originals are relative to one another, so that what was built is exactly what
the run directory keeps. Headers of the toolkit and of the system are not copied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from profiler import data_files
from profiler.model import ProblemRef, Variant
from profiler.problem import Problem

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+\.?([\w.]+)[ \t]+import|import[ \t]+([\w.]+))", re.M)
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
#: The file that makes the call of a variant with `call:`.
GENERATED = "generated_launch.cu"
#: The folder beside those of the variants that keeps a problem of the user's own; no variant's folder has its name.
PROBLEM_FOLDER = ".problem"
_BUILT_FROM = re.compile(r"^.*/builds/[0-9a-f]{64}/src/")


@dataclass(frozen=True)
class ProjectFile:
    """One file: where it lies, and its name in the copy."""

    path: Path
    name: str  #: relative, with forward slashes


@dataclass(frozen=True)
class Layout:
    """The copy of a variant's files: text by name, the file to compile, the folders to search."""

    contents: Mapping[str, bytes]
    main: str
    include: tuple[str, ...]
    originals: Mapping[str, Path]  #: of the names that are copies; generated files have none


def folder_name(variant: str) -> str:
    """Return a variant's name as a folder: itself where it is harmless, else a readable form with a hash of it."""
    safe = _SAFE.sub("_", variant).strip("._-")[:60]
    if safe == variant:
        return safe
    return f"{safe or 'variant'}-{hashlib.sha256(variant.encode()).hexdigest()[:8]}"


def source_name(path: str) -> str:
    """Return a file name from line information as it stands in ``sources/<variant>/``; other files unchanged."""
    return _BUILT_FROM.sub("", path)


def project_files(variant: Variant) -> list[ProjectFile]:
    """Return the variant's source first, then what it includes (or, in Python, imports from beside it), each once."""
    if variant.source is None:
        return []
    source = variant.source.absolute()
    found = _python_files(source) if source.suffix == ".py" else _cpp_files(source, variant.build.include)
    roots = _roots(found, source, variant.build.include)
    return [ProjectFile(path, _name(path, roots)) for path in found]


def problem_files(problem: ProblemRef) -> list[ProjectFile]:
    """Return the file of a problem of the user's own and what it imports from beside it; none for a registered one."""
    if problem.file is None:
        return []
    source = problem.file.absolute()
    return [ProjectFile(path, path.relative_to(source.parent).as_posix()) for path in _python_files(source)]


def include_folders(variant: Variant) -> list[str]:
    """Return the folders of the copy that stand for the searched ones, in the order of the search."""
    if variant.source is None:
        return []
    found = [file.path for file in project_files(variant)]
    roots = _roots(found, variant.source.absolute(), variant.build.include)
    folders = []
    for folder in _searched(variant.build.include):
        name = _name(folder, roots)
        if any(path.is_relative_to(folder) for path in found):
            folders.append(name)
    return list(dict.fromkeys(folders))


def layout(variant: Variant, problem: type[Problem], header: str) -> Layout:
    """Return the copy of a CUDA variant's files with the generated ones; ``OSError`` when a file cannot be read."""
    files = project_files(variant)
    contents = {file.name: file.path.read_bytes() for file in files}
    main, header_name = files[0].name, f"{problem.name}.h"
    if variant.call is not None:
        # Existing code may have a header of that name, and an `Args` of its own.
        taken = header_name in contents
        uses_ours = not taken and any(
            _includes(text.decode("utf-8", "replace"), header_name) for text in contents.values()
        )
        header_name = f"kernel_ladder/{header_name}" if taken else header_name
        main = GENERATED
        contents[main] = call_source(
            variant.call, problem, files[0].name, header=header_name, renamed=not uses_ours
        ).encode()
    contents[header_name] = header.encode()
    include = tuple(dict.fromkeys([".", *include_folders(variant)]))
    return Layout(contents, main, include, {file.name: file.path for file in files})


def call_source(call: str, problem: type[Problem], source: str, *, header: str = "", renamed: bool = False) -> str:
    """Return the file that gives existing code the ``launch`` entry: it includes the source and makes the call.

    With ``renamed``, what the header declares takes other names, so that the source may use them for itself.
    """
    names = [arg.name for arg in problem.args]
    args = "KernelLadderArgs" if renamed else "Args"
    words = ("Args", "prepare", "destroy", "workspace_bytes") if renamed else ()
    before = "".join(f"#define {word} KernelLadder{word[0].upper()}{word[1:]}\n" for word in words)
    after = "".join(f"#undef {word}\n" for word in words)
    locals_ = "\n".join(f"    [[maybe_unused]] const auto {name} = args->{name};" for name in [*names, *problem.dims])
    return f"""// Generated: makes the call of the experiment file for one launch.
{before}#include "{header or problem.name + ".h"}"
{after}#include "{source}"

namespace kernel_ladder {{
template <class F> cudaError_t status_of(F call, cudaError_t *) {{
    const cudaError_t status = call();
    return status != cudaSuccess ? status : cudaGetLastError();
}}
template <class F> cudaError_t status_of(F call, ...) {{
    call();
    return cudaGetLastError();
}}
}}  // namespace kernel_ladder

extern "C" __attribute__((visibility("default"))) cudaError_t launch(const {args} *args, void *, cudaStream_t stream) {{
{locals_}
    const auto call = [&]() {{ return {call.strip().rstrip(";")}; }};
    return kernel_ladder::status_of(call, static_cast<decltype(call()) *>(nullptr));
}}
"""


def _includes(text: str, header: str) -> bool:
    return any(header in names for names in _INCLUDE.findall(text))


def _searched(include: Iterable[Path]) -> list[Path]:
    kernels = data_files.kernels().absolute()
    return [*(path.absolute() for path in include), kernels, kernels / "common"]


def _cpp_files(source: Path, include: Iterable[Path]) -> list[Path]:
    searched = _searched(include)
    found: dict[Path, None] = {source: None}
    todo = [source]
    while todo:
        file = todo.pop()
        for quoted, angled in _INCLUDE.findall(_text(file)):
            folders = [file.parent, *searched] if quoted else searched
            target = next((c for f in folders if (c := _clean(f / (quoted or angled))).is_file()), None)
            if target is not None and target not in found:
                found[target] = None
                todo.append(target)
    return [source, *sorted(path for path in found if path != source)]


def _python_files(source: Path) -> list[Path]:
    found: dict[Path, None] = {source: None}
    todo = [source]
    while todo:
        file = todo.pop()
        for words in _IMPORT.findall(_text(file)):
            module = (words[0] or words[1]).split(".")[0]
            package = source.parent / module / "__init__.py"
            beside = [file.parent / f"{module}.py", source.parent / f"{module}.py"]
            if module and package.is_file():
                beside += sorted(package.parent.rglob("*.py"))  # what of it is used cannot be told
            for target in beside:
                if module and target.is_file() and target not in found:
                    found[target] = None
                    todo.append(target)
    return [source, *sorted(path for path in found if path != source)]


def _roots(found: list[Path], source: Path, include: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return (folder, name in the copy), the first that holds a file names it."""
    kernels = data_files.kernels().absolute()
    named = [(path.absolute(), f"include_{index}") for index, path in enumerate(include)]
    if source.is_relative_to(kernels):
        return [(kernels, ""), *named, (_common(found, [kernels, *(p for p, _ in named)], source), "project")]
    near = [path for path, _ in named if not source.is_relative_to(path)]
    own = _common(found, [kernels, *near], source)
    return [*((p, n) for p, n in named if p in near), (kernels, "kernels"), (own, "")]


def _common(found: list[Path], elsewhere: list[Path], source: Path) -> Path:
    own = [path.parent for path in found if not any(path.is_relative_to(folder) for folder in elsewhere)]
    return Path(os.path.commonpath([source.parent, *own])) if own else source.parent


def _name(path: Path, roots: list[tuple[Path, str]]) -> str:
    for folder, name in roots:
        if path.is_relative_to(folder):
            return (PurePosixPath(name) / path.relative_to(folder).as_posix()).as_posix()
    return f"elsewhere/{hashlib.sha256(str(path.parent).encode()).hexdigest()[:8]}/{path.name}"


def _clean(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
