"""An experiment from a bare file, the file that --init writes, and what both guess from a source."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.bare import BareFlags, bare_experiment, is_bare, notice
from profiler.draft import Draft
from profiler.errors import UsageError
from profiler.experiment import parse_experiment, place_of
from profiler.init_file import write_init
from profiler.model import ProblemRef
from profiler.problem_file import ProblemLiterals, literals_of
from profiler.source_guess import exports_launch, guess_call, guess_dtype, guess_problem, host_functions, tunable_macros

LAUNCH = """#include "gemm.h"
#ifndef TILE
#define TILE 32  // elements
#endif
#ifndef M
#define M 1
#endif
#ifndef NAME
#define NAME x
#endif
__global__ void k(const float *a) {}
extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) { return cudaSuccess; }
"""
SGEMM = """// launch(const Args *) stands in a comment only
__global__ void k(const float *A, float *C, int n) { C[0] = A[0] * n; }
static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
void run_sgemm(int m, int n, int k, float alpha, const float *A, const float *B, float beta, float *out,
               cudaStream_t s) {
    if (m > n) { return; }
    k<<<1, 32, 0, s>>>(A, out, n);
}
int main(int argc, char **argv) { return 0; }
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """Return a kernel that exports launch."""
    path = tmp_path / "05_tile 2d.cu"
    path.write_text(LAUNCH)
    return path


def gemm() -> ProblemLiterals:
    return literals_of(ProblemRef("gemm", None, {}, (), (), {}))


def test_what_is_bare() -> None:
    texts = ["k.cu", "a/b.cuh", "k.py:f", "k.py", "gemm_ladder", "a.yaml", "a.yaml:3", "k.cu.yaml", ""]
    assert [is_bare(text) for text in texts] == [True, True, True, True, False, False, False, False, False]


def test_a_bare_kernel_is_one_variant_and_the_usual_baseline(kernel: Path) -> None:
    flags = BareFlags("gemm", ("512,512,256", "M=8,N=16,K=32"), None, ("TILE=16",), ("layout=nt",))
    made = bare_experiment(str(kernel), flags)
    own, baseline = made.variants
    assert (made.name, own.name, own.source) == ("05_tile_2d", "05_tile_2d", kernel)
    assert (own.kind, own.dtype, dict(own.params), own.call) == ("cuda", "fp32", {"TILE": 16}, None)
    assert (baseline.name, baseline.function, dict(made.baseline)) == ("cublas_fp32", "matmul", {"fp32": "cublas_fp32"})
    assert made.problem.options == {"layout": "nt"}
    assert made.size_keys == ("M=512,N=512,K=256", "M=8,N=16,K=32")
    assert {"M": 67, "N": 131, "K": 35} in made.problem.check_sizes
    assert parse_experiment(made.text, kernel) == made  # so a run of it resumes
    assert notice(made, flags) == "05_tile 2d.cu: taken for granted: --dtype fp32"


def test_a_function_is_triton_or_python_and_needs_no_second_baseline(tmp_path: Path) -> None:
    (tmp_path / "cublas_bf16.py").write_text("def matmul(a, b, *, out): ...\n")
    (tmp_path / "t.py").write_text("import triton\ndef f(a, b, *, out): ...\n")
    python = bare_experiment(f"{tmp_path}/cublas_bf16.py:matmul", BareFlags("gemm"))
    assert [(v.name, v.kind, v.dtype) for v in python.variants] == [("cublas_bf16", "python", "bf16")]
    triton = bare_experiment(f"{tmp_path}/t.py:f", BareFlags("gemm", dtype="fp32"))
    assert [(v.name, v.kind) for v in triton.variants] == [("t", "triton"), ("cublas_fp32", "python")]


