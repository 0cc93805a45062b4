"""A rung of the transposition, and sums of rows by size, on a CPU: their text under tests/emulator/rows.hpp."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.emulated_kernels import EMULATOR, KERNELS
from tests.emulated_rows import program_of, translated

_VECTORS = """namespace ladder {
inline float4 load_vector(const float *from) { return *reinterpret_cast<const float4 *>(from); }
inline void store_vector(float *to, float4 v) { *reinterpret_cast<float4 *>(to) = v; }
inline float4 load_once(const float4 *from) { return *from; }
inline void commit_copies() {}
template <int kPending>
void wait_copies() {}
}
inline void copy_vector(uint32_t shared, const float *from) {
    if (shared % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) std::abort();
    std::memcpy(emu::mine().shared + shared, from, 16);
}
"""
TRANSPOSE = ("transpose/tiles.cuh", "transpose/micro_block.cuh", "transpose/06_warp_tile.cu")
ROWS = ("reduce/op.cuh", "reduce/row_kernels.cuh", "reduce/13_rows_by_size.cu")


def outcome(
    folder: Path,
    parts: tuple[str, ...],
    args: str,
    sizes: list[tuple[int, int]],
    *flags: str,
    change: tuple[str, str] = ("", ""),
) -> tuple[int, str]:
    """Return the program's exit status and what it prints: 0 and nothing where all is right."""
    text = "".join(translated((KERNELS / name).read_text(encoding="utf-8")) for name in parts)
    assert change[0] in text
    text = text.replace(*change) if change[0] else text
    text = f'#include <type_traits>\n#include "rows.hpp"\nstruct Args {{ {args} }};\n{_VECTORS}{text}'
    text += f"constexpr bool kRows = {str(parts is ROWS).lower()};\n"
    (folder / "kernel.hpp").write_text(text, encoding="utf-8")
    program = program_of(folder, EMULATOR / "exact_main.cpp", *flags)
    argv = [str(program), *(str(number) for size in sizes for number in size)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


_MATRICES, _SUMS = "const float *A; float *B; int64_t M, N;", "const float *x; float *y; int64_t M, N;"


#: One element, row, column; tiles in part on either side, with rows that vectors fit and rows that they do not.
@pytest.mark.parametrize("flags", [(), ("-DTHREADS=256", "-DGROUP=16"), ("-DTHREADS=64",)])
def test_a_matrix_is_transposed(tmp_path: Path, flags: tuple[str, ...]) -> None:
    sizes = [(1, 1), (1, 100), (100, 1), (33, 65), (67, 131), (68, 132), (200, 72)]
    assert outcome(tmp_path, TRANSPOSE, _MATRICES, sizes, *flags) == (0, "")


#: A warp, a cluster (there are few rows for two multiprocessors), a block a row; rows that begin between vectors.
def test_rows_are_summed_by_whoever_fits(tmp_path: Path) -> None:
    sizes = [(1, 1), (9, 33), (5, 64), (3, 1003), (2, 40000), (5, 1001), (9, 8196)]
    assert outcome(tmp_path, ROWS, _SUMS, sizes, "-DWARP_MOST=64", "-D__CUDA_ARCH__=900") == (0, "")


@pytest.mark.parametrize(
    ("parts", "args", "change"),
    [
        (
            TRANSPOSE,
            _MATRICES,
            ("v[j] = tile[place_in_tile(4 * beside + j, c)]", "v[j] = tile[place_in_tile(4 * beside, c)]"),
        ),
        (
            TRANSPOSE,
            _MATRICES,
            ("4 * c + i < columns ? rows", "true ? rows"),
        ),
        (ROWS, _SUMS, ("results + rank", "results")),
    ],
    ids=["a_wrong_row", "a_row_too_many", "one_result_of_a_cluster"],
)
def test_a_mistake_is_seen(tmp_path: Path, parts: tuple[str, ...], args: str, change: tuple[str, str]) -> None:
    flags = ("-DWARP_MOST=64", "-D__CUDA_ARCH__=900")
    status, printed = outcome(tmp_path, parts, args, [(3, 1003)], *flags, change=change)
    assert (status, printed) == (1, "M=3,N=1003 is wrong\n")
