"""Ceilings: what a launch does by its parameters, what the compiled loops hold, what reaches the frame."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import find_tool
from gpu_less_run import fake_session, make_run

from profiler import ceilings, frames, process
from profiler.ceilings import SOURCE, measure_ceilings, nominal_rows
from profiler.clocks import CardClocks
from profiler.toolchain import Gpu
from profiler.worker.ceilings import CEILINGS, Launch, absent_because, buffer_bytes, launch_of, work_of

BY_NAME = {ceiling.name: ceiling for ceiling in CEILINGS}
H200 = {"multiprocessors": 132, "l2_bytes": 60 << 20, "buffer": 512 << 20}


@pytest.mark.parametrize(
    ("name", "launch", "work"),
    [
        ("copy", Launch(131072, 256, 1, 512 << 20), 2 * (512 << 20)),
        ("read", Launch(16384, 256, 1, 512 << 20), 512 << 20),
        ("L2 read", Launch(264, 512, 250, 8 << 20), 264 * 512 * 250 * 8 * 16),
        ("shared read", Launch(264, 1024, 800, 0), 264 * 1024 * 800 * 8 * 16),
        ("FFMA", Launch(264, 512, 2000, 0), 264 * 512 * 2000 * 128 * 2),
        ("mma.sync BF16", Launch(264, 256, 2000, 0), 264 * 8 * 2000 * 32 * (2 * 16 * 8 * 16)),
        ("wgmma BF16", Launch(264, 128, 400, 0), 264 * 400 * 16 * (2 * 64 * 256 * 16)),
        ("mma.sync TF32", Launch(264, 256, 2000, 0), 264 * 8 * 2000 * 32 * (2 * 16 * 8 * 8)),
        ("wgmma TF32", Launch(264, 128, 400, 0), 264 * 400 * 16 * (2 * 64 * 256 * 8)),
    ],
)
def test_work_follows_from_the_launch_parameters(name: str, launch: Launch, work: int) -> None:
    assert launch_of(BY_NAME[name], **H200) == launch
    assert work_of(BY_NAME[name], launch) == work


def test_a_launch_of_the_ceilings_takes_about_a_millisecond_or_less() -> None:
    rates = {"dram": 4e12, "l2": 5e12, "shared": 30e12, "ffma": 60e12, "hmma_bf16": 600e12, "hgmma_bf16": 900e12}
    rates |= {"hmma_tf32": 300e12, "hgmma_tf32": 450e12}
    seconds = {c.name: work_of(c, launch_of(c, **H200)) / rates[c.level_or_pipe] for c in CEILINGS}
    assert all(1e-4 < value < 1.5e-3 for value in seconds.values()), seconds


@pytest.mark.parametrize(
    ("l2", "free", "expected"),
    [
        (60 << 20, 140 << 30, 512 << 20),  # H200
        (126 << 20, 180 << 30, 512 << 20),  # four times 126 MiB still fit
        (160 << 20, 180 << 30, 1 << 30),
        (6 << 20, 1 << 30, 256 << 20),  # a small card gives a quarter of what is free
        (60 << 20, 1 << 30, 256 << 20),
        (60 << 20, 512 << 20, 0),  # not four times L2: none rather than one that L2 holds
    ],
)
def test_dram_buffers_are_several_times_l2_or_absent(l2: int, free: int, expected: int) -> None:
    assert buffer_bytes(l2, free) == expected


def test_l2_is_read_in_a_window_that_it_holds() -> None:
    for l2 in (4 << 20, 6 << 20, 40 << 20, 60 << 20, 126 << 20):
        window = launch_of(BY_NAME["L2 read"], 100, l2, 512 << 20).bytes
        assert l2 / 8 < window <= l2 / 4
        assert window & (window - 1) == 0  # its addresses are masked


@pytest.mark.parametrize(
    ("capability", "absent"),
    [
        ((7, 5), {"mma.sync BF16", "mma.sync TF32", "wgmma BF16", "wgmma TF32"}),
        ((8, 6), {"wgmma BF16", "wgmma TF32"}),
        ((9, 0), set()),
        ((10, 0), {"wgmma BF16", "wgmma TF32"}),
    ],
)
def test_an_instruction_that_a_chip_lacks_is_absent(capability: tuple[int, int], absent: set[str]) -> None:
    assert {c.name for c in CEILINGS if absent_because(c, capability)} == absent


def test_nominal_peaks_are_the_datasheets() -> None:
    rows = {row["level_or_pipe"]: row for row in nominal_rows(132, (9, 0), CardClocks(1830, 1980, 3201, 6144))}
    assert rows["ffma"]["value"] == pytest.approx(61.8e12, rel=0.01)
    assert rows["hgmma_bf16"]["value"] == rows["hgmma_fp16"]["value"] == pytest.approx(989.4e12, rel=0.001)
    assert rows["hgmma_tf32"]["value"] == pytest.approx(494.7e12, rel=0.001)
    assert rows["dram"]["value"] == pytest.approx(4.9e12, rel=0.01)
    assert {row["origin"] for row in rows.values()} == {"nominal"}
    a100 = {row["level_or_pipe"]: row["value"] for row in nominal_rows(108, (8, 0), CardClocks(1410, None, 1215, 5120))}
    assert a100["hmma_bf16"] == pytest.approx(312e12, rel=0.001)
    assert a100["hmma_tf32"] == pytest.approx(156e12, rel=0.001)
    assert a100["ffma"] == pytest.approx(19.5e12, rel=0.001)
    assert a100["dram"] == pytest.approx(1555e9, rel=0.001)


def test_what_is_unknown_has_no_nominal_peak() -> None:
    assert nominal_rows(132, (9, 0), CardClocks()) == []
    assert nominal_rows(0, (9, 0), CardClocks(1980)) == []
    assert {row["level_or_pipe"] for row in nominal_rows(20, (5, 2), CardClocks(1000, None, None, 384))} == {"shared"}


def test_measured_and_nominal_ceilings_reach_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "a")
    run.gpu = Gpu(0, "Fake H200", "GPU-fake", (9, 0), "580", 1)
    run.note("gpu", {"sm_count": 132})
    monkeypatch.setattr(ceilings, "card_clocks", lambda uuid: CardClocks(1980, 1980, 3201, 6144))
    with fake_session(tmp_path, {}) as session:
        measure_ceilings(run, session, None, "ceilings.so")
    rows = {(row["level_or_pipe"], row["origin"]): row for row in frames.rows_of(run.dir.frame("ceilings"))}
    assert rows["dram", "measured"] == {
        "name": "copy", "level_or_pipe": "dram", "value": 4.2e12, "unit": "B/s", "clock_mhz": 1950.0,
        "origin": "measured",
    }  # fmt: skip
    assert ("ffma", "nominal") in rows
    assert ("hgmma_bf16", "measured") not in rows
    assert run.dir.manifest["notes"] == ["Ceilings that were not measured: wgmma BF16: no such instruction."]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash_in_ceilings", "the rest: the worker was killed by SIGSEGV (ceiling copy)"),
        ("hang_in_ceilings", "the rest: no answer for 1 s (ceiling copy)"),
        ("refused_ceilings", "the rest: CUDA error: out of memory"),
    ],
)
def test_ceilings_that_fail_fail_alone(tmp_path: Path, behaviour: str, words: str) -> None:
    run = make_run(tmp_path, "a", timeout_s=1.0)
    with fake_session(tmp_path, {"*": behaviour}) as session:
        measure_ceilings(run, session, None, "ceilings.so")
    assert [row["name"] for row in frames.rows_of(run.dir.frame("ceilings"))] == ["copy"]
    assert words in run.dir.manifest["notes"][0]
    assert run.status() == {"a": "ok"}


def test_a_worker_that_cannot_start_costs_the_ceilings_only(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    measure_ceilings(run, fake_session(tmp_path, {"*": "silent_start"}), None, "ceilings.so")
    assert run.status() == {"a": "ok"}
    assert "any: the worker did not start" in run.dir.manifest["notes"][0]


def test_without_a_compiler_there_are_no_measured_ceilings_and_the_run_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    assert ceilings.ceiling_library(run) is None
    with fake_session(tmp_path, {}) as session:
        measure_ceilings(run, session, None, None)
        assert session.started == 0
    assert len(run.dir.frame("ceilings")) == 0
    assert "there is no compiler" in json.dumps(run.dir.manifest["notes"])


def loops(sass: str) -> dict[str, Counter[str]]:
    """Return, per kernel, the instructions of its last backward jump: the loop that is timed."""
    found: dict[str, Counter[str]] = {}
    for part in re.split(r"\n\s*Function : ", sass)[1:]:
        name = re.search(r"kl_copy\d+(\w+?_kernel)E", part.split("\n", 1)[0])
        assert name
        lines = [(int(at, 16), text) for at, text in re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(.*?)\s*;", part)]
        jumps = [(int(m[1], 16), at) for at, text in lines if (m := re.search(r"\bBRA\b.*0x([0-9a-f]+)", text))]
        backward = [(to, at) for to, at in jumps if to < at]
        low, high = backward[-1] if backward else (0, lines[-1][0])
        words = [re.sub(r"^@!?U?P\w+\s+", "", text).split()[0] for at, text in lines if low <= at <= high]
        found[name[1]] = Counter(words)
    return found


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_the_compiled_loops_are_what_the_arithmetic_counts(tmp_path: Path, arch: str) -> None:
    nvcc, cuobjdump = find_tool("nvcc"), find_tool("cuobjdump")
    if nvcc is None or cuobjdump is None:
        pytest.skip("there is no cuobjdump here")
    cubin = tmp_path / "ceilings.cubin"
    target = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
    built = process.run([nvcc, "-std=c++17", "-O3", "-cubin", target, "-o", cubin, SOURCE], timeout=100)
    assert built.returncode == 0, built.output
    assert "warning" not in built.output
    env = {"PATH": str(Path(cuobjdump).parent)}
    sass = process.run([cuobjdump, "-sass", cubin], timeout=60, env=env).stdout
    found = loops(sass)
    assert found["ffma_kernel"]["FFMA"] == 128 == BY_NAME["FFMA"].work // 2
    assert found["ffma_kernel"].total() <= 132
    assert found["mma_kernel"]["HMMA.16816.F32.BF16"] == 32 == BY_NAME["mma.sync BF16"].work * 32 // 4096
    assert found["mma_kernel"].total() <= 40
    assert found["mma_tf32_kernel"]["HMMA.1688.F32.TF32"] == 32 == BY_NAME["mma.sync TF32"].work * 32 // 2048
    assert found["mma_tf32_kernel"].total() <= 40
    assert found["shared_read_kernel"]["LDS.128"] == 8 == BY_NAME["shared read"].work // 16
    assert found["l2_read_kernel"]["LDG.E.128.STRONG.GPU"] == 8 == BY_NAME["L2 read"].work // 16
    loads = {
        name: sum(n for word, n in found[name].items() if word.startswith("LDG.E") and "128" in word) for name in found
    }
    assert loads["copy_kernel"] == 1 == BY_NAME["copy"].work // 32
    assert found["copy_kernel"]["STG.E.128"] == 1
    assert loads["read_kernel"] == 8 == BY_NAME["read"].work // 16
    if arch == "sm_90a":
        assert found["wgmma_kernel"]["HGMMA.64x256x16.F32.BF16"] == 16 == BY_NAME["wgmma BF16"].work * 128 // 524288
        assert found["wgmma_tf32_kernel"]["HGMMA.64x256x8.F32.TF32"] == 16 == BY_NAME["wgmma TF32"].work * 128 // 262144
        for name in ("wgmma_kernel", "wgmma_tf32_kernel"):
            assert not any(word.startswith(("LD", "ST", "BAR")) for word in found[name])
    else:
        assert not any("GMMA" in word for name in ("wgmma_kernel", "wgmma_tf32_kernel") for word in found[name])
