"""The ptxas log: captured texts of CUDA 11 to 13, and texts that are damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.parse import ptxas
from tests import golden

TEXTS = {path.stem: path.read_text() for path in golden.inputs() if path.parent.name == "ptxas"}


@pytest.mark.parametrize("path", [p for p in golden.inputs() if p.parent.name == "ptxas"], ids=lambda p: p.stem)
def test_golden(path: golden.Path) -> None:
    assert golden.rendered(path) == golden.expected(path).read_text()


def test_kernels_of_two_architectures_stay_apart() -> None:
    log = ptxas.parse(TEXTS["cuda13_two_archs"])
    assert len(log.kernels) == 10
    assert len(log.for_arch("sm_90a")) == len(log.for_arch("sm_80")) == 5
    tile = next(k for k in log.for_arch("sm_80") if k.name == "_Z4tileILi128ELi64EEvPf")
    assert (tile.registers, tile.barriers, tile.shared_bytes) == (12, 1, 512)


def test_local_memory_without_spills_is_told_from_spills() -> None:
    kernels = {k.name: k for k in ptxas.parse(TEXTS["cuda13_two_archs"]).for_arch("sm_90a")}
    array = kernels["_Z11local_arrayPfPKi"]
    assert (array.stack_bytes, array.spill_store_bytes, array.spill_load_bytes) == (64, 0, 0)
    spills = next(k for name, k in kernels.items() if "spills" in name)
    assert (spills.stack_bytes, spills.spill_store_bytes, spills.spill_load_bytes) == (40, 36, 36)
    assert spills.cumulative_stack_bytes == 40


def test_what_an_old_compiler_does_not_say_is_missing_not_zero() -> None:
    log = ptxas.parse(TEXTS["cuda11_sm_80"])
    (kernel,) = log.kernels
    assert (kernel.registers, kernel.shared_bytes) == (128, 16384)
    assert kernel.barriers is None
    assert kernel.cumulative_stack_bytes is None
    assert [(f.name, f.stack_bytes, f.spill_load_bytes) for f in log.functions] == [("_Z6helperPf", 8, 8)]


def test_serialised_wgmma_is_told_from_other_advice() -> None:
    serialised = ptxas.parse(TEXTS["cuda12_wgmma"]).warnings
    assert [(w.code, w.serialises_wgmma) for w in serialised] == [("C7510", True), ("C7511", True), ("", False)]
    assert serialised[0].function.startswith("_Z4gemm")
    advice = ptxas.parse(TEXTS["wgmma_advice"]).warnings
    assert [(w.code, w.serialises_wgmma) for w in advice] == [("C7517", False)]


def test_a_build_is_refused_for_what_is_named_and_only_for_that() -> None:
    serialised = ptxas.parse(TEXTS["cuda12_wgmma"])
    assert ptxas.refusal(serialised, ("serialised_wgmma",)).startswith("ptxas serialises wgmma: C7510 ")
    assert ptxas.refusal(serialised, ()) == ""
    both = ("serialised_wgmma", "spills")
    assert ptxas.refusal(ptxas.parse(TEXTS["wgmma_advice"]), both) == ""
    spilled = ptxas.parse(TEXTS["cuda13_two_archs"])
    assert ptxas.refusal(spilled, ("serialised_wgmma",)) == ""
    assert ptxas.refusal(spilled, both) == "2 of 10 kernels spill, 88 bytes stored and loaded at most (build.refuse)"


def test_a_function_that_is_not_inlined_spills_too() -> None:
    text = TEXTS["cuda11_sm_80"]
    assert all(not kernel.spill_store_bytes for kernel in ptxas.parse(text).kernels)
    said = "1 of 2 kernels and functions spill, 12 bytes stored and loaded at most (build.refuse)"
    assert ptxas.refusal(ptxas.parse(text), ("spills",)) == said


def test_a_failed_kernel_has_no_numbers() -> None:
    (kernel,) = ptxas.parse("ptxas info    : Compiling entry function '_Z1kv' for 'sm_90a'\n").kernels
    assert (kernel.registers, kernel.stack_bytes, kernel.shared_bytes) == (None, None, None)


@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 4000), st.integers(0, 200), st.text(max_size=20))
def test_damaged_text_never_raises(name: str, start: int, length: int, put: str) -> None:
    text = TEXTS[name]
    whole = ptxas.parse(text)
    damaged = ptxas.parse(text[:start] + put + text[start + length :])
    assert len(damaged.kernels) <= len(whole.kernels) + put.count("Compiling")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert ptxas.parse(text).kernels == ()
