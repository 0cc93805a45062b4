"""The kernels of kernels/gemm/hopper as one C++ program for the CPU: their own text, but for what is PTX.

``write_program`` copies the sources and takes out the functions whose bodies are PTX, which `emulator/hopper.hpp` has
in their place, and the host parts, which the emulator's own launch stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EMULATOR = ROOT / "tests" / "emulator"
KERNELS = ROOT / "kernels"

#: Where the device part of a file ends.
_HOST_PARTS = {
    "operands.cuh": "// What `prepare` leaves for `launch`",
    "store_tiles.cuh": "// The map of C for pieces",
    "cooperative.cuh": "// What can be chosen without another kernel",
}
_HOST_PART_OF_RUNG = 'extern "C" cudaError_t prepare'
#: Shared memory is a place in the emulator's memory of a block; the variable only names it.
_DYNAMIC_SHARED, _A_PLACE = (
    "extern __shared__ __align__(1024) unsigned char shared[];",
    "static unsigned char shared[1];",
)
_FUNCTION = re.compile(r"^(?:template <[^\n]*>\n)?__device__ __forceinline__ [^\n;]*?(?:\n[^\n]*?)?\{", re.M)


@dataclass(frozen=True)
class Rung:
    """How a kernel is called: tile, blocks of a cluster (below one another, side by side), threads, arguments."""

    name: str
    file: str
    kernel: str
    arguments: str
    block: tuple[int, int]
    cluster: tuple[int, int] = (1, 1)
    threads: int = 384
    persistent: bool = True
    rows_of_c: int = 64  #: of a piece that is stored at once
    balanced: bool = False  #: whether tiles are shared along k

    @property
    def run(self) -> str:
        """The line of the list of runs."""
        (m, n), (below, beside) = self.block, self.cluster
        call = f"({self.kernel}({self.arguments}))"
        return (
            f"RUN({self.name}, {below * beside}, {m}, {n}, {m // beside}, {n // below}, {self.threads}, "
            f"{m * below}, {n * beside}, {int(self.persistent)}, {self.rows_of_c}, {int(self.balanced)}, {call})"
        )


_MAPS, _MORE = "map_a, map_b", "map_a, map_b, map_c"
_SIMPLE = f"{_MAPS}, C, M, N, tiles_n, tiles_k"


def _top(name: str, block: tuple[int, int], cluster: tuple[int, int], choices: str, *, balanced: bool = False) -> Rung:
    config = f"ladder::Cooperative<{block[0]}, {block[1]}, {choices.format(*cluster)}, {str(balanced).lower()}>"
    arguments = f"{_MORE}, starts, order, tiles, tiles_k, shared"
    kernel = f"ladder::cooperative<{config}>"
    return Rung(name, "cooperative.cuh", kernel, arguments, block, cluster, rows_of_c=16, balanced=balanced)


RUNGS: tuple[Rung, ...] = (
    Rung("r01", "01_wgmma_tma.cu", "r01::wgmma_tma", _SIMPLE, (64, 64), (1, 1), 128, False),
    Rung("r02", "02_wide_tile.cu", "r02::wide_tile", _SIMPLE, (128, 128), (1, 1), 128, False),
    Rung("r03", "03_warp_specialised.cu", "r03::warp_specialised", _SIMPLE, (128, 128), (1, 1), 256, False),
    Rung("r04", "04_two_consumers.cu", "r04::two_consumers", _SIMPLE, (128, 256), persistent=False),
    Rung("r05", "05_persistent.cu", "r05::persistent", f"{_MAPS}, C, M, N, tiles_m, tiles_n, tiles_k", (128, 256)),
    Rung(
        "r06", "06_cluster_multicast.cu", "r06::cluster_multicast", f"{_MAPS}, C, M, N, tiles_m, tiles_n, tiles_k",
        (128, 256), (2, 1),
    ),
    Rung("r07", "07_tma_store.cu", "r07::tma_store", f"{_MORE}, tiles_m, tiles_n, tiles_k", (128, 256), (2, 1)),
    Rung("r08", "08_even_rounds.cu", "r08::even_rounds", f"{_MORE}, order, tiles, tiles_k", (128, 256), (2, 1)),
    Rung("r09", "09_piecewise_store.cu", "r09::piecewise_store", f"{_MORE}, order, tiles, tiles_k", (128, 256), (2, 1)),
    _top("below", (128, 256), (2, 1), "4, 2, {}, {}, 0, 0, false"),
    _top("in_flight", (128, 256), (2, 1), "4, 2, {}, {}, 1, 1, false"),
    _top("beside", (128, 256), (1, 2), "4, 2, {}, {}, 1, 2, false"),
    _top("square", (128, 256), (2, 2), "4, 2, {}, {}, 1, 1, true"),
    _top("tall", (256, 128), (1, 2), "4, 2, {}, {}, 0, 0, true"),
    _top("big", (256, 192), (2, 1), "3, 2, {}, {}, 1, 0, false"),
    _top("small", (128, 128), (1, 1), "5, 1, {}, {}, 0, 3, false"),
    _top("balanced", (128, 256), (2, 1), "4, 2, {}, {}, 0, 0, true", balanced=True),
    _top("balanced_small", (128, 128), (1, 1), "5, 1, {}, {}, 1, 1, false", balanced=True),
    _top("balanced_tall", (256, 128), (1, 2), "4, 2, {}, {}, 0, 0, false", balanced=True),
)  # fmt: skip


def _end_of_body(text: str, start: int) -> int:
    """Return the place after the brace that closes the one at ``start``; braces in strings do not count."""
    depth, at, quoted = 0, start, False
    while True:
        character = text[at]
        if quoted:
            at += character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character == "/" and text[at + 1] == "/":
            at = text.index("\n", at)
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return at + 1
        at += 1


def without_ptx(text: str) -> str:
    """Return a header without the functions whose bodies hold inline PTX."""
    kept, at = [], 0
    for found in _FUNCTION.finditer(text):
        if found.start() < at:
            continue
        end = _end_of_body(text, found.end() - 1)
        kept.append(text[at : found.start() if re.search(r"\basm\b", text[found.start() : end]) else end])
        at = end
    return "".join(kept) + text[at:]


def _unchanged(_: str, text: str) -> str:
    return text


def _sources() -> Iterator[tuple[str, str]]:
    common = KERNELS / "common"
    for name in ("async_copy.cuh", "cluster.cuh", "stmatrix.cuh", "tma.cuh", "tensor_map.cuh", "hand_over.cuh"):
        yield f"common/{name}", '#pragma once\n#include "hopper.hpp"\n'
    yield "common/balanced.cuh", (common / "balanced.cuh").read_text(encoding="utf-8")
    yield "common/mbarrier.cuh", without_ptx((common / "mbarrier.cuh").read_text(encoding="utf-8"))
    text = (common / "wgmma.cuh").read_text(encoding="utf-8")
    first, last = text.index("#define LADDER_REGISTERS_32"), text.index("// Register budget")
    text = without_ptx(text[:first] + text[last:])
    yield "common/wgmma.cuh", text.replace("enum class Operand { kBf16, kFp16 };", "")
    for path in sorted((KERNELS / "gemm" / "hopper").iterdir()):
        text = path.read_text(encoding="utf-8")
        marker = _HOST_PARTS.get(path.name, _HOST_PART_OF_RUNG if path.suffix == ".cu" else "")
        if marker and marker in text:
            text = text[: text.index(marker)] + ("}  // namespace ladder\n" if path.suffix == ".cuh" else "")
        yield f"gemm/hopper/{path.name}", text.replace(_DYNAMIC_SHARED, _A_PLACE)
    yield "gemm.h", '#pragma once\n#include "hopper.hpp"\n#define GEMM_LAYOUT_NT 1\n#define GEMM_DTYPE_BF16 1\n'


def write_program(folder: Path, rungs: Sequence[Rung] = RUNGS, change: Callable[[str, str], str] = _unchanged) -> Path:
    """Write the program's files into a folder; return the file to compile, with ``-I`` of it and of the emulator.

    ``change`` gets the name and the text of each file, and returns what is written in its place.
    """
    for name, text in _sources():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(change(name, text), encoding="utf-8")
    headers = ("store_registers", "store_tiles", "ring", "tile_order", "cooperative")
    lines = ['#include "gemm.h"', *(f'#include "gemm/hopper/{name}.cuh"' for name in headers)]
    for rung in rungs:
        if rung.file.endswith(".cu"):
            undefine = [f"#undef {name}" for name in ("STAGES", "GROUP", "BUFFERS")]
            lines += [*undefine, f"namespace {rung.name} {{", f'#include "gemm/hopper/{rung.file}"', "}"]
    lines.append("#define RUNGS " + " ".join(rung.run for rung in rungs))
    (folder / "all.hpp").write_text("#pragma once\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return EMULATOR / "main.cpp"
