"""The host programs and the example of a program: they compile, and their experiments are held against an ideal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from profiler import data_files
from profiler.experiment import load_experiment
from tests.conftest import find_tool

EXPERIMENTS = data_files.experiments()
PROGRAMS = ("system/launch_overhead.cu", "system/overlap.cu", "system/concurrency.cu", "command_example/sgemm.cu")


@pytest.mark.nvcc
@pytest.mark.parametrize("source", PROGRAMS)
def test_a_program_compiles_for_the_gpu_without_a_warning(source: str, tmp_path: Path) -> None:
    nvcc = find_tool("nvcc")
    assert nvcc is not None
    argv = [nvcc, "-ptx", "-std=c++17", "-arch=sm_90a", "-Werror=all-warnings", "-o", str(tmp_path / "out.ptx")]
    done = subprocess.run([*argv, str(EXPERIMENTS / source)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.nvcc
def test_a_dependent_step_lets_the_next_one_begin_and_waits_before_it_reads(tmp_path: Path) -> None:
    nvcc = find_tool("nvcc")
    assert nvcc is not None
    out = tmp_path / "out.ptx"
    argv = [nvcc, "-ptx", "-std=c++17", "-arch=sm_90a", "-o", str(out), str(EXPERIMENTS / "system/launch_overhead.cu")]
    subprocess.run(argv, capture_output=True, timeout=120, check=True)
    body = out.read_text(encoding="utf-8").partition(".entry _Z14step_dependent")[2].partition(".entry")[0]
    places = [body.index(word) for word in ("griddepcontrol.launch_dependents", "griddepcontrol.wait", "ld.global")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["launch_overhead", "overlap", "concurrency"])
def test_every_contract_has_an_ideal_that_prints_its_time_too(name: str) -> None:
    experiment = load_experiment(EXPERIMENTS / f"{name}.yaml")
    for variant in experiment.variants:
        assert variant.command is not None
        baseline = experiment.variant(experiment.baseline[variant.dtype])
        assert baseline.command is not None
        assert "ideal" in baseline.idea
        if variant.name != "kernel":  # how long a kernel of the loop runs, which only a trace knows
            assert variant.command.time == baseline.command.time
        assert all(file.is_file() for file in variant.command.build_inputs)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
def test_the_step_of_work_does_what_its_arithmetic_says(tmp_path: Path) -> None:
    """The host's side of the check, against the same generator in Python: three shifts on 32 bits."""
    source = tmp_path / "step.cpp"
    text = (EXPERIMENTS / "system" / "common.cuh").read_text(encoding="utf-8")
    work = text[text.index("__host__ __device__ inline uint32_t xorshift") : text.index("// Microseconds by")]
    source.write_text(
        "#include <cstdint>\n#include <cstdio>\n#define __host__\n#define __device__\n" + work
        + "int main() { for (uint64_t i = 0; i < 100; ++i) "
        'std::printf("%u\\n", xorshift(first_word(i * 12345), 37)); }\n',
        encoding="utf-8",
    )  # fmt: skip
    subprocess.run(["g++", "-O1", "-o", str(tmp_path / "step"), str(source)], check=True, timeout=60)
    said = subprocess.run([str(tmp_path / "step")], capture_output=True, text=True, check=True, timeout=60).stdout
    expected = []
    for i in range(100):
        x = (i * 12345 * 2654435761) % 2**32 | 1
        for _ in range(37):
            x ^= x << 13 & 0xFFFFFFFF
            x ^= x >> 17
            x ^= x << 5 & 0xFFFFFFFF
        expected.append(x)
    assert [int(line) for line in said.split()] == expected
    assert len(set(expected)) == 100
