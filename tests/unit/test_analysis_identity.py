"""What a variant was made from, its kernels, and what the profiler's own rules say of it."""

from __future__ import annotations

import pytest
from variant_data import KERNEL, NAME, SIZE, kernel_of, run_data

from profiler.analysis.advice import advice
from profiler.analysis.identity import declared, identity
from profiler.analysis.kernels import kernels, no_counters, profiled_size

TEXT = "variants:\n  - name: tile\n    cuda: gemm/05.cu\n    call: f(x)\n    requires: ['M % 128 == 0']\n"
COMMAND = ["nvcc", "-std=c++17", "-DBM=128", "-I.", "-Xptxas", "-v", "-o", "variant.so", "gemm/05.cu"]


def test_identity_is_read_from_the_file_and_the_build() -> None:
    build = {NAME: {"command": COMMAND, "compiler": "nvcc 13.0.88", "arch": "sm_90a"}}
    data = run_data({}, manifest={"experiment": {"text": TEXT}, "builds": build}, params={"BM": 128})
    found = identity(data, data.variants[0], declared(data)[NAME])
    assert (found.source, found.call, found.requires) == ("gemm/05.cu", "f(x)", ("M % 128 == 0",))
    assert found.flags == "-std=c++17 -Xptxas -v"
    assert found.compiler == "nvcc 13.0.88, sm_90a"
    assert found.params == {"BM": 128}
    assert (found.source_hash, found.binary_hash) == ("s" * 12, "b" * 12)


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "variants: 3", "variants: [1, {x: 2}]"])
def test_an_unreadable_file_costs_only_what_it_would_say(text: str) -> None:
    data = run_data({}, manifest={"experiment": {"text": text}}, kind="python")
    found = identity(data, data.variants[0], declared(data).get(NAME, {}))
    assert found.source == ""
    assert found.why_no_build == "a Python function: nothing is compiled for it here"


def test_the_worst_check_of_a_size_is_shown() -> None:
    data = run_data({})
    checks = [
        {"variant": NAME, "size": "M=67", "status": status, "error": error, "tolerance": 1.0, "baseline_error": 0.1}
        for status, error in (("ok", 0.2), ("wrong_result", 0.1), ("ok", 0.9))
    ]
    data = type(data)(data.manifest, {**data.rows, "checks": checks})
    (line,) = identity(data, data.variants[0], {}).checks
    assert (line.status, line.error, line.checks) == ("wrong_result", 0.1, 3)


def test_the_baselines_error_is_that_on_the_same_inputs() -> None:
    data = run_data({})
    own = {"size": "M=67", "status": "ok", "tolerance": 1.0, "baseline_error": None}
    checks = [
        {**own, "variant": NAME, "when": "before", "seed": 1, "error": 0.2, "baseline_error": 0.1},
        {**own, "variant": NAME, "when": "during", "seed": 1000, "error": 0.3},
        {**own, "variant": "cublas", "when": "before", "seed": 1, "error": 0.1},
        {**own, "variant": "cublas", "when": "during", "seed": 1000, "error": 0.4},
    ]
    dtype = str(data.variants[0]["dtype"])
    rows = {**data.rows, "variants": [*data.variants, {**data.variants[0], "name": "cublas"}], "checks": checks}
    data = type(data)({**data.manifest, "baseline": {dtype: "cublas"}}, rows)
    (line,) = identity(data, data.variants[0], {}).checks
    assert (line.error, line.baseline_error, line.why_no_baseline) == (0.3, 0.4, "")
    (line,) = identity(data, data.variants[1], {}).checks
    assert (line.baseline_error, line.why_no_baseline) == (None, "it is the baseline")
    rows["checks"] = checks[:3]
    (line,) = identity(type(data)(data.manifest, rows), data.variants[0], {}).checks
    assert (line.baseline_error, line.why_no_baseline) == (None, "the baseline was not checked with these inputs")


def test_kernels_are_the_launches_or_what_was_compiled() -> None:
    more = {"other(int)": {"ptxas.registers": 200}}
    assert [one.name for one in kernels(run_data({"duration": 1}, {"ptxas.registers": 3}), NAME, SIZE)] == [KERNEL]
    compiled = kernels(run_data(None, {"ptxas.registers": 3}, more_kernels=more), NAME, SIZE)
    assert [one.name for one in compiled] == ["other(int)", KERNEL]
    assert compiled[0].compiled("ptxas.registers").value == 200
    assert kernels(run_data(None), NAME, SIZE) == []


