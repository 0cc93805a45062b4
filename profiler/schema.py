"""The experiment file, schema 1, as pydantic models: which keys there are, what they hold, what holds without them.

Values arrive as the scalars of ``profiler.yaml_lines``, which are still text: each field here asks for what it means, a
number, a flag or a text. ``structure_issues`` checks the shape of a whole file; what one part of the file means for
another (a baseline that names no variant) is checked in ``profiler.experiment``.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, WithJsonSchema

from profiler.scalars import NAME_PATTERN, as_arch, as_flag, as_integer, as_name, as_param, as_text, shown
from profiler.suggest import one_of, unknown_key
from profiler.yaml_lines import Broken, Entries, Issue, Items, Node, Scalar, join


def _shape_of(value: Any) -> str:
    if isinstance(value, dict | Mapping):
        return "<mapping>"
    return "<list>" if isinstance(value, list | tuple) else "<value>"


Text = Annotated[str, BeforeValidator(as_text)]
Name = Annotated[str, BeforeValidator(as_name), WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$"})]
Integer = Annotated[int, BeforeValidator(as_integer)]
Flag = Annotated[bool, BeforeValidator(as_flag)]
Param = Annotated[int | float | str | bool, BeforeValidator(as_param)]
Arch = Annotated[
    str, BeforeValidator(as_arch), WithJsonSchema({"type": ["string", "number"], "examples": ["auto", "sm_90a"]})
]
Dim = Annotated[int, BeforeValidator(as_integer), Field(ge=1)]
Size = Annotated[
    Annotated[list[Dim], Tag("<list>")] | Annotated[dict[str, Dim], Tag("<mapping>")], Discriminator(_shape_of)
]


# -- the keys


class Strict(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InitKeys(Strict):
    """How inputs are made."""

    distribution: Text = Field(
        default="normal", description="Distribution of the inputs; the problem says which it knows."
    )
    seed: Integer = Field(default=0, ge=0, le=2**31 - 1, description="Seed of the inputs.")


class ProblemKeys(Strict):
    """What is computed, and at which sizes. The problem's own options (such as `layout`) are further keys."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Text]

    kind: Text = Field(description="A registered problem, or `problem.py:ClassName` beside the experiment file.")
    sizes: list[Size] = Field(min_length=1, description="Sizes that are verified, timed and profiled.")
    check_sizes: list[Size] = Field(default=[], description="Sizes that are verified only.")
    check_distributions: list[Text] = Field(
        default=[], description="Further distributions of the inputs, with which the check sizes are verified, too."
    )
    init: InitKeys = Field(default=InitKeys(), description="How inputs are made.")


class BuildKeys(Strict):
    """How CUDA sources are compiled."""

    std: Annotated[Literal["c++11", "c++14", "c++17", "c++20", "c++23"], BeforeValidator(as_text)] = Field(
        default="c++17", description="Language standard."
    )
    flags: list[Text] = Field(default=[], description="Further compiler flags.")
    include: list[Text] = Field(
        default=[], description="Folders of headers, relative to the experiment file or to kernels/."
    )
    link: list[Text] = Field(default=[], description="What to link, such as `-lcublas`.")
    arch: Arch = Field(default="auto", description="Real architecture to build for; `auto` is the GPU's own.")
    refuse: list[Annotated[Literal["serialised_wgmma", "spills"], BeforeValidator(as_text)]] = Field(
        default=["serialised_wgmma"], description="What fails the build, though the compiler only remarks on it."
    )


class MeasureKeys(Strict):
    """How times are taken."""

    cache: Annotated[Literal["cold", "warm"], BeforeValidator(as_text)] = Field(
        default="cold", description="State of the L2 cache before each timed launch."
    )
    samples: Integer = Field(default=50, ge=1, le=100_000, description="Timed samples for each variant and size.")
    warmup_ms: Integer = Field(
        default=1000, ge=0, le=600_000, description="Milliseconds of warm-up of the exact timed path."
    )
    processes: Integer = Field(default=1, ge=1, le=100, description="Processes over which the samples are spread.")
    sustained: Annotated[
        Annotated[Flag, Tag("<value>")] | Annotated[list[Size], Tag("<list>")], Discriminator(_shape_of)
    ] = Field(default=False, description="Also time long blocks: true, false, or the sizes it is wanted at.")


class ProfileKeys(Strict):
    """What the profiler collects."""

    set: Annotated[Literal["ladder", "full"], BeforeValidator(as_text)] = Field(
        default="ladder", description="The counters that the report needs, or ncu's full set."
    )
    metrics: list[Text] = Field(default=[], description="Further ncu metrics by name.")
    sources: Flag = Field(default=True, description="Collect counters for each source line.")
    sizes: list[Size] = Field(default=[], description="Those of problem.sizes that are profiled; none: all of them.")
    skip: list[Text] = Field(default=[], description="Variants that are timed, but not profiled.")


