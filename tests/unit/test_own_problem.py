"""The documented example of a problem of one's own, and what such a problem may be: several outputs, a tensor that is
read and written, a scalar, a tolerance for each output. PyTorch's CPU build does the arithmetic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler import build_sources
from profiler.errors import UsageError
from profiler.experiment import find_experiment, load_experiment
from profiler.header import header_text
from profiler.model import Experiment
from profiler.problem import In, InOut, Out, Problem, Scalar
from profiler.problem_file import ProblemFileError, literals_of, problem_class, read_literals

CONTRACT = "bf16->e4m3"
SIZES = [{"T": 1, "H": 8}, {"T": 37, "H": 1003}, {"T": 5, "H": 4099}, {"T": 64, "H": 512}]
INIT = {"distribution": "normal"}


@pytest.fixture(scope="module")
def example() -> Experiment:
    """Return the shipped example."""
    return load_experiment(find_experiment("rmsnorm_quant"))


@pytest.fixture(scope="module")
def problem(example: Experiment) -> type[Problem]:
    """Return its problem's class."""
    return problem_class(example.problem)


# -- without torch


def test_the_example_has_two_outputs_an_inout_and_a_scalar(example: Experiment, problem: type[Problem]) -> None:
    literals = literals_of(example.problem)
    assert [(type(arg), arg.name) for arg in literals.args] == [
        (In, "x"), (InOut, "res"), (In, "w"), (Out, "y"), (Out, "s"), (Scalar, "eps"),
    ]  # fmt: skip
    for field in ("name", "dims", "options", "dtypes", "args"):
        assert getattr(literals, field) == getattr(problem, field)
    assert [v.kind for v in example.variants] == ["cuda", "cuda", "python"]
    assert example.variants[0].call == "rmsnorm_quant(x, res, w, y, s, T, H, eps, stream)"
    assert dict(example.baseline) == {CONTRACT: "torch"}
    assert problem.scalar("eps") == 1e-6
    with pytest.raises(KeyError, match="has no scalar 'epsilon'"):
        problem.scalar("epsilon")


def test_counts_are_exact(problem: type[Problem]) -> None:
    dims = {"T": 37, "H": 1003}
    assert problem.flops(dims) is None
    assert problem.min_bytes(dims, CONTRACT, {}) == 37 * 1003 * (2 + 2 + 2 + 1) + 1003 * 2 + 37 * 4
    assert {arg.name for arg in problem.outputs()} == {"res", "y", "s"}


def test_a_tolerance_for_each_output_or_one_for_all(problem: type[Problem]) -> None:
    found = problem.tolerances({"T": 1, "H": 4096}, CONTRACT)
    assert found == {"res": 2.0**-22, "y": 2 * 8 * 64 * 2.0**-24, "s": 8 * 64 * 2.0**-24}

    class One(problem):  # type: ignore[valid-type, misc]
        @classmethod
        def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
            return 0.5

    assert One.tolerances({"T": 1, "H": 1}, CONTRACT) == {"res": 0.5, "y": 0.5, "s": 0.5}


def test_existing_code_keeps_its_own_header_and_names(tmp_path: Path, problem: type[Problem]) -> None:
    variant = load_experiment(find_experiment("rmsnorm_quant")).variants[0]
    (tmp_path / "k.cu").write_text('#include "rmsnorm_quant.h"\nstruct Args {};\n')
    (tmp_path / "rmsnorm_quant.h").write_text("// the user's own\n")
    header = header_text(problem, CONTRACT, {})
    files = build_sources.layout(replace(variant, source=tmp_path / "k.cu"), problem, header)
    assert files.contents["rmsnorm_quant.h"] == b"// the user's own\n"
    assert files.contents["kernel_ladder/rmsnorm_quant.h"] == header.encode()
    made = files.contents[files.main].decode()
    assert (
        made.index("#define Args") < made.index('#include "kernel_ladder/rmsnorm_quant.h"') < made.index("#undef Args")
    )
    assert "launch(const KernelLadderArgs *args" in made
    (tmp_path / "rmsnorm_quant.h").unlink()
    files = build_sources.layout(replace(variant, source=tmp_path / "k.cu"), problem, header)
    assert (
        "#define Args" not in files.contents[files.main].decode()
    )  # the source asks for our header, and gets its Args


# -- with torch on the CPU


def cpu_cases(problem: type[Problem]) -> Any:
    from profiler.worker.cases import Cases

    return Cases(problem, {}, INIT, device="cpu")