@pytest.mark.parametrize(
    ("launched", "found"),
    [
        (KERNEL, True),
        ("tile<false>(float const*, float*)", True),
        ("<unnamed>::tile(int)", True),
        ("tiles(int)", False),
    ],
)
def test_a_launch_finds_its_binary_by_name_or_by_function(launched: str, found: bool) -> None:
    kernel = kernel_of({"registers": 9}, {"ptxas.registers": 7}, kernel=launched)
    assert kernel.compiled("ptxas.registers").value == (7 if found else None)


@pytest.mark.parametrize(
    ("launched", "compiled"),
    [
        ("void tile<(bool)0>(const float *, float *)", "void tile<false>(float const*, float*)"),
        ("void tile<(int)128, (bool)1>(int)", "void tile<128, true>(int)"),
        ("void tile<(unsigned int)4, A<(int)2>>(int)", "void tile<4u, A<2> >(int)"),
        ("<unnamed>::tile<(Shape)0>(int)", "(anonymous namespace)::tile<(Shape)0>(int)"),
    ],
)
def test_template_arguments_are_matched_in_either_spelling(launched: str, compiled: str) -> None:
    others = {compiled: {"ptxas.registers": 7}, "void tile<99>(int)": {"ptxas.registers": 8}}
    kernel = kernel_of({"registers": 9}, None, kernel=launched, more_kernels=others)
    assert kernel.compiled("ptxas.registers").value == 7


def test_a_launch_that_may_be_either_is_neither() -> None:
    others = {"void tile<1>(int)": {"ptxas.registers": 7}, "void tile<2>(int)": {"ptxas.registers": 8}}
    kernel = kernel_of({"registers": 9}, None, kernel="void tile<3>(int)", more_kernels=others)
    assert kernel.compiled("ptxas.registers").value is None


def test_why_there_are_no_counters() -> None:
    skipped = {"stages": {"profile": {"status": "skipped", "reason": "there is no GPU here"}}}
    assert no_counters(run_data(None, status="not_run", manifest=skipped), NAME) == "not profiled: there is no GPU here"
    assert no_counters(run_data(None, status="build_failed"), NAME) == "not profiled: build failed"
    refused = {"profile": {"outcome": "not_permitted", "reason": "refused"}}
    assert no_counters(run_data(None, manifest=refused), NAME) == "not_permitted"
    kernel = kernel_of({"registers": "not_permitted"}, manifest=refused)
    assert kernel.counted("grid").why_text == "the driver does not permit counters here"
    assert kernel.no_instructions == "the driver does not permit counters here"


def test_the_profiled_size_is_the_largest_that_has_counters() -> None:
    assert profiled_size(run_data({"registers": 1}, size="M=64,N=64,K=64"), NAME) == "M=64,N=64,K=64"
    assert profiled_size(run_data(None), NAME) == SIZE


def test_rules_are_kept_apart_by_their_reach() -> None:
    rules = [
        {"title": "a", "kind": "local", "speedup": 90.0}, {"title": "b", "kind": "global", "speedup": 5.0},
        {"title": "c", "kind": "global", "speedup": 50.0}, {"title": "", "rule": "Rule", "message": "x\\n  y\n z"},
    ]  # fmt: skip
    found = advice(run_data({"registers": 1}, rules=rules), NAME, SIZE)
    assert [one.title for one in found.whole] == ["c", "b"]
    assert [one.title for one in found.local] == ["a"]
    assert [(one.title, one.message) for one in found.remarks] == [("Rule", "x y z")]
    assert found.count == 4


def test_a_rule_that_counts_async_copies_is_cautioned() -> None:
    rules = [{"rule": "UncoalescedSharedAccess", "title": "t", "kind": "global", "speedup": 17.0}]
    assert "async copies included" in advice(run_data({"registers": 1}, rules=rules), NAME, SIZE).whole[0].caution


def test_no_advice_says_why() -> None:
    assert advice(run_data({"registers": 1}), NAME, SIZE).why == "none of the rules that ran had anything to say"
    assert advice(run_data(None, status="timeout"), NAME, SIZE).why == "not profiled: timed out"