class LaunchKeys(Strict):
    """Which launches of a program count."""

    match: Text | None = Field(default=None, description="Pattern (with * and ?) of the demangled kernel name.")
    skip: Integer = Field(default=0, ge=0, description="Matching launches to leave out first.")
    count: Integer = Field(default=1, ge=1, description="Matching launches to take then.")
    combine: Annotated[Literal["sum", "mean", "median", "min", "max"], BeforeValidator(as_text)] = Field(
        default="sum", description="How their durations become one."
    )


class StdoutTime(Strict):
    """A time that the program prints."""

    stdout: Text = Field(description="Regular expression with one group, the number.")
    unit: Annotated[Literal["s", "ms", "us", "ns"], BeforeValidator(as_text)] = Field(description="Its unit.")


class VariantKeys(Strict):
    """What a variant may say, and `defaults` for all of them."""

    cuda: Text | None = Field(default=None, description="A CUDA source, beside the experiment file or under kernels/.")
    triton: Text | None = Field(default=None, description="A Triton function: `file.py:function`.")
    python: Text | None = Field(default=None, description="A Python function: `file.py:function`.")
    command: list[Text] | None = Field(
        default=None, min_length=1, description="Any program and its arguments; {M} is a dim."
    )
    call: Text | None = Field(
        default=None, description="CUDA: the call of existing code, such as `f(x, y, T, H, stream)`."
    )
    params: dict[str, Param] = Field(
        default={}, description="Macros (-D) of a CUDA source; keyword-only arguments of a function."
    )
    requires: list[Text] = Field(
        default=[], description="Conditions over dims, params and arch; else the size is skipped."
    )
    idea: Text | None = Field(default=None, description="One line: what this rung changes.")
    dtype: Text | None = Field(default=None, description="The numeric contract, such as fp32 or bf16.")
    build: BuildKeys = Field(default=BuildKeys(), description="Added to the experiment's build.")
    cwd: Text | None = Field(default=None, description="Command: folder to run in, relative to the experiment file.")
    env: dict[str, Text] = Field(default={}, description="Command: further environment variables.")
    build_command: list[Text] | None = Field(
        default=None, min_length=1, description="Command: builds the program first."
    )
    build_inputs: list[Text] = Field(
        default=[], description="Command: files that decide what is built; while they are the same it is not repeated."
    )
    launches: LaunchKeys = Field(default=LaunchKeys(), description="Command: which launches count.")
    time: Annotated[
        Annotated[Literal["trace"], BeforeValidator(as_text), Tag("<value>")] | Annotated[StdoutTime, Tag("<mapping>")],
        Discriminator(_shape_of),
    ] = Field(default="trace", description="Command: where its time comes from.")


class DefaultKeys(VariantKeys):
    """Any variant key but `name`; a variant's own value wins."""


class NamedVariant(VariantKeys):
    """One row of the ladder."""

    name: Name = Field(description="Unique, also when case is ignored.")


class ExperimentFile(Strict):
    """A kernel-ladder experiment, schema 1."""

    schema_version: Annotated[Literal[1], BeforeValidator(as_integer)] = Field(alias="schema", description="Always 1.")
    name: Name = Field(description="Name of the experiment and of its folder of runs.")
    title: Text | None = Field(default=None, description="Heading of the report; the name when there is none.")
    problem: ProblemKeys
    defaults: DefaultKeys = Field(default=DefaultKeys(), description="Variant keys that hold for all variants.")
    baseline: Annotated[
        Annotated[Text, Tag("<value>")] | Annotated[dict[str, Text], Tag("<mapping>")], Discriminator(_shape_of)
    ] = Field(default={}, description="What speed-ups compare with: a variant for each dtype, or one name for all.")
    build: BuildKeys = Field(default=BuildKeys(), description="How CUDA sources are compiled.")
    measure: MeasureKeys = Field(default=MeasureKeys(), description="How times are taken.")
    profile: ProfileKeys = Field(default=ProfileKeys(), description="What the profiler collects.")
    trace: Flag = Field(default=False, description="Also trace the run with nsys.")
    variants: list[NamedVariant] = Field(min_length=1, description="The rungs, in the order of the report.")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the experiment file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ExperimentFile.model_json_schema(by_alias=True),
    }


# -- from nodes to models and issues


def plain_data(node: Node) -> Any:
    """Return a node as what pydantic reads: dicts and lists; scalars stay scalars until a field asks."""
    if isinstance(node, Entries):
        return {key.text: plain_data(value) for key, value in node}
    if isinstance(node, Items):
        return [plain_data(item) for item in node.items]
    return node


