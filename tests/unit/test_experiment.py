"""The experiment file as a whole: all that is wrong with it at once, at the right place; what comes of a good one."""

# ruff: noqa: E501 (a table of messages)

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler import data_files
from profiler.errors import Exit, UsageError
from profiler.experiment import ExperimentError, check_text, find_experiment, load_experiment, parse_experiment
from profiler.model import BuildOptions, Measure, ProfileOptions

DATA = Path(__file__).parent / "data"
GOOD_PATH = DATA / "good.yaml"
GOOD = GOOD_PATH.read_text(encoding="utf-8")


def issues(text: str, path: Path = GOOD_PATH) -> list[str]:
    return [issue.text("f") for issue in check_text(text, path)]


def line_of(text: str, part: str) -> int:
    numbers = [number for number, line in enumerate(text.splitlines(), start=1) if part in line]
    assert len(numbers) == 1, f"{part!r} must stand in one line"
    return numbers[0]


def test_a_good_file_becomes_an_experiment() -> None:
    experiment = load_experiment(GOOD_PATH)
    assert (experiment.name, experiment.title, experiment.trace) == ("good", "From naive to tensor cores", False)
    assert experiment.text == GOOD
    assert experiment.path == GOOD_PATH.resolve()
    assert experiment.size_keys == ("M=4096,N=4096,K=4096", "M=1000,N=128,K=64")
    assert experiment.problem.check_sizes[1] == {"M": 1000, "N": 1001, "K": 999}
    assert (experiment.problem.kind, experiment.problem.file) == ("gemm", None)
    assert dict(experiment.problem.options) == {"layout": "nn"}
    assert dict(experiment.problem.init) == {"distribution": "normal", "seed": 0}
    assert experiment.measure == Measure("cold", 50, 1000, 1, ({"M": 4096, "N": 4096, "K": 4096},))
    assert experiment.profile == ProfileOptions("ladder", ("dram__bytes.sum",), True)
    assert dict(experiment.baseline) == {"fp32": "cublas_fp32", "bf16": "cublas_bf16"}
    assert [(v.name, v.kind, v.dtype) for v in experiment.variants] == [
        ("naive", "cuda", "fp32"), ("tile_2d", "cuda", "fp32"), ("mine", "cuda", "fp32"),
        ("cublas_fp32", "python", "fp32"), ("cublas_bf16", "triton", "bf16"), ("theirs", "command", "fp32"),
    ]  # fmt: skip


def test_defaults_and_builds_are_merged_and_paths_resolved() -> None:
    experiment = load_experiment(GOOD_PATH)
    tile = experiment.variant("tile_2d")
    assert dict(tile.params) == {"UNROLL": 4, "BM": 128, "BN": 128, "SCALE": 0.5, "FAST": True, "TYPE": "float4"}
    include = (DATA / "include").resolve()
    assert tile.build == BuildOptions("c++20", ("-O3", "--maxrregcount=128"), (include,), ("-lcublas",), "sm_90a")
    assert experiment.variant("naive").build == BuildOptions("c++17", ("-O3",), (include,), ("-lcublas",), "sm_90a")
    assert tile.source == (DATA / "naive.cu").resolve()
    assert tile.requires == ("M % BM == 0", "N % 128 == 0 and arch >= 80")
    assert experiment.variant("mine").call == "fused(A, B, C, M, N, K, stream)"
    python = experiment.variant("cublas_fp32")
    assert (python.source, python.function) == ((DATA / "functions.py").resolve(), "matmul")
    command = experiment.variant("theirs").command
    assert command is not None
    assert command.argv == ("./sgemm", "--m={M}", "--n={N}", "--k={K}")
    assert (command.cwd, dict(command.env), command.build_command) == (include, {"LEVEL": "3"}, ("make", "sgemm"))
    assert command.launches == {"match": "*warptiling*", "skip": 2, "count": 20, "combine": "sum"}
    assert command.time == {"stdout": "Avg ([0-9.]+) ms", "unit": "ms"}


