"""Softmax, LayerNorm and RMSNorm: their literals, references, tolerances and mutations, and the kernels' arithmetic and
index arithmetic said again in float32 and in plain integers. PyTorch's CPU build does the arithmetic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.problem import Problem
from profiler.problem_file import read_literals
from profiler.problems import layernorm, rmsnorm, softmax
from profiler.problems.layernorm import LayerNorm
from profiler.problems.rmsnorm import RmsNorm
from profiler.problems.rows import UNIT, sum_error
from profiler.problems.softmax import Softmax

PROBLEMS: list[type[Problem]] = [Softmax, LayerNorm, RmsNorm]
SIZES = [(1, 1), (8, 1), (1, 1003), (9, 33), (8, 4099)]
LONG = (2, 131072)
LOG2_E = 1.44269504088896340736

needs_torch = pytest.mark.torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep PyTorch to one thread: arrays are small here, and threads that spin beside other work cost minutes."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    yield
    if torch:
        torch.set_num_threads(before)


def distributions(problem: type[Problem]) -> tuple[str, ...]:
    found: tuple[str, ...] = problem.distributions  # type: ignore[attr-defined]
    return found


CASES = [(problem, name) for problem in PROBLEMS for name in distributions(problem)]


def dims_of(rows: int, columns: int) -> dict[str, int]:
    return {"T": rows, "N": columns}


def judged(problem: type[Problem], inputs: Any, output: Any, dims: dict[str, int], contract: str) -> Any:
    from profiler.judge import judge

    dtype = inputs["x"].dtype
    return judge(
        output.to(dtype),
        problem.reference(inputs, dims, {})["y"],
        problem.magnitude(inputs, dims, {})["y"],
        problem.tolerances(dims, contract)["y"],
        dtype,
        nan_matches=True,
    )


# -- literals and counts


@pytest.mark.parametrize(("module", "problem"), list(zip((softmax, layernorm, rmsnorm), PROBLEMS, strict=True)))
def test_literals_are_what_the_class_says(module: Any, problem: type[Problem]) -> None:
    found = read_literals(Path(module.__file__), problem.__name__)
    for field in ("name", "dims", "dtypes", "args", "distributions"):
        assert getattr(found, field) == getattr(problem, field)


def test_counts_are_exact() -> None:
    dims = dims_of(37, 1003)
    assert [problem.flops(dims) for problem in PROBLEMS] == [None, None, None]
    assert Softmax.min_bytes(dims, "fp32", {}) == 2 * 37 * 1003 * 4
    assert LayerNorm.min_bytes(dims, "bf16", {}) == (2 * 37 + 2) * 1003 * 2
    assert RmsNorm.min_bytes(dims, "fp32", {}) == (2 * 37 + 1) * 1003 * 4


def test_tolerances() -> None:
    assert sum_error(2**12) == 8 * 4 * UNIT
    assert LayerNorm.tolerance(dims_of(1, 2**12), "fp32") == 48 * UNIT == RmsNorm.tolerance(dims_of(9, 2**12), "bf16")
    assert Softmax.tolerance(dims_of(1, 2**12), "fp32") == pytest.approx((52 + 3.4 * 12 * math.log(2)) * UNIT)
    assert sum_error(1) == sum_error(2)


# -- inputs, references, mutations


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize(("problem", "distribution"), CASES)
def test_inputs_are_seeded_and_of_the_contracts_type(problem: type[Problem], distribution: str, contract: str) -> None:
    torch = pytest.importorskip("torch")
    dims = dims_of(9, 70)
    init = {"distribution": distribution}
    first, again = (problem.inputs(dims, contract, {}, init, 1, "cpu") for _ in range(2))
    other = problem.inputs(dims, contract, {}, init, 2, "cpu")
    wanted = torch.float32 if contract == "fp32" else torch.bfloat16
    assert {tensor.dtype for tensor in first.values()} == {wanted}
    assert tuple(first["x"].shape) == (9, 70)
    for name, tensor in first.items():
        assert torch.equal(tensor.nan_to_num(), again[name].nan_to_num())
        assert not torch.equal(tensor.nan_to_num(), other[name].nan_to_num())
    with pytest.raises(ValueError, match="has no distribution 'zeros'"):
        problem.inputs(dims, contract, {}, {"distribution": "zeros"}, 0, "cpu")


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize(("problem", "distribution"), CASES)
def test_references_are_pytorchs(problem: type[Problem], distribution: str, contract: str) -> None:
    torch = pytest.importorskip("torch")
    dims = dims_of(16, 333)
    inputs = problem.inputs(dims, contract, {}, {"distribution": distribution}, 3, "cpu")
    kept = {name: tensor.clone() for name, tensor in inputs.items()}
    x, *weights = (tensor.double() for tensor in inputs.values())
    if problem is Softmax:
        expected = torch.softmax(x, dim=1)
    elif problem is LayerNorm:
        expected = torch.nn.functional.layer_norm(x, (333,), *weights, eps=1e-5)
    else:
        expected = torch.nn.functional.rms_norm(x, (333,), weights[0], eps=1e-6)
    found = problem.reference(inputs, dims, {})["y"]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert bool(torch.isnan(found).any()) == (distribution == "special")
    assert bool(
        torch.isfinite(found[0]).all()
    )  # the first row is finite whatever the distribution: one row can be judged
    assert problem.magnitude(inputs, dims, {})["y"].dtype == torch.float64
    for name, tensor in inputs.items():  # neither function changes its inputs
        assert torch.equal(tensor.nan_to_num(), kept[name].nan_to_num())


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [*SIZES, LONG])
@pytest.mark.parametrize(("problem", "distribution"), CASES)
def test_wrong_answers_do_not_pass(
    problem: type[Problem], distribution: str, size: tuple[int, int], contract: str
) -> None:
    pytest.importorskip("torch")
    dims = dims_of(*size)
    for seed in range(1 if size == LONG else 3):
        inputs = problem.inputs(dims, contract, {}, {"distribution": distribution}, seed, "cpu")
        reference = problem.reference(inputs, dims, {})
        assert judged(problem, inputs, reference["y"], dims, contract).ok
        names = []
        for mutation in problem.mutations(inputs, reference, dims, {}):
            found = judged(problem, inputs, mutation.outputs["y"], dims, contract)
            assert not found.ok, (mutation.name, seed, found)
            names.append(mutation.name)
        assert names[:2] == ["zeros", "5 % scale"]
        if size[0] > 7 and size[1] > 99 and distribution == "special":
            assert "NaN passed over" in names
            assert problem is not Softmax or names[-2:] == ["-inf - -inf in a part of a row", "maximum not subtracted"]
        if size[0] > 1 and size[1] > 99 and distribution == "offset" and contract == "fp32":
            assert names[-1] == "variance as E[x^2] - E[x]^2"


# -- the kernels' arithmetic in float32


def exp_of(x: Any) -> Any:
    return (x * LOG2_E).exp2()


def origin(largest: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.where(largest == -math.inf, 0.0, largest)


def lanes(x: Any, count: int, fill: float) -> Any:
    """Return rows as (T, steps, count): the elements that `count` threads stride over, filled up at the end."""
    torch = pytest.importorskip("torch")
    steps = -(-x.shape[1] // count)
    padded = torch.full((x.shape[0], steps * count), fill)
    padded[:, : x.shape[1]] = x
    return padded.view(x.shape[0], steps, count)


def fmax(a: Any, b: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.fmax(a, b)  # as fmaxf: a NaN is passed over


def largest_of(x: Any, dim: int) -> Any:
    return x.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf).amax(dim=dim)


def three_passes(x: Any) -> Any:
    values = lanes(x, 256, -math.inf)
    largest = largest_of(x, 1)[:, None]
    total = exp_of(values - largest[:, :, None])
    chain = total[:, 0]
    for step in range(1, total.shape[1]):
        chain = chain + total[:, step]
    return exp_of(x - largest) * (1.0 / chain.sum(dim=1, keepdim=True))


def online(x: Any) -> Any:
    torch = pytest.importorskip("torch")
    values = lanes(x, 256, -math.inf)
    largest, total = torch.full((x.shape[0], 256), -math.inf), torch.zeros(x.shape[0], 256)
    for step in range(values.shape[1]):
        value = values[:, step]
        grown = fmax(largest, value)
        start = origin(grown)
        total = total * exp_of(largest - start) + exp_of(value - start)
        largest = grown
    row = largest.amax(dim=1, keepdim=True)
    whole = (total * exp_of(largest - origin(row))).sum(dim=1, keepdim=True)
    return exp_of(x - row) * (1.0 / whole)


def by_parts(x: Any, part: int = 1024) -> Any:
    """Return what 08_by_size and 07_cluster_row do: each warp its own part, one exchange, one factor a part."""
    values = lanes(x, part, -math.inf)  # a warp's share: which columns it has makes no difference
    largest = largest_of(values, 2)
    powers = exp_of(values - origin(largest)[:, :, None])
    sums = powers.sum(dim=2)
    row = largest.amax(dim=1, keepdim=True)
    whole = (sums * exp_of(largest - origin(row))).sum(dim=1, keepdim=True)
    factor = exp_of(largest - row) / whole
    return (powers * factor[:, :, None]).reshape(x.shape[0], -1)[:, : x.shape[1]]


def inverse_deviation(squares: Any, columns: int, eps: float) -> Any:
    return 1.0 / (squares / columns + eps).sqrt()


def joined(counts: Any, means: Any, squares: Any, columns: int) -> tuple[Any, Any]:
    mean = (counts * means).sum(dim=1, keepdim=True) / columns
    apart = means - mean
    return mean, (counts * apart * apart + squares).sum(dim=1, keepdim=True)


def welford(x: Any) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    threads = 256
    mean, squares = torch.zeros(x.shape[0], threads), torch.zeros(x.shape[0], threads)
    counts = torch.zeros(threads)
    for first in range(0, x.shape[1], threads):
        value = x[:, first : first + threads]
        busy = value.shape[1]
        counts[:busy] += 1.0
        apart = value - mean[:, :busy]
        mean[:, :busy] += apart * (1.0 / counts[:busy])
        squares[:, :busy] += apart * (value - mean[:, :busy])
    return joined(counts, mean, squares, x.shape[1])


def warp_parts(x: Any, part: int = 1024) -> tuple[Any, Any]:
    """Return what norm/vector_rows.cuh does: two passes over each warp's part, joined."""
    torch = pytest.importorskip("torch")
    counts, means, squares = [], [], []
    for first in range(0, x.shape[1] + part, part):  # the last part is empty, as some warps' are
        values = x[:, first : first + part]
        counts.append(float(values.shape[1]))
        means.append(values.sum(dim=1) / max(values.shape[1], 1))
        squares.append((values - means[-1][:, None]).square().sum(dim=1))
    return joined(torch.tensor(counts), torch.stack(means, 1), torch.stack(squares, 1), x.shape[1])


