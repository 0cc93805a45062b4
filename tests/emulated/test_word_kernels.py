"""The top FP32 rungs and the tf32x3 kernels on a CPU: their own source under tests/emulator/words.hpp, and their banks.

Indices, fragments, swizzles, edges and the counts of barriers are those of the kernel's text; only what it says in PTX
is said again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
EMULATOR = ROOT / "tests" / "emulator"
BANKS, IN_STEP = "fp32/10_register_banks.cu", "fp32/11_in_step.cu"
MMA, WGMMA = "tf32x3/01_mma_sync.cu", "tf32x3/02_wgmma.cu"
#: Of |A| |B|, for sums of at most 300 terms: what splitting into two TF32 halves costs, 3 * 2^-22, and some rounding.
REAL_ERROR = "0x1p-20"
#: Where a kernel has no plan.
_NO_PLAN = "cudaError_t prepare(const Args *, void **) { return cudaSuccess; }\nvoid destroy(void *) {}\n"


def translated(text: str) -> str:
    """Return a kernel's text as C++ for the emulator."""
    text = re.sub(r"extern __shared__ \S+ (unsigned char|float) shared\[\];", r"auto *shared = emu::at<\1>(0);", text)
    text = re.sub(
        r"(\w+)<<<(.*?), (\w+), (\w+), stream>>>\((.*?)\);",
        r"emu::launch(\2, \3, \4, [&] { \1(\5); });",
        text,
        flags=re.S,
    )
    text = re.sub(r'#include "(?!gemm\.h|\.\./\.\./common/raster|copies)[^"]*"\n', "", text)
    return text if "cudaError_t prepare" in text else _NO_PLAN + text


