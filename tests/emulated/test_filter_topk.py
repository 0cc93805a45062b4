"""The last rungs of the mean filter and of TopK on a CPU: the kernels' own text under tests/emulator/warps.hpp.

Warps go on in any order that barriers, shuffles and waits leave, so that a slot that is filled too early, a buffer that
has no room or a barrier that not all reach shows as a wrong result or as a deadlock.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emulated_kernels import EMULATOR, KERNELS
from tests.emulated_rows import program_of, translated

FILTER = ("filter/edges.cuh", "filter/quads.cuh", "filter/strips.cuh", "filter/07_warp_strips.cu")
TOPK = ("topk/order.cuh", "topk/block_select.cuh", "topk/elements.cuh", "topk/06_no_barrier.cu")
_ARGS = {
    "filter": "struct Args {\n    const float *x;\n    float *y;\n    int64_t H, W, R;\n};\n",
    "topk": (
        "struct Args {\n    const float *x;\n    float *values;\n    int64_t *indices;\n    int64_t B, N, K;\n"
        "    void *workspace;\n    size_t workspace_bytes;\n};\n"
    ),
}


def compiled(
    folder: Path, kernel: str, *flags: str, multiprocessors: int = 2, change: Callable[[str], str] = lambda text: text
) -> Path:
    """Return the program of the filter or of TopK under the emulator."""
    parts = FILTER if kernel == "filter" else TOPK
    text = change("".join(translated((KERNELS / name).read_text(encoding="utf-8")) for name in parts))
    (folder / "kernel.hpp").write_text(
        f'#define MULTIPROCESSORS {multiprocessors}\n#include "warps.hpp"\n{_ARGS[kernel]}{text}', encoding="utf-8"
    )
    return program_of(folder, EMULATOR / f"{kernel}_main.cpp", *flags)


def run(program: Path, *arguments: str | int) -> tuple[int, str]:
    """Return the exit code and the output of a run."""
    argv = [str(program), *(str(argument) for argument in arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


#: One pixel, one row, one column, rows that no vector fits, strips beside and bands above one another, both ways;
#: strips of just their columns and rows, and of one vector or pixel more.
IMAGES = (
    (1, 1, 1), (1, 130, 3), (40, 1, 7), (9, 11, 15), (67, 131, 3), (50, 244, 1), (70, 128, 7), (100, 132, 15),
    (13, 121, 1), (64, 192, 3), (65, 196, 1), (33, 97, 3), (96, 100, 1),
)  # fmt: skip


@pytest.mark.parametrize(
    "flags", [(), ("-DHEIGHT=20", "-DRING=4", "-DWIDTH=64"), ("-DBOTH_WAYS=0", "-DSTREAM=1", "-DHEIGHT=9")]
)
def test_every_window_is_right(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = compiled(tmp_path, "filter", *flags)
    assert run(program, *(extent for image in IMAGES for extent in image)) == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tails[i + 1], grows", "tails[i], grows"),
        ("ladder::wait_copies<kAhead>();", "ladder::wait_copies<kAhead + 1>();"),
        ("max(row - whole_below, 0)", "0"),
    ],
    ids=["a_row_twice", "read_too_early", "weights_below"],
)
def test_a_mistake_in_the_filter_is_seen(tmp_path: Path, old: str, new: str) -> None:
    def planted(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    program = compiled(tmp_path, "filter", "-DHEIGHT=20", change=planted)
    assert run(program, 67, 128, 3, 61, 128, 3)[0] != 0  # the last band is walked upwards, and downwards


#: One element, all, rows of a block and of several, rows that no vector fits, K beyond the blocks'; K that fills half
#: of the buffer, one more, as many as threads, one more, as many as may be.
ROWS = (
    (1, 1, 1), (3, 33, 33), (5, 5003, 17), (2, 40001, 2), (1, 65536, 3), (1, 33000, 64), (1, 9001, 300),
    (3, 16388, 128), (2, 20001, 129), (1, 12288, 256), (1, 12292, 257), (1, 12001, 512),
)  # fmt: skip


@pytest.fixture(scope="module")
def topk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("topk"), "topk")


@pytest.mark.parametrize("kind", ["normal", "ties", "special", "equal", "nan", "least", "ascending", "descending"])
def test_the_largest_are_found(topk: Path, kind: str) -> None:
    assert run(topk, kind, *(extent for row in ROWS for extent in row)) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("shared.bar, smallest));", "shared.bar, smallest + 0x2000000));", (1, 65537, 2)),
        ("(topk::key_of(own[j]) >= key", "(topk::key_of(own[j]) > key", (1, 20001, 300)),
        ("mask &= ~(1u << i);", "mask &= ~0u;", (5, 5003, 17)),
        ("q * 4 * kThreads < left);", "q * 4 * kThreads <= left);", (1, 20000, 17)),
        ("if (there > 0) prefetch_l2(", "prefetch_l2(", (2, 8192, 17)),
    ],
    ids=["bar_too_high", "too_many_dropped", "behind_the_end", "read_behind_the_end", "asked_behind_the_end"],
)
def test_a_mistake_in_topk_is_seen(tmp_path: Path, old: str, new: str, rows: tuple[int, int, int]) -> None:
    def planted(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    program = compiled(tmp_path, "topk", change=planted)
    results = [run(program, kind, *rows)[0] for kind in ("normal", "ties", "ascending")]
    assert any(results)
