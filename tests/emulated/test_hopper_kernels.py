"""The Hopper kernels on a CPU: their own source under an emulator of what they say in PTX (tests/emulator/).

One thread of CUDA is a fiber; fibers run in random order and asynchronous work is done late, so that a barrier with
a wrong count, a stage that is freed too early or a buffer that is written too early is a deadlock or a wrong element of
C.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.emulated_kernels import EMULATOR, KERNELS, RUNGS, Rung, without_ptx, write_program

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found")

NAMES = [rung.name for rung in RUNGS]
#: M, N, K: tiles that stick out on both sides and more stages than a ring has; less than a tile and less than a stage.
LARGE, SMALL = (130, 264, 328), (67, 136, 40)


def compiled(
    folder: Path, rungs: Sequence[Rung] = RUNGS, change: Callable[[str, str], str] = lambda _, text: text
) -> Path:
    """Return the program of some rungs."""
    main = write_program(folder, rungs, change)
    program = folder / "program"
    folders = [f"-I{folder}", f"-I{EMULATOR}"]
    argv = [
        "g++",
        "-std=c++17",
        "-O1",
        "-fno-strict-aliasing",
        "-Wno-unknown-pragmas",
        *folders,
        "-o",
        str(program),
        str(main),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return program


def ran(program: Path, which: int, size: tuple[int, int, int], clusters: int, seed: int) -> tuple[int, str]:
    """Return the exit code and the output of a run: 0 right, 1 wrong, 3 a fault or a deadlock."""
    words = [str(word) for word in (which, *size, clusters, seed)]
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hopper"))


@pytest.mark.parametrize("name", NAMES)
def test_kernel_is_right(program: Path, name: str) -> None:
    which = NAMES.index(name)
    assert ran(program, which, SMALL, 1, 1)[0] == 0
    assert ran(program, which, LARGE, 1, 2)[0] == 0


#: Clusters at work, and how many of the 10 tiles of (300, 1032) are shared: 2.5 rounds, 3.3 rounds.
SHARED = [(4, 6), (3, 4)]


@pytest.mark.parametrize("name", ["balanced", "balanced_tall"])
@pytest.mark.parametrize(("clusters", "shared"), SHARED)
def test_a_balanced_end_is_right(program: Path, name: str, clusters: int, shared: int) -> None:
    said = f"{shared} of 10 tiles are shared\n0 wrong\n"
    assert ran(program, NAMES.index(name), (300, 1032, 136), clusters, 4) == (0, said)


@pytest.mark.parametrize("name", NAMES[:6])
def test_kernels_that_store_from_registers_take_any_n(program: Path, name: str) -> None:
    assert ran(program, NAMES.index(name), (67, 131, 40), 1, 3)[0] == 0


#: Name, rung, file, text, and what it becomes: each a mistake that is easy to make, and must be seen.
MISTAKES = [
    ("stage_freed_while_read", "in_flight", "cooperative.cuh",
     "if (k > at.from && frees) arrive_remote(ring.freed(reading)",
     "if (k > at.from && frees) arrive_remote(ring.freed(place.stage)"),
    ("neighbour_not_waited_for", "r06", "06_cluster_multicast.cu", "ring.init(kCluster * kConsumerWarps)",
     "ring.init(kConsumerWarps)"),
    ("neighbour_not_told", "r06", "06_cluster_multicast.cu", "if (lane < kCluster) arrive_remote",
     "if (lane < 1) arrive_remote"),
    ("ended_before_its_neighbour", "r06", "06_cluster_multicast.cu", "    cluster_sync();\n}", "}"),
    ("buffer_written_while_read", "r09", "09_piecewise_store.cu", "wait_stores_read<BUFFERS - 1>()",
     "wait_stores_read<BUFFERS>()"),
    ("stored_before_written", "r07", "07_tma_store.cu",
     "publish_to_copies();\n            named_barrier_sync(group, 128);", "publish_to_copies();"),
    ("wrong_parity", "r03", "03_warp_specialised.cu", "place.parity ^ 1", "place.parity"),
    ("no_swizzle", "r07", "store_tiles.cuh", "(lane / 16 ^ lane % 8)", "(lane / 16)"),
    ("step_too_long", "r03", "wgmma.cuh", "kStepAlongK = 32 / 16", "kStepAlongK = 64 / 16"),
    ("share_misplaced", "square", "cooperative.cuh", "tile_bytes(place_m * Config::kBoxN)",
     "tile_bytes(place_n * Config::kBoxN)"),
    ("sums_of_the_wrong_block", "balanced", "cooperative.cuh", "own - Config::kCluster * Config::kConsumerWarps",
     "own - Config::kConsumerWarps"),
    ("flag_left_up", "balanced", "cooperative.cuh", "    lower_flag(flag);", ""),
    ("range_begins_with_old_sums", "balanced", "cooperative.cuh", "kStageStep, k > at.from)", "kStageStep, k > 0)"),
    ("wrong_blocks_told", "square", "cooperative.cuh", "lane / Config::kClusterM == place_n);",
     "lane / Config::kClusterM == place_m);"),
]  # fmt: skip


@pytest.mark.parametrize(("rung", "file", "text", "becomes"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_seen(tmp_path: Path, rung: str, file: str, text: str, becomes: str) -> None:
    def change(name: str, source: str) -> str:
        if name.rpartition("/")[2] != file:
            return source
        assert source.count(text) >= 1
        return source.replace(text, becomes)

    program = compiled(tmp_path, [one for one in RUNGS if one.name == rung], change)
    size, clusters = ((300, 1032, 136), 4) if rung == "balanced" else (LARGE, 1)
    assert any(ran(program, 0, size, clusters, seed)[0] in (1, 3) for seed in range(6))


def test_every_tile_is_computed_once_and_neighbours_are_near(tmp_path: Path) -> None:
    main = tmp_path / "order.cpp"
    main.write_text(
        "#define __host__\n#define __device__\n#define __forceinline__ inline\n#include <cstdio>\n#include <cstdlib>\n"
        f'#include "{KERNELS}/gemm/hopper/tile_order.cuh"\n'
        "int main(int, char **w) {\n"
        "    const uint32_t m = std::atoi(w[1]), n = std::atoi(w[2]);\n"
        "    for (uint32_t i = 0; i < m * n; ++i) {\n"
        "        const auto a = ladder::unpacked_tile(ladder::hilbert_order(m, n).at(i));\n"
        "        const auto b = ladder::unpacked_tile(ladder::band_order(3, m, n).at(i));\n"
        "        const auto c = ladder::grouped_order<3>(i, m, n);\n"
        '        std::printf("%d %d %d %d %d %d\\n", a.m, a.n, b.m, b.n, c.m, c.n);\n'
        "    }\n}\n"
    )
    program = tmp_path / "order"
    subprocess.run(["g++", "-std=c++17", "-o", str(program), str(main)], check=True, timeout=60)
    for m, n in [(1, 1), (16, 16), (5, 7), (3, 40), (40, 3), (1, 9), (33, 32)]:
        said = subprocess.run([program, str(m), str(n)], capture_output=True, text=True, check=True, timeout=60).stdout
        rows = [tuple(int(word) for word in line.split()) for line in said.splitlines()]
        tiles = sorted((i, j) for i in range(m) for j in range(n))
        hilbert, bands, grouped = ([row[k : k + 2] for row in rows] for k in (0, 2, 4))
        assert sorted(hilbert) == sorted(bands) == tiles
        assert bands == grouped  # the table and the arithmetic
        if m == n == 16:
            assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in itertools.pairwise(hilbert))
            for wave in range(0, 256, 64):  # aligned runs are squares: as few rows and columns as there can be
                assert (
                    len({t[0] for t in hilbert[wave : wave + 64]})
                    == len({t[1] for t in hilbert[wave : wave + 64]})
                    == 8
                )
        if (m, n) in ((3, 40), (40, 3)):  # squares of 4, one after the other
            along = 1 if n > m else 0
            assert max(abs(a[along] - b[along]) for a, b in itertools.pairwise(hilbert)) <= 2


def test_functions_of_ptx_are_taken_out_and_others_kept() -> None:
    text = (
        '__device__ __forceinline__ void f(int a) {\n    asm volatile("{\\n x; }");\n}\n'
        "template <int n>\n__device__ __forceinline__ int g(int a,\n    int b) { return a; }  // {\n"
    )
    assert without_ptx(text).strip() == text[text.index("template") :].strip()


def test_a_walk_takes_every_step_once(tmp_path: Path) -> None:
    main = tmp_path / "walk.cpp"
    main.write_text(
        "#define __host__\n#define __device__\n#define __forceinline__ inline\n#include <cstdio>\n#include <cstdlib>\n"
        f'#include "{KERNELS}/common/balanced.cuh"\n'
        "int main(int, char **w) {\n"
        "    const int tiles = std::atoi(w[1]), steps = std::atoi(w[2]), most = std::atoi(w[3]);\n"
        "    const int shared = ladder::first_shared(tiles, steps, most, 0);\n"
        '    std::printf("%d %d\\n", shared, ladder::even_workers(tiles, most));\n'
        "    for (int worker = 0; worker < most; ++worker)\n"
        "        for (ladder::Walk<true> at(worker, most, tiles, shared, steps); at.more(); at.advance())\n"
        '            std::printf("%d %d %d %d %d %d\\n", worker, at.tile, at.from, at.to, at.gives(), at.takes());\n'
        "}\n"
    )
    program = tmp_path / "walk"
    subprocess.run(["g++", "-std=c++17", "-o", str(program), str(main)], check=True, timeout=60)
    cases = [(256, 64, 66), (1024, 128, 66), (512, 128, 132), (15, 6, 7), (9, 1, 5), (3, 9, 7), (8, 3, 4)]
    for tiles, steps, most in cases:
        words = [str(word) for word in (tiles, steps, most)]
        said = subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=60).stdout
        (shared, even), *parts = [[int(word) for word in line.split()] for line in said.splitlines()]
        rounds = -(-tiles // most)
        assert -(-tiles // even) == rounds
        assert even == 1 or -(-tiles // (even - 1)) > rounds
        done = sorted((tile, step) for _, tile, first, last, *_ in parts for step in range(first, last))
        assert done == [(tile, step) for tile in range(tiles) for step in range(steps)]
        counts = [sum(p[3] - p[2] for p in parts if p[0] == worker) for worker in range(most)]
        if tiles > most and tiles % most and (most - tiles % most) * steps >= most:  # at least a step is saved
            assert tiles - shared == most + tiles % most
            assert max(counts) - min(counts) <= 1
        else:
            assert shared == tiles
        # What a worker gives is the first of its shared parts, and the worker after it takes it with its last.
        given = {(p[0] + 1, p[1], p[2]) for p in parts if p[4]}
        assert given == {(p[0], p[1], p[3]) for p in parts if p[5]}
        assert not any(p[4] and p[5] for p in parts)
