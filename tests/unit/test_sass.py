"""The listing of cuobjdump: captured text, classes and widths, the hash's stability, and damaged text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.parse import cuobjdump, elf, sass
from profiler.static import binary_hash, cuobjdump_argv
from tests import golden

LISTING = (golden.GOLDEN / "sass" / "cuda13_two_archs.txt").read_text()
USAGE = (golden.GOLDEN / "cuobjdump" / "res_usage_two_archs.txt").read_text()
ELF = (golden.GOLDEN / "cuobjdump" / "elf_two_archs.txt").read_text()


@pytest.mark.parametrize(
    "path", [p for p in golden.inputs() if p.parent.name in {"sass", "cuobjdump"}], ids=lambda p: p.stem
)
def test_golden(path: golden.Path) -> None:
    assert golden.rendered(path) == golden.expected(path).read_text()


def one(text: str) -> sass.Instruction:
    (kernel,) = sass.parse(f"\t\tFunction : k\n        /*0010*/                   {text} ;   /* 0x0 */\n")
    return kernel.instructions[0]


@pytest.mark.parametrize(
    ("text", "base", "bits"),
    [
        ("LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", "LDG", 128),
        ("LDG.E.LTC128B R4, [R2.64]", "LDG", 32),
        ("LDG.E.U16 R4, [R2.64]", "LDG", 16),
        ("LDG.E.ENL2.256 R4, R8, desc[UR4][R2.64]", "LDG", 256),
        ("LDGSTS.E.BYPASS.LTC128B.128 [R3], desc[UR6][R4.64]", "LDGSTS", 128),
        ("STS.64 [R3], R4", "STS", 64),
        ("STL.U8 [R1], R4", "STL", 8),
        ("LDS R3, [R4]", "LDS", 32),
    ],
)
def test_access_width(text: str, base: str, bits: int) -> None:
    instruction = one(text)
    assert (instruction.base, instruction.width_bits) == (base, bits)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FFMA R1, R2, R3, R1", "fp32"),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", "tensor"),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", "tensor"),
        ("LDSM.16.M88.4 R4, [R2]", "shared"),
        ("UTMALDG.2D [UR8], [UR4]", "async_copy"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"),
        ("SYNCS.ARRIVE.TRANS64 RZ, [R2], R3", "barrier"),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", "move"),
        ("IMAD.WIDE R2, R3, 0x4, R4", "integer"),
        ("HFMA2.MMA R5, -RZ, RZ, 0, 0", "move"),
        ("HFMA2.MMA R5, R6, R7, R5", "fp16"),
        ("ULEA UR4, UR5, UR4, 0x18", "uniform"),
        ("SHFL.BFLY PT, R2, R3, 0x1, 0x1f", "shuffle"),
        ("BRA 0x140", "branch"),
        ("WHATISTHIS R1", "other"),
    ],
)
def test_class(text: str, kind: str) -> None:
    assert one(text).kind == kind
    assert kind in sass.CLASSES


def test_predicate_and_operands() -> None:
    instruction = one("@!P0 BRA 0x140")
    assert (instruction.pc, instruction.predicate, instruction.operands) == (0x10, "@!P0", "0x140")
    assert one("@UP1 UMOV UR4, 0x400").predicate == "@UP1"


def test_padding_is_not_code() -> None:
    body = ["EXIT", "BRA 0x20", "NOP", "NOP"]
    lines = "\n".join(f"        /*{16 * i + 16:04x}*/   {text}; /* 0x0 */" for i, text in enumerate(body))
    (kernel,) = sass.parse(f"\t\tFunction : k\n{lines}\n")
    assert [i.base for i in kernel.instructions] == ["EXIT"]


def test_sum_of_the_classes_is_all_instructions() -> None:
    kernels = sass.parse(LISTING)
    assert len(kernels) == 10
    for kernel in kernels:
        assert sum(kernel.class_mix().values()) == sum(kernel.opcode_mix().values()) == len(kernel.instructions)


def test_hash_ignores_what_differs_between_two_builds_of_one_source() -> None:
    first = sass.parse(LISTING)
    moved = LISTING.replace("650a4889_10_kernels_cu_a8326889", "0123abcd_10_kernels_cu_99999999")
    moved = re.sub(r"/\* 0x[0-9a-f]{16} \*/", "/* 0xdeadbeefdeadbeef */", moved)
    assert moved != LISTING
    assert binary_hash(sass.parse(moved)) == binary_hash(first)
    other = sass.parse(LISTING.replace("FADD", "FMUL", 1))
    assert binary_hash(other) != binary_hash(first)


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("_ZN43_GLOBAL__N__650a4889_10_kernels_cu_a83268896spillsEv", "_ZN_GLOBAL__N_6spillsEv"),
        ("_ZN2ab43_GLOBAL__N__650a4889_10_kernels_cu_a83268893fooEv", "_ZN2ab_GLOBAL__N_3fooEv"),
        ("_Z4tileILi64EEvPf", "_Z4tileILi64EEvPf"),
    ],
)
def test_stable_name(name: str, stable: str) -> None:
    assert sass.stable_name(name) == stable


def test_resources_and_bounds_of_the_binary() -> None:
    usage = {u.name: u for u in cuobjdump.resource_usage(USAGE)}
    assert usage["_Z4tileILi64ELi128EEvPf"].shared_bytes == 256  # without the driver's 1 KiB, which sm_90 counts
    bounds = cuobjdump.launch_bounds(ELF)
    assert {name: b.total for name, b in bounds.items()} == {
        "_Z4tileILi128ELi64EEvPf": 256,
        "_Z4tileILi64ELi128EEvPf": 256,
    }


def test_exact_block_shape_wins_over_the_bound() -> None:
    text = (
        ".nv.info.k\n\tAttribute:\tEIATTR_REQNTID\n\tValue:\t0x40 0x2 0x1\n"
        "\tAttribute:\tEIATTR_MAX_THREADS\n\tValue:\t0x400 0x1 0x1\n"
    )
    bound = cuobjdump.launch_bounds(text)["k"]
    assert (bound.total, bound.exact) == (128, True)


def test_argument_list() -> None:
    assert cuobjdump_argv("cuobjdump", "-sass", golden.Path("a b/variant.so")) == [
        "cuobjdump", "-sass", "a b/variant.so",
    ]  # fmt: skip


@given(st.integers(0, len(LISTING)), st.integers(0, 400), st.text(max_size=30))
def test_damaged_text_never_raises(start: int, length: int, put: str) -> None:
    kernels = sass.parse(LISTING[:start] + put + LISTING[start + length :])
    assert len(kernels) <= 11
    assert isinstance(sass.normalised(kernels), str)


@given(st.integers(0, len(ELF)), st.integers(0, 300), st.text(max_size=20))
def test_damaged_resource_texts_never_raise(start: int, length: int, put: str) -> None:
    damaged = ELF[:start] + put + ELF[start + length :]
    assert set(cuobjdump.launch_bounds(damaged)) <= {*cuobjdump.launch_bounds(ELF), *damaged.split()} | {
        line.removeprefix(".nv.info.").strip() for line in damaged.splitlines()
    }
    cut = USAGE[:start] + put + USAGE[start + length :]
    assert len(cuobjdump.resource_usage(cut)) <= 11


@given(st.text(max_size=200))
def test_names_of_any_kind_stay_finite(name: str) -> None:
    assert sass.stable_name(sass.stable_name(name)) == sass.stable_name(name)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_library_are_refused(data: bytes) -> None:
    with pytest.raises(elf.NotElf):
        elf.exported_symbols(b"\x7fELF\x02\x01" + data[:40])
    with pytest.raises(elf.NotElf):
        elf.exported_symbols(b"x" + data)


def test_an_access_that_is_never_let_through_has_no_width() -> None:
    texts = ["@!PT LDS RZ, [RZ]", "@P1 LDS R2, [R3]", "LDS.128 R4, [R5]"]
    kernel = sass.SassKernel("k", "sm_90a", tuple(one(text) for text in texts))
    assert kernel.widths() == {("LDS", 32): 1, ("LDS", 128): 1}
    assert kernel.class_mix() == {"shared": 3}
