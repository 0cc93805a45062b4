"""Bare kernels, --quick, --init, --header, `call:` and a problem of one's own, as a user meets them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler import gpu, pipeline, toolchain
from profiler.cli import run_experiment
from profiler.rundir import RunDir
from tests.fakes import with_gpu

FAKES = Path(__file__).resolve().parent.parent / "fakes"
KERNEL = """#include "gemm.h"
#ifndef TILE
#define TILE 32
#endif
extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) { return cudaSuccess; }
"""
PROBLEM = """from profiler.problem import In, Out, Problem, Scalar


class Scale(Problem):
    name = "scale"
    dims = ("N",)
    dtypes = ("fp32",)
    args = (In("x", "N", "float32"), Out("y", "N", "float32"), Scalar("a", "float", 2.0))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a kernel, where there is no GPU."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.cu").write_text(KERNEL)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    return folder


@pytest.fixture
def with_card(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the project on a machine that seems to have a GPU, whose tools are fakes."""
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setenv("FAKE_NCU", "perm")
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, str(FAKES / "worker.py")])
    return project


def invoke(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any, str]:
    """Run the command with --json; return its exit code, its document and what it said."""
    code = run_experiment.main([*args, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err


# -- bare files


def test_a_bare_kernel_runs_quickly_beside_its_baseline(with_card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, said = invoke(
        capsys, "mine.cu", "--problem", "gemm", "--size", "64,64,64", "--set-param", "TILE=16", "--quick"
    )
    assert code == 0, said
    assert {row["name"]: (row["status"], row["origin"]) for row in document["variants"]} == {
        "mine": ("ok", "measured"), "cublas_fp32": ("ok", "measured"),
    }  # fmt: skip
    assert all(row["ratio"] is not None for row in document["ladder"])
    assert document["experiment"] == "mine"
    assert "taken for granted: --dtype fp32" in said
    run = RunDir.open(Path(document["run"]))
    assert {name for name, stage in run.manifest["stages"].items() if stage["status"] == "done"} == {
        "build", "verify", "time",
    }  # fmt: skip
    checks = run.frame("checks")
    assert set(checks.loc[checks["variant"] == "mine", "when"]) == {"before", "after"}
    assert run.manifest["worker"]["started"] == 1
    code, again, _ = invoke(capsys, "mine.cu", "--resume", document["run"])
    assert code == 0
    assert again["run"] == document["run"]


def test_several_bare_kernels_give_one_run_each(with_card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (with_card / "other.cu").write_text(KERNEL + "int other;\n")
    flags = ["--problem", "gemm", "--size", "64,64,64", "--quick"]
    code, documents, _ = invoke(capsys, "mine.cu", "other.cu", *flags)
    assert code == 0
    assert [d["experiment"] for d in documents] == ["mine", "other"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["mine.cu"], "run_experiment mine.cu --problem gemm"),
        (["min.cu", "--problem", "gemm"], "did you mean mine.cu?"),
        (["mine.cu", "--problem", "gemm", "--size", "64"], "expected 3 numbers (M, N, K), found 1"),
        (["gemm_ladder", "--size", "64,64,64"], "--size is for a bare kernel.cu"),
        (["--init", "min.cu"], "did you mean mine.cu?"),
        (["--init", "gemm_ladder"], "expected a CUDA source"),
        (["--header", "gemm_ladder"], "choose with --dtype fp32"),
        (["--header", "gemm_ladder", "--only", "nave"], "no such variant"),
        (["--header", "gemm_ladder", "--dtype", "fp8"], "there are fp32, bf16"),
    ],
)
def test_a_bad_command_line_is_exit_2_with_the_next_step(
    project: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    code = run_experiment.main(args)
    captured = capsys.readouterr()
    assert code == 2
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert [path.name for path in project.iterdir()] == ["mine.cu"]


# -- --init and --header


def test_init_writes_once_and_its_file_passes_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_experiment.main(["--init", "mine.cu"]) == 0
    assert "wrote mine.yaml" in capsys.readouterr().err
    code, document, _ = invoke(capsys, "mine.yaml", "--check")
    assert code == 0
    assert [v["name"] for v in document["variants"]] == ["mine", "cublas_fp32"]
    (project / "mine.yaml").write_text("mine")
    assert run_experiment.main(["--init", "mine.cu"]) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert (project / "mine.yaml").read_text() == "mine"


def test_header_prints_what_a_variant_includes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_experiment.main(["--header", "gemm_ladder", "--only", "mma_sync"]) == 0
    text = capsys.readouterr().out
    assert "const __nv_bfloat16 *A;" in text
    assert text.startswith("// Generated")
    assert run_experiment.main(["--header", "gemm_ladder", "--dtype", "fp32"]) == 0
    assert "const float *A;" in capsys.readouterr().out


def test_header_and_check_do_not_run_the_problems_file(with_card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (with_card / "problem.py").write_text(
        "raise RuntimeError('a check must not run code of the experiment')\n" + PROBLEM
    )
    flags = ["--problem", "problem.py:Scale", "--size", "1000"]
    assert run_experiment.main(["mine.cu", *flags, "--check"]) == 0
    assert run_experiment.main(["--header", "mine.cu", *flags]) == 0
    assert "float a;" in capsys.readouterr().out
    assert run_experiment.main(["--init", "mine.cu", "--problem", "problem.py:Scale"]) == 0
    assert run_experiment.main(["mine.cu", *flags]) == 2
    assert "problem.py:1: RuntimeError" in capsys.readouterr().err


# -- a problem of one's own


def test_the_example_runs_from_end_to_end_and_is_reported(
    with_card: Path, capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    shutil.copytree(root / "experiments/rmsnorm_quant", with_card / "own")
    code, document, said = invoke(capsys, "own/rmsnorm_quant.yaml")
    assert code == 0, said
    assert {row["name"]: row["status"] for row in document["variants"]} == {
        "existing": "ok", "vectorised": "ok", "torch": "ok",
    }  # fmt: skip
    page = Path(document["report"]).read_text()
    assert "bf16-&gt;e4m3" in page
    assert all(row["ratio"] is not None for row in document["ladder"])
    manifest = RunDir.open(Path(document["run"])).manifest
    assert set(manifest["problem"]["flops"].values()) == {None}
    kept = Path(document["run"]) / "sources" / "existing"
    assert {path.name for path in kept.iterdir()} == {"generated_launch.cu", "rmsnorm_quant.cu", "rmsnorm_quant.h"}


def test_functions_of_a_problem_that_fail_are_one_line(with_card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROBLEM + "\n    @classmethod\n    def flops(cls, dims):\n        return dims['M']\n"
    (with_card / "problem.py").write_text(text)
    code = run_experiment.main(["mine.cu", "--problem", "problem.py:Scale", "--size", "1000"])
    said = capsys.readouterr().err
    assert code == 2
    assert "problem.py:Scale: its flops or min_bytes cannot be computed: KeyError: 'M'" in said
    assert not (with_card / "runs").exists()


# -- existing code, with the real compiler


CALL = """schema: 1
name: made
problem: {kind: problem.py:Scale, sizes: [[1000]]}
defaults: {dtype: fp32}
variants:
"""
SOURCE = """#include <cuda_runtime.h>
struct Args { int not_ours; };
void destroy(int *x) { *x = 0; }
__global__ void k(const float *in, float *out, float f, int n) {
    if (int i = blockIdx.x * 256 + threadIdx.x; i < n) out[i] = f * in[i];
}
cudaError_t scale(const float *in, float *out, float f, int n, cudaStream_t stream) {
    k<<<(n + 255) / 256, 256, 0, stream>>>(in, out, f, n);
    return cudaGetLastError();
}
"""


@pytest.mark.nvcc
def test_a_wrong_call_is_told_where_it_was_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "problem.py").write_text(PROBLEM)
    (project / "code").mkdir()
    (project / "code/scale.cu").write_text(SOURCE)
    (project / "code/broken.cu").write_text(SOURCE.replace("* in[i]", "* inn[i]"))
    calls = {
        "good": "scale(x, y, a, N, stream)",
        "few": "scale(x, y, a, N)",
        "type": "scale(x, a, y, N, stream)",
        "unknown": "scale(xx, y, a, N, stream)",
        "function": "scales(x, y, a, N, stream)",
        "inner": "scale(x, y, a, N, stream)",
    }
    lines = [
        f'  - {{name: {name}, cuda: code/{"broken" if name == "inner" else "scale"}.cu, call: "{call}"}}'
        for name, call in calls.items()
    ]
    (project / "made.yaml").write_text(CALL + "\n".join(lines) + "\n")
    code, document, _ = invoke(capsys, "made.yaml", "--stages", "build")
    assert code == 1
    told = {row["name"]: (row["status"], row["reason"]) for row in document["variants"]}
    assert told["good"][0] == "not_run"  # it builds, and there is no GPU
    assert {status for name, (status, _) in told.items() if name != "good"} == {"build_failed"}
    assert told["few"][1] == "made.yaml:7: call: scale(x, y, a, N): too few arguments in function call"
    assert told["type"][1].startswith("made.yaml:8: call: scale(x, a, y, N, stream): argument of type")
    assert told["unknown"][1].endswith('identifier "xx" is undefined (did you mean "x"?)')
    assert told["function"][1].startswith("made.yaml:10: call: ")
    assert told["function"][1].endswith("(besides the source's own names: x, y, a, N, stream)")
    assert told["inner"][1] == 'code/broken.cu:5: identifier "inn" is undefined'


@pytest.mark.nvcc
def test_the_example_builds(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, document, said = invoke(capsys, "rmsnorm_quant", "--stages", "build,static")
    built = RunDir.open(Path(document["run"])).manifest["builds"]
    assert set(built) == {"existing", "vectorised"}, said
    assert [facts["warnings"] for facts in built.values()] == [[], []]
