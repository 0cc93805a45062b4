"""Problems of which several answers are right: outputs are compared in a form of their own; sizes are refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors  # noqa: E402
from profiler.problem_file import ProblemFileError, read_literals  # noqa: E402
from profiler.problems.topk import TopK  # noqa: E402
from profiler.worker.buffers import Guarded  # noqa: E402
from profiler.worker.cases import Cases, WeakCheck  # noqa: E402
from profiler.worker.checks import Buffers, Verdict, judge_outputs  # noqa: E402

DIMS = {"B": 2, "N": 9, "K": 3}


def judged(change: Any) -> Verdict:
    case = Cases(TopK, {}, {}, device="cpu").get("fp32", DIMS, 1)
    values, indices = torch.topk(case.inputs["x"], 3, dim=1)
    outputs = {"values": values, "indices": indices}
    change(outputs)
    guarded = {
        name: Guarded.empty((2, 3), dtype, "cpu")
        for name, dtype in (("values", torch.float32), ("indices", torch.int64))
    }
    bound: Any = SimpleNamespace(outputs=lambda: outputs)
    return judge_outputs(TopK, case, bound, Buffers({}, guarded))


def test_a_verdict_names_the_output_and_what_was_written() -> None:
    assert judged(lambda outputs: None).status == "ok"

    def too_far(outputs: Tensors) -> None:
        outputs["indices"][1, 2] = 9

    verdict = judged(too_far)
    assert (verdict.status, verdict.output) == ("wrong_result", "indices")
    assert verdict.reason.startswith("indices[1, 2] is 1e+300, the reference ")
    assert verdict.reason.endswith(" (for the output 9)")

    def never_written(outputs: Tensors) -> None:
        outputs["values"].fill_(float("nan"))

    assert judged(never_written).reason == "values has 6 NaN (never written, or computed so) of 6"

    def narrow(outputs: Tensors) -> None:
        outputs["indices"] = outputs["indices"].int()

    assert judged(narrow).reason == "indices is torch.int32 (2, 3), not torch.int64 (2, 3)"


class Sign(Problem):
    """y = +x or -x: both are right."""

    name = "sign"
    dims = ("N",)
    dtypes = ("fp32",)
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("x", "N", "float32"), Out("y", "N", "float32"))
    dropped: ClassVar[bool] = False

    @classmethod
    def inputs(cls, dims: Any, contract: Any, options: Any, init: Any, seed: Any, device: Any) -> Tensors:
        return {"x": torch.arange(1.0, dims["N"] + 1.0)}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Any, options: Any) -> Tensors:
        return {"y": inputs["x"].double()}

    magnitude = reference

    @classmethod
    def tolerance(cls, dims: Any, contract: str) -> float:
        return 0.0

    @classmethod
    def canonical(cls, outputs: Tensors, inputs: Tensors) -> Tensors:
        return {} if cls.dropped else {"y": outputs["y"].abs()}

    @classmethod
    def mutations(cls, inputs: Tensors, reference: Tensors, dims: Any, options: Any) -> list[Mutation]:
        return [Mutation("twice", {"y": reference["y"] * 2})]


def test_mutations_are_compared_in_the_same_form() -> None:
    Cases(Sign, {}, {}, device="cpu").get("fp32", {"N": 4}, 0)

    class Negated(Sign):
        @classmethod
        def mutations(cls, inputs: Tensors, reference: Tensors, dims: Any, options: Any) -> list[Mutation]:
            return [Mutation("negated", {"y": -reference["y"]})]

    with pytest.raises(WeakCheck, match="negated would pass"):
        Cases(Negated, {}, {}, device="cpu").get("fp32", {"N": 4}, 0)


def test_a_form_that_leaves_an_output_out_is_the_problems_fault() -> None:
    class Dropped(Sign):
        dropped = True

    with pytest.raises(WeakCheck, match=r"Dropped.canonical must return y in its shape \(4,\)"):
        Cases(Dropped, {}, {}, device="cpu").get("fp32", {"N": 4}, 0)


def test_conditions_of_a_problem_are_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    text = (
        "from profiler.problem import In, Out, Problem\n\n\nclass Mine(Problem):\n"
        '    name = "mine"\n    dims = ("N", "K")\n    dtypes = ("fp32",)\n'
        '    args = (In("x", "N", "float32"), Out("y", "K", "float32"))\n'
        '    requires = ("K <= N", "N % 4 == 0")\n'
    )
    file.write_text(text, encoding="utf-8")
    assert read_literals(file, "Mine").requires == ("K <= N", "N % 4 == 0")
    file.write_text(text.replace("K <= N", "K <= M"), encoding="utf-8")
    with pytest.raises(ProblemFileError) as caught:
        read_literals(file, "Mine")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("problem.py:9: requires: 'K <= M': ")
