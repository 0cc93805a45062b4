"""Building, as far as it is pure: arguments, keys, the copies of the sources, and what a compiler's log says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import build_sources
from profiler.arch import gencode, normalise
from profiler.build import build_key, host_argument, macro_value, nvcc_argv
from profiler.build_sources import Layout, folder_name, source_name
from profiler.model import BuildOptions, ProblemRef, Variant
from profiler.parse.nvcc import first_error
from profiler.problems.gemm import Gemm
from profiler.toolchain import Tool, Toolchain


def test_argument_list() -> None:
    argv = nvcc_argv(
        Path("/opt/c u/nvcc"),
        source="gemm/fp32/05_tile_2d.cu",
        output="variant.so",
        arch="sm_90a",
        options=BuildOptions(flags=("-use_fast_math",), include=(Path("/in c"),), link=("-lcuda",)),
        params={"BM": 128, "SWIZZLE": True, "OFF": False, "SCALE": 0.5, "T": "float"},
        include=(".", "common"),
        ccbin=Path("/usr/bin/g++-12"),
        library=Path("/venv/nvidia/cu13/lib"),
    )
    assert argv == [
        "/opt/c u/nvcc", "-std=c++17", "-O3", "-lineinfo", "-Xptxas", "-v", "-Xcompiler", "-fPIC,-fvisibility=hidden",
        "-shared", "-cudart", "static", "-gencode=arch=compute_90a,code=sm_90a",
        "-DBM=128", "-DSWIZZLE=1", "-DOFF=0", "-DSCALE=0.5", "-DT=float", "-use_fast_math",
        "-I.", "-Icommon", "-I/in c", "-ccbin", "/usr/bin/g++-12", "-o", "variant.so", "gemm/fp32/05_tile_2d.cu",
        "-L/venv/nvidia/cu13/lib", "-lcuda",
    ]  # fmt: skip


def test_shortest_argument_list() -> None:
    argv = nvcc_argv(
        "nvcc", source="k.cu", output="variant.so", arch="sm_80", options=BuildOptions(), params={}, include=(".",)
    )
    assert argv == [
        "nvcc", "-std=c++17", "-O3", "-lineinfo", "-Xptxas", "-v", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-shared",
        "-cudart", "static", "-gencode=arch=compute_80,code=sm_80", "-I.", "-o", "variant.so", "k.cu",
    ]  # fmt: skip


def test_every_input_of_a_build_is_in_its_key() -> None:
    files = Layout({"k.cu": b"a", "gemm.h": b"h"}, "k.cu", (".",), {})
    base = build_key(files, ["nvcc", "-O3"], "nvcc 13.0.88, g++ 12.2.0", "sm_90a")
    assert base == build_key(files, ["nvcc", "-O3"], "nvcc 13.0.88, g++ 12.2.0", "sm_90a")
    others = [
        build_key(replace(files, contents={"k.cu": b"b", "gemm.h": b"h"}), ["nvcc", "-O3"], "nvcc 13.0.88", "sm_90a"),
        build_key(replace(files, contents={"k.cu": b"a", "gemm.h": b"i"}), ["nvcc", "-O3"], "nvcc 13.0.88", "sm_90a"),
        build_key(files, ["nvcc", "-O2"], "nvcc 13.0.88, g++ 12.2.0", "sm_90a"),
        build_key(files, ["nvcc", "-O3"], "nvcc 12.8.93, g++ 12.2.0", "sm_90a"),
        build_key(files, ["nvcc", "-O3"], "nvcc 13.0.88, g++ 13.2.0", "sm_90a"),
        build_key(files, ["nvcc", "-O3"], "nvcc 13.0.88, g++ 12.2.0", "sm_80"),
    ]
    assert len({base, *others}) == 7


def test_macro_values() -> None:
    assert [macro_value(v) for v in (8, True, False, 0.25, "half")] == ["8", "1", "0", "0.25", "half"]


def test_host_compiler_is_named_only_when_nvcc_would_find_another(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("g++", "g++-12"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    env = {"PATH": str(folder)}
    assert host_argument(Toolchain(host_compiler=Tool(folder / "g++", "14.2.0")), env) is None
    older = Toolchain(host_compiler=Tool(folder / "g++-12", "12.2.0"))
    assert host_argument(older, env) == folder / "g++-12"
    assert host_argument(older, {**env, "NVCC_CCBIN": "g++-12"}) is None
    assert host_argument(Toolchain(), env) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [("sm_90a", "sm_90a"), ("90", "sm_90"), ("9.0", "sm_90"), ("90a", "sm_90a"), ("compute_80", "sm_80"),
     ("12.0", "sm_120"), ("auto", "auto"), ("SM_90A", "sm_90a")],
)  # fmt: skip
def test_architectures_as_people_write_them(written: str, meant: str) -> None:
    assert normalise(written) == meant


@pytest.mark.parametrize("text", ["", "hopper", "sm_", "9", "sm_90x", "1234", "-1", "\u0669\u0660"])
def test_what_is_no_architecture_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an architecture"):
        normalise(text)


def test_gencode_names_one_chip() -> None:
    assert gencode("sm_90a") == "-gencode=arch=compute_90a,code=sm_90a"


@pytest.mark.parametrize("name", ["tile_2d", "a.b-c", "x" * 60])
def test_harmless_names_are_folders_as_they_are(name: str) -> None:
    assert folder_name(name) == name


@given(st.text(min_size=1, max_size=80))
def test_any_name_is_a_harmless_folder(name: str) -> None:
    folder = folder_name(name)
    assert 0 < len(folder) <= 69
    assert not set(folder) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert not folder.startswith((".", "-"))


def test_names_that_look_alike_have_folders_of_their_own() -> None:
    names = ["a/b", "a<b", "a b", "a_b", "../a_b", "", 'reg<8x8> & "fast"/v1']
    assert len({folder_name(name) for name in names}) == len(names)


def test_line_information_is_shown_by_the_name_in_the_run_directory() -> None:
    key = "0" * 64
    assert source_name(f"/home/u/.cache/kernel-ladder/builds/{key}/src/gemm/k.cu") == "gemm/k.cu"
    assert source_name("/usr/local/cuda/include/cuda_bf16.hpp") == "/usr/local/cuda/include/cuda_bf16.hpp"


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_cu", ".cu")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_copies_keep_the_originals_apart_and_together(tmp_path: Path) -> None:
    write(
        tmp_path,
        src__k_cu='#include "../common/a.cuh"\n#include <lib/c.cuh>\n#include <cuda.h>\n#include "gemm.h"\n',
        **{"common__a.cuh": '#pragma once\n#  include "b.cuh"\n', "common__b.cuh": '#include "a.cuh"\n'},
        **{"third__lib__c.cuh": "// c\n"},
    )
    variant = Variant("v", "cuda", "fp32", tmp_path / "src/k.cu", build=BuildOptions(include=(tmp_path / "third",)))
    files = build_sources.layout(variant, Gemm, "// header")
    assert sorted(files.contents) == ["common/a.cuh", "common/b.cuh", "gemm.h", "include_0/lib/c.cuh", "src/k.cu"]
    assert (files.main, files.include) == ("src/k.cu", (".", "include_0"))
    assert files.originals["common/b.cuh"] == tmp_path / "common/b.cuh"


def test_shipped_kernels_keep_their_place(root: Path) -> None:
    source = root / "kernels/gemm/fp32/09_double_buffer.cu"
    files = build_sources.layout(Variant("v", "cuda", "fp32", source), Gemm, "// header")
    assert files.main == "gemm/fp32/09_double_buffer.cu"
    assert "common/async_copy.cuh" in files.contents
    assert files.include == (".", "common")


def test_existing_code_gets_an_entry(tmp_path: Path) -> None:
    write(tmp_path, mine_cu="void f(const float *, int64_t, cudaStream_t);\n")
    variant = Variant("v", "cuda", "fp32", tmp_path / "mine.cu", call="f(A, M, stream);")
    files = build_sources.layout(variant, Gemm, "// header")
    assert files.main == "generated_launch.cu"
    text = files.contents[files.main].decode()
    assert text.index('#include "gemm.h"') < text.index('#include "mine.cu"')
    assert "return f(A, M, stream); };" in text
    for name in ("A", "B", "C", "M", "N", "K"):
        assert f"const auto {name} = args->{name};" in text


def test_python_files_bring_what_they_import_from_beside(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("import helper\nfrom .other import x\nimport torch\n")
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "other.py").write_text("from helper import y\n")
    files = build_sources.project_files(Variant("v", "triton", "fp32", tmp_path / "k.py", "f"))
    assert [file.name for file in files] == ["k.py", "helper.py", "other.py"]


def test_a_package_beside_a_python_file_is_brought_whole(tmp_path: Path) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    (tmp_path / "k.py").write_text("from pack.deep import x\n")
    (tmp_path / "pack" / "__init__.py").write_text("import helper\n")
    (tmp_path / "pack" / "deep" / "__init__.py").write_text("")
    (tmp_path / "helper.py").write_text("")
    names = ["k.py", "helper.py", "pack/__init__.py", "pack/deep/__init__.py"]
    files = build_sources.project_files(Variant("v", "triton", "fp32", tmp_path / "k.py", "f"))
    assert [file.name for file in files] == names
    ref = ProblemRef("k.py:Own", tmp_path / "k.py", {}, (), (), {})
    assert [file.name for file in build_sources.problem_files(ref)] == names


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ('src/k.cu(7): error: identifier "zz" is undefined\n\nsrc/k.cu(9): error: other\n',
         'mine/k.cu:7: identifier "zz" is undefined'),
        ("src/k.cu(3): warning #177-D: x\nsrc/k.cu(4): error #20: y\n", "mine/k.cu:4: y"),
        ("src/../common/a.cuh(2): error: expected a declaration\n", "mine/common/a.cuh:2: expected a declaration"),
        ("src/k.cu:2:10: fatal error: no.h: No such file or directory\n",
         "mine/k.cu:2: no.h: No such file or directory (add its folder to build.include)"),
        ("ptxas /tmp/t-6_k.ptx, line 23; error   : Unknown modifier '.bar'\nptxas fatal   : Ptx assembly aborted\n",
         "ptxas: Unknown modifier '.bar' (in inline PTX)"),
        ("ptxas error   : Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)\n",
         "ptxas: Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max) (80000 bytes of static "
         "shared memory, 49152 allowed; dynamic shared memory may be larger)"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_35'\n",
         "nvcc: Unsupported gpu architecture 'compute_35' (nvcc 13.0.88 builds for sm_80, sm_90)"),
        ("/x/crt/host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 12\n",
         "host_config.h:137: #error -- unsupported GNU version! gcc versions later than 12 (nvcc 13.0.88 does not "
         "accept host compiler 14.2.0: install an older one and name it in NVCC_CCBIN, such as NVCC_CCBIN=g++-12)"),
        ("nvcc fatal   : Unknown option '-foo'\n", "nvcc: Unknown option '-foo' (from build.flags)"),
        ("/usr/bin/ld: cannot find -lnope: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
         "ld: cannot find -lnope: No such file or directory (from build.link)"),
        ("collect2: error: ld returned 1 exit status\n", "collect2: ld returned 1 exit status"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n",
         "nvcc: 'cicc' died due to signal 9 (Kill signal)"),
    ],
)  # fmt: skip
def test_first_error(log: str, text: str) -> None:
    originals = {"src/k.cu": "mine/k.cu", "common/a.cuh": "mine/common/a.cuh"}
    error = first_error(log, originals, nvcc="13.0.88", host="14.2.0", archs="sm_80, sm_90")
    assert error is not None
    assert error.text == text


def test_a_log_without_an_error_has_none() -> None:
    assert first_error("k.cu(3): warning #177-D: unused\nptxas info    : Used 32 registers\n") is None


@given(st.text())
def test_any_log_is_read(log: str) -> None:
    error = first_error(log)
    assert error is None or error.text
