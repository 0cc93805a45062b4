# ruff: noqa: E501 (a table of messages)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from profiler import scalars, schema, suggest
from profiler.yaml_lines import Scalar, load

ROOT = Path(__file__).resolve().parents[2]
HEAD = "schema: 1\nname: x\nproblem: {kind: gemm, sizes: [[1, 2, 3]]}\nvariants:\n  - {name: a, cuda: a.cu}\n"


def plain(text: str) -> Scalar:
    return Scalar(1, 1, "", text)


def quoted(text: str) -> Scalar:
    return Scalar(1, 1, "", text, plain=False)


def issues(text: str) -> list[str]:
    root, found = load(text)
    assert root is not None, found
    return [issue.text("f") for issue in schema.structure_issues(root)[1]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [(plain("4096"), 4096), (plain("1e5"), 100_000), (quoted("128"), 128), (quoted("1e3"), 1000), (plain("64.0"), 64),
     (plain("0x10"), 16), (plain("-3"), -3), (plain("+7"), 7), (plain("9223372036854775807"), 2**63 - 1), (5, 5)],
)  # fmt: skip
def test_whole_numbers(given: Any, expected: int) -> None:
    assert scalars.as_integer(given) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4096.5", "expected a whole number, found 4096.5"),
        ("true", "expected a whole number, found true"),
        (".nan", "expected a whole number, found .nan: a value must be finite"),
        ("-.inf", "expected a whole number, found -.inf: a value must be finite"),
        ("inf", "a value must be finite"),
        ("1_000", "1_000 is read differently by different YAML readers: write the plain decimal number"),
        ("0b11", "is read differently"),
        ("0o17", "is read differently"),
        ("", "has no value: give one, or remove the key"),
        ("~", "has no value"),
        ("many", "expected a whole number, found many"),
        ("1e400", "does not fit 64 bits"),
        ("9223372036854775808", "does not fit 64 bits"),
        ("1e-999", "expected a whole number"),
        ("9" * 5000, "expected a whole number, found 9999"),
    ],
)
def test_what_is_no_whole_number(text: str, message: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        scalars.as_integer(plain(text))
    assert message in str(caught.value)


def test_a_quoted_leading_zero_is_no_number() -> None:
    with pytest.raises(PydanticCustomError, match="010 has a leading zero: write 10"):
        scalars.as_integer(quoted("010"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [(plain("8"), 8), (plain("1e3"), 1000), (plain("0.5"), 0.5), (plain("1e-5"), 1e-5), (plain("2.0"), 2.0),
     (quoted("8"), "8"), (plain("float4"), "float4"), (plain("true"), True), (plain("0xff"), 255), (True, True)],
)  # fmt: skip
def test_params_keep_their_kind(given: Any, expected: object) -> None:
    found = scalars.as_param(given)
    assert found == expected
    assert type(found) is type(expected)
    row = schema.NamedVariant.model_validate({"name": "a", "params": {"P": given}})
    assert row.params["P"] == expected
    assert type(row.params["P"]) is type(expected)


@pytest.mark.parametrize("text", [".nan", "1_000", "1e400"])
def test_params_refuse_what_is_no_number_for_all(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        scalars.as_param(plain(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("sm_90a", "sm_90a"), ("sm_90", "sm_90"), ("90a", "sm_90a"), ("90", "sm_90"), ("9.0", "sm_90"), ("9.0a", "sm_90a"),
     ("SM_100A", "sm_100a"), ("10.3", "sm_103"), ("120f", "sm_120f"), ("auto", "auto"), ("8.6", "sm_86")],
)  # fmt: skip
def test_architectures(text: str, expected: str) -> None:
    assert scalars.as_arch(plain(text)) == expected
    assert scalars.as_arch(quoted(text)) == expected


@pytest.mark.parametrize("text", ["12.10", "hopper", "9", "sm_9", "900", "30", "sm_90b", "-90"])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(PydanticCustomError, match=r"is not an architecture: write auto, or one such as sm_90a"):
        scalars.as_arch(plain(text))


@pytest.mark.parametrize("text", ["a", "1.10", "tile_2d+v2", "A-b.c_d", "_x"])
def test_names(text: str) -> None:
    assert scalars.as_name(plain(text)) == text


@pytest.mark.parametrize("text", ["a b", "../x", ".hidden", "-x", "a/b", "é", "a" * 81, "a\n"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(PydanticCustomError, match=r"\[A-Za-z0-9_\.\+-\]\+"):
        scalars.as_name(quoted(text))


def test_the_least_file_is_enough_and_has_the_documented_defaults() -> None:
    root, _ = load(HEAD)
    assert root is not None
    file, found = schema.structure_issues(root)
    assert found == []
    assert file is not None
    assert file.measure == schema.MeasureKeys()
    assert (file.measure.samples, file.measure.warmup_ms, file.measure.cache) == (50, 1000, "cold")
    assert (file.build.std, file.build.arch) == ("c++17", "auto")
    assert (file.profile.set, file.profile.sources, file.trace, file.baseline) == ("ladder", True, False, {})
    assert file.problem.init.model_dump() == {"distribution": "normal", "seed": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schema: 2", 'f:1:9: schema: schema 2 is not known: this version reads schema 1'),
        ("nme: x", 'f:1:1: nme: unknown key, did you mean "name"?'),
        ("title: true", 'f:1:8: title: expected a text, found true: quote it ("true")'),
        ("title:", "f:1:1: title: has no value: give one, or remove the key"),
        ("trace: maybe", "f:1:8: trace: expected true or false, found maybe"),
        ("baseline: [a]", "f:1:11: baseline: expected a mapping or a single value, found a list"),
        ("build: {flags: -O3}", "f:1:16: build.flags: expected a list, found -O3: write [-O3]"),
        ("build: {std: c++18}", "f:1:14: build.std: 'c++18' is not one of c++11, c++14, c++17, c++20, c++23; did you mean "
         '"c++17"?'),
        ("build: 3", "f:1:8: build: expected a mapping of keys, found 3"),
        ("measure: {samples: 0}", "f:1:20: measure.samples: 0 is too small: at least 1"),
        ("measure: {processes: 1000}", "f:1:22: measure.processes: 1000 is too large: at most 100"),
        ("measure: {cache: cald}", "f:1:18: measure.cache: 'cald' is not one of cold, warm; did you mean \"cold\"?"),
        ("measure: {sustained: {M: 1}}", "f:1:22: measure.sustained: expected a list or a single value, found a mapping"),
        ("measure: {sustained: [4]}", "f:1:23: measure.sustained[0]: expected a list or a mapping, found 4: write a size as "
         "[4096, 4096, 4096] or {M: 4096, N: 4096, K: 4096}"),
        ("measure: {warmups: 4}", 'f:1:11: measure.warmups: unknown key, did you mean "warmup_ms"?'),
        ("profile: {xyz: 1}", "f:1:11: profile.xyz: unknown key; known here: set, metrics, sources"),
        ("problem: {kind: gemm, sizes: []}", "f:1:30: problem.sizes: is empty: give at least one"),
        ("problem: {kind: gemm, sizes: [[0, 1, 2]]}", "f:1:32: problem.sizes[0][0]: 0 is too small: at least 1"),
        ("problem: {kind: gemm, sizes: [{M: -1}]}", "f:1:35: problem.sizes[0].M: -1 is too small: at least 1"),
        ("problem: {kind: gemm, sizes: [4096x64]}", "f:1:31: problem.sizes[0]: expected a list or a mapping, found 4096x64: "
         "write a size as [4096, 4096, 4096] or {M: 4096, N: 4096, K: 4096}"),
        ("problem: {kind: gemm}", "f:1:10: problem.sizes: this key is required, such as `sizes: [[4096, 4096, 4096]]`"),
        ("problem: {sizes: [[1]], init: {seed: -1}}", "f:1:38: problem.init.seed: -1 is too small: at least 0"),
        ("variants: []", "f:1:11: variants: no variants: an experiment needs at least one"),
        ("variants: [{cuda: a.cu}]", "f:1:12: variants[0].name: this key is required"),
        ("variants: [x]", "f:1:12: variants[0]: expected a mapping of keys, found x"),
        ("variants: [{name: a, parms: {}}]", 'f:1:22: variants[0].parms: unknown key, did you mean "params"?'),
        ("variants: [{name: a, command: [{a: b}]}]", "f:1:32: variants[0].command[0]: expected a text, found a mapping: "
         "quote it, as a text may hold { } or [ ]"),
        ("variants: [{name: a, time: {stdout: x, unit: m}}]", "f:1:46: variants[0].time.unit: 'm' is not one of s, ms, us, "
         'ns; did you mean "ms"?'),
        ("variants: [{name: a, launches: {combine: all}}]", "f:1:42: variants[0].launches.combine: 'all' is not one of sum, "
         "mean, median"),
        ("defaults: {name: a}", "f:1:12: defaults.name: unknown key"),
    ],
)  # fmt: skip
def test_one_thing_wrong_is_one_line_that_says_where_and_why(text: str, expected: str) -> None:
    key = text.split(":")[0]
    rest = {
        "schema": "schema: 1", "name": "name: x", "problem": "problem: {kind: gemm, sizes: [[1, 2, 3]]}",
        "variants": "variants: [{name: a, cuda: a.cu}]",
    }  # fmt: skip
    whole = "\n".join([text, *(line for other, line in rest.items() if other != key)]) + "\n"
    found = [line for line in issues(whole) if line.startswith("f:1:")]
    assert len(found) >= 1
    assert found[-1].startswith(expected)
    if "sizes: [[1]], init" not in text:
        assert issues(whole) == found
        assert len(found) == 1


def test_an_empty_mapping_lacks_the_required_keys() -> None:
    assert issues("{}") == [
        "f:1:1: name: this key is required",
        "f:1:1: problem: this key is required",
        "f:1:1: schema: this key is required: write `schema: 1`",
        "f:1:1: variants: this key is required: an experiment without variants has nothing to run",
    ]


def test_what_the_loader_refused_is_not_reported_twice() -> None:
    assert issues(HEAD + "trace: on\nmeasure: &x {samples: 010}\nbuild: *x\n") == []


def keys_of(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = set(node["properties"]) if isinstance(node.get("properties"), dict) else set()
        return own.union(*(keys_of(value) for value in node.values()), set())
    if isinstance(node, list):
        return set().union(*(keys_of(value) for value in node), set())
    return set()


def test_the_json_schema_is_closed_and_plain_data() -> None:
    found = schema.json_schema()
    assert json.loads(json.dumps(found)) == found
    assert found["additionalProperties"] is False
    assert found["required"] == ["schema", "name", "problem", "variants"]
    assert found["$defs"]["ProblemKeys"]["additionalProperties"] == {"type": "string"}
    assert {"warmup_ms", "check_sizes", "build_command", "requires"} <= keys_of(found)


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "experiment-file.md").read_text(encoding="utf-8")
    keys = keys_of(schema.json_schema())
    assert len(keys) > 40
    assert sorted(key for key in keys if f"`{key}`" not in text) == []
    assert sorted(name for name in schema.literal_values(("measure", "cache")) if name not in text) == []


def test_near_matches() -> None:
    assert suggest.near_match("Layout", ["layout", "kind"]) == "layout"
    assert suggest.near_match("zzz", ["layout", "kind"]) is None
    assert schema.literal_values(("build", "std"))[0] == "c++11"