@pytest.mark.torch
@pytest.mark.parametrize("dims", SIZES, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_mutation_is_refused_and_the_baseline_passes(
    example: Experiment, problem: type[Problem], dims: dict[str, int], seed: int
) -> None:
    pytest.importorskip("torch")
    from profiler.worker.checks import judge_outputs
    from profiler.worker.launchable import PythonVariant

    case = cpu_cases(problem).get(CONTRACT, dims, seed)  # WeakCheck if any mutation would pass
    assert len(list(problem.mutations(case.inputs, case.reference, dims, {}))) >= 6
    torch_row = example.variant("torch")
    spec = {"source": str(torch_row.source), "function": torch_row.function, "params": {}, "dtype": CONTRACT}
    buffers = cpu_buffers(problem, case, dims)
    bound = PythonVariant(spec, problem, {}).bind(buffers.inputs, buffers.tensors(), dims)
    for _ in range(2):  # InOut is restored, or the second launch would add x once more
        buffers.restore()
        bound.launch()
        verdict = judge_outputs(problem, case, bound, buffers)
        assert (verdict.status, verdict.reason) == ("ok", "")
        assert set(verdict.errors) == {"res", "y", "s"}
        assert verdict.tolerance == case.tolerances[verdict.output]
    bound.launch()
    assert judge_outputs(problem, case, bound, buffers).reason.startswith("res[")


def cpu_buffers(problem: type[Problem], case: Any, dims: Mapping[str, int]) -> Any:
    from profiler.worker.buffers import Guarded
    from profiler.worker.cases import output_dtype
    from profiler.worker.checks import Buffers

    outputs = {
        arg.name: Guarded.empty(arg.extents(dims, {}), output_dtype(problem, arg.name, CONTRACT), "cpu")
        for arg in problem.outputs()
    }
    originals = {"res": case.inputs["res"]}
    buffers = Buffers({k: v for k, v in case.inputs.items() if k != "res"}, outputs, originals)
    buffers.restore()
    return buffers


@pytest.mark.torch
def test_an_unwritten_fp8_output_is_told_as_nan(problem: type[Problem]) -> None:
    torch = pytest.importorskip("torch")
    from profiler.worker.checks import judge_outputs
    from profiler.worker.launchable import Bound

    dims = {"T": 3, "H": 17}
    case = cpu_cases(problem).get(CONTRACT, dims, 1)
    buffers = cpu_buffers(problem, case, dims)
    buffers.tensors()["res"].copy_(case.reference["res"])
    buffers.tensors()["s"].copy_(case.reference["s"])
    bound = Bound(lambda: None, buffers.tensors)
    verdict = judge_outputs(problem, case, bound, buffers)
    assert verdict.status == "wrong_result"
    assert verdict.reason == "y has 51 NaN (never written, or computed so) of 51"
    assert (verdict.output, verdict.error) == ("y", math.inf)
    buffers.tensors()["y"].copy_(case.reference["y"].float().clamp(-448, 448))
    assert judge_outputs(problem, case, bound, buffers).status == "ok"
    buffers.tensors()["y"].view(torch.uint8)[1, 2] = 0x7F
    assert "y has 1 NaN" in judge_outputs(problem, case, bound, buffers).reason
    buffers.tensors()["s"][1] *= 1.001
    buffers.tensors()["y"].copy_(case.reference["y"].float().clamp(-448, 448))
    verdict = judge_outputs(problem, case, bound, buffers)
    assert verdict.reason.startswith("s[1] is")
    assert verdict.tolerance == case.tolerances["s"]


@pytest.mark.torch
def test_a_scale_hidden_in_fp8_rounding_is_seen_as_a_whole_and_rounding_itself_is_not() -> None:
    torch = pytest.importorskip("torch")
    from profiler.judge import aggregate

    exact = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 60

    def rounded(values: Any) -> Any:
        return values.clamp(-448, 448).float().to(torch.float8_e4m3fn)

    assert aggregate(rounded(exact), exact)[0]
    assert not aggregate(rounded(exact * 0.99), exact)[0]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        ("reference", lambda *a: {}, "reference leaves res out"),
        (
            "reference",
            lambda *a: 1 / 0,
            "Broken.reference raises ZeroDivisionError: division by zero (test_own_problem",
        ),
        ("inputs", lambda *a: {"x": None, "q": None}, "inputs returns 'q'; expected x, res, w"),
        ("tolerance", lambda *a: {"y": 1.0, "s": 1.0}, "tolerance gives none for res"),
        ("tolerance", lambda *a: 1e9, "the check is too weak at this size: zeros would pass"),
        ("magnitude", lambda *a: {}, "magnitude leaves res out"),
    ],
)
def test_what_is_wrong_with_a_problems_functions_is_its_own_fault(
    problem: type[Problem], function: str, value: Any, words: str
) -> None:
    pytest.importorskip("torch")
    from profiler.worker.cases import WeakCheck

    broken = type("Broken", (problem,), {function: staticmethod(value)})
    with pytest.raises(WeakCheck) as caught:
        cpu_cases(broken).get(CONTRACT, {"T": 3, "H": 17}, 1)
    assert words in str(caught.value)