def test_one_baseline_name_holds_for_the_one_dtype() -> None:
    text = "schema: 1\nname: x\nproblem: {kind: gemm, sizes: [[1, 2, 3]]}\ndefaults: {dtype: fp32}\nbaseline: a\n"
    text += "variants:\n  - {name: a, cuda: naive.cu}\n  - {name: b, cuda: naive.cu}\n"
    assert dict(parse_experiment(text, GOOD_PATH).baseline) == {"fp32": "a"}
    assert dict(parse_experiment(text.replace("baseline: a\n", ""), GOOD_PATH).baseline) == {}


def test_a_baseline_of_another_contract_must_be_named_so() -> None:
    across = GOOD.replace("bf16: cublas_bf16}", "bf16: cublas_fp32}")
    assert dict(parse_experiment(across, GOOD_PATH).baseline) == {"fp32": "cublas_fp32", "bf16": "cublas_fp32"}
    one = GOOD.replace("{fp32: cublas_fp32, bf16: cublas_bf16}", "cublas_fp32")
    assert issues(one) == [
        "f:14:11: baseline: cublas_fp32 is fp32, but there are variants of bf16, and speed-ups compare within one "
        "contract: write {fp32: cublas_fp32, bf16: ...}"
    ]


def test_a_variants_own_source_replaces_the_defaults() -> None:
    text = GOOD.replace("  dtype: fp32\n  params", "  dtype: fp32\n  cuda: naive.cu\n  params").replace(
        "  - name: naive\n    cuda: naive.cu\n", "  - name: naive\n"
    )
    experiment = parse_experiment(text, GOOD_PATH)
    assert experiment.variant("naive").source == (DATA / "naive.cu").resolve()
    assert experiment.variant("theirs").kind == "command"
    assert experiment.variant("theirs").source is None


#: What stands in the good file, what replaces it (on the same lines), and what must be said about which line.
#: Each is independent of the others, so that any subset of them gives exactly its own lines.
CORRUPTIONS = [
    ("schema: 1", "schema: 3", "schema: schema 3 is not known: this version reads schema 1"),
    ("name: good", "name: go od", "name: 'go od' is not a name: use letters, digits"),
    ("title: From naive to tensor cores", "titel: From naive", 'titel: unknown key, did you mean "title"?'),
    ("  layout: nn", "  layout: tn", "problem.layout: 'tn' is not one of nn, nt"),
    ("sizes: [[4096, 4096, 4096], {M: 1e3", "sizes: [[4096, 4096, 4096], [1, 2], {M: 1e3",
     "problem.sizes[1]: expected 3 numbers (M, N, K), found 2"),
    ("[1000, 1001, 999]]", "[1000, 0, 999]]", "problem.check_sizes[1][1]: 0 is too small: at least 1"),
    ("distribution: normal", "distribution: norml", "problem.init.distribution: 'norml' is not one of normal, uniform; did "
     'you mean "normal"?'),
    ("params: {UNROLL: 4}", "params: {UN-ROLL: 4}", "defaults.params.UN-ROLL: 'UN-ROLL' is not a C identifier"),
    ("bf16: cublas_bf16}", "bf16: cublas_bf61}", "baseline.bf16: no variant 'cublas_bf61', did you mean \"cublas_bf16\"?"),
    ("flags: [-O3]", "flags: [-arch=sm_80]", "build.flags[0]: -arch is set by the tool: use `arch:` instead"),
    ("samples: 50", "samples: lots", "measure.samples: expected a whole number, found lots"),
    ("set: ladder", "set: laddr", "profile.set: 'laddr' is not one of ladder, full; did you mean \"ladder\"?"),
    ("trace: false", "trace: off", "trace: off is a boolean to some YAML readers"),
    ("idea: one thread", "ideas: one thread", 'variants[0].ideas: unknown key, did you mean "idea"?'),
    ("BM: 128, BN: 128, SCALE", "BM: 128, BM: 128, SCALE", "variants[1].params.BM: this key stands in line 25 already"),
    ('"N % 128 == 0 and arch >= 80"', '"N % 128 = 0 and arch >= 80"', "variants[1].requires[1]: N % 128 = 0 and arch >= 80: "
     "unexpected '=': write `==` to compare"),
    ("call: fused(A, B, C, M, N, K, stream)", "call: fused(A, B;", "variants[2].call: expected one call"),
    ("python: functions.py:matmul", "python: functions.py:matmull", "variants[3].python: functions.py defines no matmull, "
     'did you mean "matmul"?'),
    ("triton: functions.py:matmul", "triton: functoins.py:matmul", "variants[4].triton: no file 'functoins.py' beside "
     "good.yaml or under kernels/; did you mean functions.py"),
    ('"--k={K}"', '"--k={KK}"', "variants[5].command[3]: {KK} is no dim or param"),
    ("cwd: include", "cwd: includes", "variants[5].cwd: no folder 'includes' beside good.yaml"),
    ("unit: ms}", "unit: min}", "variants[5].time.unit: 'min' is not one of s, ms, us, ns"),
    ("count: 20", "count: &n 20", "variants[5].launches.count: &n is an anchor"),
]  # fmt: skip


