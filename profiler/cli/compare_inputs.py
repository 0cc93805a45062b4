"""What ``compare_runs`` was given: which runs or files, and the thresholds, checked before anything is compared."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.comparison import kept
from profiler.comparison.baselines import find_run, run_name
from profiler.comparison.fingerprint import REFUSED
from profiler.comparison.model import Settings
from profiler.errors import UsageError
from profiler.foreign import is_foreign
from profiler.rundir import RunDir
from profiler.suggest import near_match


@dataclass(frozen=True)
class Inputs:
    """Two runs, two files of a profiler, or one measurement that was kept; one run alone to be kept as a baseline."""

    runs: tuple[RunDir, ...] = ()
    files: tuple[Path, Path] | None = None
    kept: kept.Kept | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The runs as people name them."""
        found = [run_name(run) for run in self.runs]
        return (found[0], found[-1])

    @property
    def kept_folder(self) -> Path:
        """Where the measurement is kept."""
        assert self.kept is not None
        return self.kept.before.path.parent


def read_inputs(words: Sequence[str], runs_dir: Path) -> Inputs:
    """Return what the words name; ``UsageError`` for what is not there, and for a run beside a file."""
    files = [is_foreign(Path(word)) for word in words]
    if len(words) == 2 and all(files):
        return Inputs(files=(Path(words[0]), Path(words[1])))
    if any(files):
        other = words[files.index(False)] if False in files else ""
        if other:
            raise UsageError(
                f"{words[files.index(True)]} is a file and {other} is a run: only like is held against like"
            )
        raise UsageError("two files are compared with each other, but one is given")
    if len(words) == 1:
        path = next(
            (p for p in (Path(words[0]), runs_dir / words[0], runs_dir / kept.FOLDER / words[0]) if kept.is_kept(p)),
            None,
        )
        if path is not None:
            found = kept.open_kept(path)
            return Inputs(runs=(found.before, found.after), kept=found)
    for word in words:
        if kept.is_kept(Path(word)):
            raise UsageError(f"{word} is a comparison that was measured side by side; give it alone")
    return Inputs(runs=tuple(RunDir.open(find_run(runs_dir, word)) for word in words))


def settings_of(
    max_regression: str, min_effect: str, fail_on: str | None, allow: Collection[str], pairs: int | None
) -> Settings:
    """Return the thresholds that the flags ask for."""
    if fail_on not in (None, "latent"):
        raise UsageError(f"--fail-on {fail_on}: only latent is known")
    for key in allow:
        if key not in REFUSED:
            near = near_match(key, REFUSED)
            hint = f'did you mean "{near}"?' if near else f"the keys are {', '.join(REFUSED)}"
            raise UsageError(f"--allow-mismatch {key}: no such key", hint=hint)
    defaults = Settings()
    return Settings(
        max_regression=_share("--max-regression", max_regression),
        min_effect=_share("--min-effect", min_effect),
        fail_on_latent=fail_on == "latent",
        allow=tuple(key for key in REFUSED if key in allow),
        pairs=defaults.pairs if pairs is None else (pairs,),
        confirmation_pairs=defaults.confirmation_pairs if pairs is None else pairs,
    )


def _share(flag: str, text: str) -> float:
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent <= 1000:
        raise UsageError(f"{flag} {text}: expected a percentage, such as 5 or 2.5%")
    return percent / 100
