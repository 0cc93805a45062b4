"""The documents say what the program does: every flag, every key, every folder; and nothing of one machine."""

from __future__ import annotations

import importlib
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from profiler.comparison.fingerprint import KEYS
from profiler.errors import Exit

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("run_experiment", "render_report", "compare_runs", "check_setup")
TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".sh", ".cu", ".cuh", ".h", ".html", ".j2", ".css", ".json", ""}
#: Paths of one machine, and addresses of package indexes.
MACHINE = re.compile(r"/(?:work|root)/|/home/[a-z]|/tmp/[a-z]|\bpypi\.org\b|file:/{3}|\b(?:\d{1,3}\.){3}\d{1,3}:\d+\b")


def documents() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))])


def flags(command: str) -> dict[str, set[str]]:
    """Return the option names of a command's app, each with its synonyms."""
    app: typer.Typer = importlib.import_module(f"profiler.cli.{command}").app
    found: dict[str, set[str]] = {}
    parameters: list[Any] = list(typer.main.get_command(app).params)
    for parameter in parameters:
        names = {*parameter.opts, *parameter.secondary_opts}
        found.update({name: names for name in names if name.startswith("-")})
    return found


def tracked() -> list[Path]:
    """Return the project's text files: git's, or all but what is built where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        tops = [path for path in ROOT.iterdir() if path.name not in {"runs", "dist", "build"}]
        paths = [path for top in tops for path in [top, *top.rglob("*")] if "__pycache__" not in path.parts]
    # Hidden folders are not the project's, except .ci.
    parts = [(path, path.relative_to(ROOT).parts) for path in paths]
    paths = [path for path, names in parts if len(names) == 1 or not names[0].startswith(".") or names[0] == ".ci"]
    return [path for path in paths if path.suffix in TEXT and path.is_file()]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_documented(command: str) -> None:
    text = documents()
    undocumented = [
        name for name in flags(command) if name.startswith("--") and not re.search(rf"{re.escape(name)}(?![\w-])", text)
    ]
    assert undocumented == []


def test_every_documented_flag_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs/troubleshooting.md").read_text(
        encoding="utf-8"
    )
    known = {name for command in COMMANDS for name in flags(command)} | {"--help"}
    ours = {"--print-plan", "--setup-only"}  # of scripts/ladder and scripts/test
    others = {"--cap-add", "--cuda-graph-trace"}  # of the container's program and of nsys
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - known - ours - others == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_installed_and_documented(command: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts[command] == f"profiler.cli.{command}:main"
    assert f"`{command} " in documents() or f"`{command}`" in documents()


def test_every_key_of_compare_is_documented() -> None:
    text = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}`" not in text] == []


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [int(code) for code in Exit if not re.search(rf"^\| {int(code)} \|", text, re.M)] == []


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))], ids=str
)
def test_links_and_named_files_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    linked = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    missing = [target for target in linked if not (path.parent / target).exists()]
    named = re.findall(r"`((?:profiler|reports|scripts|kernels|tests|docs|experiments)/[\w./-]*)`", text)
    missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_nothing_speaks_of_one_machine() -> None:
    found = []
    for path in tracked():
        # Tests invent paths, and real tools print the names of their temporary files.
        invented = re.compile("/(home|tmp)/") if path.is_relative_to(ROOT / "tests") else re.compile("(?!)")
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if len(line) < 2000 and MACHINE.search(invented.sub("", line)):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["see /wor" + "k/main/x", "/ro" + "ot/.cache", "/ho" + "me/ann/x", "/tm" + "p/out", "https://py" + "pi.org/simple"],
)
def test_what_speaks_of_one_machine_is_seen(text: str) -> None:
    assert MACHINE.search(text)


def test_the_constraints_name_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["checks"], *extras["nvcc"], *extras["disassemblers"], *extras["ncu"]]

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", re.split(r"[=<>\[; ]", name)[0]).lower()

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain(line) for line in lines if not line.startswith("#")}
    assert [name for name in wanted if plain(name) not in pinned] == []
    assert "torch" not in pinned


def test_torch_is_an_extra_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    holders = [name for name, listed in project["optional-dependencies"].items() if "torch" in " ".join(listed)]
    assert holders == ["gpu"]
    assert not [text for text in project["dependencies"] if text.startswith("torch")]