@pytest.mark.torch
def test_shapes_and_types_that_differ_from_the_literals_are_told(problem: type[Problem]) -> None:
    torch = pytest.importorskip("torch")
    from profiler.worker.cases import WeakCheck

    class Wrong(problem):  # type: ignore[valid-type, misc]
        @classmethod
        def inputs(cls, *args: Any) -> Any:
            return {**super().inputs(*args), "w": torch.ones(17)}

    with pytest.raises(WeakCheck, match=r"Wrong.inputs: w is torch.float32, not torch.bfloat16"):
        cpu_cases(Wrong).get(CONTRACT, {"T": 3, "H": 17}, 1)

    class Flat(problem):  # type: ignore[valid-type, misc]
        @classmethod
        def reference(cls, *args: Any) -> Any:
            return {**super().reference(*args), "s": torch.ones(3, 1, dtype=torch.float64)}

    with pytest.raises(WeakCheck, match=r"s has the shape \(3, 1\), not \(3,\)"):
        cpu_cases(Flat).get(CONTRACT, {"T": 3, "H": 17}, 1)


@pytest.fixture
def function_file(tmp_path: Path) -> Path:
    """Return a file of functions that say how they were called."""
    path = tmp_path / "functions.py"
    path.write_text(
        "calls = []\n"
        "def by_out(*tensors, out, eps, dtype, size):\n    calls.append((tensors, out, eps, dtype, size))\n"
        "def one(*tensors, out):\n    return out[0]\n"
        "def both(*tensors, out):\n    return out[1], out[0]\n"
    )
    return path


@pytest.mark.torch
def test_a_function_gets_the_tensors_in_order_and_the_scalars_by_name(
    problem: type[Problem], function_file: Path
) -> None:
    pytest.importorskip("torch")
    from profiler.worker.launchable import LaunchError, PythonVariant

    spec = {"source": str(function_file), "params": {}, "dtype": CONTRACT}
    inputs: dict[str, Any] = {"x": "x", "w": "w"}
    outputs: dict[str, Any] = {"res": "res", "y": "y", "s": "s"}
    variant = PythonVariant({**spec, "function": "by_out"}, problem, {})
    bound = variant.bind(inputs, outputs, {"T": 1, "H": 2})
    bound.launch()
    assert variant._function.__globals__["calls"] == [(("x", "res", "w"), ("y", "s"), 1e-6, CONTRACT, {"T": 1, "H": 2})]
    assert bound.outputs() == outputs
    both = PythonVariant({**spec, "function": "both"}, problem, {}).bind(inputs, outputs, {})
    both.launch()
    assert both.outputs() == {"res": "res", "y": "s", "s": "y"}
    with pytest.raises(LaunchError, match="returns 1 results; expected y, s"):
        PythonVariant({**spec, "function": "one"}, problem, {}).bind(inputs, outputs, {}).launch()


def test_a_problem_whose_file_does_not_import_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text("from profiler.problem import Problem\nimport no_such_module\n")
    from profiler.model import ProblemRef

    with pytest.raises(UsageError, match=r"problem.py:2: ModuleNotFoundError"):
        problem_class(ProblemRef("problem.py:X", tmp_path / "problem.py", {}, (), (), {}))


@pytest.mark.parametrize(
    "body", ["import sys\nsys.exit(0)\n", "import sys\nsys.path.clear()\nraise ValueError('no')\n"]
)
def test_a_problems_file_can_neither_end_the_command_nor_hide_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    from profiler.model import ProblemRef

    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "problem.py").write_text(body)
    with pytest.raises(UsageError, match=r"problem.py:[23]: (SystemExit: 0|ValueError: no)"):
        problem_class(ProblemRef("problem.py:X", tmp_path / "problem.py", {}, (), (), {}))


@pytest.mark.parametrize(
    ("ctype", "value", "good"),
    [
        ("int32_t", "1.5", False),
        ("int", "2147483648", False),
        ("size_t", "-1", False),
        ("size_t", "3", True),
        ("float", "2", True),
    ],
)
def test_an_integer_scalar_is_a_whole_number(tmp_path: Path, ctype: str, value: str, good: bool) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        "class P:\n    name = 'p'\n    dims = ('N',)\n    dtypes = ('fp32',)\n"
        f"    args = (Out('y', 'N', 'float32'), Scalar('k', '{ctype}', {value}))\n"
    )
    if good:
        assert read_literals(path, "P").args[1].name == "k"
    else:
        with pytest.raises(ProblemFileError, match=r"problem.py:5: args\[1\]: value must be a whole number"):
            read_literals(path, "P")


def test_a_literal_of_any_depth_is_told(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(f"class P:\n    name = 'p'\n    dims = ({'-' * 900}1,)\n    dtypes = ('fp32',)\n    args = ()\n")
    with pytest.raises(
        ProblemFileError, match=r"problem.py:3: dims must be a literal, not an expression of this depth"
    ):
        read_literals(path, "P")
