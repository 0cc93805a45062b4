"""The index arithmetic of the reduction and transposition kernels, in Python: every element once, and the banks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def sweep(count: int, threads: int, loads: int, thread: int, group: int, groups: int) -> list[int]:
    """Return the floats that one thread takes, as ``sweep`` in kernels/reduce/op.cuh does."""
    taken: list[int] = []
    tile, whole = threads * loads, count // 4
    tiles = whole // tile
    for at in range(group, tiles, groups):
        for j in range(loads):
            vector = at * tile + thread + j * threads
            taken += range(4 * vector, 4 * vector + 4)
    first = tiles * tile + group * threads + thread
    if first < whole:
        for j in range(loads):
            vector = first + j * groups * threads
            if vector < whole:
                taken += range(4 * vector, 4 * vector + 4)
    last = 4 * whole + thread
    if group == groups - 1 and last < count:
        taken.append(last)
    return taken


def sweep_row(start: int, count: int, threads: int, loads: int, thread: int, group: int, groups: int) -> list[int]:
    """Return the floats that one thread takes of a row which begins ``start`` floats behind a 16-byte boundary."""
    before = -start % 2**64 % 4
    head = min(before, count)
    taken = [head + i for i in sweep(count - head, threads, loads, thread, group, groups)]
    for i in taken:
        assert 0 <= i < count
    return [*taken, thread] if group == 0 and thread < head else taken


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 127, 128, 1000, 1023, 1024, 4096, 4097, 10007])
@pytest.mark.parametrize(("threads", "loads", "groups"), [(32, 4, 1), (32, 1, 3), (64, 8, 2), (32, 2, 8)])
def test_a_sweep_takes_every_element_once(count: int, threads: int, loads: int, groups: int) -> None:
    taken = Counter(
        i for g in range(groups) for t in range(threads) for i in sweep(count, threads, loads, t, g, groups)
    )
    assert taken == Counter(range(count))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 130, 1003, 4099])
@pytest.mark.parametrize("start", [0, 1, 2, 3])
@pytest.mark.parametrize("groups", [1, 8])
def test_a_row_that_begins_anywhere_is_taken_once_and_in_aligned_vectors(count: int, start: int, groups: int) -> None:
    taken = Counter(i for g in range(groups) for t in range(32) for i in sweep_row(start, count, 32, 4, t, g, groups))
    assert taken == Counter(range(count))
    head = min(-start % 4, count)
    assert count == head or (start + head) % 4 == 0


@pytest.mark.parametrize(("stages", "blocks", "ring"), [(0, 3, 4), (1, 3, 4), (13, 3, 4), (40, 3, 4), (5, 1, 12)])
def test_the_ring_of_bulk_copies_fills_each_stage_once_and_waits_for_the_right_phase(
    stages: int, blocks: int, ring: int
) -> None:
    read = []
    for block in range(blocks):
        mine = (stages - block + blocks - 1) // blocks if stages > block else 0
        fills: dict[int, list[int]] = {}  # slot -> what was put there, in order: the n-th ends phase n
        for n in range(min(ring, mine)):
            fills.setdefault(n % ring, []).append(block + n * blocks)
        slot = parity = 0
        for n in range(mine):
            phase = n // ring
            assert parity == phase % 2
            assert len(fills[slot]) == phase + 1  # no later fill before this one was read
            read.append(fills[slot][phase])
            if n + ring < mine:
                fills.setdefault((n + ring) % ring, []).append(block + (n + ring) * blocks)
            slot += 1
            if slot == ring:
                slot, parity = 0, parity ^ 1
    assert sorted(read) == list(range(stages))


def ways(words: list[int]) -> int:
    """Return the passes of one shared-memory access: the most different words that lanes want of one bank."""
    banks: dict[int, set[int]] = {}
    for word in words:
        banks.setdefault(word % 32, set()).add(word)
    return max(len(found) for found in banks.values())


@pytest.mark.parametrize(
    ("pitch", "place", "store", "load"),
    [
        (32, lambda row, column: column, 1, 32),
        (33, lambda row, column: column, 1, 1),
        (32, lambda row, column: column ^ row, 1, 1),
    ],
    ids=["shared", "padded", "swizzled"],
)  # fmt: skip
def test_the_ways_of_a_tile(pitch: int, place: object, store: int, load: int) -> None:
    assert callable(place)
    for fixed in range(32):
        assert ways([fixed * pitch + place(fixed, x) for x in range(32)]) == store  # lanes along a row
        assert ways([x * pitch + place(x, fixed) for x in range(32)]) == load  # lanes along a column
    assert len({row * pitch + place(row, column) for row in range(32) for column in range(32)}) == 1024


def place_of(n: int, vector: int, tile_m: int) -> int:
    return n * (tile_m // 4) + (vector ^ (n // 4 % 8))


def quarters(vectors: list[int]) -> int:
    """Return the passes of a warp's 16-byte access: eight lanes at a time, over eight groups of four banks."""
    return sum(max(Counter(v % 8 for v in vectors[i : i + 8]).values()) for i in range(0, 32, 8))