@settings(max_examples=60)
@given(st.sets(st.integers(0, len(CORRUPTIONS) - 1)))
def test_any_subset_of_corruptions_gives_exactly_its_lines(chosen: set[int]) -> None:
    text = GOOD
    for index in sorted(chosen):
        old, new, _ = CORRUPTIONS[index]
        assert text.count(old) == 1
        text = text.replace(old, new)
    expected = {(line_of(GOOD, CORRUPTIONS[index][0]), CORRUPTIONS[index][2]) for index in chosen}
    found = check_text(text, GOOD_PATH)
    assert found == sorted(found)
    left = set(expected)
    for issue in found:
        said = issue.text("f").split(": ", 1)[1]
        matching = {(line, start) for line, start in expected if line == issue.line and said.startswith(start)}
        assert matching, f"not expected: {issue}"
        left -= matching
    assert not left
    if chosen:
        with pytest.raises(ExperimentError) as caught:
            parse_experiment(text, GOOD_PATH)
        assert list(caught.value.issues) == found


def place(text: str, at: str) -> str:
    """The line and column of the | in ``at``, which without it stands in the text once."""
    part = at.replace("|", "")
    assert text.count(part) == 1, f"{part!r} must stand in the text once"
    before = text[: text.index(part) + at.index("|")]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


TRITON = "    dtype: bf16"
AVG = "'Avg ([0-9.]+) ms'"


