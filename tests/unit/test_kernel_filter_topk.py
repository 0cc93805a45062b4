"""The index arithmetic of the filter's and TopK's kernels, in Python: quads, ring, strips, keys, bars, radix digits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

THREADS = 128
AHEAD = {1: 8, 3: 8, 7: 8, 15: 3}
RADII = sorted(AHEAD)


# -- kernels/filter/quads.cuh


@pytest.mark.parametrize("radius", RADII)
def test_quads_add_up_to_windows(radius: int) -> None:
    columns = np.arange(4 * THREADS, dtype=np.int64) ** 2 % 1009
    quads = columns.reshape(-1, 4)
    sums = quads.sum(axis=1)
    halo = radius // 4 + 1
    for t in range(halo, THREADS - halo):
        x, y, z, w = quads[t]
        if radius == 1:
            left, right = quads[t - 1][3], quads[t + 1][0]
            found = [left + x + y, x + y + z, y + z + w, z + w + right]
        else:
            whole = radius // 4
            core = sums[t] + sum(sums[t - m] + sums[t + m] for m in range(1, whole + 1))
            left, right = quads[t - whole - 1], quads[t + whole + 1]
            left2, right2 = left[2] + left[3], right[0] + right[1]
            found = [core + left[1] + left2, core + left2 + right[0], core + left[3] + right2, core + right2 + right[2]]
        for j in range(4):
            at = 4 * t + j
            assert found[j] == columns[at - radius : at + radius + 1].sum()


# -- kernels/filter/06_two_scans.cu


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("rows", [1, 2, 40, 100])
def test_the_ring_holds_what_each_window_needs(radius: int, rows: int) -> None:
    """Walks the kernel's slots: what is overwritten is used up, what is read has arrived, the sums are the windows'."""
    window, ahead = 2 * radius + 1, AHEAD[radius]
    slots = window + ahead
    inputs = [(7 * k * k + 3) % 101 for k in range(rows + 2 * radius + slots)]
    ring: list[int | None] = [None] * slots  # values that have arrived
    groups: list[tuple[int, int]] = []  # (slot, value) in flight, oldest first

    def fetch(k: int, slot: int) -> None:
        ring[slot] = None
        groups.append((slot, inputs[k]))

    fetched = 0
    for _ in range(slots - 1):
        fetch(fetched, fetched)
        fetched += 1
    slot, newest, free, place, grows = 0, window - 1, slots - 1, 0, 0
    for row in range(rows):
        fetch(fetched, free)
        fetched += 1
        while len(groups) > ahead:  # cp.async.wait_group `ahead`
            at, value = groups.pop(0)
            ring[at] = value
        if place == 0:
            total, at = 0, newest
            for _ in range(window):
                there = ring[at]
                assert there is not None
                total += there
                ring[at] = total
                at = slots - 1 if at == 0 else at - 1
            grows = 0
        else:
            arrived = ring[newest]
            assert arrived is not None
            grows += arrived
        ends = ring[slot]
        assert ends is not None
        assert ends + grows == sum(inputs[row : row + window])
        free = slot
        slot = 0 if slot == slots - 1 else slot + 1
        newest = 0 if newest == slots - 1 else newest + 1
        place = 0 if place == window - 1 else place + 1


# -- kernels/filter/strips.cuh


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


@given(st.integers(1, 5000), st.integers(1, 20000), st.sampled_from(RADII), st.integers(1, 2000), st.booleans())
def test_strips_cover_the_image_once(height: int, width: int, radius: int, wanted: int, fixed: bool) -> None:
    most = 4 * (THREADS - 2 * (radius // 4 + 1))
    least, limit = (128, 128) if fixed else (2 * radius + 1, 1 << 20)
    across = ceil_div(width, most)
    strip = 8 * ceil_div(ceil_div(width, across), 8)
    bands = max(1, wanted // across)
    rows = min(max(ceil_div(height, bands), least), limit)
    blocks = across * ceil_div(height, rows)
    assert strip <= most
    assert strip % 8 == 0
    assert across * strip >= width
    assert (blocks // across) * rows >= height > (blocks // across - 1) * rows
    if not fixed and across <= wanted:
        assert blocks <= max(wanted, across)  # one wave


def test_strips_of_the_timed_size() -> None:
    """What the kernels' heads say: columns, and rows of halo paid for how many."""
    for radius, resident in ((1, 8), (3, 6), (7, 4), (15, 3)):
        most = 4 * (THREADS - 2 * (radius // 4 + 1))
        assert most == {1: 504, 3: 504, 7: 496, 15: 480}[radius]
        shared = THREADS * (16 * (2 * radius + 1 + AHEAD[radius] + 2) + 8)
        assert resident * (shared + 1024) <= 228 * 1024  # a block takes 1 KiB more


# -- kernels/topk/order.cuh

NAN_KEY, INFINITY, MINUS_INFINITY, ZERO = 0xFFFFFFFF, 0xFF800000, 0x007FFFFF, 0x80000000
SPECIAL_BITS = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
    0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x3F800000, 0xBF800000,
]  # fmt: skip


def as_float(bits: int) -> np.float32:
    return np.float32(np.frombuffer(struct.pack("<I", bits), dtype=np.float32)[0])


def key_of(bits: int) -> int:
    if bits & 0x7FFFFFFF > 0x7F800000:
        return NAN_KEY
    if bits == 0x80000000:
        bits = 0  # -0 + 0 is +0
    return bits ^ (0xFFFFFFFF if bits >> 31 else 0x80000000)


def bar_value(bar: int) -> np.float32:
    if bar < MINUS_INFINITY:
        return as_float(0x7FC00000)
    if bar >= INFINITY:
        return as_float(0x7F800000)
    if bar == ZERO - 1:
        return as_float(0x80000001)
    return as_float(bar ^ 0x80000000 if bar >= ZERO else ~bar & 0xFFFFFFFF)


def all_bits() -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from(SPECIAL_BITS), st.integers(0, 2**32 - 1))


