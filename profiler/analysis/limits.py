"""What the tile parameters of a matrix product promise, beside what the compiler and the counters say.

The arithmetic is the field's: shared memory = stages x (BM BK + BK BN) elements, threads = (BM / TM)(BN / TN),
registers = TM TN + TM + TN and 10 to 20 more (fragments twice when they are read ahead), reuse = 2 BM BN / (BM + BN)
FLOP an element, TM TN multiply-adds for TM + TN shared loads, waves = blocks / (SMs x resident blocks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from profiler.analysis.kernels import Kernel
from profiler.analysis.rundata import Value
from profiler.analysis.sass_mix import Mix, loaded_elements
from profiler.sizes import parse_size_key

Verdict = Literal["agrees", "differs", ""]

ELEMENT_BYTES: Mapping[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "tf32x3": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1,
}  # fmt: skip
#: Names that people give to the same parameter.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "bm": ("BM", "BLOCK_M", "BLOCK_SIZE_M", "TILE_M"), "bn": ("BN", "BLOCK_N", "BLOCK_SIZE_N", "TILE_N"),
    "bk": ("BK", "BLOCK_K", "BLOCK_SIZE_K", "TILE_K"), "tm": ("TM", "THREAD_M"), "tn": ("TN", "THREAD_N"),
    "wm": ("WM", "WARP_M"), "wn": ("WN", "WARP_N"), "stages": ("STAGES", "NUM_STAGES", "K_STAGES"),
}  # fmt: skip
NO_TILE = "it has no parameters BM, BN, BK (or TILE) to reckon with"
NO_PRODUCT = "it is for matrix products, and this problem has no M, N and K"
_WARP = 32
_REGISTERS_MORE, _REGISTERS_LESS = 1.25, 0.8
#: As many registers a thread let every warp of an SM be resident: more than the tile takes costs nothing.
_REGISTERS_FREE = 32
_CLOSE = 0.02


@dataclass(frozen=True)
class Tile:
    """The tile parameters of a variant; None: not named."""

    bm: int
    bn: int
    bk: int | None
    tm: int | None
    tn: int | None
    wm: int | None
    wn: int | None
    stages: int
    stages_named: bool

    @property
    def threads(self) -> int | None:
        """Threads of a block: by thread tiles, else by warp tiles."""
        if self.tm and self.tn:
            return (self.bm // self.tm) * (self.bn // self.tn) or None
        if self.wm and self.wn:
            return (self.bm // self.wm) * (self.bn // self.wn) * _WARP or None
        return None


@dataclass(frozen=True)
class Estimate:
    """What the tile promises, as a range (``low`` = ``high`` when it is exact), and how it was reckoned."""

    low: float | None = None
    high: float | None = None
    formula: str = ""
    why: str = ""


@dataclass(frozen=True)
class LimitRow:
    """One quantity by tile arithmetic, of the binary, and counted; whether they agree, and what it means."""

    key: str
    label: str
    unit: str
    tile: Estimate
    binary: Value
    counter: Value
    verdict: Verdict = ""
    note: str = ""


def tile_of(params: Mapping[str, Any], size: str) -> tuple[Tile | None, str]:
    """Return a variant's tile, or None and why there is none to reckon with."""
    if not {"M", "N", "K"} <= _dims(size).keys():
        return None, NO_PRODUCT
    found = {key: _integer(params, names) for key, names in _ALIASES.items()}
    square = _integer(params, ("TILE", "TILE_SIZE", "BLOCK_SIZE"))
    if square is not None and found["bm"] is None and found["bn"] is None:
        found |= {"bm": square, "bn": square, "bk": found["bk"] or square}
        if not any(found[key] for key in ("tm", "tn", "wm", "wn")):
            found |= {"tm": 1, "tn": 1}
    bm, bn = found["bm"], found["bn"]
    if bm is None or bn is None:
        return None, NO_TILE
    if found["tm"] and found["tn"] is None and not found["wn"]:  # a column of results per thread
        found["tn"] = 1
    if found["tn"] and found["tm"] is None and not found["wm"]:
        found["tm"] = 1
    stages = found["stages"]
    tile = Tile(
        bm, bn, found["bk"], found["tm"], found["tn"], found["wm"], found["wn"], stages or 1, stages is not None
    )
    return tile, ""