@pytest.mark.parametrize(
    ("old", "new", "at", "expected"),
    [
        ("kind: gemm", "kind: gem", "kind: |gem\n", "problem.kind: no problem 'gem'; did you mean \"gemm\"? (your own: "
         "problem.py:ClassName beside this file)"),
        ("kind: gemm", "kind: nothing.py:Norm", "kind: |no", "problem.kind: no file 'nothing.py' beside good.yaml"),
        ("kind: gemm", "kind: problem.py:Nrm", "kind: |pr", 'problem.kind: problem.py:1: no class Nrm, did you mean "Norm"?'),
        ("kind: gemm", "kind: problem.py:Broken", "kind: |pr", "problem.kind: problem.py:26: name 'Not A Name' must be"),
        ("layout: nn", "layuot: nn", "|layuot", 'problem.layuot: unknown key, did you mean "layout"?'),
        ("layout: nn", "layuot: [nn]", "|layuot", 'problem.layuot: unknown key, did you mean "layout"?'),
        ("K: 64}", "L: 64}", "|{M: 1e3", "problem.sizes[1]: K is missing: a size has M, N, K"),
        ("K: 64}", "L: 64}", "|L: 64}", "problem.sizes[1].L: unknown key; known here: M, N, K"),
        ('{M: 1e3, N: "128", K: 64}', "[4096, 4096, 4096.0]", "|[4096, 4096, 4096.0]", "problem.sizes[1]: "
         "M=4096,N=4096,K=4096 stands in line 8 already (problem.sizes[0]): keep one"),
        ("[67, 131, 35]", "[1000, 128, 64]", "|[1000, 128", "problem.check_sizes[0]: M=1000,N=128,K=64 stands in line 8 "
         "already"),
        ("sustained: [[4096, 4096, 4096]]", "sustained: [[1, 1, 1]]", "|[1, 1, 1]", "measure.sustained[0]: M=1,N=1,K=1 is not "
         "among problem.sizes"),
        ("  dtype: fp32\n", "  idea: x\n", "baseline: {|fp32", "baseline.fp32: no variant has the dtype 'fp32'"),
        ("  dtype: fp32\n", "  idea: x\n", "- |name: tile", "variants[1]: dtype is required: the numeric contract"),
        ("  dtype: fp32\n", "  dtype: fp23\n", "|fp23", "defaults.dtype: gemm has no contract 'fp23'; supported: fp32, bf16, fp16, tf32x3, "
         'did you mean "fp32"?'),
        ("dtype: bf16", "dtype: fp8", "|fp8", "variants[4].dtype: gemm has no contract 'fp8'; supported: fp32, bf16, fp16"),
        ("name: mine", "name: naive", "name: |naive\n    cuda: naive.cu\n    call", "variants[2].name: naive is the name of the "
         "variant in line 20 already"),
        ("name: mine", "name: Naive", "|Naive", "variants[2].name: Naive and naive (line 20) differ in case only"),
        ("    cuda: naive.cu\n    idea", "    idea", "- |name: naive", "variants[0]: one of cuda, triton, python or command is "
         "required"),
        ("    idea: one", "    python: functions.py:matmul\n    idea: one", "|python: functions.py:matmul\n    idea",
         "variants[0].python: a variant has one source, and cuda stands in line 21 already"),
        ("    cuda: naive.cu\n    idea", "    cuda: naiv.cu\n    idea", "|naiv.cu", "variants[0].cuda: no file 'naiv.cu' beside "
         "good.yaml or under kernels/; did you mean naive.cu"),
        ("    cuda: naive.cu\n    idea", "    cuda: 01_naive.cu\n    idea", "|01_naive.cu", "variants[0].cuda: no file "
         "'01_naive.cu' beside good.yaml or under kernels/; did you mean filter/01_naive.cu"),
        ("    cuda: naive.cu\n    idea", "    cuda: f.py:g\n    idea", "|f.py:g", "variants[0].cuda: f.py:g is Python: use"),
        ("functions.py:matmul\n    params", "functions.py\n    params", "|functions.py\n", "variants[3].python: 'functions.py' "
         "names no function: write file.py:function"),
        ("params: {transpose: false}", "params: {transposed: false}", "|transposed", "variants[3].params.transposed: matmul has "
         'no keyword-only parameter transposed, and no condition uses it, did you mean "transpose"?'),
        (TRITON, TRITON + "\n    call: f(x)", "|call: f(x)", "variants[4].call: `call` is for existing CUDA code; this is a "
         "triton variant"),
        (TRITON, TRITON + "\n    build: {std: c++20}", "|build: {std: c++20}", "variants[4].build: `build` is for CUDA sources"),
        (TRITON, TRITON + "\n    cwd: x", "|cwd: x", "variants[4].cwd: `cwd` is for a program"),
        ("BM: 128", "M: 128", "{|M: 128", "variants[1].params.M: M is a dim of the problem: a macro of that name would"),
        ("BM: 128", "C: 128", "{|C: 128", "variants[1].params.C: C is an argument of the problem"),
        ("BM: 128", "int: 128", "{|int: 128", "variants[1].params.int: int is a word of C++"),
        ('"M % BM == 0"', '"M % SCALE == 0"', '|"M % SCALE', "variants[1].requires[0]: M % SCALE == 0: the param SCALE is 0.5, "
         "not a whole number"),
        ('"M % BM == 0"', '"M % QQ == 0"', "|QQ", "variants[1].requires[0]: M % QQ == 0: QQ is no dim, param or arch"),
        ('"M % BM == 0"', "M % QQ == 0", "|QQ", "variants[1].requires[0]: M % QQ == 0: QQ is no dim, param or arch"),
        ('"M % BM == 0"', '"M % (N - 131) == 0"', '|"M % (N', "variants[1].requires[0]: M % (N - 131): division by zero ((N - "
         "131) is 0), at M=67,N=131,K=35"),
        ("flags: [-O3]", "flags: [-o]", "[|-o]", "build.flags[0]: -o is set by the tool: remove it"),
        ("arch: 90a", 'arch: "\u0669\u0660"', '|"\u0669', "build.arch: \u0669\u0660 is not an architecture"),
        ("cwd: include", f"cwd: {'a' * 300}", "cwd: |aaa", f"variants[5].cwd: no folder '{'a' * 300}' beside good.yaml"),
        ("include: [include]", "include: [inclde]", "|inclde", "build.include[0]: no folder 'inclde' beside good.yaml"),
        (AVG, "'Avg ([0-9.]+ ms'", "|'Avg", "variants[5].time.stdout: not a regular expression"),
        (AVG, "'Avg [0-9.]+ ms'", "|'Avg", "variants[5].time.stdout: has 0 groups: put exactly the number"),
        ('"--k={K}"', '"--k={K"', '|"--k={K"', "variants[5].command[3]: expected '}' before end of string"),
        ('"--k={K}"', "{K}", "|{K}", "variants[5].command[3]: expected a text, found a mapping: quote it"),
        ("env: {LEVEL: 3}", "env: {LE VEL: 3}", "|LE VEL", "variants[5].env.'LE VEL': 'LE VEL' cannot name an environment"),
    ],
)  # fmt: skip
def test_each_refusal(old: str, new: str, at: str, expected: str) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    found = issues(text)
    assert any(line.startswith(f"f:{place(text, at)}: {expected}") for line in found), found


