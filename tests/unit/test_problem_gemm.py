"""The problem gemm: its literals and counts without torch, its arithmetic and its judge with torch's CPU build."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.errors import UsageError
from profiler.model import ProblemRef
from profiler.problem_file import ProblemFileError, literals_of, problem_class, read_literals
from profiler.problems import REGISTRY
from profiler.problems.gemm import Gemm

DATA = Path(__file__).parent / "data"
INIT = {"distribution": "normal", "seed": 0}


def ref(kind: str, file: Path | None = None) -> ProblemRef:
    return ProblemRef(kind, file, {}, (), (), {})


def case(dims: dict[str, int], contract: str, layout: str = "nn", seed: int = 1, **init: Any) -> tuple[Any, ...]:
    options = {"layout": layout}
    inputs = Gemm.inputs(dims, contract, options, {**INIT, **init}, seed, "cpu")
    return inputs, Gemm.reference(inputs, dims, options)["C"], Gemm.magnitude(inputs, dims, options)["C"], options


# -- literals


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_literals_are_what_the_class_says(kind: str) -> None:
    found, defined = literals_of(ref(kind)), problem_class(ref(kind))
    for field in ("name", "dims", "options", "dtypes", "args"):
        assert getattr(found, field) == getattr(defined, field)
    assert found.chosen({}) == {name: allowed[0] for name, allowed in defined.options.items()}


def test_counts_are_exact() -> None:
    assert Gemm.flops({"M": 3, "N": 5, "K": 7}) == 210
    dims = {"M": 4096, "N": 4096, "K": 4096}
    assert Gemm.flops(dims) == 2**37
    assert Gemm.min_bytes(dims, "fp32", {"layout": "nn"}) == 3 * 4096**2 * 4
    assert Gemm.min_bytes({"M": 3, "N": 5, "K": 7}, "bf16", {"layout": "nt"}) == (21 + 35 + 15) * 2
    assert Gemm.flops({"M": 2**40, "N": 2**40, "K": 2**40}) == 2**121


def test_tolerance_grows_with_the_root_of_k() -> None:
    def at(k: int, contract: str = "fp32") -> float:
        return Gemm.tolerance({"M": 1, "N": 1, "K": k}, contract)

    assert at(4096) == 8 * 64 * 2.0**-24
    assert at(4096, "bf16") == 8 * 64 * 2.0**-22
    assert at(16384) == 2 * at(4096)
    assert at(1) == at(4) == 2.0**-20


def test_a_users_problem_is_read_without_running_it() -> None:
    found = read_literals(DATA / "problem.py", "Norm")
    assert (found.name, found.dims, found.dtypes) == ("rmsnorm_quant", ("T", "H"), ("bf16->e4m3", "fp16"))
    assert [type(arg).__name__ for arg in found.args] == ["In", "In", "InOut", "Scalar", "Scalar", "Out", "Out"]


def test_all_that_is_wrong_with_a_users_problem_is_said_with_its_line() -> None:
    with pytest.raises(ProblemFileError) as caught:
        read_literals(DATA / "problem.py", "Broken")
    text = (DATA / "problem.py").read_text(encoding="utf-8").splitlines()
    first = text.index("class Broken(Problem):") + 2
    assert [problem.split(": ", 1)[0] for problem in caught.value.problems] == [
        f"problem.py:{first + offset}" for offset in (0, 1, 2, 3, 4, 4, 4)
    ]
    assert caught.value.problems[3] == f"problem.py:{first + 3}: dtypes must be a literal, not tuple(['fp32'])"
    with pytest.raises(ProblemFileError) as disagrees:
        read_literals(DATA / "problem.py", "Disagrees")
    said = "\n".join(disagrees.value.problems)
    for part in (
        "args has no Out or InOut: nothing could be checked", "A: dtype has none for the contract bf16",
        "A: shapes must be given for exactly layout=nn, layout=nt", "'int' cannot name a member of Args",
        "int: 'Q' in its shape is neither a dim nor a number", "'float31' is not a torch dtype",
        "M names two members of Args",
    ):  # fmt: skip
        assert part in said


def test_a_users_problem_is_loaded_for_a_real_run(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("NAME = 'mine'\n", encoding="utf-8")
    file = tmp_path / "mine.py"
    file.write_text(
        "from beside_it import NAME\nfrom profiler.problem import Problem\n\n\nclass Mine(Problem):\n    name = NAME\n",
        encoding="utf-8",
    )
    before = list(sys.path)
    assert problem_class(ref("mine.py:Mine", file)).name == "mine"
    assert problem_class(ref("mine.py:Mine", file)) is problem_class(ref("mine.py:Mine", file))
    assert sys.path == before
    with pytest.raises(UsageError, match="NAME is no subclass of"):
        problem_class(ref("mine.py:NAME", file))
    with pytest.raises(UsageError, match=r"problem\.py:6: RuntimeError: a check must not run"):
        problem_class(ref("problem.py:Norm", DATA / "problem.py"))
    with pytest.raises(UsageError, match="no problem 'gem'"):
        literals_of(ref("gem"))


# -- with torch

needs_torch = pytest.mark.torch


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_inputs_are_seeded_and_of_the_contracts_type(contract: str, layout: str, distribution: str) -> None:
    torch = pytest.importorskip("torch")
    dims = {"M": 60, "N": 50, "K": 70}
    inputs, reference, magnitude, options = case(dims, contract, layout, distribution=distribution)
    assert {name: tuple(t.shape) for name, t in inputs.items()} == {
        "A": (60, 70), "B": (70, 50) if layout == "nn" else (50, 70),
    }  # fmt: skip
    assert {t.dtype for t in inputs.values()} == {torch.float32 if contract == "fp32" else torch.bfloat16}
    assert all(t.is_contiguous() for t in inputs.values())
    assert reference.dtype == magnitude.dtype == torch.float64
    again = Gemm.inputs(dims, contract, options, {"distribution": distribution}, 1, "cpu")
    other = Gemm.inputs(dims, contract, options, {"distribution": distribution}, 2, "cpu")
    for name in ("A", "B"):
        assert torch.equal(inputs[name], again[name])
        assert not torch.equal(inputs[name], other[name])
    spread = float(inputs["A"].double().std())
    assert spread == pytest.approx(1.0 if distribution == "normal" else 1 / math.sqrt(3), rel=0.1)
    if distribution == "uniform":
        assert float(inputs["A"].abs().max()) <= 1.0
        assert float(inputs["A"].min()) < 0.0


@needs_torch
def test_reference_is_the_product() -> None:
    torch = pytest.importorskip("torch")
    dims = {"M": 2, "N": 3, "K": 4}
    for layout in ("nn", "nt"):
        inputs, reference, magnitude, _ = case(dims, "fp32", layout)
        a = inputs["A"].double()
        b = inputs["B"].double() if layout == "nn" else inputs["B"].double().T
        for row in range(2):
            for column in range(3):
                terms = [float(a[row, k] * b[k, column]) for k in range(4)]
                assert float(reference[row, column]) == pytest.approx(math.fsum(terms), rel=1e-14)
                assert float(magnitude[row, column]) == pytest.approx(math.fsum(map(abs, terms)), rel=1e-14)
    with pytest.raises(ValueError, match="no distribution 'zeros'"):
        Gemm.inputs(dims, "fp32", {}, {"distribution": "zeros"}, 0, "cpu")
    assert torch.is_tensor(reference)


@needs_torch
@settings(max_examples=40)
@given(
    m=st.integers(1, 40), n=st.integers(1, 40), k=st.sampled_from([1, 2, 3, 7, 35, 128, 1000]),
    contract=st.sampled_from(["fp32", "bf16"]), layout=st.sampled_from(["nn", "nt"]), seed=st.integers(0, 2**31),
    distribution=st.sampled_from(["normal", "uniform"]),
)  # fmt: skip
def test_right_answers_pass_whatever_the_order_of_their_sums(
    m: int, n: int, k: int, contract: str, layout: str, seed: int, distribution: str
) -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import aggregate, judge

    dims = {"M": m, "N": n, "K": k}
    inputs, reference, magnitude, _ = case(dims, contract, layout, seed, distribution=distribution)
    a, b = inputs["A"].float(), inputs["B"].float()
    b = b.T if layout == "nt" else b
    one_by_one = torch.zeros(m, n)
    for index in range(k):  # the longest chain of float32 additions there is
        one_by_one += a[:, index : index + 1] * b[index : index + 1, :]
    dtype = inputs["A"].dtype
    tolerance = Gemm.tolerance(dims, contract)
    outputs = [(a @ b).to(dtype), one_by_one.to(dtype), reference.to(dtype)]
    for output in outputs:
        found = judge(output, reference, magnitude, tolerance, dtype)
        assert found.ok, found
        fine, text = aggregate(output, reference, outputs[0])
        assert fine, text
        fine, text = aggregate(output, reference)
        assert fine, text


@needs_torch
@pytest.mark.parametrize("contract", ["fp32", "bf16"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("size", [(64, 64, 64), (67, 131, 35), (256, 128, 4096), (1, 33, 500), (33, 1, 500), (5, 4, 1)])
def test_wrong_answers_do_not_pass(contract: str, layout: str, size: tuple[int, int, int]) -> None:
    pytest.importorskip("torch")
    from profiler.judge import judge

    dims = dict(zip("MNK", size, strict=True))
    inputs, reference, magnitude, options = case(dims, contract, layout)
    dtype = inputs["A"].dtype
    mutations = Gemm.mutations(inputs, {"C": reference}, dims, options)
    assert [m.name for m in mutations] == ["zeros", "missing last K tile", "5 % scale", "shuffled"]
    for mutation in mutations:
        found = judge(mutation.outputs["C"].to(dtype), reference, magnitude, Gemm.tolerance(dims, contract), dtype)
        assert not found.ok, mutation.name
        assert found.error > Gemm.tolerance(dims, contract)


@needs_torch
def test_one_element_cannot_be_shuffled() -> None:
    pytest.importorskip("torch")
    dims = {"M": 1, "N": 1, "K": 3}
    inputs, reference, _, options = case(dims, "fp32")
    names = [m.name for m in Gemm.mutations(inputs, {"C": reference}, dims, options)]
    assert names == ["zeros", "missing last K tile", "5 % scale"]


@needs_torch
def test_the_judge_on_single_elements() -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import Judgement, judge

    reference = torch.ones(2, 3, dtype=torch.float64)
    magnitude = torch.full((2, 3), 4.0, dtype=torch.float64)

    def judged(value: float, dtype: str = "float32", at: tuple[int, int] = (1, 2), of: float = 4.0) -> Judgement:
        output, scale = reference.clone(), magnitude.clone()
        output[at], scale[at] = value, of
        return judge(output, reference, scale, 0.125, dtype)

    assert judged(1.0) == Judgement(0.0, True, (0, 0))
    assert judged(1.5) == Judgement(0.125, True, (1, 2))
    assert judged(1.0 + 0.5 + 2.0**-20) == Judgement(0.125 + 2.0**-22, False, (1, 2))
    assert judged(1.0 + 2.0**-8, "bfloat16").error == 0.0  # half an ulp above 1
    assert judged(1.0 + 2.0**-7, "bfloat16").error == pytest.approx(2.0**-10)
    for broken in (math.nan, math.inf, -math.inf):
        assert judged(broken, at=(0, 1)) == Judgement(math.inf, False, (0, 1))
    assert judged(1.0, of=0.0).ok
    assert judged(1.0 + 2.0**-40, of=0.0) == Judgement(math.inf, False, (1, 2))
    assert not judge(reference, reference * math.nan, magnitude, math.inf, "float32").error < math.inf
    infinite = reference.clone()
    infinite[0, 0] = math.inf
    assert judge(infinite, infinite, magnitude, 0.0, torch.float32) == Judgement(0.0, True, (0, 0))
    assert not judge(reference, infinite, magnitude, 0.0, torch.float32).ok
    assert not judge(reference, reference, magnitude, math.nan, torch.float32).ok
    with pytest.raises(ValueError, match="shape"):
        judge(reference[:1], reference, magnitude, 1.0, "float32")
    with pytest.raises(ValueError, match="without elements"):
        judge(reference[:0], reference[:0], magnitude[:0], 1.0, "float32")


@needs_torch
def test_the_judge_leaves_its_arguments_alone() -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import aggregate, judge

    inputs, reference, magnitude, _ = case({"M": 8, "N": 8, "K": 8}, "fp32")
    output = reference.clone()
    kept = [tensor.clone() for tensor in (output, reference, magnitude)]
    judge(output, reference, magnitude, 1.0, "float64")
    aggregate(output, reference, output)
    assert all(torch.equal(a, b) for a, b in zip(kept, (output, reference, magnitude), strict=True))
    assert inputs


@needs_torch
def test_errors_below_half_an_ulp_are_found_in_the_whole() -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import aggregate

    dims = {"M": 256, "N": 256, "K": 64}
    _, reference, _, _ = case(dims, "bf16")
    right = reference.to(torch.bfloat16)
    assert aggregate(right, reference, right)[0]
    fine, text = aggregate((reference * 1.002).to(torch.bfloat16), reference, right)
    assert not fine
    assert text.startswith("scale 1.00")
    noisy = (reference + 2.0**-8 * reference.abs() * torch.sign(torch.randn(256, 256))).to(torch.bfloat16)
    fine, text = aggregate(noisy, reference, right)
    assert not fine
    assert "1.5 x the baseline's" in text
    assert not aggregate(right * math.nan, reference, right)[0]
    assert aggregate(right, reference, reference.float())[1].endswith(
        "all of its rounding)"
    )  # of another type: not used
    zero = torch.zeros(16, 16, dtype=torch.float64)
    half = zero.to(torch.float16)
    assert aggregate(half, zero) == (True, "the reference is zero and so is the output")
    assert not aggregate(half + 1, zero)[0]
    assert not aggregate(half, zero + 1)[0]
    assert aggregate(zero + 1, zero) == (True, "the output is as fine as its sums: judged by its elements")
    assert aggregate(half[:1], zero[:1]) == (True, "fewer than 64 elements: judged one by one")
