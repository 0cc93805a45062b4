"""A drafted experiment: what a bare file and a few flags amount to, as the text of an experiment file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from profiler.problem_file import ProblemLiterals
from profiler.problems import BASELINE_DTYPES, BASELINES, CHECK_SIZES, SIZES

_ODD = [67, 131, 35, 5, 3]  # for a problem of one's own: small, and no multiple of anything


@dataclass(frozen=True)
class Draft:
    """One variant of one problem, with the problem's usual baseline where it has one."""

    name: str
    kind: str  #: cuda, triton or python
    source: str  #: as the experiment file names it
    problem: str
    literals: ProblemLiterals
    dtype: str
    sizes: Sequence[Sequence[int]] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    call: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)  #: key -> remark, for a file that people will edit

    @property
    def baseline(self) -> tuple[str, str] | None:
        """The baseline's name and function; None when the problem has none, or when the variant itself is it."""
        prefix, function = BASELINES.get(self.problem, ("", ""))
        name = f"{prefix}_{self.baseline_dtype}"
        return (name, function) if function and name.lower() != self.name.lower() else None

    @property
    def baseline_dtype(self) -> str:
        """The baseline's contract: the variant's own, or the one that it stands in for."""
        return BASELINE_DTYPES.get(self.problem, {}).get(self.dtype, self.dtype)

    @property
    def check_sizes(self) -> list[list[int]]:
        """Sizes that are verified only, without those that are timed."""
        usual = CHECK_SIZES.get(self.problem) or [[n for n, _ in zip(cycle(_ODD), self.literals.dims, strict=False)]]
        return [list(size) for size in usual if list(size) not in [list(s) for s in self.timed_sizes]]

    @property
    def timed_sizes(self) -> Sequence[Sequence[int]]:
        """The sizes given, else the problem's usual one."""
        return self.sizes or SIZES.get(self.problem) or [[1024] * len(self.literals.dims)]


def draft_text(draft: Draft, head: Sequence[str] = (), *, commented: bool = False) -> str:
    """Return a draft as the text of an experiment file; ``commented`` for one that people will edit."""
    baseline = draft.baseline

    def line(text: str, key: str, remark: str = "") -> str:
        said = draft.notes.get(key) or remark
        return f"{text}  # {said}" if commented and said else text

    dims = ", ".join(draft.literals.dims)
    lines = [*(f"# {text}".rstrip() for text in head), "schema: 1", f"name: {_word(draft.name)}", "problem:"]
    lines.append(line(f"  kind: {_word(draft.problem)}", "problem"))
    for name, value in draft.literals.chosen(draft.options).items():
        others = " or ".join(other for other in draft.literals.options[name] if other != value)
        lines.append(line(f"  {name}: {_word(value)}", name, f"or {others}" if others else ""))
    lines.append(line(f"  sizes: {_sizes(draft.timed_sizes)}", "sizes", f"{dims}: verified, timed, profiled"))
    if draft.check_sizes:
        lines.append(line(f"  check_sizes: {_sizes(draft.check_sizes)}", "check_sizes", "verified only"))
    lines.append(line(f"defaults: {{dtype: {_word(draft.dtype)}}}", "dtype"))
    if baseline is not None:
        lines.append(line(f"baseline: {{{_word(draft.dtype)}: {_word(baseline[0])}}}", "baseline"))
    if commented:
        lines.append("# measure: {cache: cold, samples: 50, warmup_ms: 1000, processes: 1}")
        lines.append("# build: {std: c++17, flags: [], include: [], link: [], arch: auto}")
    lines += ["variants:", f"  - name: {_word(draft.name)}", line(f"    {draft.kind}: {_word(draft.source)}", "source")]
    if draft.call is not None:
        lines.append(line(f"    call: {json.dumps(draft.call)}", "call"))
    if draft.params:
        given = ", ".join(f"{_word(name)}: {_word(value)}" for name, value in draft.params.items())
        lines.append(line(f"    params: {{{given}}}", "params"))
    if commented:
        first = draft.literals.dims[0]
        lines.append(f'    # requires: ["{first} % 128 == 0"]  # sizes for which this does not hold are skipped')
        lines.append("    idea: one sentence for the report")
    if baseline is not None:
        lines += [f"  - name: {_word(baseline[0])}", f"    python: {_word(baseline[1])}"]
        if draft.baseline_dtype != draft.dtype:
            lines.append(f"    dtype: {_word(draft.baseline_dtype)}")
    return "\n".join(lines) + "\n"


def _sizes(sizes: Sequence[Sequence[int]]) -> str:
    return "[" + ", ".join("[" + ", ".join(str(n) for n in size) + "]" for size in sizes) + "]"


def _word(text: str) -> str:
    """Return a text as YAML: bare where nobody could read it in another way, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./+-]*(:[A-Za-z_]\w*)?|0|[1-9][0-9]{0,17}", text, re.ASCII) is not None
    special = text.lower() in ("true", "false", "null", "on", "off", "yes", "no", "y", "n")
    return text if plain and not special else json.dumps(text)