def test_no_variants() -> None:
    head = GOOD[: GOOD.index("variants:")].replace("baseline: {fp32: cublas_fp32, bf16: cublas_bf16}\n", "")
    assert issues(head) == ["f:2:1: variants: this key is required: an experiment without variants has nothing to run"]
    assert issues(head + "variants: []\n") == ["f:18:11: variants: no variants: an experiment needs at least one"]
    assert issues(head + "variants:\n") == ["f:18:1: variants: has no value: give one, or remove the key"]


def test_a_problem_of_the_users_own_is_read_without_running_it() -> None:
    text = (
        "schema: 1\nname: norm\nproblem:\n  kind: problem.py:Norm\n  residual: none\n  sizes: [[128, 4096]]\n"
        "variants:\n  - {name: a, cuda: naive.cu, dtype: bf16->e4m3, requires: ['H % 128 == 0']}\n"
    )
    experiment = parse_experiment(text, GOOD_PATH)
    assert experiment.problem.file == (DATA / "problem.py").resolve()
    assert dict(experiment.problem.options) == {"residual": "none"}
    assert experiment.size_keys == ("T=128,H=4096",)
    assert issues(text.replace("[[128, 4096]]", "[[128]]")) == [
        "f:6:11: problem.sizes[0]: expected 2 numbers (T, H), found 1"
    ]