def compiled(folder: Path, kernel: str, *flags: str, change: Callable[[str], str] = lambda text: text) -> Path:
    """Return the program of a kernel under the emulator."""
    if shutil.which("g++") is None:
        pytest.skip("g++ was not found")
    (folder / "a" / "b").mkdir(parents=True, exist_ok=True)
    (folder / "common").mkdir(exist_ok=True)
    (folder / "common" / "raster.cuh").write_text((KERNELS / "common" / "raster.cuh").read_text(encoding="utf-8"))
    copies = (KERNELS / "gemm" / "fp32" / "copies.cuh").read_text(encoding="utf-8")
    (folder / "a" / "b" / "copies.cuh").write_text(copies.replace('#include "../../common/async_copy.cuh"', ""))
    (folder / "gemm.h").write_text("", encoding="utf-8")
    text = translated(change((KERNELS / "gemm" / kernel).read_text(encoding="utf-8")))
    tf32 = (KERNELS / "common" / "tf32.cuh").read_text(encoding="utf-8")
    split = tf32[tf32.index("namespace ladder {") : tf32.index("// acc (16 x 8, FP32) +=")] + "}\n"
    (folder / "a" / "b" / "kernel.hpp").write_text(f'#include "words.hpp"\n{split}{text}', encoding="utf-8")
    program = folder / "program"
    argv = [
        "g++", "-std=c++20", "-O1", "-w", f"-I{EMULATOR}", f"-I{folder}", f"-I{folder / 'a' / 'b'}",
        f"-DERROR={REAL_ERROR}", *flags, "-pthread", "-o", str(program), str(EMULATOR / "words_main.cpp"),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return program


def ran(program: Path, size: tuple[int, int, int], kind: str = "integers") -> tuple[int, str]:
    """Return the exit code and the output of a run; a deadlock is a timeout."""
    done = subprocess.run(
        [program, *(str(extent) for extent in size), kind], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("kernel", "flags"),
    [
        (BANKS, ()),
        (BANKS, ("-DGEMM_LAYOUT_NT",)),
        (BANKS, ("-DBM=256", "-DBN=128", "-DBK=16", "-DSTAGES=3", "-DBURSTS=2")),
        (BANKS, ("-DBN=128", "-DBK=8", "-DTM=8", "-DTN=16", "-DSTAGES=5", "-DMIN_BLOCKS=2")),
        (IN_STEP, ()),
        (IN_STEP, ("-DGEMM_LAYOUT_NT", "-DSTAGES=2")),
        (IN_STEP, ("-DBM=256", "-DBN=128", "-DBK=16", "-DSTAGES=3", "-DBURSTS=4", "-DMEETINGS=2")),
        (IN_STEP, ("-DBN=128", "-DBK=8", "-DTM=8", "-DTN=16", "-DSTAGES=5", "-DBURSTS=1")),
    ],
)
def test_fp32_is_right_at_whole_tiles_edges_and_any_size(tmp_path: Path, kernel: str, flags: tuple[str, ...]) -> None:
    program = compiled(tmp_path, kernel, *flags)
    for size in ((256, 256, 160), (132, 260, 100), (67, 131, 35), (1, 4, 1)):
        assert ran(program, size)[0] == 0, size


@pytest.mark.parametrize(("kernel", "sizes"), [
    (MMA, ((132, 128, 100), (67, 131, 35), (1, 1, 1))),
    (WGMMA, ((128, 128, 128), (132, 140, 200), (67, 132, 36), (1, 4, 4))),
])  # fmt: skip
def test_tf32x3_is_right_and_nearly_as_exact_as_fp32(
    tmp_path: Path, kernel: str, sizes: tuple[tuple[int, int, int], ...]
) -> None:
    program = compiled(tmp_path, kernel)
    for size in sizes:
        assert ran(program, size)[0] == 0, size
        assert ran(program, size, "reals")[0] == 0, size


@pytest.mark.parametrize(
    ("kernel", "text", "instead"),
    [
        (BANKS, "acc[i][j] += x[i] * y[j]", "acc[i][j] += x[i] * y[0]"),
        (BANKS, "offset + next * kRowB * 4", "offset + next * kRowA * 4"),
        (IN_STEP, "if (row >= early) multiply", "multiply"),
        (IN_STEP, "                read_rows(row, offset", "                read_rows(0, offset"),
        (IN_STEP, "from.stage * kStage;\n                if", "into.stage * kStage;\n                if"),
        (IN_STEP, "into.stage = kAhead;", "into.stage = 0;"),
        (WGMMA, "(k ^ row % 8) << 4", "k << 4"),
        (WGMMA, "high[1], high[3], high[5], high[7]", "high[1], high[3], high[7], high[5]"),
        (MMA, "a[product == 0][i], b[product == 1][j]", "a[0][i], b[0][j]"),  # one TF32 product
    ],
)
def test_a_mistake_is_seen(tmp_path: Path, kernel: str, text: str, instead: str) -> None:
    def change(source: str) -> str:
        assert source.count(text) == 1
        return source.replace(text, instead)

    program = compiled(tmp_path, kernel, change=change)
    results = [ran(program, (68, 132, 36), kind)[0] for kind in ("integers", "reals")]
    assert 1 in results


#: The last warp is held up in each step, between its first and its second reads of a stage.
LATE = "if (k == 1 && warp == kWarps - 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));\n"
MEETING = "if (k % kMeetEvery == 0) __syncthreads();"


@pytest.mark.parametrize("flags", [(), ("-DGEMM_LAYOUT_NT", "-DSTAGES=3")])  # of two, none can be filled too early
@pytest.mark.parametrize("meet", [True, False])
def test_a_stage_is_not_filled_while_a_late_warp_reads_it(tmp_path: Path, meet: bool, flags: tuple[str, ...]) -> None:
    """Copies are done at once here, so what is ordered too early is seen: only the meeting keeps it from that."""

    def change(source: str) -> str:
        assert source.count(MEETING) == 1
        return source.replace(MEETING, (MEETING if meet else "") + LATE)

    program = compiled(tmp_path, IN_STEP, *flags, change=change)
    assert ran(program, (128, 256, 288))[0] == (0 if meet else 1)


# ---- banks of shared memory ----


def passes(words: list[int]) -> int:
    """Return the wavefronts of one 4-byte access of a warp: different words of one bank take one each."""
    return max(len({word for word in words if word % 32 == bank}) for bank in range(32))


def vector_passes(words: list[int]) -> int:
    """Return those of a 16-byte access: at best eight lanes at a time, whose vectors must not share a bank."""
    quarters = [words[lane : lane + 8] for lane in range(0, 32, 8)]
    return sum(max(len({w // 4 for w in q if w // 4 % 8 == bank}) for bank in range(8)) for q in quarters)


@pytest.mark.parametrize(("extent", "warp"), [(128, 64), (256, 64), (128, 128)])
def test_fp32_meets_no_bank_twice(extent: int, warp: int) -> None:
    row = extent + 4
    assert passes([lane % 8 * row + lane // 8 for lane in range(32)]) == 1  # the transposing copy of A
    lanes_m = warp // 16
    rows = [lane // 2 % lanes_m * 4 for lane in range(32)]
    columns = [(lane // (2 * lanes_m) * 2 + lane % 2) * 4 for lane in range(32)]
    assert vector_passes(rows) == vector_passes(columns) == 4
    for first in range(0, 32, 8):  # neighbours read the same vector, which is what makes two quarters one
        assert all(
            rows[lane] == rows[lane ^ 1] and columns[lane] == columns[lane ^ 2] for lane in range(first, first + 8)
        )


def test_mma_sync_meets_no_bank_twice() -> None:
    assert passes([lane // 4 * 36 + lane % 4 for lane in range(32)]) == 1
    assert passes([lane % 4 * 136 + lane // 4 for lane in range(32)]) == 1
    assert passes([lane // 4 * 32 + lane % 4 for lane in range(32)]) == 8  # without padding


def test_wgmma_meets_no_bank_twice() -> None:
    for k in range(0, 8, 2):  # a warp splits 32 rows of A
        even = [row * 32 + (k ^ row % 8) * 4 for row in range(32)]
        assert vector_passes(even) == vector_passes([word ^ 4 for word in even]) == 4
    for first in (0, 8, 16, 24):
        for odd in (0, 1):
            words = []
            for lane in range(32):
                n, k = first + lane // 4, 2 * (lane % 4) + odd
                words.append(k * 32 + (n // 4 ^ k) * 4 + n % 4)
            assert passes(words) == 1
            in_order = [lane % 4 * 32 + ((first + lane // 4) // 4 ^ lane % 4) * 4 + lane // 4 % 4 for lane in range(32)]
            assert passes(in_order) == 2  # which the order of k avoids