def limit_rows(
    kernel: Kernel, dtype: str, tile: Tile | None, why: str, resident: Value, mix: Mix
) -> tuple[LimitRow, ...]:
    """Return the rows of a kernel; ``resident`` are its blocks per SM, ``why`` says why there is no tile."""
    rows = (
        _registers(kernel, dtype, tile, why),
        _shared(kernel, dtype, tile, why),
        _threads(kernel, tile, why),
        _grid(kernel, tile, why),
        _waves(kernel, tile, why, resident),
        _reuse(kernel, dtype, tile, why),
        _shared_ratio(tile, why, mix),
    )
    scalar = mix.count("FFMA", "static") or mix.count("FFMA", "executed") or mix.count("DFMA", "static")
    return rows if scalar else rows[:-1]  # on the tensor cores the last one says nothing


def _registers(kernel: Kernel, dtype: str, tile: Tile | None, why: str) -> LimitRow:
    estimate = Estimate(why=why)
    if tile is not None:
        estimate = _register_estimate(dtype, tile)
    row = LimitRow(
        "registers", "Registers a thread", "", estimate, kernel.compiled("ptxas.registers"), kernel.counted("registers")
    )
    verdict, note = _tile_registers(row)
    if _differ(row.binary, row.counter):
        verdict = "differs"
        note = "The binary here is not the one that was profiled: another compiler, or flags that allow other counts."
    return _judged(row, verdict, note)


def _register_estimate(dtype: str, tile: Tile) -> Estimate:
    wide = 2 if dtype == "fp64" else 1
    if tile.tm and tile.tn:
        results, fragments = tile.tm * tile.tn * wide, (tile.tm + tile.tn) * wide
        text = f"TM TN + TM + TN + 10 to TM TN + 2 (TM + TN) + 20, TM {tile.tm}, TN {tile.tn}"
    elif tile.wm and tile.wn and dtype in ELEMENT_BYTES:
        # One instruction's depth of A and B, 32 bytes a row, is spread over the 32 lanes: 8 registers for 32 rows.
        results, fragments = tile.wm * tile.wn // _WARP, (tile.wm + tile.wn) * 8 // _WARP
        text = f"WM WN / 32 sums and (WM + WN) / 4 of fragments, once to twice, + 10 to 20, WM {tile.wm}, WN {tile.wn}"
    else:
        return Estimate(why="it needs TM and TN, or WM and WN")
    return Estimate(results + fragments + 10, results + 2 * fragments + 20, text)


def _tile_registers(row: LimitRow) -> tuple[Verdict, str]:
    actual = _known(row.counter, row.binary)
    if row.tile.low is None or row.tile.high is None or actual is None:
        return "", ""
    if actual < row.tile.low * _REGISTERS_LESS:
        return "differs", (
            "Fewer than the sums and fragments of this tile take: they are spilled, indexed at run time, or kept in "
            "shared memory."
        )
    if actual > max(row.tile.high * _REGISTERS_MORE, _REGISTERS_FREE):
        return "differs", (
            "More than the tile takes: addresses, unrolled loops and loads in flight hold the rest; where that costs "
            "a resident block, unroll less or set launch bounds."
        )
    return "agrees", ""


def _shared(kernel: Kernel, dtype: str, tile: Tile | None, why: str) -> LimitRow:
    estimate = Estimate(why=why)
    if tile is not None:
        size = ELEMENT_BYTES.get(dtype)
        if size is None:
            estimate = Estimate(why=f"the size of an element of {dtype or 'this contract'} is not known")
        elif tile.bk is None:
            estimate = Estimate(why="it needs BK")
        else:
            total = float(tile.stages * (tile.bm * tile.bk + tile.bk * tile.bn) * size)
            named = "" if tile.stages_named else " (no STAGES named: 1)"
            text = f"{tile.stages} x ({tile.bm} x {tile.bk} + {tile.bk} x {tile.bn}) x {size} B{named}"
            estimate = Estimate(total, total, text)
    static, dynamic = kernel.counted("shared_static"), kernel.counted("shared_dynamic")
    counter = static
    if static.value is not None and dynamic.value is not None:
        counter = Value(static.value + dynamic.value, "B", static.origin)
    row = LimitRow("shared", "Shared memory a block", "", estimate, kernel.compiled("ptxas.shared_bytes"), counter)
    verdict, note = _tile_shared(row, tile)
    if row.binary.value is not None and counter.value is not None and counter.value > row.binary.value:
        given = f"{counter.value - row.binary.value:.0f} B are given at the launch, which the binary cannot know."
        note = f"{note} {given}".strip()
    return _judged(row, verdict, note)