def layer_norm(moments: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], Any]:
    def run(inputs: Any) -> Any:
        x, w, b = (tensor.float() for tensor in inputs.values())
        mean, squares = moments(x)
        return (x - mean) * inverse_deviation(squares, x.shape[1], 1e-5) * w + b

    return run


def rms_norm(inputs: Any) -> Any:
    x, w = (tensor.float() for tensor in inputs.values())
    squares = lanes(x, 1024, 0.0).square().sum(dim=2).sum(dim=1, keepdim=True)
    return x * inverse_deviation(squares, x.shape[1], 1e-6) * w


RUNGS: list[tuple[type[Problem], str, Callable[[Any], Any]]] = [
    (Softmax, "three passes", lambda inputs: three_passes(inputs["x"].float())),
    (Softmax, "online", lambda inputs: online(inputs["x"].float())),
    (Softmax, "by parts", lambda inputs: by_parts(inputs["x"].float())),
    (LayerNorm, "welford", layer_norm(welford)),
    (LayerNorm, "warp parts", layer_norm(warp_parts)),
    (RmsNorm, "sums", rms_norm),
]


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [*SIZES, LONG])
@pytest.mark.parametrize(("problem", "name", "rung"), RUNGS, ids=[name for _, name, _ in RUNGS])
def test_the_rungs_arithmetic_keeps_the_tolerance_and_has_nan_where_pytorch_has(
    problem: type[Problem], name: str, rung: Callable[[Any], Any], size: tuple[int, int], contract: str
) -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import aggregate

    dims = dims_of(*size)
    for distribution in distributions(problem):
        inputs = problem.inputs(dims, contract, {}, {"distribution": distribution}, 5, "cpu")
        output = rung(inputs)
        found = judged(problem, inputs, output, dims, contract)
        assert found.ok, (distribution, found, problem.tolerances(dims, contract))
        reference = problem.reference(inputs, dims, {})["y"]
        finite = torch.isfinite(reference)
        fine, text = aggregate(output.to(inputs["x"].dtype)[finite], reference[finite])
        assert fine, text


