"""The build and static stages with compilers that fail in every way we know, and (marked nvcc) with the real one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler import frames, occupancy, toolchain
from profiler.build import build_folder, build_stage
from profiler.errors import LadderError
from profiler.model import BuildOptions, Experiment, Measure, ProblemRef, ProfileOptions, Variant
from profiler.problems.gemm import Gemm
from profiler.run import Run, Settings
from profiler.rundir import RunDir
from profiler.static import STATIC_LISTINGS, static_stage
from profiler.static_metrics import described
from profiler.toolchain import Places, Toolchain, find_toolchain
from tests import golden

FAKES = Path(__file__).resolve().parent.parent / "fakes"
KERNEL = '#include "gemm.h"\n__global__ void k(float *o) { o[0] = 1; }\n'
NOWHERE = Places((), cuda="/nowhere/*", nsight_compute="/nowhere/*", nsight_systems="/nowhere/*")
LAUNCH = """extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    k<<<1, 32, 0, stream>>>(args->C);
    return cudaGetLastError();
}
"""


@pytest.fixture
def fake_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let every tool be a fake; return the file that keeps the calls of nvcc."""
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    calls = tmp_path / "calls.jsonl"
    monkeypatch.setenv("FAKE_NVCC_CALLS", str(calls))
    monkeypatch.setenv("FAKE_CUOBJDUMP_SASS", str(golden.GOLDEN / "sass/cuda13_two_archs.txt"))
    monkeypatch.setenv("FAKE_CUOBJDUMP_ELF", str(golden.GOLDEN / "cuobjdump/elf_two_archs.txt"))
    monkeypatch.setenv("FAKE_CUOBJDUMP_USAGE", str(golden.GOLDEN / "cuobjdump/res_usage_two_archs.txt"))
    return calls


class Bench:
    """A project folder, and runs of what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.said: list[str] = []
        self._count = 0

    def variant(self, name: str, text: str = KERNEL, *, file: str | None = None, **more: Any) -> Variant:
        """Write a source and return its variant."""
        path = self.folder / (file or f"{len(list(self.folder.iterdir()))}.cu")
        path.write_text(text, encoding="utf-8")
        return Variant(name, "cuda", "fp32", path, **more)

    def run(self, *variants: Variant, tools: Toolchain | None = None, **settings: Any) -> Run:
        """Return a run of the variants, built."""
        run = self.prepared(*variants, tools=tools, **settings)
        build_stage(run)
        return run

    def prepared(self, *variants: Variant, tools: Toolchain | None = None, **settings: Any) -> Run:
        """Return a run of the variants, before any stage."""
        self._count += 1
        problem = ProblemRef("gemm", None, {"layout": "nn"}, ({"M": 64, "N": 64, "K": 64},), (), {"seed": 0})
        experiment = Experiment(
            self.folder / "e.yaml", "", "e", "E", problem, {}, Measure(), ProfileOptions(), False, variants
        )
        directory = RunDir.create(self.folder.parent / f"run{self._count}", {"arch": "sm_90a"})
        rows = [
            {"name": v.name, "kind": v.kind, "dtype": v.dtype, "status": "ok", "reason": "", "order": i}
            for i, v in enumerate(variants)
        ]
        directory.write_frame("variants", rows)
        if tools is None:
            tools = find_toolchain(places=NOWHERE if toolchain.PINNED in os.environ else None)
        return Run(experiment, Gemm, directory, Settings(**settings), tools, None, self.said.append)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return an empty project folder."""
    return Bench(tmp_path / "project")


def rows(run: Run) -> dict[str, dict[str, Any]]:
    """Return the rows of the frame variants by name."""
    return {row["name"]: row for row in frames.rows_of(run.dir.frame("variants"))}


