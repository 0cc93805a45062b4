"""Experiments that GPU tests make out of the shipped ones. Apart, so that a unit test says whether they are valid."""

from __future__ import annotations

from typing import Any

import yaml

from profiler import data_files

#: Grids of one tile, of one cluster that sticks out, of more tiles than multiprocessors; K from 8 to many stages.
_HOPPER = {
    "sizes": [[256, 512, 128], [2048, 4096, 1096]],
    "check_sizes": [[1, 8, 8], [129, 264, 72], [67, 131, 40], [4097, 4104, 64], [40, 20000, 136], [20001, 40, 4104]],
}
_LADDER = {
    "sizes": [[256, 384, 128]],
    "check_sizes": [[1, 1, 3], [67, 131, 35], [1000, 1001, 999], [129, 127, 513], [4, 4096, 17], [2048, 8, 256]],
}
#: Beyond 2^31 elements: experiment, a small size to be there, and what is checked.
_LARGE = {
    "reduce_sum": {"sizes": [[1, 4096]], "check_sizes": [[1, 2**31 + 5], [3, 715827887], [2**23 + 1, 257]]},
    "reduce_max": {"sizes": [[1, 4096]], "check_sizes": [[1, 2**31 + 5], [2**23 + 1, 257]]},
    "transpose": {"sizes": [[64, 64]], "check_sizes": [[46341, 46349], [46344, 46344]]},
}


def in_layout(layout: str) -> dict[str, Any]:
    """Return the rungs of gemm_ladder in a layout, at sizes that fit no tile."""
    experiment = _shipped("gemm_ladder")
    experiment["name"] = f"layout_{layout}"
    experiment["problem"] |= {"layout": layout, **_LADDER}
    return experiment


def hopper_rungs(dtype: str) -> dict[str, Any]:
    """Return the rungs of hopper_ladder, all in one contract, beside the library's; sizes that fit no tile."""
    experiment = _shipped("hopper_ladder")
    rungs = [v | {"dtype": dtype} for v in experiment["variants"] if "cuda" in v and "dtype" not in v]
    library = {"name": "library", "python": "gemm/torch_gemm.py:matmul", "dtype": dtype}
    experiment["name"] = f"hopper_{dtype}"
    experiment["problem"] |= _HOPPER
    return experiment | {"variants": [*rungs, library], "baseline": {dtype: "library"}}


def beyond_31_bits(name: str) -> dict[str, Any]:
    """Return an experiment checked at sizes of more than 2^31 elements, and measured at a small one."""
    experiment = _shipped(name)
    experiment["problem"] |= _LARGE[name]
    experiment["problem"].pop("check_distributions")
    return experiment


def _shipped(name: str) -> dict[str, Any]:
    """Return a shipped experiment without what speaks of its own sizes."""
    experiment: dict[str, Any] = yaml.safe_load((data_files.experiments() / f"{name}.yaml").read_text("utf-8"))
    experiment.pop("profile", None)
    experiment["measure"] = {"samples": 3, "warmup_ms": 10}
    return experiment