@needs_torch
def test_mean_of_squares_less_square_of_mean_is_refused() -> None:
    pytest.importorskip("torch")
    dims = dims_of(4, 8192)
    inputs = LayerNorm.inputs(dims, "fp32", {}, {"distribution": "offset"}, 1, "cpu")

    def cancelling(x: Any) -> tuple[Any, Any]:
        mean = x.mean(dim=1, keepdim=True)
        return mean, (x.square().mean(dim=1, keepdim=True) - mean.square()) * x.shape[1]

    assert not judged(LayerNorm, inputs, layer_norm(cancelling)(inputs), dims, "fp32").ok
    assert judged(LayerNorm, inputs, layer_norm(welford)(inputs), dims, "fp32").ok


# -- the kernels' index arithmetic


def threads_for(columns: int, each: int) -> int:
    return 32 * max(1, -(-columns // (32 * each)))


def held(columns: int, threads: int, width: int, each: int) -> list[int]:
    """Return the columns that `load_row` takes, thread by thread and vector by vector."""
    step = threads * width
    return [
        thread * width + v * step + i
        for thread in range(threads)
        for v in range(each // width)
        if thread * width + v * step < columns
        for i in range(width)
    ]


@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("vectors", [1, 2, 31, 128, 256, 257, 1024, 4095])
def test_a_block_holds_each_column_once(width: int, vectors: int) -> None:
    columns = vectors * width
    for each, most in ((32, 1024), (16, 512)):  # vector_rows and softmax; persistent_rows, whose threads are fixed
        threads = threads_for(columns, each) if each == 32 else most
        if columns <= each * most:
            assert threads <= most
            assert sorted(held(columns, threads, width, each)) == list(range(columns))


@pytest.mark.parametrize("part_most", [8192, 16384, 32768])
@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("wanted", [1025, 4104, 16385, 32776, 65537, 131072])
def test_the_blocks_of_a_cluster_hold_each_column_once(wanted: int, width: int, part_most: int) -> None:
    columns = wanted // width * width
    if columns > 8 * part_most:
        columns = 8 * part_most
    blocks = 2
    while blocks < 8 and blocks * part_most < columns:
        blocks *= 2
    part = -(-(columns // width) // blocks) * width
    assert part <= part_most
    assert part * blocks >= columns
    threads = threads_for(part, 32)
    assert threads <= 1024
    found: list[int] = []
    for rank in range(blocks):
        mine = min(columns - rank * part, part)  # not positive behind the row's end
        found += [rank * part + column for column in held(mine, threads, width, 32)]
    assert sorted(found) == list(range(columns))


@pytest.mark.parametrize("columns", [1, 31, 32, 100, 128, 1000, 1024, 1003])
def test_a_warp_knows_how_many_elements_it_holds(columns: int) -> None:
    for width in (1, 4, 8):
        whole = columns // width * width
        threads, each = threads_for(max(whole, 1), 32), 32
        step = threads * width
        for warp in range(threads // 32):
            counted = sum(min(max(whole - warp * 32 * width - v * step, 0), 32 * width) for v in range(each // width))
            actual = sum(
                width
                for lane in range(32)
                for v in range(each // width)
                if (warp * 32 + lane) * width + v * step < whole
            )
            assert counted == actual


@pytest.mark.parametrize(("element", "width"), [(4, 4), (2, 8)])
@pytest.mark.parametrize("columns", [16, 4096, 8192, 8200, 32768, 65536, 65544, 131072])
def test_persistent_rows_have_room_for_a_ring(columns: int, element: int, width: int) -> None:
    """The constants of norm/persistent_rows.cuh: shared memory of a block, and of a multiprocessor."""
    full = columns > 8 * 8192
    threads, per_multiprocessor, ring = (1024, 1, 212 * 1024) if full else (512, 2, 106 * 1024)
    blocks = 1
    while blocks * threads * 16 < columns:
        blocks *= 2
    assert blocks <= 8
    part = -(-(columns // width) // blocks) * width
    stage = part * element
    assert stage % 16 == 0  # bulk copies
    stages = min(8, ring // stage)
    assert stages >= 3
    parts = 2 * 16 * (blocks if blocks > 1 else 1) * threads // 32
    static = parts + 8 * (8 + 2)
    assert stages * stage + static <= 227 * 1024
    assert per_multiprocessor * (stages * stage + static + 1024) <= 228 * 1024


def test_a_ring_is_refilled_only_when_everybody_has_read_it() -> None:
    """The protocol of persistent_rows: behind the exchange of row i + 1, the stage of row i gets row i + stages."""
    for stages in (2, 3, 8):
        filled = {stage: [stage] for stage in range(stages)}
        stage, before, parity = 0, -1, 0
        following = stages
        for row in range(40):
            assert filled[stage][-1] == row  # the row that is read lies there
            assert (len(filled[stage]) - 1) % 2 == parity  # and its phase is the one that is waited for
            if before >= 0:
                filled[before].append(following)
                following += 1
            before = stage
            stage += 1
            if stage == stages:
                stage, parity = 0, parity ^ 1


def test_turns_of_the_exchange() -> None:
    used: dict[int, int] = {0: 0, 1: 0}
    turn = 0
    for row in range(12):
        buffer, parity = turn & 1, turn >> 1
        assert buffer == row % 2
        assert parity == used[buffer] % 2
        used[buffer] += 1
        turn = (turn + 1) & 3


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
def test_a_row_with_an_infinity_may_be_nan_throughout_in_rmsnorm(contract: str) -> None:
    """As PyTorch has it on a GPU; on a CPU it has zeros there. Nothing else may be NaN, and a number is no NaN."""
    torch = pytest.importorskip("torch")
    from profiler.worker.buffers import Guarded
    from profiler.worker.cases import Cases
    from profiler.worker.checks import Buffers, judge_outputs

    case = Cases(RmsNorm, {}, {}, device="cpu").get(contract, dims_of(9, 97), 1, "special")
    y = torch.nn.functional.rms_norm(case.inputs["x"], (97,), case.inputs["w"], eps=1e-6)
    rows = torch.isinf(case.inputs["x"]).any(dim=1)
    assert rows.tolist() == [False, True, False, False, False, True, False, False, False]

    buffers = Buffers({}, {"y": Guarded.empty(tuple(y.shape), y.dtype, "cpu")})

    def right(output: Any) -> bool:
        bound: Any = SimpleNamespace(outputs=lambda: {"y": output.to(y.dtype)})
        return judge_outputs(RmsNorm, case, bound, buffers).status == "ok"

    assert right(y)
    assert right(torch.where(rows.unsqueeze(1), math.nan, y))
    assert not right(torch.where(rows.unsqueeze(1) & torch.isfinite(y), 1.0, y))
    partly = y.clone()
    partly[1, :9] = math.nan
    assert not right(partly)
    others = y.clone()
    others[4] = math.nan
    assert not right(others)
