"""Softmax, LayerNorm and RMSNorm by size on a CPU: the kernels' own text under tests/emulator/rows.hpp.

Warps, blocks and clusters of up to 8 blocks, in vectors and element by element, with rows
that end inside of a part and before a block's. Blocks of a cluster are made small for it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emulated_kernels import EMULATOR, KERNELS
from tests.emulated_rows import program_of, translated

_NORM = (
    "common/rows.cuh", "norm/moments.cuh", "norm/vector_rows.cuh", "norm/resident_rows.cuh", "norm/rows_by_size.cuh"
)  # fmt: skip
#: Rung -> (its file, the files it is built from, whether and how it normalises).
RUNGS = {
    "softmax": ("softmax/08_by_size.cu", ("common/rows.cuh", "softmax/tally.cuh"), []),
    "layernorm": (
        "layernorm/06_by_size.cu",
        _NORM,
        ["-DNORM=2"],
    ),
    "rmsnorm": (
        "rmsnorm/05_by_size.cu",
        _NORM,
        ["-DNORM=1"],
    ),
}
#: Few threads a block, so that rows of some thousand elements take 8 blocks.
_SMALL = (
    ("constexpr int kHalfThreads = kMostThreads / 2;", "constexpr int kHalfThreads = 32;"),
    ("constexpr int kGroupThreads = kMostThreads / kGroups;", "constexpr int kGroupThreads = 128 / kGroups;"),
    ("constexpr int kTogetherThreads = 512;", "constexpr int kTogetherThreads = 32;"),
)
_NO_PLAN = "cudaError_t prepare(const Args *, void **) { return cudaSuccess; }\nvoid destroy(void *) {}\n"


def compiled(
    folder: Path, problem: str, element: str, *flags: str, change: Callable[[str], str] = lambda text: text
) -> Path:
    """Return the program of a problem's rung under the emulator."""
    file, parts, macros = RUNGS[problem]
    text = "".join(translated((KERNELS / name).read_text(encoding="utf-8")) for name in (*parts, file))
    for old, new in _SMALL:
        text = text.replace(old, new)
    text = change(text)
    args = (
        f"struct Args {{\n    const {element} *x, *w, *b;\n    {element} *y;\n    int64_t T, N;\n    float eps;\n}};\n"
    )
    plan = "" if "cudaError_t prepare" in text else _NO_PLAN
    (folder / "kernel.hpp").write_text(
        f'#include <new>\n#include <type_traits>\n#include "rows.hpp"\n{args}\n{text}{plan}', encoding="utf-8"
    )
    return program_of(folder, EMULATOR / "rows_main.cpp", *macros, *flags)


def run(program: Path, *sizes: tuple[int, int]) -> subprocess.CompletedProcess[str]:
    """Return what the program says of rows of these sizes (T, N)."""
    argv = [str(program), *(str(number) for size in sizes for number in size)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


#: A warp (rows share a block, or have one), a block, clusters of 2 to 8 blocks with a part that is not full, rows
#: of which no multiple of two is there; the last begin between vectors.
SIZES = ((9, 40), (3, 192), (2, 1000), (3, 1064), (1, 4104), (3, 33), (1, 333), (1, 1033))


@pytest.mark.parametrize("element", ["float", "__nv_bfloat16"])
@pytest.mark.parametrize("problem", list(RUNGS))
def test_rows_of_every_length_are_right(tmp_path: Path, problem: str, element: str) -> None:
    program = compiled(tmp_path, problem, element, "-DWARP_MOST=200", "-DBLOCK_MOST=400", "-DPART=1024")
    done = run(program, *SIZES)
    assert (done.returncode, done.stdout) == (0, "")


#: Clusters of 1, 2, 4 and 8 blocks; rows for fewer groups than there are, for each one, and to be dealt out.
DEALT = ((1, 604), (4, 1064), (13, 1064), (11, 2056), (9, 4104))
#: Rows of four groups, of two, and of a cluster that ends with them: just as long as they may be, and a vector longer.
BY_LENGTH = ((9, 4104), (3, 8192), (5, 8200), (2, 16384), (1, 16388), (1, 16424))


@pytest.mark.parametrize(
    ("problem", "element"), [("layernorm", "float"), ("layernorm", "__nv_bfloat16"), ("rmsnorm", "float")]
)
def test_rows_are_dealt_out_once_in_every_launch(tmp_path: Path, problem: str, element: str) -> None:
    program = compiled(tmp_path, problem, element, "-DBLOCK_MOST=400", "-DWARP_MOST=200", "-DLAUNCHES=2")
    done = run(program, *DEALT)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("problem", ["layernorm", "rmsnorm"])
def test_rows_that_a_block_unpacks_once_are_right(tmp_path: Path, problem: str) -> None:
    program = compiled(tmp_path, problem, "__nv_bfloat16", "-DWARP_MOST=200")
    done = run(program, (3, 208), (3, 328), (2, 1032), (1, 16376), (1, 16384), (1, 2001))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_number_of_groups_follows_the_length_of_the_row(tmp_path: Path) -> None:
    program = compiled(tmp_path, "layernorm", "float", "-DBLOCK_MOST=400", "-DWARP_MOST=200", "-DLAUNCHES=2")
    done = run(program, *BY_LENGTH)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("problem", ["layernorm", "rmsnorm"])
def test_clusters_that_end_with_their_rows_are_right(tmp_path: Path, problem: str) -> None:
    program = compiled(tmp_path, problem, "float", "-DBLOCK_MOST=400", "-DWARP_MOST=200")
    done = run(program, (2, 1001), (3, 1067), (1, 4102), (1, 16424))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (asked == static_cast<unsigned>(T) - 1) *dealt = 0;", ""),
        ("coming = workers + asked;", "coming = workers + asked + 1;"),
        (
            "load_held(weights.b[0], mine_at + v * step * kSize + b_apart);",
            "load_held(weights.b[0], mine_at + b_apart);",
        ),
        ("load_once<Element, kWidth>(from + v * step);", "load_once<Element, kWidth>(from);"),
    ],
    ids=["counter_not_set_back", "row_passed_over", "weights_of_another_column", "next_row_of_another_column"],
)
def test_a_mistake_of_rows_dealt_out_is_seen(tmp_path: Path, old: str, new: str) -> None:
    def planted(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    program = compiled(
        tmp_path, "layernorm", "float", "-DBLOCK_MOST=400", "-DWARP_MOST=200", "-DLAUNCHES=2", change=planted
    )
    done = run(program, (13, 1064))
    assert done.returncode == 1
    assert "T=13,N=1064: error" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "element", "length"),
    [
        ("&parts[cluster_rank() * warps", "&parts[0 * warps", "float", 601),
        ("const int other = column + i * step;", "const int other = column;", "float", 16424),
        ("held[v] = as_floats(bits[v]);", "held[v] = as_floats(bits[0]);", "__nv_bfloat16", 328),
    ],
    ids=["parts_of_one_block", "weights_of_another_column", "unpacked_from_another_vector"],
)
def test_a_mistake_is_seen(tmp_path: Path, old: str, new: str, element: str, length: int) -> None:
    def planted(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    flags = ("-DBLOCK_MOST=400", "-DWARP_MOST=200")
    program = compiled(tmp_path, "layernorm", element, *flags, change=planted)
    done = run(program, (1, length))
    assert done.returncode == 1
    assert f"T=1,N={length}: error" in done.stdout
