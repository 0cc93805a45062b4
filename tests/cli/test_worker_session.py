"""The pipeline's side of the worker: who is blamed, what is kept, and that the rest go on in a new worker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_less_run import fake_session, make_run

from profiler.model import ProblemRef
from profiler.timing import time_stage
from profiler.verify import check_jobs, verify_stage
from profiler.worker.spec import problem_ref, problem_spec
from profiler.worker_session import Outcome, WorkerSession, WorkerUnusable

NAMES = ("good", "other", "third")


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        ("crash", "crashed", "SIGSEGV"),
        ("hang", "timeout", "no answer for 1 s"),
        ("sticky", "crashed", "illegal address"),
        ("wrong", "wrong_result", "the reference 2"),
        ("launch_failed", "launch_failed", "CUDA error 9"),
    ],
)
def test_a_variant_that_fails_verification_fails_alone(tmp_path: Path, behaviour: str, status: str, words: str) -> None:
    run = make_run(tmp_path, *NAMES, timeout_s=1.0)
    with fake_session(tmp_path, {"other": behaviour}) as session:
        verify_stage(run, session, None)
        started = session.started
    assert run.status() == {"good": "ok", "other": status, "third": "ok"}
    variants = run.dir.frame("variants").set_index("name")
    assert words in variants.loc["other", "reason"]
    assert dict(variants["verified"]) == {"good": "yes", "other": "no", "third": "yes"}
    assert started == (2 if behaviour in ("crash", "hang", "sticky") else 1)
    checks = run.dir.frame("checks")
    assert {(r.variant, r.size) for r in checks.itertuples() if r.status == "ok"} == {
        (name, size) for name in ("good", "third") for size in ("M=64,N=64,K=64", "M=67,N=131,K=35")
    }


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        ("crash_in_time", "crashed"),
        ("hang_in_time", "timeout"),
        ("launch_failed_in_time", "launch_failed"),
        ("wrong_in_time", "wrong_after_timing"),
    ],
)
def test_a_variant_that_fails_while_timed_has_no_time_and_the_others_have(
    tmp_path: Path, behaviour: str, status: str
) -> None:
    run = make_run(tmp_path, *NAMES, timeout_s=1.0)
    with fake_session(tmp_path, {"third": behaviour}) as session:
        verify_stage(run, session, None)
        time_stage(run, session, None)
    assert run.status() == {"good": "ok", "other": "ok", "third": status}
    samples = run.dir.frame("samples")
    assert set(samples["variant"]) == {"good", "other"}
    assert sorted(samples.loc[samples["variant"] == "good", "order"]) == [0, 1, 2]
    assert set(run.dir.frame("checks")["when"]) >= {"before", "after"}


def test_what_was_sampled_beside_a_lost_variant_is_measured_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, *NAMES, timeout_s=1.0)
    with fake_session(tmp_path, {"third": "crash_in_time"}) as session:
        verify_stage(run, session, None)
        time_stage(run, session, None)
    samples = run.dir.frame("samples")
    assert len(samples) == 2 * 3  # not the rows of the broken attempt as well


@pytest.mark.parametrize(("behaviour", "words"), [("no_start", "error 999"), ("silent_start", "exit code 3")])
def test_a_worker_that_cannot_start_is_one_clear_error(tmp_path: Path, behaviour: str, words: str) -> None:
    session = fake_session(tmp_path, {"*": behaviour})
    with pytest.raises(WorkerUnusable, match=words):
        session.start()


def test_a_failure_of_the_worker_itself_blames_no_variant(tmp_path: Path) -> None:
    run = make_run(tmp_path, *NAMES)
    with fake_session(tmp_path, {"*": "fails"}) as session, pytest.raises(WorkerUnusable, match="AttributeError"):
        verify_stage(run, session, None)
    assert set(run.status().values()) == {"ok"}


def test_the_worst_of_a_variants_failures_is_its_status(tmp_path: Path) -> None:
    run = make_run(tmp_path, *NAMES)
    with fake_session(tmp_path, {"other": "wrong_then_crash"}) as session:
        verify_stage(run, session, None)
    assert run.status() == {"good": "ok", "other": "crashed", "third": "ok"}
    assert "SIGSEGV" in run.dir.frame("variants").set_index("name").loc["other", "reason"]


def test_checks_go_size_by_size_and_baselines_first(tmp_path: Path) -> None:
    run = make_run(tmp_path, *NAMES)
    run.experiment = replace(run.experiment, baseline={"fp32": "third"})
    jobs = check_jobs(run, run.variants, "before")
    assert [(job["variant"], job["size"], job["stray"]) for job in jobs] == [
        (name, size, size == "M=64,N=64,K=64")
        for size in ("M=67,N=131,K=35", "M=64,N=64,K=64")
        for name in ("third", "good", "other")
    ]


def test_later_processes_keep_the_methods_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "good", "other")
    run.settings = replace(run.settings, processes=2)
    told: list[dict[str, str]] = []
    real = WorkerSession.ask

    def ask(session: WorkerSession, command: Mapping[str, Any], *rest: Any) -> Outcome:
        if command["cmd"] == "time":
            told.append(command["plan"]["methods"])
        return real(session, command, *rest)

    monkeypatch.setattr(WorkerSession, "ask", ask)
    with fake_session(tmp_path, {}) as session:
        time_stage(run, session, None)
    assert told == [{}, {"good": "single", "other": "single"}]
    assert set(run.dir.frame("samples")["process"]) == {0, 1}


def test_a_problem_of_the_user_comes_through_the_pipe(tmp_path: Path) -> None:
    ref = ProblemRef("problem.py:Mine", tmp_path / "problem.py", {"a": "b"}, (), (), {"seed": 3})
    assert problem_ref(json.loads(json.dumps(problem_spec(ref)))) == ref


def test_every_variant_may_fail(tmp_path: Path) -> None:
    run = make_run(tmp_path, *NAMES, timeout_s=1.0)
    with fake_session(tmp_path, dict.fromkeys(NAMES, "crash")) as session:
        verify_stage(run, session, None)
        time_stage(run, session, None)
    assert set(run.status().values()) == {"crashed"}
    assert len(run.dir.frame("samples")) == 0


def test_a_hanging_worker_is_gone_after_its_timeout(tmp_path: Path) -> None:
    run = make_run(tmp_path, "good", timeout_s=1.0)
    started = time.monotonic()
    with fake_session(tmp_path, {"good": "hang"}) as session:
        verify_stage(run, session, None)
    assert time.monotonic() - started < 8
    assert run.status() == {"good": "timeout"}
