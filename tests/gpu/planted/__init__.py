"""Two experiments of one kernel under the same names: good before, with a fault planted in each variant after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

KERNEL = Path(__file__).resolve().parent / "planted.cu"
#: Variant -> the fault that is named -> what plants it. Each is good before; ``good`` stays so.
FAULTS: Mapping[str, tuple[str, Mapping[str, int], tuple[str, ...]]] = {
    "good": ("", {}, ()),
    "conflicts": ("bank_conflicts", {"PAD": 0}, ()),
    "narrow": ("vector_width", {"NARROW": 1}, ()),
    "spills": ("spills", {}, ("-maxrregcount=24",)),
    "occupancy": ("occupancy", {"EXTRA": 204800}, ()),
}


def write_experiments(folder: Path, size: tuple[int, int, int] = (2048, 2048, 1024)) -> tuple[Path, Path]:
    """Write both experiment files and their kernel into a folder; return their paths, before and after."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "planted.cu").write_text(KERNEL.read_text(encoding="utf-8"), encoding="utf-8")
    return _write(folder, "before", size, planted=False), _write(folder, "after", size, planted=True)


def _write(folder: Path, name: str, size: tuple[int, int, int], *, planted: bool) -> Path:
    variants: list[dict[str, Any]] = []
    for variant, (_, params, flags) in FAULTS.items():
        one: dict[str, Any] = {"name": variant, "cuda": "planted.cu"}
        if planted and params:
            one["params"] = dict(params)
        if planted and flags:
            one["build"] = {"flags": list(flags)}
        variants.append(one)
    experiment = {
        "schema": 1, "name": f"planted_{name}",
        "problem": {"kind": "gemm", "layout": "nn", "sizes": [list(size)], "check_sizes": [[64, 128, 48]]},
        "defaults": {"dtype": "fp32"}, "baseline": {"fp32": "good"}, "variants": variants,
    }  # fmt: skip
    path = folder / f"planted_{name}.yaml"
    path.write_text(yaml.safe_dump(experiment, sort_keys=False), encoding="utf-8")
    return path