@given(all_bits(), all_bits())
def test_keys_are_ordered_as_torch_orders_floats(a: int, b: int) -> None:
    x, y = as_float(a), as_float(b)
    if np.isnan(x) or np.isnan(y):
        assert (key_of(a) > key_of(b)) == (bool(np.isnan(x)) and not np.isnan(y))
    else:
        assert (key_of(a) > key_of(b)) == bool(x > y)
        assert (key_of(a) == key_of(b)) == bool(x == y)
    assert key_of(a) >= MINUS_INFINITY  # 0 is free for "no element"


def bars(bits: int) -> Iterator[int]:
    """The bars that arise: the key of an element, one below it, and none."""
    yield key_of(bits)
    yield key_of(bits) - 1
    yield 0


@given(all_bits(), all_bits())
def test_the_float_of_a_bar_lets_all_through_that_are_above_it(bits: int, other: int) -> None:
    value = as_float(bits)
    for bar in bars(other):
        passes = not bool(value <= bar_value(bar))
        above = key_of(bits) > bar
        assert passes or not above
        if not np.isnan(value) and bar >= MINUS_INFINITY:
            assert passes == above  # and nothing else: the slow path stays rare


@given(st.lists(all_bits(), min_size=1, max_size=60), st.data(), st.sampled_from([(24, 16, 8, 0), (21, 10, 0)]))
def test_radix_digits_find_the_kth_key(bits: list[int], data: st.DataObject, shifts: tuple[int, ...]) -> None:
    """Both selects: 8 bits at a time within a block, and 11, 11 and 10 bits over the whole input."""
    keys = [key_of(b) for b in bits]
    k = data.draw(st.integers(1, len(keys)))
    prefix, need, upper = 0, k, 32
    for shift in shifts:
        mask = (1 << (upper - shift)) - 1
        begins = [key for key in keys if key >> upper == prefix >> upper]
        counts: dict[int, int] = {}
        for key in begins:
            counts[key >> shift & mask] = counts.get(key >> shift & mask, 0) + 1
        above = 0
        for digit in sorted(counts, reverse=True):
            if above < need <= above + counts[digit]:
                prefix |= digit << shift
                need -= above
                break
            above += counts[digit]
        upper = shift
    assert prefix == sorted(keys, reverse=True)[k - 1]
    assert sum(key > prefix for key in keys) + need == k


@given(st.lists(all_bits(), min_size=1, max_size=200), st.integers(1, 40), st.integers(1, 8))
def test_the_largest_of_groups_give_a_bar_that_k_elements_reach(bits: list[int], k: int, size: int) -> None:
    """The first bar of 04_bar.cu: what is above it holds the K largest, whatever the groups."""
    keys = [key_of(b) for b in bits]
    heads = sorted((max(keys[i : i + size]) for i in range(0, len(keys), size)), reverse=True)
    bar = heads[k - 1] - 1 if k <= len(heads) else 0
    passing = sorted((key for key in keys if key > bar), reverse=True)
    assert passing[:k] == sorted(keys, reverse=True)[:k]


def test_elements_of_a_round_are_each_read_once() -> None:
    threads, each = 256, 16
    whole = {q * 4 * threads + 4 * t + e for t in range(threads) for q in range(each // 4) for e in range(4)}
    single = {i * threads + t for t in range(threads) for i in range(each)}
    assert whole == single == set(range(threads * each))


@pytest.mark.parametrize("size", [1, 2, 64, 128, 512])
def test_the_bitonic_network_sorts_downwards(size: int) -> None:
    entries = [(i * 7919 + 13) % 257 for i in range(size)]
    expected = sorted(entries, reverse=True)
    run = 2
    while run <= size:
        step = run // 2
        while step > 0:
            for pair in range(size // 2):
                low = 2 * pair - (pair & (step - 1))
                high = low + step
                if (entries[low] < entries[high]) == ((low & run) == 0):
                    entries[low], entries[high] = entries[high], entries[low]
            step //= 2
        run *= 2
    assert entries == expected
