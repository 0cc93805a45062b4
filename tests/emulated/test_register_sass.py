"""The FP32 rungs as the compiler leaves them, by the model of tests/unit/test_register_banks.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import find_tool

from profiler import process
from profiler.header import header_text
from profiler.problems.gemm import Gemm
from tests.unit.test_register_banks import cost

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nvcc
def test_the_top_rung_waits_less_for_registers_than_the_one_before(tmp_path: Path) -> None:
    nvcc, cuobjdump = find_tool("nvcc"), find_tool("cuobjdump")
    if nvcc is None or cuobjdump is None:
        pytest.skip("there is no cuobjdump here")
    (tmp_path / "gemm.h").write_text(header_text(Gemm, "fp32", {"layout": "nn"}), encoding="utf-8")
    costs = {}
    for name in ("09_double_buffer", "10_register_banks"):
        cubin = tmp_path / f"{name}.cubin"
        source = ROOT / "kernels" / "gemm" / "fp32" / f"{name}.cu"
        built = process.run(
            [nvcc, "-std=c++17", "-O3", "-Xptxas", "-v", "-cubin", "-gencode=arch=compute_90a,code=sm_90a",
             f"-I{tmp_path}", "-o", cubin, source],
            timeout=200,
        )  # fmt: skip
        assert built.returncode == 0, built.output
        assert set(re.findall(r"(\d+) bytes spill", built.output)) == {"0"}
        sass = process.run([cuobjdump, "-sass", cubin], timeout=60, env={"PATH": str(Path(cuobjdump).parent)}).stdout
        whole = next(part for part in sass.split("Function : ")[1:] if "Shape0" in part.split("\n", 1)[0])
        costs[name] = cost(whole)
    before, now = costs["09_double_buffer"], costs["10_register_banks"]
    # Another compiler chooses other registers: the bounds are loose, the order is not.
    assert now.ffma == 32 * 128
    assert now.ffma / now.instructions > 0.91 > before.ffma / before.instructions
    assert now.conflicts / now.ffma < 0.12 < 0.2 < before.conflicts / before.ffma
    assert now.rate > 0.82 > 0.75 > before.rate