def _tile_shared(row: LimitRow, tile: Tile | None) -> tuple[Verdict, str]:
    expected = row.tile.high
    actual = row.counter.value if row.counter.value is not None else row.binary.value or None
    if expected is None or actual is None or tile is None:
        return "", ""
    more = actual - expected
    if abs(more) < 1:
        return "agrees", ""
    if 0 < more <= 0.25 * expected:
        return "agrees", f"{more:.0f} B more: padding, or barriers."
    if more > 0:
        return "differs", (
            "More than the tiles take: another array (C staged in shared memory?), or more stages than named."
        )
    if actual == 0:
        return "differs", "No shared memory at all: the tiles are named, not staged."
    return "differs", "Less than the tiles take: one of them is not staged, or fewer stages are."


def _threads(kernel: Kernel, tile: Tile | None, why: str) -> LimitRow:
    estimate = Estimate(why=why)
    if tile is not None:
        threads = tile.threads
        way = "(BM / TM)(BN / TN)" if tile.tm and tile.tn else "32 (BM / WM)(BN / WN)"
        estimate = Estimate(threads, threads, way) if threads else Estimate(why="it needs TM and TN, or WM and WN")
    row = LimitRow(
        "threads", "Threads a block", "", estimate, kernel.compiled("sass.max_threads"), kernel.counted("block")
    )
    actual = row.counter.value
    if actual is None and row.binary.value == estimate.low:
        return _judged(row, "agrees", "")  # other launch bounds would leave the size of the launch open
    if estimate.low is None or actual is None:
        return row
    if actual == estimate.low:
        return _judged(row, "agrees", "")
    if actual > estimate.low:
        return _judged(
            row, "differs", "More threads than the tile needs: warps that only load, or groups that share a tile."
        )
    return _judged(row, "differs", "Fewer threads than the tile needs: each computes several thread tiles.")


def _grid(kernel: Kernel, tile: Tile | None, why: str) -> LimitRow:
    blocks = _blocks(kernel.size, tile)
    estimate = Estimate(blocks, blocks, "ceil(M / BM) x ceil(N / BN)") if blocks else Estimate(why=why)
    not_binary = Value(None, why="the grid is given at the launch")
    row = LimitRow("grid", "Blocks of the launch", "", estimate, not_binary, kernel.counted("grid"))
    actual = row.counter.value
    if blocks is None or actual is None:
        return row
    if actual == blocks:
        return _judged(row, "agrees", "")
    if actual > blocks:
        return _judged(
            row, "differs", "More blocks than tiles of C: K is split among blocks, or the product is batched."
        )
    return _judged(
        row, "differs", "Fewer blocks than tiles of C: a persistent kernel walks over them, or tiles are larger."
    )


def _waves(kernel: Kernel, tile: Tile | None, why: str, resident: Value) -> LimitRow:
    sms = sm_count(kernel)
    blocks = _blocks(kernel.size, tile)
    estimate = Estimate(why=why)
    if tile is not None and sms and resident.value and blocks:
        waves = blocks / (sms * resident.value)
        estimate = Estimate(waves, waves, f"{blocks} / ({sms:.0f} SMs x {resident.value:.0f} blocks)")
    elif tile is not None:
        estimate = Estimate(why="it needs the SMs of the GPU and the resident blocks, which are not known here")
    row = LimitRow(
        "waves", "Waves", "", estimate, Value(None, why="the grid is given at the launch"), kernel.counted("waves")
    )
    note = _tail(row.counter.value if row.counter.value is not None else estimate.low)
    if estimate.low is None or row.counter.value is None:
        return _judged(row, "", note)
    agrees = math.isclose(row.counter.value, estimate.low, rel_tol=_CLOSE)
    return _judged(row, "agrees" if agrees else "differs", note if agrees else f"{note} It follows from the blocks.")


def _tail(waves: float | None) -> str:
    if waves is None or waves <= 0:
        return ""
    rounds = math.ceil(waves - 1e-6)
    last = waves - (rounds - 1)
    if rounds == 1:
        return f"One wave, which fills {100 * last:.0f} % of the GPU." if last < 0.995 else "One full wave: no tail."
    if last > 0.995:
        return "The last wave is full: no tail."
    bound = math.ceil(1000 * (1 - waves / rounds) - 1e-6) / 10  # rounded up, as a bound must be
    filled = f"The last of {rounds} waves fills {100 * last:.0f} % of the GPU"
    return f"{filled}: at most {bound:.1f} % of the time is lost to the tail."


