"""Golden files: what each parser makes of a captured text. ``scripts/update_golden.py`` writes them, tests read them.

Each folder of ``tests/unit/golden`` has inputs ``*.txt`` beside the expected ``*.json``; ``RENDERERS`` says which
function makes the one from the other. To add a parser, add a folder and a line here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profiler.parse import cuobjdump, ptxas, sass

GOLDEN = Path(__file__).resolve().parent / "unit" / "golden"


def render_sass(text: str) -> list[dict[str, Any]]:
    """Return what is derived from each kernel, and the first instructions themselves."""
    return [
        {
            "name": kernel.name,
            "stable_name": sass.stable_name(kernel.name),
            "arch": kernel.arch,
            "instructions": len(kernel.instructions),
            "first": [f"{i.pc:#06x} {i.text}" for i in kernel.instructions[:6]],
            "classes": kernel.class_mix(),
            "opcodes": kernel.opcode_mix(),
            "widths": {f"{opcode}.{bits}": count for (opcode, bits), count in kernel.widths().items()},
            "shared": kernel.uses_shared_memory,
        }
        for kernel in sass.parse(text)
    ]


def render_cuobjdump(text: str) -> dict[str, Any]:
    """Return resources and launch bounds."""
    return {"usage": plain(cuobjdump.resource_usage(text)), "bounds": plain(cuobjdump.launch_bounds(text))}


RENDERERS: Mapping[str, Callable[[str], Any]] = {
    "ptxas": lambda text: plain(ptxas.parse(text)),
    "sass": render_sass,
    "cuobjdump": render_cuobjdump,
}


def plain(value: Any) -> Any:
    """Return dataclasses, mappings and tuples as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def inputs() -> list[Path]:
    """Return every captured text."""
    return [path for folder in RENDERERS for path in sorted((GOLDEN / folder).glob("*.txt"))]


def rendered(path: Path) -> str:
    """Return the golden text of a captured one."""
    made = RENDERERS[path.parent.name](path.read_text(encoding="utf-8"))
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def others() -> dict[Path, str]:
    """Return the golden files that are made without a captured text, with what they should hold."""
    from profiler.comparison.markdown import markdown
    from tests.compare_data import regression

    return {GOLDEN / "comparison" / "regression.md": markdown(regression())}


def expected(path: Path) -> Path:
    """Return the golden file of a captured text."""
    return path.with_suffix(".json")
