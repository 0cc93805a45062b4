"""Identical is what is shown to be identical: every part known and the same; anything else is changed or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare_data import BASE, NAME, SIZE, Planted

from profiler.analysis.rundata import RunData
from profiler.comparison.identity import code_identity
from profiler.comparison.model import CodeIdentity
from profiler.rundir import RunDir

RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200" / "gemm_ladder"
PYTHON = replace(BASE, kind="python", binary_hash="")
TRITON = replace(BASE, kind="triton")


def found(before: Planted, after: Planted) -> CodeIdentity:
    return code_identity(before.run(), after.run(), NAME, SIZE)


def with_manifest(planted: Planted, **changes: Any) -> RunData:
    run = planted.run()
    merged = {key: {**run.manifest[key], **value} if isinstance(value, Mapping) else value
              for key, value in changes.items()}  # fmt: skip
    return RunData({**run.manifest, **merged}, run.rows)


def test_the_same_code_is_the_same() -> None:
    same = found(BASE, BASE)
    assert same.code == "same"
    assert same.words == "identical machine code, host source, buffers and launches"


@pytest.mark.parametrize(
    ("after", "part"),
    [
        (replace(BASE, binary_hash="b2"), "binary"),
        (replace(BASE, source_hash="s2"), "source"),
        (replace(BASE, grid=2048), "launch"),
        (replace(BASE, registers=65), "launch"),
    ],
)
def test_one_part_that_changed_is_a_change(after: Planted, part: str) -> None:
    changed = found(BASE, after)
    assert changed.code == "changed"
    assert changed.part(part) == "changed"
    assert changed.words.startswith("changed: ")


def test_the_same_machine_code_under_another_host_source_is_said() -> None:
    assert found(BASE, replace(BASE, source_hash="s2")).words == "changed: host source; the machine code is the same"


@pytest.mark.parametrize(
    "after", [replace(BASE, binary_hash=""), replace(BASE, source_hash=""), replace(PYTHON, profiled=False)]
)
def test_a_part_that_is_not_known_leaves_the_whole_unknown(after: Planted) -> None:
    assert found(replace(after, profiled=True), after).code == "unknown"


def test_a_cuda_variant_needs_no_profile_but_one_that_links_a_library_does() -> None:
    bare = replace(BASE, profiled=False)
    assert found(bare, bare).code == "same"
    linked = with_manifest(bare, builds={NAME: {"command": ["nvcc", "-lineinfo", "-lcublas"]}})
    assert code_identity(linked, linked, NAME, SIZE).code == "unknown"
    plain = with_manifest(bare, builds={NAME: {"command": ["nvcc", "-lineinfo"]}})
    assert code_identity(plain, plain, NAME, SIZE).code == "same"


@pytest.mark.parametrize("kind", [PYTHON, TRITON])
def test_a_library_is_identical_by_version_kernels_and_launches(kind: Planted) -> None:
    assert found(kind, kind).code == "same"
    newer = with_manifest(kind, versions={"torch": "2.12", "triton": "3.7"})
    assert code_identity(kind.run(), newer, NAME, SIZE).part("libraries") == "changed"
    assert found(kind, replace(kind, block=128)).code == "changed"
    silent = with_manifest(kind, versions={"torch": None, "triton": None})
    assert code_identity(kind.run(), silent, NAME, SIZE).code == "unknown"


def test_other_inputs_are_other_buffers() -> None:
    other = with_manifest(BASE, problem={"init": {"seed": 1}})
    assert code_identity(BASE.run(), other, NAME, SIZE).part("buffers") == "changed"


def test_a_program_of_its_own_is_never_known() -> None:
    command = replace(BASE, kind="command", binary_hash="")
    assert found(command, command).code == "unknown"


def test_another_kind_and_a_missing_row_are_no_identity() -> None:
    assert found(BASE, TRITON).code == "changed"
    assert code_identity(BASE.run(), BASE.run("other"), NAME, SIZE).code == "unknown"
    renamed = code_identity(BASE.run("old"), BASE.run(), NAME, SIZE, before_name="old")
    assert renamed.code == "same"


def test_every_row_of_a_recording_is_identical_to_itself() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    codes = {str(v["name"]): code_identity(data, data, str(v["name"]), data.sizes[-1]).code for v in data.variants}
    assert set(codes.values()) == {"same"}, codes


def test_another_compiler_that_makes_the_same_code_is_no_change() -> None:
    assert code_identity(BASE.run(), with_manifest(BASE, tools={"nvcc": "13.1"}), NAME, SIZE).code == "same"
