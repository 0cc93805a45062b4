"""The run in hand: what every stage is given."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler import frames
from profiler.errors import LadderError
from profiler.model import Experiment, Variant
from profiler.problem import Problem
from profiler.rundir import RunDir
from profiler.toolchain import Gpu, Toolchain


@dataclass(frozen=True)
class Settings:
    """The flags of the command line that stages look at. Times in seconds."""

    timeout_s: float = 120.0  #: for one variant in one stage
    only: tuple[str, ...] = ()
    force: bool = False  #: no cache is read
    replay: str = "auto"  #: auto, never, or the path of a run
    processes: int | None = None
    profile_set: str | None = None
    gpu: str = "0"
    reuse_times: Path | None = None  #: the runs directory whose times are taken over where nothing has changed
    trace: bool = False  #: the stage was asked for by name, whatever the experiment says
    lock_clocks: bool = False
    clock_mhz: int | None = None  #: with lock_clocks; None: the card's default
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)


@dataclass
class Run:
    """One run of one experiment. Stages read and write ``dir``; nothing else is shared between them."""

    experiment: Experiment
    problem: type[Problem]
    dir: RunDir
    settings: Settings
    toolchain: Toolchain
    gpu: Gpu | None
    say: Callable[[str], None] = lambda line: None  #: progress, one line at a time, to standard error
    detail: Callable[[str], None] = lambda line: None  #: what -v adds: what was looked for in a cache, and why

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants of this run, in the order of the file."""
        only = self.settings.only
        return tuple(v for v in self.experiment.variants if not only or v.name in only)

    def status(self) -> dict[str, str]:
        """Return each variant's status so far."""
        data = self.dir.frame("variants")
        return {str(row["name"]): str(row["status"]) for row in frames.rows_of(data)}

    def alive(self) -> list[Variant]:
        """Return the variants that nothing has failed yet, those that can be built, checked, timed and profiled."""
        state = self.status()
        return [v for v in self.variants if state.get(v.name) == "ok"]

    def fail(self, failures: Mapping[str, tuple[str, str]]) -> None:
        """Set status and reason of variants, ``{name: (status, reason)}``; the worst status of a variant stays."""
        if not failures:
            return
        rows = frames.rows_of(self.dir.frame("variants"))
        for row in rows:
            if row["name"] in failures:
                status, reason = failures[row["name"]]
                if frames.worst_status([status, row["status"] or "ok"]) == status and status != row["status"]:
                    row["status"], row["reason"] = status, reason
        self.dir.write_frame("variants", rows)

    def note(self, key: str, value: Any) -> None:
        """Keep a fact in the manifest."""
        self.dir.manifest[key] = value
        self.dir.save()

    def remark(self, line: str) -> None:
        """Keep a line that the report shows above how it was measured; once, however often it is said."""
        notes = self.dir.manifest["notes"]
        if line not in notes:
            self.note("notes", [*notes, line])

    @property
    def builds(self) -> dict[str, dict[str, Any]]:
        """What the build stage left: per CUDA variant ``key`` (its folder in the build cache), ``arch``, ``compiler``,
        ``command`` (the argument list with project-relative paths), ``seconds``, ``cached``.
        """
        return dict(self.dir.manifest.get("builds", {}))


def cache_root() -> Path:
    """Return the user's private cache: ``$XDG_CACHE_HOME/kernel-ladder``; made with mode 0700. Raises ``LadderError``
    where it cannot be.
    """
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "kernel-ladder"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LadderError(
            f"cannot make the cache {path}: {error.strerror}", hint="set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return path


def params_text(variant: Variant) -> str:
    """Return a variant's params as the frames write them: compact JSON with sorted keys."""
    return json.dumps(dict(variant.params), sort_keys=True, separators=(",", ":"))