def _reuse(kernel: Kernel, dtype: str, tile: Tile | None, why: str) -> LimitRow:
    estimate = Estimate(why=why)
    if tile is not None:
        reuse = 2 * tile.bm * tile.bn / (tile.bm + tile.bn)
        estimate = Estimate(reuse, reuse, "2 BM BN / (BM + BN)")
    row = LimitRow(
        "reuse", "Reuse", "FLOP an element loaded", estimate,
        Value(None, why="the loads of a launch are counted, not compiled"), _counted_reuse(kernel, dtype),
    )  # fmt: skip
    if estimate.low is None or row.counter.value is None:
        return row
    ratio = row.counter.value / estimate.low
    if ratio < 0.9:
        return _judged(row, "differs", "More is loaded than the tile needs: sectors half used, or tiles read again.")
    if ratio > 1.1:
        return _judged(row, "differs", "Less is loaded than by this tile: blocks share loads (clusters, multicast).")
    return _judged(row, "agrees", "")


def _counted_reuse(kernel: Kernel, dtype: str) -> Value:
    flops, sectors = kernel.data.flops(kernel.size), kernel.counted("global_load_sectors")
    size = ELEMENT_BYTES.get(dtype)
    if sectors.value is None or flops is None or size is None:
        return Value(None, why=sectors.why or "the problem counts no operations")
    if len(kernel.data.launches(kernel.variant, kernel.size)) > 1:
        return Value(None, why="several kernels share the work")
    if sectors.value * 32 < 0.5 * (kernel.data.min_bytes(dtype, kernel.size) or 0):
        return Value(None, why="the loads are bulk copies (TMA), which this counter does not see")
    if kernel.counted("tma_load_instructions").value:
        return Value(None, why="a part of the loads are bulk copies (TMA), which this counter does not see")
    return Value(flops / (sectors.value * 32 / size), "", sectors.origin)


def _shared_ratio(tile: Tile | None, why: str, mix: Mix) -> LimitRow:
    estimate = Estimate(why=why)
    if tile is not None and tile.tm and tile.tn:
        ratio = tile.tm * tile.tn / (tile.tm + tile.tn)
        estimate = Estimate(ratio, ratio, "TM TN / (TM + TN)")
    elif tile is not None:
        estimate = Estimate(why="it needs TM and TN")
    row = LimitRow(
        "fma_per_load", "FMA per shared element", "", estimate, _per_load(mix, "static"), _per_load(mix, "executed")
    )
    actual = _known(row.counter, row.binary)
    if estimate.low is None or actual is None:
        return row
    if actual < 0.75 * estimate.low:
        return _judged(row, "differs", "More shared loads than fragments: the compiler reads some of them again.")
    if actual > 1.25 * estimate.low:
        return _judged(row, "differs", "Fewer shared loads than fragments: one load serves several, or L1 does.")
    return _judged(row, "agrees", "")


def _per_load(mix: Mix, which: Literal["static", "executed"]) -> Value:
    counts, why = (mix.static_widths, mix.why_static) if which == "static" else (mix.executed_widths, mix.why_executed)
    fma = mix.count("FFMA", which) or mix.count("DFMA", which)
    if why:
        return Value(None, why=why)
    loaded = loaded_elements(counts, "LDS")
    if not loaded or not fma:
        return Value(None, why="no multiply-adds on data from shared memory outside the tensor cores")
    return Value(fma / loaded, "", "sass")


def sm_count(kernel: Kernel) -> float | None:
    """Return the SMs of the GPU: as counted, else as the run names them."""
    counted = kernel.counted("sm_count").value
    named = (kernel.data.manifest.get("gpu") or {}).get("sm_count")
    return counted or (float(named) if isinstance(named, (int, float)) else None)


def _blocks(size: str, tile: Tile | None) -> int | None:
    dims = _dims(size)
    if tile is None or "M" not in dims or "N" not in dims:
        return None
    return math.ceil(dims["M"] / tile.bm) * math.ceil(dims["N"] / tile.bn)


def _dims(size: str) -> Mapping[str, int]:
    try:
        return parse_size_key(size)
    except ValueError:
        return {}


def _integer(params: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    known = {str(key).upper(): value for key, value in params.items()}
    for name in names:
        value = known.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _known(*values: Value) -> float | None:
    return next((value.value for value in values if value.value is not None), None)


def _differ(one: Value, other: Value) -> bool:
    return one.value is not None and other.value is not None and one.value != other.value


def _judged(row: LimitRow, verdict: Verdict, note: str) -> LimitRow:
    return LimitRow(row.key, row.label, row.unit, row.tile, row.binary, row.counter, verdict, note.strip())
