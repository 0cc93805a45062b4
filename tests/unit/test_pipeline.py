"""The pipeline's list of stages, its exit codes, and that each stage runs once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpu_less_run import make_experiment, make_run

from profiler import pipeline
from profiler.cli.run_experiment import choose_stages, worse_exit
from profiler.errors import Exit, UsageError
from profiler.model import BuildOptions
from profiler.pipeline import Choice, execute, exit_code
from profiler.plan import arch_of
from profiler.rundir import RunDir
from profiler.toolchain import Gpu


@pytest.mark.parametrize(
    ("origins", "statuses", "checks", "expected"),
    [
        (["measured", "measured"], ["ok", "ok"], True, Exit.OK),
        (["recorded", "recorded"], ["ok", "ok"], True, Exit.OK),
        (["measured", "none"], ["ok", "skipped"], True, Exit.OK),
        (["measured", "none"], ["ok", "wrong_result"], True, Exit.FAILED),
        (["recorded", "none"], ["ok", "not_run"], True, Exit.FAILED),
        (["none", "none"], ["not_run", "build_failed"], False, Exit.NOTHING),
        (["none", "none"], ["wrong_result", "skipped"], True, Exit.FAILED),
        (["none", "none"], ["ok", "ok"], True, Exit.OK),  # verified, and no more was asked for
        (["measured", "measured"], ["ok", "profile_failed"], True, Exit.FAILED),
    ],
)
def test_exit_codes(tmp_path: Path, origins: list[str], statuses: list[str], checks: bool, expected: Exit) -> None:
    run = make_run(tmp_path, "a", "b")
    rows = [{"name": n, "origin": o, "status": s} for n, o, s in zip("ab", origins, statuses, strict=True)]
    run.dir.write_frame("variants", rows)
    if checks:
        run.dir.write_frame("checks", [{"variant": "a", "status": "ok"}])
    assert exit_code(run, None) == expected


def test_a_gpu_that_is_there_and_broken_is_exit_3_whatever_the_rows(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    assert exit_code(run, "the driver does not answer") == Exit.NOTHING


def test_where_no_stage_on_the_device_was_asked_for_nothing_is_missing(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    assert exit_code(run, None) == Exit.NOTHING
    assert exit_code(run, None, measuring=False) == Exit.OK
    run.fail({"a": ("build_failed", "a.cu:1: error")})
    assert exit_code(run, None, measuring=False) == Exit.FAILED


def test_stages_run_in_order_once_and_the_report_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "a", "b")
    seen: list[str] = []
    monkeypatch.setattr(pipeline, "build_stage", lambda run: seen.append("build"))
    monkeypatch.setattr(pipeline, "static_stage", lambda run: seen.append("static"))

    def render(directory: RunDir) -> None:
        seen.append("report")

    choice = Choice(("build", "static", "verify", "time", "profile", "report"))
    assert execute(run, choice, render) == Exit.NOTHING
    assert seen == ["build", "static", "report"]
    assert execute(run, choice, render) == Exit.NOTHING
    assert seen == ["build", "static", "report", "report"]
    stages = run.dir.manifest["stages"]
    assert stages["build"]["status"] == "done"
    assert stages["verify"] == {"status": "skipped", "reason": "no GPU"}


def test_the_architecture_of_one_variant_is_not_that_of_all() -> None:
    device = Gpu(0, "NVIDIA H200", "GPU-fake", (9, 0), "580.159", 150 << 30)
    both = make_experiment("a", "b")
    for archs, expected in ((("auto", "auto"), "sm_90a"), (("sm_80", "auto"), "sm_90a"), (("sm_80", "sm_80"), "sm_80")):
        named = [replace(v, build=BuildOptions(arch=arch)) for v, arch in zip(both.variants, archs, strict=True)]
        assert arch_of(replace(both, variants=tuple(named)), device, None) == expected
    torch_row = replace(both.variants[1], kind="python")
    own = replace(both.variants[0], build=BuildOptions(arch="sm_80"))
    assert arch_of(replace(both, variants=(own, torch_row)), device, None) == "sm_80"


def test_an_interrupt_leaves_the_stage_to_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "a")

    def interrupted(run: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "build_stage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(run, Choice(("build",)), lambda directory: None)
    assert RunDir.open(run.dir.path).manifest["stages"]["build"]["status"] == "interrupted"
    done: list[str] = []
    monkeypatch.setattr(pipeline, "build_stage", lambda run: done.append("build"))
    execute(run, Choice(("build",)), lambda directory: None)
    assert done == ["build"]


@pytest.mark.parametrize(
    ("stages", "skip", "quick", "expected"),
    [
        (None, [], False, pipeline.STAGES),
        (None, ["profile"], False, ("build", "static", "verify", "time", "trace", "report")),
        (None, ["profile,report"], False, ("build", "static", "verify", "time", "trace")),
        ("verify,build", [], False, ("build", "verify")),
        (None, [], True, ("build", "verify", "time")),
    ],
)
def test_stages_are_chosen_by_word(stages: str | None, skip: list[str], quick: bool, expected: tuple[str, ...]) -> None:
    assert choose_stages(stages, skip, quick=quick, resumed=False) == expected


@pytest.mark.parametrize(
    ("stages", "skip", "quick", "words"),
    [
        ("build,tme", [], False, "'tme' is no stage"),
        ("build,time", [], False, "time without verify"),
        (None, ["verify"], False, "time without verify"),
        ("build", [], True, "exclude each other"),
    ],
)
def test_what_cannot_be_chosen_is_a_usage_error(stages: str | None, skip: list[str], quick: bool, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_stages(stages, skip, quick=quick, resumed=False)


def test_the_worst_exit_code_of_several_experiments_wins() -> None:
    assert worse_exit(Exit.OK, Exit.FAILED) == Exit.FAILED
    assert worse_exit(Exit.NOTHING, Exit.FAILED) == Exit.NOTHING
    assert worse_exit(Exit.NOTHING, Exit.USAGE) == Exit.USAGE


@pytest.mark.parametrize(
    ("in_file", "by_name", "traced"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_a_trace_is_taken_only_where_it_is_asked_for(
    tmp_path: Path, in_file: bool, by_name: bool, traced: bool
) -> None:
    run = make_run(tmp_path, "a")
    run.experiment = replace(run.experiment, trace=in_file)
    run.settings = replace(run.settings, trace=by_name)
    assert ("trace" in pipeline.asked(run, Choice(pipeline.STAGES)).stages) == traced


def test_a_run_that_only_traced_has_measured_something(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    assert pipeline.exit_code(run, None) == Exit.NOTHING
    run.note("trace", {"outcome": "ok"})
    assert pipeline.exit_code(run, None) == Exit.OK