def compiled(calls: Path) -> int:
    """Return how often nvcc compiled."""
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def metrics(run: Run, variant: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return a variant's rows of the frame metrics by kernel and metric."""
    found = frames.rows_of(run.dir.frame("metrics"))
    return {(row["kernel"] or "", row["metric"]): row for row in found if row["variant"] == variant}


FAULTS: Mapping[str, tuple[str, str]] = {
    "error": ("build_failed", 'error.cu:2: identifier "zz" is undefined'),
    "ptx": ("build_failed", "ptxas: Unknown modifier '.bar' (in inline PTX)"),
    "shared": ("build_failed", "80000 bytes of static shared memory, 49152 allowed"),
    "gnu": ("build_failed", "nvcc 13.0.88 does not accept host compiler 12.2.0"),
    "arch": ("build_failed", "nvcc 13.0.88 builds for sm_75, sm_80, sm_90"),
    "option": ("build_failed", "Unknown option '-foo' (from build.flags)"),
    "link": ("build_failed", "cannot find -lnope: No such file or directory (from build.link)"),
    "silent": ("build_failed", "nvcc reported success and wrote no library"),
    "empty": ("build_failed", "unusable library"),
    "mute": ("build_failed", "nvcc ended with exit code 1: and said nothing"),
    "crash": ("build_failed", "nvcc ended with killed by SIGSEGV"),
    "no_launch": ("build_failed", 'no_launch.cu exports no extern "C" launch'),
}


@pytest.mark.usefixtures("fake_tools")
def test_each_failure_ends_one_variant_and_says_why(bench: Bench) -> None:
    faults = [bench.variant(name, f"// FAKE_NVCC: {name}\n{KERNEL}", file=f"{name}.cu") for name in FAULTS]
    run = bench.run(*faults, bench.variant("good"), Variant("gone", "cuda", "fp32", bench.folder / "gone.cu"))
    state = rows(run)
    for name, (status, reason) in FAULTS.items():
        assert state[name]["status"] == status, name
        assert reason in state[name]["reason"], name
        assert "\n" not in state[name]["reason"]
        assert str(bench.folder.parent) not in state[name]["reason"]
    assert state["good"]["status"] == "ok"
    assert list(run.builds) == ["good"]
    assert state["gone"]["status"] == "build_failed"
    assert "gone.cu: No such file or directory" in state["gone"]["reason"]
    log = (run.dir.path / "raw/build/error.log").read_text()
    assert "1 error detected" in log


@pytest.mark.usefixtures("fake_tools")
def test_an_error_in_a_header_is_named_by_its_own_file(bench: Bench) -> None:
    (bench.folder / "src").mkdir()
    (bench.folder / "common.cuh").write_text("oops\n")
    text = f'// FAKE_NVCC: header\n#include "../common.cuh"\n{KERNEL}'
    state = rows(bench.run(bench.variant("v", text, file="src/k.cu")))
    assert state["v"]["reason"] == "common.cuh:1: expected a declaration"


@pytest.mark.usefixtures("fake_tools")
def test_a_compiler_that_hangs_is_ended_with_its_children(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVCC_PID", str(tmp_path / "pid"))
    hanging = bench.variant("hanging", f"// FAKE_NVCC: hang\n{KERNEL}")
    started = time.monotonic()
    state = rows(bench.run(hanging, bench.variant("good"), timeout_s=2.0))
    assert time.monotonic() - started < 10
    assert (state["hanging"]["status"], state["good"]["status"]) == ("timeout", "ok")
    assert state["hanging"]["reason"] == "nvcc did not finish within 2 s"
    grandchild = Path(f"/proc/{(tmp_path / 'pid').read_text()}")
    assert not grandchild.exists() or "zombie" in (grandchild / "status").read_text()


@pytest.mark.usefixtures("fake_tools")
def test_an_interrupt_ends_the_compilers(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVCC_PID", str(tmp_path / "pid"))
    run = bench.prepared(bench.variant("hanging", f"// FAKE_NVCC: hang\n{KERNEL}"))

    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build_stage(run)
    assert time.monotonic() - started < 10
    grandchild = Path(f"/proc/{(tmp_path / 'pid').read_text()}")
    assert not grandchild.exists() or "zombie" in (grandchild / "status").read_text()
    assert list(build_folder("x").parent.rglob("*.partial")) == []


def test_what_is_unchanged_is_not_built_again(bench: Bench, fake_tools: Path) -> None:
    variant = bench.variant("v", '#include "part.cuh"\n' + KERNEL)
    part = bench.folder / "part.cuh"
    part.write_text("#define A 1\n")
    first = bench.run(variant)
    assert (compiled(fake_tools), first.builds["v"]["cached"]) == (1, False)
    again = bench.run(variant)
    assert (compiled(fake_tools), again.builds["v"]["cached"]) == (1, True)
    assert again.builds["v"]["key"] == first.builds["v"]["key"]
    bench.run(variant, force=True)
    assert compiled(fake_tools) == 2
    part.write_text("#define A 2\n")
    bench.run(variant)
    assert compiled(fake_tools) == 3
    bench.run(replace(variant, params={"BM": 64}))
    assert compiled(fake_tools) == 4
    bench.run(replace(variant, build=BuildOptions(arch="sm_80")))
    assert compiled(fake_tools) == 5


@pytest.mark.parametrize("damage", ["truncated", "altered", "no_record", "bad_record"])
def test_a_damaged_cache_entry_is_built_again(bench: Bench, fake_tools: Path, damage: str) -> None:
    variant = bench.variant("v")
    folder = build_folder(bench.run(variant).builds["v"]["key"])
    library, record = folder / "variant.so", folder / "command.json"
    if damage == "truncated":
        library.write_bytes(library.read_bytes()[:40])
    elif damage == "altered":
        library.write_bytes(library.read_bytes().replace(b"launch", b"hacked"))
    elif damage == "no_record":
        record.unlink()
    else:
        record.write_text("[]")
    assert rows(bench.run(variant))["v"]["status"] == "ok"
    assert compiled(fake_tools) == 2


def test_two_runs_at_once_share_a_cache(bench: Bench, fake_tools: Path) -> None:
    variants = [bench.variant(f"v{i}", f"{KERNEL}// {i}\n") for i in range(4)]
    runs = [bench.prepared(*variants, force=True) for _ in range(4)]
    threads = [threading.Thread(target=build_stage, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs:
        assert {row["status"] for row in rows(run).values()} == {"ok"}
        assert len(run.builds) == 4
    assert compiled(fake_tools) == 16
    leftovers = [path for path in build_folder("x").parent.rglob("*.partial")]
    assert leftovers == []


def test_without_a_compiler_variants_are_not_run_unless_built_before(bench: Bench, fake_tools: Path) -> None:
    known, new = bench.variant("known"), bench.variant("new", KERNEL + "// new\n")
    bench.run(known)
    broken = "/opt/cuda-9/bin/nvcc --version ended with exit code 1; install the CUDA toolkit"
    none = Toolchain(missing=(("nvcc", broken),))
    run = bench.run(known, new, tools=none)
    state = rows(run)
    assert state["known"]["status"] == "ok"
    assert run.builds["known"]["compiler"] == "nvcc 13.0.88, g++ 12.2.0"
    assert state["new"]["status"] == "not_run"
    said = "not built: nvcc --version ended with exit code 1; install the CUDA toolkit"
    assert state["new"]["reason"] == said  # of the machine's folders, only the terminal speaks
    assert compiled(fake_tools) == 1


@pytest.mark.usefixtures("fake_tools")
def test_without_a_host_compiler_variants_are_not_run(bench: Bench) -> None:
    tools = replace(
        find_toolchain(places=NOWHERE), host_compiler=None, missing=(("host_compiler", "none; install g++"),)
    )
    state = rows(bench.run(bench.variant("v"), tools=tools))
    assert (state["v"]["status"], state["v"]["reason"]) == ("not_run", "not built: none; install g++")


@pytest.mark.usefixtures("fake_tools")
def test_a_cache_that_cannot_be_written_ends_the_command_with_a_hint(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache/kernel-ladder").mkdir(mode=0o700, parents=True)
    (tmp_path / "cache/kernel-ladder/builds").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(LadderError, match="cannot use the build cache") as caught:
        bench.run(bench.variant("v"))
    assert "XDG_CACHE_HOME" in caught.value.hint


@pytest.mark.usefixtures("fake_tools")
def test_what_was_built_is_kept_without_paths_of_this_machine(bench: Bench, tmp_path: Path) -> None:
    (bench.folder / "inc").mkdir()
    (bench.folder / "inc/lib.cuh").write_text("// lib\n")
    elsewhere = (f"-isystem={tmp_path}/sp ace/lib", f"-Xlinker=-rpath,{tmp_path}/lib")
    options = BuildOptions(include=(bench.folder / "inc",), flags=elsewhere, link=(f"-L{tmp_path}/lib", "-lx"))
    variant = bench.variant('reg<8x8> & "fast"/v1', f'#include "lib.cuh"\n{KERNEL}', file="k.cu", build=options)
    plain = Variant("python", "python", "fp32", bench.folder / "f.py", "matmul")
    (bench.folder / "f.py").write_text("def matmul(a, b, out): ...\n")
    run = bench.run(variant, plain)
    facts = run.builds[variant.name]
    assert str(tmp_path) not in json.dumps(run.dir.manifest)
    assert facts["command"][-5:] == ["-o", "variant.so", "k.cu", "-Llib", "-lx"]
    assert {"-isystem=lib", "-Xlinker=-rpath,lib", "-Iinc"} <= set(facts["command"])
    assert facts["files"] == {"k.cu": "k.cu", "include_0/lib.cuh": "inc/lib.cuh"}
    assert facts["exports"] == ["launch", "workspace_bytes"]
    kept = sorted(
        path.relative_to(run.dir.path / "sources").parts[1:] for path in run.dir.path.glob("sources/*/**/*.*")
    )
    assert kept == [("f.py",), ("gemm.h",), ("include_0", "lib.cuh"), ("k.cu",)]


@pytest.mark.usefixtures("fake_tools")
def test_static_rows_of_a_built_variant(bench: Bench) -> None:
    text = f"// FAKE_NVCC: serialised\n{KERNEL}"
    run = bench.run(bench.variant("v", text, build=BuildOptions(refuse=())))
    assert "C7510" in run.builds["v"]["warnings"][0]
    static_stage(run)
    found = metrics(run, "v")
    kernels = {kernel for kernel, _ in found} - {""}
    assert len(kernels) == 1
    (kernel,) = kernels
    assert kernel == "tile(float*)" or kernel == "_Z4tilePf"
    assert found[kernel, "ptxas.registers"]["value"] == 32
    assert found[kernel, "ptxas.shared_bytes"]["unit"] == "byte"
    assert found[kernel, "ptxas.spill_store_bytes"]["value"] == 0
    assert found["", "ptxas.wgmma_serialised"]["value"] == 1
    assert rows(run)["v"]["binary_hash"] is not None


@pytest.mark.usefixtures("fake_tools")
def test_serialised_wgmma_fails_the_build_unless_it_is_asked_for(bench: Bench) -> None:
    variant = bench.variant("v", f"// FAKE_NVCC: serialised\n{KERNEL}")
    for run in (bench.run(variant), bench.run(variant)):  # compiled, then from the cache
        row = rows(run)["v"]
        assert row["status"] == "build_failed"
        assert row["reason"].startswith("ptxas serialises wgmma: C7510 Potential Performance Loss")
        assert run.builds == {}
    again = bench.run(replace(variant, build=BuildOptions(refuse=())))  # the same entry of the cache, accepted
    assert rows(again)["v"]["status"] == "ok"
    assert again.builds["v"]["cached"]


@pytest.mark.parametrize(
    ("how", "why", "said"),
    [
        ("fail", "failed", "cuobjdump ended with exit code 1: cuobjdump fatal   : Could not find nvdisasm in PATH"),
        ("absent", "not_collected", "cuobjdump was not found; pip install it"),
        ("hang", "failed", "cuobjdump did not finish within 1 s"),
        ("empty", "failed", "cuobjdump -sass printed nothing"),
    ],
)
@pytest.mark.usefixtures("fake_tools")
def test_without_a_disassembler_the_rest_remains(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str, why: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_CUOBJDUMP", how)
    tools = find_toolchain(places=NOWHERE)
    if how == "absent":
        tools = replace(tools, cuobjdump=None, missing=(("cuobjdump", "cuobjdump was not found; pip install it"),))
    run = bench.run(bench.variant("a"), bench.variant("b", KERNEL + "//\n"), tools=tools)
    run.settings = replace(run.settings, timeout_s=1.0)
    bench.said.clear()
    static_stage(run)
    assert bench.said == [f"no machine code: {said}"]
    for name in ("a", "b"):
        found = {metric: row for (_, metric), row in metrics(run, name).items()}
        assert found["ptxas.registers"]["value"] == 32
        assert found["sass.instructions"]["value"] is None
        assert found["sass.instructions"]["why"] == why
        assert rows(run)[name]["status"] == "ok"
        assert rows(run)[name]["binary_hash"] is None


@pytest.mark.usefixtures("fake_tools")
def test_static_stage_again_replaces_its_rows(bench: Bench) -> None:
    run = bench.run(bench.variant("v"))
    static_stage(run)
    first = len(run.dir.frame("metrics"))
    static_stage(run)
    assert len(run.dir.frame("metrics")) == first > 0
    assert all((build_folder(run.builds["v"]["key"]) / name).is_file() for name in STATIC_LISTINGS)


TRITON = "def matmul(): ...\ndef compile_for(sizes, dtype, *, arch=0):\n    {body}\n"


@pytest.mark.parametrize(
    ("text", "installed", "why", "said"),
    [
        ("def matmul(): ...\n", True, "not_applicable", ""),
        (TRITON.format(body="return {}"), False, "not_collected", "Triton is not installed"),
        (TRITON.format(body="raise ValueError('no such dtype')"), True, "failed", "ValueError: no such dtype"),
        (TRITON.format(body="import os; os._exit(7)"), True, "failed", "exit code 7"),
    ],
)
@pytest.mark.usefixtures("fake_tools")
def test_triton_without_cubins_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, text: str, installed: bool, why: str, said: str
) -> None:
    run = triton_run(bench, monkeypatch, text, installed=installed)
    (row,) = metrics(run, "t").values()
    assert (row["metric"], row["value"], row["why"]) == ("sass.instructions", None, why)
    assert said in "\n".join(bench.said)


@pytest.mark.usefixtures("fake_tools")
def test_triton_cubins_are_analysed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "assert (sizes, dtype, arch) == ([{'M': 64, 'N': 64, 'K': 64}], 'fp32', 90); return {'a b': b'cubin'}"
    run = triton_run(bench, monkeypatch, TRITON.format(body=body), installed=True)
    found = metrics(run, "t")
    assert found["_Z11local_arrayPfPKi", "ptxas.registers"]["value"] == 22
    assert found["_Z11local_arrayPfPKi", "ptxas.spill_load_bytes"]["why"] == "not_collected"
    assert found["_Z4tileILi64ELi128EEvPf", "sass.max_threads"]["value"] == 256
    assert rows(run)["t"]["binary_hash"] is not None


@pytest.mark.usefixtures("fake_tools")
def test_triton_cubins_without_a_disassembler_say_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUOBJDUMP", "fail")
    run = triton_run(bench, monkeypatch, TRITON.format(body="return {'a': b'cubin'}"), installed=True)
    (row,) = metrics(run, "t").values()
    assert (row["metric"], row["value"], row["why"]) == ("sass.instructions", None, "failed")
    assert "Could not find nvdisasm" in "\n".join(bench.said)


@pytest.mark.usefixtures("fake_tools")
def test_triton_is_compiled_in_a_folder_whose_names_are_ours(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.folder.parent / "profiler.py").write_text("raise SystemExit('the wrong profiler')\n")
    monkeypatch.chdir(bench.folder.parent)
    run = triton_run(bench, monkeypatch, TRITON.format(body="return {'a': b'cubin'}"), installed=True)
    assert metrics(run, "t")["_Z11local_arrayPfPKi", "ptxas.registers"]["value"] == 22


@pytest.mark.usefixtures("fake_tools")
def test_a_kernel_that_the_listing_lacks_says_why(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.txt").write_text("code for sm_90a\n\t\tFunction : other\n")
    monkeypatch.setenv("FAKE_CUOBJDUMP_SASS", str(tmp_path / "other.txt"))
    run = bench.run(bench.variant("v"))
    static_stage(run)
    found = {metric: row for (_, metric), row in metrics(run, "v").items()}
    assert found["ptxas.registers"]["value"] == 32
    assert (found["sass.instructions"]["value"], found["sass.instructions"]["why"]) == (None, "failed")


@pytest.mark.usefixtures("fake_tools")
def test_a_cache_that_was_removed_between_two_stages_is_one_line(bench: Bench) -> None:
    run = bench.run(bench.variant("v"))
    shutil.rmtree(build_folder("x").parent)
    with pytest.raises(LadderError, match="v: its build is no longer in the cache"):
        static_stage(run)


def test_what_a_killed_run_left_is_in_nobodys_way(
    bench: Bench, fake_tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = bench.variant("v")
    monkeypatch.setattr("profiler.build.threading", SimpleNamespace(get_ident=lambda: 7))
    left = build_folder(bench.run(variant).builds["v"]["key"]) / f".{os.getpid()}.7.partial"
    left.mkdir()
    (left / "variant.so").write_text("half")
    assert rows(bench.run(variant, force=True))["v"]["status"] == "ok"
    assert not left.exists()
    assert compiled(fake_tools) == 2


def triton_run(bench: Bench, monkeypatch: pytest.MonkeyPatch, text: str, *, installed: bool) -> Run:
    """Return a run whose only variant is a Triton file, analysed; ``triton`` is an empty stand-in."""
    stub = bench.folder.parent / "site"
    (stub / "triton").mkdir(parents=True)
    if installed:
        (stub / "triton/__init__.py").write_text("")
        monkeypatch.setenv("PYTHONPATH", str(stub))
    else:  # hides a real one
        (stub / "sitecustomize.py").write_text(
            "import importlib.util as u\nfind = u.find_spec\n"
            "u.find_spec = lambda n, *a: None if n == 'triton' else find(n, *a)\n"
        )
        (stub / "triton").rmdir()
        monkeypatch.setenv("PYTHONPATH", str(stub))
    (bench.folder / "t.py").write_text(text)
    run = bench.run(Variant("t", "triton", "fp32", bench.folder / "t.py", "matmul"))
    static_stage(run)
    return run


# --- with the real tools -------------------------------------------------------------------------------------------

ARRAY = """#include "gemm.h"
__global__ void __launch_bounds__(128) k(float *o) {
    float a[64];
    for (int i = 0; i < 64; ++i) a[i] = 0;
#pragma unroll 1
    for (int i = 0; i < 100; ++i) a[static_cast<int>(o[i]) & 63] += o[i];
    for (int i = 0; i < 64; ++i) o[i] = a[i];
}
"""


@pytest.mark.nvcc
def test_real_compiler_in_a_folder_with_an_awkward_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "sp ace" / "ünï (1)")
    (bench.folder / "mine").mkdir()
    (bench.folder / "mine/part.cuh").write_text("__device__ inline float one() { return 1.0f; }\n")
    good = bench.variant('reg<8x8> & "fast"/v1', '#include "mine/part.cuh"\n' + KERNEL + LAUNCH)
    call = bench.variant(
        "call",
        "__global__ void k(const float *a, float *c, int64_t n) { c[threadIdx.x] = a[0] * n; }\n"
        "void f(const float *a, float *c, int64_t n, cudaStream_t s) { k<<<1, 32, 0, s>>>(a, c, n); }\n",
        call="f(A, C, M, stream)",
    )
    status = bench.variant("status", "static cudaError_t g(float *) { return cudaErrorInvalidValue; }\n", call="g(C)")
    wrong = bench.variant(
        "wrong", f'#include "gemm.h"\n__global__ void k(float *o) {{ o[0] = zz; }}\n{LAUNCH}', file="w.cu"
    )
    absent = bench.variant("absent", KERNEL)
    run = bench.run(good, call, status, wrong, absent)
    state = rows(run)
    assert {name: row["status"] for name, row in state.items()} == {
        good.name: "ok", "call": "ok", "status": "ok", "wrong": "build_failed", "absent": "build_failed",
    }  # fmt: skip
    assert state["wrong"]["reason"] == 'w.cu:2: identifier "zz" is undefined'
    assert 'exports no extern "C" launch' in state["absent"]["reason"]


@pytest.mark.nvcc
def test_real_static_facts(bench: Bench) -> None:
    run = bench.run(bench.variant("array", ARRAY + LAUNCH))
    static_stage(run)
    found = {metric: row for (_, metric), row in metrics(run, "array").items()}
    assert found["ptxas.stack_bytes"]["value"] == 256
    assert found["ptxas.spill_store_bytes"]["value"] == found["ptxas.spill_load_bytes"]["value"] == 0
    if run.toolchain.cuobjdump is None or run.toolchain.nvdisasm is None:
        pytest.skip("there are no disassemblers here")
    assert found["sass.local_accesses"]["value"] > 0
    assert found["sass.max_threads"]["value"] == 128
    sm = occupancy.limits((9, 0))
    assert sm is not None
    fits = occupancy.occupancy(sm, block_size=128, registers=int(found["ptxas.registers"]["value"]), shared_bytes=0)
    assert found["model.occupancy.blocks"]["value"] == fits.blocks > 0
    assert [name for name in found if described(name) is None] == []
    units = {name: row["unit"] for name, row in found.items()}
    assert units == {name: entry.unit for name in found if (entry := described(name)) is not None}
    assert described("sass.nonsense") is None


@pytest.mark.nvcc
def test_real_builds_of_one_source_have_one_binary_hash(tmp_path: Path) -> None:
    text = '#include "gemm.h"\nnamespace { __global__ void k(float *o) { o[threadIdx.x] = 1; } }\n' + LAUNCH
    hashes = []
    for place in ("a", "b"):
        bench = Bench(tmp_path / place / "project")
        run = bench.run(bench.variant("v", f"// in {place}\n{text}", file=f"{place}.cu"))
        static_stage(run)
        hashes.append(rows(run)["v"]["binary_hash"])
        if run.toolchain.cuobjdump is None or run.toolchain.nvdisasm is None:
            pytest.skip("there are no disassemblers here")
    assert hashes[0] is not None
    assert hashes[0] == hashes[1]


@pytest.mark.nvcc
def test_real_refusals_are_one_line_each(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    big = KERNEL.replace(
        "{ o[0] = 1; }", "{ __shared__ float s[70000]; s[threadIdx.x] = o[0]; __syncthreads(); o[1] = s[3]; }"
    )
    run = bench.run(
        bench.variant("big", big + LAUNCH),
        bench.variant("old", KERNEL + LAUNCH, build=BuildOptions(arch="sm_35")),
        bench.variant("flag", KERNEL + LAUNCH, build=BuildOptions(flags=("--no-such-option",))),
        bench.variant("lib", KERNEL + LAUNCH, build=BuildOptions(link=("-lno_such_library",))),
    )
    reasons = {name: row["reason"] for name, row in rows(run).items()}
    assert "280000 bytes of static shared memory, " in reasons["big"]
    assert "Unsupported gpu architecture 'compute_35' (nvcc" in reasons["old"]
    assert "sm_90" in reasons["old"]
    assert "from build.flags" in reasons["flag"]
    assert "from build.link" in reasons["lib"]
    assert all(row["status"] == "build_failed" for row in rows(run).values())
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setenv("NVCC_CCBIN", false)
    reason = rows(bench.run(bench.variant("v", KERNEL + LAUNCH + "//\n")))["v"]["reason"]
    assert "\n" not in reason
    assert reason