def test_a_contract_without_a_library_is_compared_with_the_one_it_stands_in_for(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import triton\ndef f(a, b, *, out): ...\n")
    made = bare_experiment(f"{tmp_path}/t.py:f", BareFlags("gemm", dtype="tf32x3"))
    assert [(v.name, v.dtype) for v in made.variants] == [("t", "tf32x3"), ("cublas_fp32", "fp32")]
    assert made.baseline == {"tf32x3": "cublas_fp32"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (BareFlags(), 'gemm? (the source includes "gemm.h")'),
        (BareFlags("gem"), 'did you mean "gemm"'),
        (BareFlags("problem.py:X"), "no file"),
        (BareFlags("gemm", ("4,5",)), "expected 3 numbers (M, N, K), found 2"),
        (BareFlags("gemm", ("4,5,-1",)), "'-1' is no whole number"),
        (BareFlags("gemm", ("M=4,N=5,L=6",)), "expected M, N, K"),
        (BareFlags("gemm", ("4,5,6", "4,5,6")), "--size: M=4,N=5,K=6 stands"),
        (BareFlags("gemm", dtype="fp23"), 'did you mean "fp32"'),
        (BareFlags("gemm", params=("TILE",)), "expected a name and a value"),
        (BareFlags("gemm", params=("M=3",)), "--set-param: M is a dim"),
        (BareFlags("gemm", params=("T=1", "T=2")), "given twice"),
        (BareFlags("gemm", options=("layot=nt",)), 'did you mean "layout"'),
        (BareFlags("gemm", options=("layout=xx",)), "is not one of nn, nt"),
        (BareFlags("gemm", call="f(A"), "--call: expected one call"),
    ],
)
def test_what_is_wrong_is_said_in_terms_of_the_flags(kernel: Path, flags: BareFlags, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        bare_experiment(str(kernel), flags)
    assert words in str(caught.value)
    assert ".cu:1" not in str(caught.value)


def test_a_missing_file_and_a_missing_function_are_told(kernel: Path) -> None:
    with pytest.raises(UsageError, match="did you mean"):
        bare_experiment(str(kernel.with_name("05_tile_2d.cu")), BareFlags("gemm"))
    (kernel.parent / "k.py").write_text("")
    with pytest.raises(UsageError, match="which function"):
        bare_experiment(str(kernel.parent / "k.py"), BareFlags("gemm"))


def test_a_problem_of_ones_own_has_no_usual_size(root: Path) -> None:
    source = root / "experiments/rmsnorm_quant/rmsnorm_quant.cu"
    with pytest.raises(UsageError, match="--size T,H"):
        bare_experiment(str(source), BareFlags("problem.py:RmsNormQuant"))
    made = bare_experiment(str(source), BareFlags("problem.py:RmsNormQuant", ("64,1000",)))
    assert made.variants[0].call == "rmsnorm_quant(x, res, w, y, s, T, H, eps, stream)"
    assert made.variants[0].dtype == "bf16->e4m3"
    assert place_of(made, made.variants[0], "call") == "--call"


def test_check_sizes_of_a_problem_with_many_dims() -> None:
    literals = replace(literals_of(ProblemRef("gemm", None, {}, (), (), {})), dims=tuple("ABCDEFG"))
    draft = Draft("mine", "cuda", "mine.cu", "problem.py:Mine", literals, "fp32")
    assert draft.check_sizes == [[67, 131, 35, 5, 3, 67, 131]]


def test_guesses(tmp_path: Path) -> None:
    assert guess_problem('#include "gemm.h"\n', tmp_path / "k.cu") is not None
    assert guess_problem("nothing", tmp_path / "k.cu") is None
    named = guess_problem("nothing", tmp_path / "my_sgemm.cu")
    assert named is not None
    assert (named.value, named.why) == ("gemm", "its name speaks of sgemm")
    literals = gemm()
    assert guess_dtype("__nv_bfloat16 *x; float y;", tmp_path / "k.cu", literals).value == "bf16"
    assert guess_dtype("// bf16\nfloat y;", tmp_path / "k.cu", literals).value == "fp32"
    assert guess_dtype("float y;", tmp_path / "bf16" / "k.cu", literals).value == "bf16"
    assert tunable_macros(LAUNCH, literals) == {"TILE": 32}
    assert exports_launch(LAUNCH)
    assert not exports_launch(SGEMM)
    assert [name for name, _ in host_functions(SGEMM)] == ["run_sgemm"]
    assert guess_call(SGEMM, literals) == "run_sgemm(M, N, K, 1.0f, A, B, 0.0f, C, stream)"
    assert guess_call(SGEMM.replace("float *out", "float *out, float *more"), literals) is None


@pytest.mark.parametrize("name", ["k.cu", "yes.cu", "10.cu", "a b'\"{}: #.cu", "ünï.cu", "1.10.cu"])
def test_init_writes_a_file_that_passes_the_checks(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LAUNCH)
    target, todo = write_init(str(tmp_path / name), BareFlags())
    made = parse_experiment(target.read_text(), target)
    assert todo == []
    assert made.variants[0].source == tmp_path / name
    assert dict(made.variants[0].params) == {"TILE": 32}
    assert 'kind: gemm  # guessed: the source includes "gemm.h"' in target.read_text()
    before = target.read_text()
    with pytest.raises(UsageError, match="is not overwritten"):
        write_init(str(tmp_path / name), BareFlags())
    assert target.read_text() == before


def test_init_says_what_it_could_not_guess(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(int *x) {}\n")
    target, todo = write_init(str(tmp_path / "k.cu"), BareFlags())
    assert [line.partition(":")[0] for line in todo] == ["problem", 'k.cu has no `extern "C" cudaError_t launch(const A'
                                                         "rgs *, void *, cudaStream_t)`"]  # fmt: skip
    assert "guessed: nothing in the source says so" in target.read_text()
    (tmp_path / "s.cu").write_text(SGEMM)
    target, todo = write_init(str(tmp_path / "s.cu"), BareFlags(problem="gemm", dtype="fp32"))
    assert todo == []
    made = parse_experiment(target.read_text(), target)
    assert (
        place_of(made, made.variants[0], "call") == f"s.yaml:{target.read_text().split('call:')[0].count(chr(10)) + 1}"
    )
    with pytest.raises(UsageError, match="expected a CUDA source"):
        write_init("gemm_ladder", BareFlags())


def test_shipped_kernels_are_guessed_right(root: Path) -> None:
    for path in sorted(
        path for dtype in ("fp32", "bf16", "fp16", "tf32x3") for path in (root / "kernels/gemm" / dtype).glob("*.cu")
    ):
        text = path.read_text()
        guess = guess_problem(text, path)
        assert guess is not None
        assert (guess.value, exports_launch(text)) == ("gemm", True)
        assert guess_dtype(text, path, gemm()).value == path.parent.name
        made = bare_experiment(str(path), BareFlags("gemm"))
        assert made.baseline == {path.parent.name: "cublas_" + path.parent.name.replace("tf32x3", "fp32")}


def test_a_table_of_numbers_is_passed_over_at_once() -> None:
    table = "const int table[] = {\n" + "1, 2, 3, 4,\n" * 20_000 + "};\n"
    started = time.process_time()
    assert [name for name, _ in host_functions(table + "void run(const float *a, float *c, int n) {\n}\n")] == ["run"]
    assert time.process_time() - started < 5  # 0.2 s; with every line read to the end of the table, 100 s
