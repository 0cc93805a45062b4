"""What notebooks use: two functions, light to import, documented by examples that run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import profiler
from profiler import frames
from profiler.errors import LadderError, UsageError
from tests import make_nsys
from tests.unit.ncu_samples import LADDER, sample

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "experiments" / "recorded" / "h200" / "gemm_ladder"
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8"), re.DOTALL)


def test_import_loads_no_pandas() -> None:
    code = (
        "import profiler, sys; print(sorted({'pandas', 'pyarrow', 'numpy', 'jinja2', 'ncu_report'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run() -> None:
    run = profiler.load_run(RECORDED)
    assert run.manifest["experiment"]["name"] == "gemm_ladder"
    for name in frames.FRAME_NAMES:
        assert list(run.frame(name).columns) == frames.columns(name)
    assert len(run.samples) > 100
    assert repr(run).startswith("RunFrames(gemm_ladder: variants ")
    with pytest.raises(KeyError):
        run.frame("nothing")
    with pytest.raises(AttributeError):
        run.samples = pd.DataFrame()  # type: ignore[misc]


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        profiler.load_run(tmp_path)
    with pytest.raises(LadderError, match="no line has the columns"):
        profiler.load_ncu_report(RECORDED / "manifest.json")


def test_a_report_has_the_shape_of_a_run() -> None:
    loaded = profiler.load_ncu_report(str(sample(LADDER)), all_metrics=True)
    for name in frames.FRAME_NAMES:
        assert list(loaded.frame(name).columns) == frames.columns(name)
    assert len(loaded.samples) == 0
    assert list(loaded.variants["name"]) == ["launch_naive", "launch_smem", "cublas_fp32", "cublas_bf16", "cublas_fp8"]
    raw = loaded.metrics[loaded.metrics["metric"] == "ncu.smsp__inst_executed.avg"]
    assert len(raw) == 5
    assert loaded.metrics["metric"].str.startswith("ncu.").sum() > 3000
    assert loaded.source["sass"].str.contains("FFMA").any()


def test_without_sass() -> None:
    fast = profiler.load_ncu_report(sample(LADDER), sass=False)
    assert len(fast.source) == 4915
    assert fast.source["sass"].isna().all()
    assert not fast.metrics["metric"].str.startswith("ncu.").any()


def test_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","k","1.5"\n')
    loaded = profiler.load_ncu_report(path)
    duration = loaded.metrics[loaded.metrics["metric"] == "duration"]["value"].iloc[0]
    assert duration == pytest.approx(1.5e-6)
    assert loaded.manifest["foreign"]["kind"] == "csv raw"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_documented_examples_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES[number]
    if "gemm.ncu-rep" in example:
        shutil.copy(sample(LADDER), tmp_path / "gemm.ncu-rep")
    if "app.sqlite" in example:
        make_nsys.large(tmp_path / "app.sqlite", 200)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(example, f"example {number}", "exec"), found)  # the example is the project's own text
    result = next(found[name] for name in ("medians", "table", "hot", "longest") if name in found)
    assert len(result) > 0
    assert not result.isna().all().all() if isinstance(result, pd.DataFrame) else (result > 0).all()


def test_there_are_four_examples() -> None:
    assert len(EXAMPLES) == 4