def test_the_error_has_a_line_for_each_and_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DATA, tmp_path / "data")
    bad = tmp_path / "data" / "bad.yaml"
    bad.write_text(GOOD.replace("trace: false", "trace: 3").replace("idea:", "idee:"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError) as caught:
        load_experiment(Path("data/bad.yaml"))
    assert caught.value.code is Exit.USAGE
    assert caught.value.message.splitlines() == [
        "data/bad.yaml:18:8: trace: expected true or false, found 3",
        'data/bad.yaml:22:5: variants[0].idee: unknown key, did you mean "idea"?',
    ]
    assert str(caught.value).endswith("\n  2 errors; docs/experiment-file.md describes every key")


def test_a_tuning_experiment_is_found_by_name() -> None:
    assert find_experiment("hopper_tuning") == data_files.experiments() / "tuning" / "hopper_tuning.yaml"


def test_missing_files_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "gemm_ladder.yaml").write_text("x", encoding="utf-8")
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.yml").write_text("x", encoding="utf-8")
    (here / "gemm_ladder").mkdir()  # a folder of that name does not hide the file
    monkeypatch.setattr(data_files, "experiments", lambda: shipped)
    monkeypatch.chdir(here)
    assert find_experiment("gemm_ladder") == shipped / "gemm_ladder.yaml"
    assert find_experiment("gemm_ladder.yaml") == shipped / "gemm_ladder.yaml"
    assert find_experiment("mine") == Path("mine.yml")
    assert find_experiment("./mine.yml") == Path("mine.yml")
    for text, hint in [
        ("gem_ladder", "did you mean gemm_ladder.yaml?"),
        ("mien.yml", "did you mean mine.yml?"),
        ("nothing_like_it", "in experiments/: gemm_ladder.yaml"),
        ("a\0b", "in experiments/: gemm_ladder.yaml"),
        ("x" * 300, "in experiments/: gemm_ladder.yaml"),
    ]:
        with pytest.raises(UsageError, match="no experiment file") as caught:
            find_experiment(text)
        assert caught.value.hint == hint
    with pytest.raises(UsageError, match="is a folder, not an experiment file") as folder:
        find_experiment(".")
    assert folder.value.hint == "it holds mine.yml"
    with pytest.raises(UsageError, match=r"no experiment file 'gone\.yaml'"):
        load_experiment(Path("gone.yaml"))


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ExperimentError, match="byte 0xff is not UTF-8"):
        parse_experiment(GOOD.encode().replace(b"naive to", b"\xffnaive to"), GOOD_PATH)
    assert parse_experiment(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(), GOOD_PATH).name == "good"


def test_python_files_that_are_none(tmp_path: Path) -> None:
    head = "schema: 1\nname: x\nproblem: {kind: gemm, sizes: [[1, 2, 3]]}\nvariants:\n"
    head += "  - {name: a, dtype: fp32, python: 'f.py:g'}\n"
    file = tmp_path / "f.py"
    for content, expected in [
        (b"def g(:\n", "f.py:1: invalid syntax"),
        (b"\x00", "f.py:1: "),
        (b"x = 1\n", "f.py defines no g; it defines x"),
        (b"", "f.py defines no g; it defines nothing"),
    ]:
        file.write_bytes(content)
        (line,) = issues(head, tmp_path / "e.yaml")
        assert line.startswith(f"f:5:36: variants[0].python: {expected}")
    for content in (
        b"from other import *\n", b"from other import h as g\n", b"g = print\n", b"g: object = print\n",
        b"class g: pass\n", b"try:\n    import x\nexcept ImportError:\n    g = 1\n", b"if 1:\n    def g(): pass\n",
        b"'\\d'\ndef g(): pass\n",
    ):  # fmt: skip
        file.write_bytes(content)
        assert issues(head, tmp_path / "e.yaml") == []


@settings(max_examples=150)
@given(st.data())
def test_no_damage_gives_a_traceback(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        filling = data.draw(st.text(alphabet=st.sampled_from("{}[]:,-#&*!|>'\"% \n\tabM0159.éx\0"), max_size=6))
        text = text[:start] + filling + text[end:]
    found = check_text(text, GOOD_PATH)
    lines = len(re.split(r"\r\n|[\r\n\x85\u2028\u2029]", text)) + 1
    assert all(1 <= issue.line <= lines and issue.column >= 1 and issue.message for issue in found)
    if not found:
        assert parse_experiment(text, GOOD_PATH).variants


@settings(max_examples=60)
@given(st.data())
def test_no_value_in_place_of_another_gives_a_traceback(data: st.DataObject) -> None:
    values = re.findall(r"(?<=[:\[,] )[A-Za-z0-9_.]+", GOOD)
    text = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        old = data.draw(st.sampled_from(values))
        new = data.draw(
            st.sampled_from(["", "~", "true", "[]", "{}", "[[1]]", "{a: b}", ".nan", "-1", "1e9", '""', "x", "9" * 99])
        )
        text = text.replace(f" {old}", f" {new}", 1)
    for issue in check_text(text, GOOD_PATH):
        assert issue.message


def test_shipped_experiments_are_good() -> None:
    shipped = sorted([*data_files.experiments().glob("*.yaml"), *data_files.experiments().glob("*/*.yaml")])
    for path in shipped:
        assert check_text(path.read_bytes(), path) == []
    assert len(shipped) >= 25
