"""Which kernel the top rung on Hopper takes for a shape: the function of choices.cuh, run on the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import find_tool

from profiler import process
from profiler.header import header_text
from profiler.problems.gemm import Gemm

ROOT = Path(__file__).resolve().parents[2]
#: Shapes of the table; the same transposed, a little larger, between two rows, far out, and as small as may be.
EXPECTED: Mapping[tuple[int, int, int], str] = {
    (1024, 1024, 1024): "small", (2048, 2048, 2048): "zigzag", (4096, 4096, 4096): "zigzag",
    (8192, 8192, 8192): "balanced", (8192, 1024, 4096): "zigzag", (1024, 8192, 4096): "zigzag",
    (4096, 4096, 7168): "zigzag", (4100, 4104, 4096): "zigzag", (16384, 16384, 16384): "balanced",
    (5000, 5000, 5000): "zigzag", (7000, 7000, 7000): "balanced", (1, 8, 8): "small", (512, 1024, 4096): "small",
}  # fmt: skip
MAIN = """
#include <cstdio>
#include <cstdlib>
#include "gemm.h"
#include "choices.cuh"
int main(int count, char **given) {
    const char *names[] = {"zigzag", "balanced", "small"};
    for (int i = 1; i + 2 < count; i += 3)
        std::puts(names[static_cast<int>(
            ladder::choose(std::atoll(given[i]), std::atoll(given[i + 1]), std::atoll(given[i + 2])).kernel)]);
}
"""


@pytest.mark.nvcc
def test_the_nearest_shape_of_the_table_decides(tmp_path: Path) -> None:
    nvcc = find_tool("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc here")
    (tmp_path / "gemm.h").write_text(header_text(Gemm, "bf16", {"layout": "nt"}), encoding="utf-8")
    (tmp_path / "main.cu").write_text(MAIN, encoding="utf-8")
    program = tmp_path / "program"
    folders = [f"-I{tmp_path}", f"-I{ROOT / 'kernels' / 'gemm' / 'hopper'}"]
    built = process.run(
        [nvcc, "-std=c++17", "-arch=sm_90a", *folders, "-o", program, tmp_path / "main.cu"], timeout=200
    )
    assert built.returncode == 0, built.output
    shapes = [str(extent) for shape in EXPECTED for extent in shape]
    chosen = process.run([str(program), *shapes], timeout=20)
    assert chosen.stdout.split() == list(EXPECTED.values())
