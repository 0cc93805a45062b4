"""Where the importer of a stream is looked for, and what a failed step says."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.nsys_command import trouble
from profiler.nsys_convert import find_importer
from profiler.toolchain import PINNED, Places


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def places(root: Path) -> Places:
    return Places((), nsight_compute=f"{root}/nsight-compute/*", nsight_systems=f"{root}/nsight-systems/*")


@pytest.mark.parametrize(
    ("nsys", "importer"),
    [
        ("nsight-systems/2025.3.1/target-linux-x64/nsys", "nsight-systems/2025.3.1/host-linux-x64/QdstrmImporter"),
        ("nsight-systems/2025.3.1/bin/nsys", "nsight-systems/2025.3.1/host-linux-x64/QdstrmImporter"),
        (
            "nsight-compute/2025.3.1/host/target-linux-x64/nsys",
            "nsight-compute/2025.3.1/host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter",
        ),
    ],
)
def test_the_importer_lies_in_the_tree_of_nsys(tmp_path: Path, nsys: str, importer: str) -> None:
    found = executable(tmp_path / importer)
    other = executable(tmp_path / "nsight-systems/2099.1/host-linux-x64/QdstrmImporter")
    assert find_importer(executable(tmp_path / nsys), {}, places(tmp_path)) == found
    assert find_importer(tmp_path / "elsewhere/nsys", {}, places(tmp_path)) == other  # a wrapper on PATH: the newest


def test_a_link_on_the_path_is_followed(tmp_path: Path) -> None:
    found = executable(tmp_path / "opt/host-linux-x64/QdstrmImporter")
    executable(tmp_path / "opt/target-linux-x64/nsys")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nsys").symlink_to(tmp_path / "opt/target-linux-x64/nsys")
    assert find_importer(tmp_path / "bin/nsys", {PINNED: "x"}, places(tmp_path)) == found


def test_pinned_tools_look_nowhere_else(tmp_path: Path) -> None:
    executable(tmp_path / "nsight-systems/2099.1/host-linux-x64/QdstrmImporter")
    assert find_importer(tmp_path / "bin/nsys", {PINNED: "x"}, places(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("x: error while loading shared libraries: libelf.so.1: cannot open shared object file", 127,
         "step: the library libelf.so.1 is missing", "install it: `apt-get install libelf1`"),
        ("x: error while loading shared libraries: libfoo.so.2: cannot open shared object file", 127,
         "step: the library libfoo.so.2 is missing", "install the package that brings it"),
        ("unrecognised option '--cpuctxsw'", 1, "step: this nsys does not take --cpuctxsw", "2022 or newer"),
        ("Illegal --sample argument: none", 1, "step: this nsys does not take sample", "2022 or newer"),
        ("FATAL ERROR: cannot read /home/alice/x.nsys-rep", 1, "step: cannot read x.nsys-rep", ""),
        ("", -11, "step was ended by signal 11", ""),
        ("", 0, "step ended well but wrote nothing: it said nothing", ""),
        ("one\ntwo /opt/a/b\n", 3, "step ended with exit code 3: two b", ""),
    ],
)  # fmt: skip
def test_what_a_failed_step_says(text: str, code: int, message: str, hint: str) -> None:
    found = trouble("step", text, code)
    assert found.message == message
    assert hint in found.hint
