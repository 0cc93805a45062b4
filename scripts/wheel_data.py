"""Build hook: a wheel carries the kernels, the experiments and the recorded gemm_ladder; an editable install none of
them, since it would serve stale copies of what lies in the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelData(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        files = [
            *root.glob("kernels/**/*"),
            *root.glob("experiments/*.yaml"),
            *(
                file
                for name in ("rmsnorm_quant", "system", "command_example", "tuning")
                for file in root.glob(f"experiments/{name}/*.*")
            ),
        ]
        files += root.glob("experiments/recorded/*/gemm_ladder/**/*")
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                inside = path.relative_to(root).as_posix()
                build_data["force_include"][str(path)] = f"profiler/_data/{inside}"
