"""The rules of docs/architecture.md, held by reading the syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*ROOT.glob("profiler/**/*.py"), *ROOT.glob("reports/**/*.py")])
PURE = ("profiler/parse/", "profiler/analysis/", "reports/sections/", "profiler/comparison/")
#: What of a comparison measures, reads and writes; all else of it is pure.
IMPURE_OF_COMPARISON = {
    f"profiler/comparison/{name}.py"
    for name in (
        "assemble",
        "baselines",
        "kept",
        "ledger",
        "merging",
        "rebuild",
        "remeasure",
        "selfcheck",
        "side_by_side",
    )
}
PROCESS_MODULES = {"subprocess", "multiprocessing", "pty", "pexpect"}
PROCESS_CALLS = {"system", "popen", "fork", "forkpty", "execv", "execve", "execvp", "spawnv", "spawnl", "posix_spawn"}
IMPURE_MODULES = PROCESS_MODULES | {
    "os", "io", "time", "datetime", "socket", "shutil", "tempfile", "glob", "urllib", "http", "requests", "random",
    "threading", "asyncio", "signal",
}  # fmt: skip
IMPURE_CALLS = {
    "open", "read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "iterdir", "exists", "is_file",
    "is_dir", "read_parquet", "read_csv", "to_parquet", "to_csv", "print", "input",
}  # fmt: skip
#: reports may import these of profiler, and nothing else.
ALLOWED_IN_REPORTS = ("frames", "metrics", "rundir", "sizes", "analysis", "comparison", "errors")
MOST_LINES = 400


def rel(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a module imports at run time; ``if TYPE_CHECKING`` imports nothing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from imports(other)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def called(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (what it is called on, name) of each call; the first is empty for a plain name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield ast.unparse(node.func.value), node.func.attr
            elif isinstance(node.func, ast.Name):
                yield "", node.func.id


def process_faults(name: str, source: str) -> list[str]:
    if name == "profiler/process.py":
        return []
    tree = ast.parse(source)
    faults = [f"imports {found}" for found in imports(tree) if found.split(".")[0] in PROCESS_MODULES]
    return faults + [f"calls {on}.{call}" for on, call in called(tree) if on == "os" and call in PROCESS_CALLS]


def purity_faults(name: str, source: str) -> list[str]:
    if not name.startswith(PURE) or name in IMPURE_OF_COMPARISON:
        return []
    tree = ast.parse(source)
    faults = [f"imports {found}" for found in imports(tree) if found.split(".")[0] in IMPURE_MODULES]
    return faults + [f"calls {call}" for _, call in called(tree) if call in IMPURE_CALLS]


def direction_faults(name: str, source: str) -> list[str]:
    names = list(imports(ast.parse(source)))
    if name.startswith("reports/"):
        ours = [found for found in names if found.split(".")[0] == "profiler"]
        return [f"imports {f}" for f in ours if f.split(".")[1] not in (*ALLOWED_IN_REPORTS, "__version__")]
    if name.startswith("profiler/cli/"):
        return []
    return [f"imports {found}" for found in names if found.split(".")[0] == "reports"]


@pytest.mark.parametrize("path", MODULES, ids=rel)
def test_module_keeps_the_rules(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    faults = [fault for rule in (process_faults, purity_faults, direction_faults) for fault in rule(rel(path), source)]
    assert faults == []


@pytest.mark.parametrize("path", MODULES, ids=rel)
def test_module_is_of_a_readable_length(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_map_of_the_code_names_every_module() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    unnamed = []
    for path in MODULES:
        parents = [parent.relative_to(ROOT).as_posix() for parent in path.parents if ROOT in parent.parents]
        named = f"`{rel(path)}`" in text or any(f"`{parent}/`" in text for parent in parents if parent != "profiler")
        if path.name != "__init__.py" and not named:
            unnamed.append(rel(path))
    assert unnamed == []


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (process_faults, "profiler/build.py", "import subprocess"),
        (process_faults, "profiler/build.py", "def f():\n    from subprocess import run"),
        (process_faults, "reports/render.py", "import os\nos.system('true')"),
        (process_faults, "reports/render.py", "from multiprocessing import Pool"),
        (purity_faults, "profiler/parse/sass.py", "import os"),
        (purity_faults, "profiler/analysis/stalls.py", "from time import monotonic"),
        (purity_faults, "profiler/analysis/stalls.py", "def f(p):\n    return p.read_text()"),
        (purity_faults, "reports/sections/ladder.py", "open('x')"),
        (direction_faults, "reports/render.py", "from profiler.process import run"),
        (direction_faults, "reports/render.py", "from profiler import timing"),
        (direction_faults, "profiler/pipeline.py", "def f():\n    import reports.render"),
    ],
)
def test_a_breach_is_seen(rule: object, name: str, source: str) -> None:
    assert callable(rule)
    assert rule(name, source) != []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("profiler/process.py", "import subprocess"),
        ("profiler/cli/render_report.py", "from reports import render"),
        ("reports/render.py", "from profiler.analysis import stalls\nfrom profiler import frames"),
        ("profiler/analysis/rundata.py", "if TYPE_CHECKING:\n    import os"),
    ],
)
def test_what_is_allowed_passes(name: str, source: str) -> None:
    rules = (process_faults, purity_faults, direction_faults)
    assert [fault for rule in rules for fault in rule(name, source)] == []