@pytest.mark.parametrize(
    ("tile_m", "tile_n", "threads"), [(64, 64, 256), (128, 64, 256), (64, 128, 256), (32, 64, 128)]
)
def test_the_micro_blocks_transpose_a_tile_without_conflicts(tile_m: int, tile_n: int, threads: int) -> None:
    across, down = tile_n // 4, tile_m // 4
    each = across * down // threads
    shared: dict[int, list[tuple[int, int]]] = {}  # vector of the tile -> the (m, n) in it
    stores: dict[tuple[int, int, int], list[int]] = {}
    loads: dict[tuple[int, int], list[int]] = {}
    for t in range(threads):
        c, r = t % across, t // across
        for k in range(each):
            d = r + k * (threads // across)
            for i in range(4):
                place = place_of(4 * c + i, d, tile_m)
                assert place not in shared
                shared[place] = [(4 * d + j, 4 * c + i) for j in range(4)]
                stores.setdefault((t // 32, k, i), []).append(place)
    written: dict[tuple[int, int], tuple[int, int]] = {}  # (row, column) of B -> (m, n) of A
    for t in range(threads):
        a, first = t % down, t // down
        for k in range(4 * each):
            row = first + k * (threads // down)
            place = place_of(row, a, tile_m)
            loads.setdefault((t // 32, k), []).append(place)
            for j in range(4):
                written[row, 4 * a + j] = shared[place][j]
    assert len(written) == tile_m * tile_n
    assert all((n, m) == at for at, (m, n) in written.items())
    assert {quarters(v) for v in stores.values()} == {4}
    assert {quarters(v) for v in loads.values()} == {4}


@pytest.mark.parametrize("threads", [32, 64, 256])
def test_a_warp_transposes_a_tile_without_conflicts(threads: int) -> None:
    apart = threads // 16
    shared: dict[int, list[tuple[int, int]]] = {}  # vector of the tile -> the (m, n) in it
    arriving: dict[tuple[int, int], list[int]] = {}
    loads: dict[tuple[int, int, int], list[int]] = {}
    written: dict[tuple[int, int], tuple[int, int]] = {}  # (row, column) of B -> (m, n) of A
    for t in range(threads):
        for k in range(64 // apart):
            m = t // 16 + k * apart
            place = place_of(m, t % 16, 64)
            assert place not in shared
            shared[place] = [(m, 4 * (t % 16) + i) for i in range(4)]
            arriving.setdefault((t // 32, k), []).append(place)
    for t in range(threads):
        for k in range(16 // apart):
            c = t // 16 + k * apart
            for j in range(4):
                place = place_of(4 * (t % 16) + j, c, 64)
                loads.setdefault((t // 32, k, j), []).append(place)
                for i in range(4):
                    written[4 * c + i, 4 * (t % 16) + j] = shared[place][i]
    assert len(written) == 64 * 64
    assert all((n, m) == at for at, (m, n) in written.items())
    assert {quarters(places) for places in arriving.values()} == {4}
    assert {quarters(places) for places in loads.values()} == {4}


@pytest.mark.parametrize(("tiles_m", "tiles_n", "group"), [(1, 1, 16), (1, 7, 16), (40, 3, 16), (33, 9, 16), (5, 1, 4)])
def test_bands_visit_every_tile_once(tiles_m: int, tiles_n: int, group: int) -> None:
    group = min(group, tiles_m)
    seen = []
    for block in range(tiles_m * tiles_n):
        band, inside = divmod(block, group * tiles_n)
        height = min(group, tiles_m - band * group)
        seen.append((band * group + inside % height, inside // height))
    assert sorted(seen) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]


def test_what_is_emulated_here_is_what_the_kernels_say() -> None:
    op = (KERNELS / "reduce" / "op.cuh").read_text()
    assert "const int64_t first = tiles * kTile + group * kThreads + thread;" in op
    assert "first + j * groups * kThreads" in op
    assert "/ sizeof(float)) % 4" in op
    micro = (KERNELS / "transpose" / "micro_block.cuh").read_text()
    assert "n * (kTileM / 4) + (vector ^ (n / 4 % 8))" in micro
    for file, word in (
        ("02_shared.cu", "row * ladder::kTile + column;"),
        ("03_padded.cu", "row * (ladder::kTile + 1) + column;"),
        ("04_swizzled.cu", "row * ladder::kTile + (column ^ row);"),
    ):
        assert word in (KERNELS / "transpose" / file).read_text()
    tiles = (KERNELS / "transpose" / "tiles.cuh").read_text()
    assert "const unsigned height = min(group, tiles_m - band * group);" in tiles
    warp = (KERNELS / "transpose" / "06_warp_tile.cu").read_text()
    assert "return m * kAcross + (vector ^ (m / 4 % 8));" in warp
    assert "v[j] = tile[place_in_tile(4 * beside + j, c)];" in warp