def structure_issues(root: Entries) -> tuple[ExperimentFile | None, list[Issue]]:
    """Return the file's model, or None and everything that is wrong with keys and single values."""
    try:
        return ExperimentFile.model_validate(plain_data(root)), []
    except ValidationError as error:
        found = [_issue(root, details) for details in error.errors(include_url=False)]
    return None, sorted({issue for issue in found if issue is not None})


def _issue(root: Entries, details: Mapping[str, Any]) -> Issue | None:
    kind, loc, given = details["type"], tuple(details["loc"]), details["input"]
    if kind == "broken" or isinstance(given, Broken):
        return None
    node: Node = root
    position: Node = root
    path = ""
    for part in loc:
        if isinstance(part, str) and part.startswith("<"):
            continue
        below: Node | None = None
        if isinstance(node, Entries) and isinstance(part, str):
            below, key = node.get(part), node.key(part)
            path = join(node.path, part)
            if below is not None and key is not None:
                empty = isinstance(below, Scalar) and below.is_null
                position = key if kind in ("extra_forbidden",) or empty else below
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node.items):
            below = node.items[part]
            path, position = below.path, below
        if below is None:
            break
        node = below
    if kind == "missing":
        return Issue(position.line, position.column, path, f"this key is required{_remedy(loc)}")
    return Issue(position.line, position.column, path, _message(kind, details, loc, given))


def _remedy(loc: tuple[str | int, ...]) -> str:
    return {
        ("schema",): ": write `schema: 1`",
        ("problem", "sizes"): ", such as `sizes: [[4096, 4096, 4096]]`",
        ("variants",): ": an experiment without variants has nothing to run",
    }.get(tuple(part for part in loc if isinstance(part, str)), "")


def _message(kind: str, details: Mapping[str, Any], loc: tuple[str | int, ...], given: Any) -> str:
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(str(loc[-1]), keys_at(loc[:-1]))
    if kind == "literal_error":
        allowed = literal_values(loc) or [str(context.get("expected", ""))]
        if loc == ("schema",):
            return f"schema {shown(given)} is not known: this version reads schema 1"
        return one_of(given.text if isinstance(given, Scalar) else str(given), allowed)
    if kind == "too_short" and loc == ("variants",):
        return "no variants: an experiment needs at least one"
    if kind == "too_short":
        return "is empty: give at least one"
    if isinstance(given, Scalar) and given.is_null:
        return "has no value: give one, or remove the key"
    if kind == "greater_than_equal":
        return f"{shown(given)} is too small: at least {context['ge']}"
    if kind == "less_than_equal":
        return f"{shown(given)} is too large: at most {context['le']}"
    if kind == "list_type":
        wrap = f": write [{shown(given)}]" if isinstance(given, Scalar) else ""
        return f"expected a list, found {shown(given)}{wrap}"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"expected a mapping of keys, found {shown(given)}"
    if kind == "union_tag_invalid":
        names = {"<list>": "a list", "<mapping>": "a mapping", "<value>": "a single value"}
        wanted = [word for tag, word in names.items() if tag in str(context.get("expected_tags", ""))]
        example = ": write a size as [4096, 4096, 4096] or {M: 4096, N: 4096, K: 4096}" if _is_size(loc) else ""
        return f"expected {' or '.join(wanted)}, found {shown(given)}{example}"
    return str(details["msg"])


def _is_size(loc: tuple[str | int, ...]) -> bool:
    return len(loc) >= 2 and loc[-2] in ("sizes", "check_sizes", "<list>") and isinstance(loc[-1], int)


def keys_at(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that the schema knows at a location."""
    found = _annotation_at(loc)
    models = _models(found)
    return [field.alias or name for name, field in models[0].model_fields.items()] if models else []


def literal_values(loc: tuple[str | int, ...]) -> list[str]:
    """Return the values that a field with a fixed choice allows."""
    found: list[str] = []
    pending = [_annotation_at(loc)]
    while pending:
        annotation = pending.pop()
        if typing.get_origin(annotation) is Literal:
            found += [str(value) for value in typing.get_args(annotation)]
        else:
            pending += [part for part in typing.get_args(annotation) if _is_type(part)]
    return found


def _annotation_at(loc: tuple[str | int, ...]) -> Any:
    annotation: Any = ExperimentFile
    for part in loc:
        if isinstance(part, int) or part.startswith("<"):
            continue
        for model in _models(annotation):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            if part in fields:
                annotation = fields[part].annotation
                break
    return annotation


def _is_type(part: Any) -> bool:
    return isinstance(part, type) or typing.get_origin(part) is not None or isinstance(part, types.UnionType)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) if _is_type(part) for model in _models(part)]
