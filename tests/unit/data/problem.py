"""A problem of a user's own. Importing this file fails, and no check may notice."""

from profiler import problem
from profiler.problem import In, InOut, Out, Problem, Scalar

raise RuntimeError("a check must not run code of the experiment")


class Norm(Problem):
    name = "rmsnorm_quant"
    dims = ("T", "H")
    options = {"residual": ("add", "none")}  # noqa: RUF012
    dtypes = ("bf16->e4m3", "fp16")
    args = (
        In("x", "T H", {"bf16->e4m3": "bfloat16", "fp16": "float16"}),
        problem.In("w", "H", dtype="float32"),
        InOut("res", shape="T H", dtype={"bf16->e4m3": "bfloat16", "fp16": "float16"}),
        Scalar("eps", "float", 1e-5),
        Scalar("groups", "int32_t", {"bf16->e4m3": 4, "fp16": 1}),
        Out("y", "T H", {"bf16->e4m3": "float8_e4m3fn", "fp16": "float16"}),
        Out("s", {"residual=add": "T", "residual=none": "T 1"}, "float32"),
    )


class Broken(Problem):
    name = "Not A Name"
    dims = ("M", "M")
    options = {"kind": ("a",)}  # noqa: RUF012
    dtypes = tuple(["fp32"])
    args = (In("A", "M Q", "float31"), Out("A", "M"), 3, Scalar("x", "long", "1"))


class Disagrees(Problem):
    name = "disagrees"
    dims = ("M", "N")
    options = {"layout": ("nn", "nt")}  # noqa: RUF012
    dtypes = ("fp32", "bf16")
    args = (
        In("A", {"layout=nn": "M N"}, {"fp32": "float32"}),
        In("int", "M Q", "float31"),
        In("M", "N", "float32"),
    )
