"""What makes two sources the same: comments and white space do not count, everything else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.hashing import digest, source_hash, strip_cpp, strip_python
from profiler.model import BuildOptions, ProblemRef, Variant

PROBLEM = ProblemRef("gemm", None, {"layout": "nn"}, ({"M": 1, "N": 1, "K": 1},), (), {"distribution": "normal"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = 1; // one\nint b;", "int a=1;\n\n  /* two\n lines */ int b;"),
        ("f( a,b ){\n\treturn a ;\n}", "f(a, b) { return a; }"),
        ("#define X  1\nint a;", "#define X 1 // the value\nint   a;"),
        ("#define F(x) \\\n  x\n", "#define F(x) x\n"),
        ("a // b \\\n still a comment\nc", "a\nc"),
    ],
)
def test_same_cpp(one: str, other: str) -> None:
    assert strip_cpp(one) == strip_cpp(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('asm("a b");', 'asm("a  b");'),
        ('s = "// not a comment";', 's = "";'),
        ("a + +b", "a ++b"),
        ("int a;", "inta;"),
        ("#define F (x)", "#define F(x)"),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ('R"(a // b)" c', 'R"(a)" c'),
        ("x = '\"'; // c", "x = '\"' c;"),
        ("1'000", "1'001"),
    ],
)
def test_different_cpp(one: str, other: str) -> None:
    assert strip_cpp(one) != strip_cpp(other)


def test_strings_come_through_whole() -> None:
    assert strip_cpp('asm("mov  // %0;\\n" ::"r"(a)); // gone') == 'asm("mov  // %0;\\n"::"r"(a));'
    assert strip_cpp('R"x(a\n// b "q)x" ;') == 'R"x(a\n// b "q)x";'
    assert strip_cpp("char c = '\\''; // gone") == "char c='\\'';"
    assert strip_cpp("int n = 1'000; // it's gone") == "int n=1'000;"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1  # one\n\n\nb = 2", "a=1\nb=2  # two"),
        ("f(a,\n  b)  # c", "f(a, b)"),
        ("def f():\n    return 1\n", "def f():\n    # why\n    return 1"),
        ("a = \\\n 1", "a = 1"),
    ],
)
def test_same_python(one: str, other: str) -> None:
    assert strip_python(one) == strip_python(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("'# a'", "'# b'"),
        ('"""a\n# b"""', '"""a\n"""'),
        ("a = 'x  y'", "a = 'x y'"),
    ],
)
def test_different_python(one: str, other: str) -> None:
    assert strip_python(one) != strip_python(other)


@given(st.text())
def test_any_text_is_stripped_once_and_for_all(text: str) -> None:
    assert isinstance(strip_python(text), str)
    assert isinstance(strip_cpp(text), str)


@given(st.lists(st.sampled_from(["a", "b1", "+", "-", "(", ")", '"s t"', "0.5f", ";", "<", "&"]), max_size=30))
def test_formatting_does_not_matter(tokens: list[str]) -> None:
    plain = " ".join(tokens)
    assert strip_cpp("\n  ".join(tokens)) == strip_cpp(plain)
    assert strip_cpp(" /* x */ ".join(tokens)) == strip_cpp(plain)
    assert strip_cpp(strip_cpp(plain)) == strip_cpp(plain)


def variant(folder: Path) -> Variant:
    (folder / "part.cuh").write_text("#define N 4\n")
    (folder / "k.cu").write_text('#include "part.cuh"\n#include <cuda.h>\nint a = N;\n')
    return Variant("v", "cuda", "fp32", folder / "k.cu", params={"BM": 64})


def test_the_hash_of_a_variant(tmp_path: Path) -> None:
    one = variant(tmp_path)
    before = source_hash(one, PROBLEM, "sm_90a")
    assert source_hash(replace(one, name="renamed", idea="other words"), PROBLEM, "sm_90a") == before
    changed = [
        source_hash(replace(one, params={"BM": 128}), PROBLEM, "sm_90a"),
        source_hash(replace(one, build=BuildOptions(flags=("-G",))), PROBLEM, "sm_90a"),
        source_hash(replace(one, build=BuildOptions(std="c++20")), PROBLEM, "sm_90a"),
        source_hash(replace(one, dtype="bf16"), PROBLEM, "sm_90a"),
        source_hash(replace(one, call="f(A)"), PROBLEM, "sm_90a"),
        source_hash(one, replace(PROBLEM, options={"layout": "nt"}), "sm_90a"),
        source_hash(one, replace(PROBLEM, init={"distribution": "zeros"}), "sm_90a"),
        source_hash(one, replace(PROBLEM, kind="softmax"), "sm_90a"),
        source_hash(one, PROBLEM, "sm_80"),
    ]
    assert len({before, *changed}) == 10
    assert source_hash(one, replace(PROBLEM, sizes=({"M": 2, "N": 2, "K": 2},)), "sm_90a") == before
    (tmp_path / "part.cuh").write_text("// a comment\n#define N  4\n")
    assert source_hash(one, PROBLEM, "sm_90a") == before
    (tmp_path / "part.cuh").write_text("#define N 5\n")
    assert source_hash(one, PROBLEM, "sm_90a") != before
    (tmp_path / "k.cu").unlink()
    assert source_hash(one, PROBLEM, "sm_90a") not in {before, *changed}


def test_a_moved_project_keeps_its_hashes(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "sp ace" / "ünï (1)"]
    for folder in folders:
        folder.mkdir(parents=True)
    hashes = {source_hash(variant(folder), PROBLEM, "sm_90a") for folder in folders}
    assert len(hashes) == 1


def test_digest_does_not_depend_on_order() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])
