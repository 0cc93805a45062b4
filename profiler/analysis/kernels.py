"""The kernels of a variant, longest first: what was counted in their launches beside what the binary says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.rundata import TIMED_STATUSES, Launch, Row, RunData, Value

#: Missing because a library's kernel has no binary here.
NO_BINARY = "a library's kernel: its binary is not part of this run"


@dataclass(frozen=True)
class Kernel:
    """One launch of a variant, or a compiled kernel when nothing of the variant was profiled."""

    data: RunData
    variant: str
    size: str
    name: str
    launch: Launch | None
    share: float | None  #: of the variant's profiled time

    def counted(self, metric: str) -> Value:
        """Return a counter of the launch; a count below zero is not believed."""
        if self.launch is None:
            return Value(None, why=no_counters(self.data, self.variant))
        value = self.data.launch_value(self.variant, self.size, self.launch, metric)
        if value.value is not None and value.value < 0:
            return Value(None, value.unit, value.origin, f"the counter reads {formatting.number(value.value)}")
        if value.value is None and value.why == "not_collected" and _refused(self.data):
            return Value(None, value.unit, value.origin, "not_permitted")
        return value

    def compiled(self, metric: str) -> Value:
        """Return a metric of the kernel's binary."""
        if why := self.no_binary:
            return Value(None, why=why)
        return self.data.static(self.variant, metric, self.name)

    def compiled_counts(self, stem: str) -> dict[str, int]:
        """Return the counts of the binary whose names start with a stem: ``sass.opcode.`` gives them by opcode."""
        found = {} if self.no_binary else self.data.static_counts(self.variant, stem, self.name)
        return {name.removeprefix(stem): int(value) for name, value in found.items()}

    @property
    def no_binary(self) -> str:
        """Why nothing is known of the kernel's binary; empty when it is."""
        if not self.data.compiled_kernels(self.variant):
            return no_binary(self.data, self.variant)
        if self.data.compiled_kernel(self.variant, self.name) is None:
            return "the binary of this variant has no kernel of this name"
        return ""

    @property
    def instructions(self) -> Sequence[Row]:
        """The counters per instruction of the launch."""
        return self.data.instructions(self.variant, self.size, self.launch) if self.launch is not None else ()

    @property
    def no_instructions(self) -> str:
        """Why there are no counters per instruction."""
        if self.launch is None or _refused(self.data):
            return Value(None, why=no_counters(self.data, self.variant)).why_text
        sources = (self.data.manifest.get("profile") or {}).get("sources")
        return "profile.sources is false in this run" if sources is False else "not collected in this run"


def kernels(data: RunData, variant: str, size: str) -> list[Kernel]:
    """Return a variant's launches, longest first; its compiled kernels, most registers first, where it has none."""
    launches = data.launches(variant, size)
    if launches:
        total = sum(data.launch_weight(variant, size, one) for one in launches)
        ordered = sorted(launches, key=lambda one: -data.launch_weight(variant, size, one))
        return [
            Kernel(data, variant, size, one[1], one, data.launch_weight(variant, size, one) / total if total else None)
            for one in ordered
        ]
    compiled = [Kernel(data, variant, size, name, None, None) for name in data.compiled_kernels(variant)]
    return sorted(compiled, key=lambda one: -(one.compiled("ptxas.registers").value or 0.0))


def profiled_size(data: RunData, variant: str) -> str:
    """Return the size with the most work at which a variant was profiled; the main one of the run when it was not."""
    sizes = [size for size in data.sizes if data.launches(variant, size)]
    return max(sizes, key=data.work, default=data.main_size)


def parameters(row: Row) -> Mapping[str, Any]:
    """Return a variant's parameters by name; empty when it has none or they cannot be read."""
    try:
        found = json.loads(row["params"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def no_counters(data: RunData, variant: str) -> str:
    """Return why a variant has no counters: a word of the ``metrics`` frame, or words."""
    row = data.variant(variant)
    status = str(row["status"] or "not_run") if row is not None else "not_run"
    if status in TIMED_STATUSES:
        return "not_permitted" if _refused(data) else data.profile_why(variant)
    stage = (data.manifest.get("stages") or {}).get("profile") or {}
    reason = str(stage.get("reason") or "") if status == "not_run" else ""
    return f"not profiled: {reason or formatting.status(status)}"


def _refused(data: RunData) -> bool:
    return (data.manifest.get("profile") or {}).get("outcome") == "not_permitted"


def no_binary(data: RunData, variant: str) -> str:
    """Return why nothing is known of a variant's binary."""
    row = data.variant(variant)
    if row is None:
        return "not_collected"
    if row["status"] == "build_failed":
        return "it was not built"
    if data.manifest.get("foreign"):
        return "a report from elsewhere: the binary is not part of it"
    if row["kind"] == "python":
        return NO_BINARY
    if row["kind"] == "command":
        return "a program of its own: its binary is not taken apart"
    stage = (data.manifest.get("stages") or {}).get("static") or {}
    return str(stage.get("reason") or "not_collected")
