"""What a failed build says: the first error, in the user's own file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profiler import process
from profiler.build_sources import GENERATED
from profiler.experiment import place_of
from profiler.model import Variant
from profiler.parse.nvcc import first_error
from profiler.run import Run
from profiler.suggest import near_match
from profiler.toolchain import tool_env


def compiler_error(run: Run, log: str, said: process.Completed, facts: Mapping[str, Any]) -> str:
    """Return the compiler's first error, in the user's file and line; what its end says where it has none."""
    tools = run.toolchain
    archs = _architectures(run) if "nsupported gpu architecture" in log else ""
    error = first_error(
        log,
        facts["files"],
        nvcc=tools.nvcc.version if tools.nvcc else "",
        host=tools.host_compiler.version if tools.host_compiler else "",
        archs=archs,
    )
    if error is not None:
        return error.text
    return f"nvcc ended with {process.describe_exit(said.returncode)}: {process.tail(log, 1) or 'and said nothing'}"


def in_terms_of_the_call(run: Run, variant: Variant, reason: str) -> str:
    """Return a reason whose error in the generated call stands where the user wrote the call."""
    match = re.match(rf"{re.escape(GENERATED)}:\d+: (.*)", reason, re.S)
    if match is None or variant.call is None:
        return reason
    known = [*(arg.name for arg in run.problem.args), *run.problem.dims, "stream"]
    hint = ""
    if absent := re.search(r'identifier "(\w+)" is undefined', match[1]):
        near = near_match(absent[1], known)
        hint = f' (did you mean "{near}"?)' if near else f" (besides the source's own names: {', '.join(known)})"
    place = place_of(run.experiment, variant, "call")
    where = f"{place} {variant.call}" if place == "--call" else f"{place}: call: {variant.call}"
    return f"{where}: {match[1]}{hint}"


def _architectures(run: Run) -> str:
    """Return what nvcc builds for, as a list in words."""
    assert run.toolchain.nvcc is not None
    try:
        said = process.run([run.toolchain.nvcc.path, "--list-gpu-arch"], timeout=10, env=tool_env(run.toolchain))
    except process.ToolMissing:
        return ""
    return ", ".join(word.replace("compute_", "sm_") for word in said.stdout.split() if word.startswith("compute_"))
