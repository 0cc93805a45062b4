"""The profile stage: which launches are whose, what is kept, what is profiled again, what the frames say."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, profile, profile_cache
from profiler.analysis.environment import gaps
from profiler.analysis.kernels import no_counters
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import WHY_TEXT, RunData
from profiler.metrics import HEADLINE, METRICS, base_name, requests
from profiler.model import ProfileOptions
from profiler.ncu_command import DOMAIN, range_name
from profiler.parse.ncu import RawLaunch, RawReport
from profiler.run import Run, Settings
from profiler.toolchain import Gpu, Tool, Toolchain
from tests.gpu_less_run import make_run

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "ncu"
GPU = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0), "580.1", 1 << 37)
SIZE = "M=64,N=64,K=64"


class Bench:
    """A run with a fake ncu; ``reads`` are the range names of the launches of each report that is read, in turn."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *names: str) -> None:
        self.folder, self.patch = folder, patch
        self.said: list[str] = []
        self.calls = folder / "calls.jsonl"
        self.run: Run = make_run(folder, *names, said=self.said)
        self.run.gpu = GPU
        self.run.toolchain = Toolchain(ncu=Tool(FAKE, "2025.3.1.0"))
        listing = folder / "query.txt"
        filler = [f"filler__{i} Counter" for i in range(100)]
        listing.write_text("\n".join([*filler, *(f"{base_name(n)}  Counter" for n in requests() if "__" in n)]))
        report = folder / "canned.ncu-rep"
        report.write_bytes(b"NVR\0canned")
        self.set(FAKE_NCU="copy", FAKE_NCU_CALLS=self.calls, FAKE_NCU_QUERY=listing, FAKE_NCU_REPORT=report)

    def set(self, **env: object) -> None:
        for name, value in env.items():
            self.patch.setenv(name, str(value))

    def again(self, **changes: Any) -> None:
        """Take a fresh run directory with the same variants; ``changes`` are settings."""
        folder = self.folder / f"again-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        old, names = self.run, [v.name for v in self.run.experiment.variants]
        self.run = make_run(folder, *names, said=self.said)
        self.run.gpu, self.run.toolchain, self.run.experiment = old.gpu, old.toolchain, old.experiment
        self.run.settings = dataclasses.replace(Settings(timeout_s=2.0), **changes)

    def reads(self, *reports: list[str]) -> None:
        """Let the reports that are read hold launches in these ranges."""
        left = list(reports)

        def read_report(path: Path, out_dir: Path, **_: Any) -> RawReport:
            return RawReport(tuple(launch(name) for name in left.pop(0)), "sha", "reader")

        self.patch.setattr(profile, "read_report", read_report)

    def profiled(self) -> list[list[str]]:
        """Return the ranges of each call of ncu that profiled."""
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()] if self.calls.is_file() else []
        return [
            [call[i + 1] for i, word in enumerate(call) if word == "--nvtx-include"] for call in calls if "-o" in call
        ]

    def value(self, variant: str, metric: str) -> Any:
        rows = [
            r for r in frames.rows_of(self.run.dir.frame("metrics")) if (r["variant"], r["metric"]) == (variant, metric)
        ]
        return [row["why"] or row["value"] for row in rows]

    @property
    def note(self) -> Mapping[str, Any]:
        note: Mapping[str, Any] = self.run.dir.manifest["profile"]
        return note


def launch(name: str, **scalars: Any) -> RawLaunch:
    """Return a launch in a range; its registers are the number in the range's name, plus one."""
    values = {
        "launch__registers_per_thread": (int(name.rpartition(".")[2]) + 1, "register/thread"),
        "profiler__replayer_passes": (26.0, "pass"),
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": (2.5, "inst"),
        **scalars,
    }
    rules = ({"rule_identifier": "R", "rule_message": {"title": "T", "message": "advice", "type": 2}},)
    pcs = {"columns": COLUMNS, "rows": [[0, "FFMA R0", "k.cu", 3, {"wait": 5}, 8, 5, None, None, 4, 3]]}
    return RawLaunch("k", "k(float*)", "_Zk", ((DOMAIN, (name,), ()),), values, pcs, rules)


COLUMNS = (
    "pc", "sass", "file", "line", "stalls", "executed", "samples", "sectors", "sectors_ideal", "shared_wavefronts",
    "shared_wavefronts_ideal",
)  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    return lambda *names: Bench(tmp_path, monkeypatch, *names)


def test_one_process_for_all_and_launches_by_range_name(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b", "c")
    b.reads(["kl.0002", "kl.0000", "kl.0001", "kl.0001"])  # in any order, and b has two kernels
    profile.profile_stage(b.run)
    assert b.profiled() == [[f"kernel-ladder@{range_name(i)}/" for i in range(3)]]
    assert [b.value(name, "registers") for name in "abc"] == [[1], [2, 2], [3]]
    data = frames.rows_of(b.run.dir.frame("metrics"))
    assert {(r["variant"], r["launch"]) for r in data} == {("a", 0), ("b", 0), ("b", 1), ("c", 0)}
    assert {r["size"] for r in data} == {SIZE}
    assert {r["kernel"] for r in data} == {"k(float*)"}
    assert {r["metric"] for r in data} == {name for name, one in METRICS.items() if one.asked}
    assert {r["origin"] for r in data} == {"ncu"}
    assert len(b.run.dir.frame("stalls")) == len(b.run.dir.frame("rules")) == 4
    (source, *_) = frames.rows_of(b.run.dir.frame("source"))
    assert (source["sass"], source["excess"], source["samples_by_reason"]) == ("FFMA R0", 1, '{"wait":5}')
    assert b.run.status() == dict.fromkeys("abc", "ok")
    note = b.note
    assert note["outcome"] == "ok"
    assert note["passes"] == 26
    assert note["reports"] == {"profile.ncu-rep": "sha"}
    assert note["ncu_seconds"] > 0
    assert (note["cache_control"], note["clock_control"], note["set"]) == ("all", "none", "ladder")
    assert note["ncu_version"] == "2025.3.1.0"
    assert (note["profiled"], note["reused"]) == (3, 0)
    assert b.run.dir.raw("profile.ncu-rep").read_bytes() == b"NVR\0canned"


def test_a_variant_without_a_result_is_profiled_again_alone_once(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b", "c")
    b.reads(["kl.0000"], ["kl.0000"], [])
    profile.profile_stage(b.run)
    assert [len(ranges) for ranges in b.profiled()] == [3, 1, 1]
    assert b.value("b", "registers") == [1]
    assert b.run.status() == {"a": "ok", "b": "ok", "c": "profile_failed"}
    row = next(r for r in frames.rows_of(b.run.dir.frame("variants")) if r["name"] == "c")
    assert row["reason"] == f"{SIZE}: its range holds no launch"
    assert {b.value("c", name)[0] for name in HEADLINE} == {"failed"}
    assert len(b.value("c", "duration")) == 1


def test_the_program_tells_why_a_pair_has_no_launch(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b")
    b.set(FAKE_NCU="app_failed", FAKE_NCU_STATUS='{"index": 0, "status": "ok"}\n{"index": 1, "status": "failed", "reason": "RuntimeError: no /home/me/k.so"}\nhalf a li')  # fmt: skip  # noqa: E501
    b.reads(["kl.0000"], [])
    profile.profile_stage(b.run)
    assert b.run.status() == {"a": "ok", "b": "profile_failed"}
    assert any("RuntimeError: no k.so" in line for line in b.said)


def test_other_rows_stay(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    static = {"variant": "a", "size": SIZE, "metric": "ptxas.registers", "value": 30.0, "unit": "1", "origin": "ptxas"}
    old = {"variant": "a", "size": SIZE, "metric": "registers", "value": 99.0, "unit": "register", "origin": "ncu"}
    other = {"variant": "z", "size": SIZE, "metric": "registers", "value": 7.0, "unit": "register", "origin": "ncu"}
    b.run.dir.write_frame("metrics", [static, old, other])
    b.reads(["kl.0000"])
    profile.profile_stage(b.run)
    assert b.value("a", "ptxas.registers") == [30.0]
    assert b.value("a", "registers") == [1]
    assert b.value("z", "registers") == [7.0]


def test_profiles_are_reused_and_only_the_missing_pairs_are_made(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b")
    b.reads(["kl.0000", "kl.0001"])
    profile.profile_stage(b.run)
    first = {name: frames.rows_of(b.run.dir.frame(name)) for name in profile_cache.FRAMES}

    b.again()
    b.reads()
    profile.profile_stage(b.run)
    assert len(b.profiled()) == 1
    assert {name: frames.rows_of(b.run.dir.frame(name)) for name in profile_cache.FRAMES} == first
    assert (b.note["profiled"], b.note["reused"], b.note["passes"]) == (0, 2, 26)
    assert b.note["ncu_seconds"] == 0  # nothing was started

    b.again()
    rows = frames.rows_of(b.run.dir.frame("variants"))
    rows[1]["source_hash"] = "changed"
    b.run.dir.write_frame("variants", rows)
    b.reads(["kl.0000"])
    profile.profile_stage(b.run)
    assert len(b.profiled()) == 2
    assert len(b.profiled()[-1]) == 1
    assert b.value("b", "registers") == [1]  # index 0 of the second process
    assert b.value("a", "registers") == [1]

    b.again(force=True)
    b.reads(["kl.0000", "kl.0001"])
    profile.profile_stage(b.run)
    assert len(b.profiled()[-1]) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": dataclasses.replace(GPU, driver="999")},
        {"gpu": dataclasses.replace(GPU, name="NVIDIA H100")},
        {"toolchain": Toolchain(ncu=Tool(FAKE, "2026.1.0.0"))},
    ],
)
def test_a_profile_depends_on_gpu_driver_and_ncu(bench: Callable[..., Bench], change: dict[str, Any]) -> None:
    b = bench("a")
    before = profile_cache.keys(b.run, [("a", SIZE)], {"metrics": ["m"]})
    for name, value in change.items():
        setattr(b.run, name, value)
    assert profile_cache.keys(b.run, [("a", SIZE)], {"metrics": ["m"]}) != before


def test_a_profile_depends_on_what_is_collected(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b")
    one = profile_cache.keys(b.run, [("a", SIZE), ("b", SIZE)], {"metrics": ["m"]})
    assert len(set(one.values())) == 2
    assert one != profile_cache.keys(b.run, [("a", SIZE), ("b", SIZE)], {"metrics": ["n"]})
    assert one == profile_cache.keys(b.run, [("a", SIZE), ("b", SIZE)], {"metrics": ["m"]})


def test_a_comment_makes_a_new_profile_for_it_moves_the_lines(bench: Callable[..., Bench], tmp_path: Path) -> None:
    b = bench("a")
    source = tmp_path / "a.cu"
    (variant,) = b.run.experiment.variants
    b.run.experiment = dataclasses.replace(b.run.experiment, variants=(dataclasses.replace(variant, source=source),))
    found = []
    for text in ("void f();\n", "// a line more\nvoid f();\n", "void f();\n"):
        source.write_text(text)
        found.append(profile_cache.keys(b.run, [("a", SIZE)], {}))
    assert found[0] == found[2] != found[1]


def test_a_profile_that_cannot_be_kept_leaves_nothing_behind(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_was_first(self: Path, target: Path) -> Path:
        raise OSError(39, "Directory not empty")

    b = bench("a")
    monkeypatch.setattr(Path, "replace", another_was_first)
    profile_cache.store("key", {name: frames.frame(name) for name in profile_cache.FRAMES})
    assert list(profile_cache._folder().iterdir()) == []
    assert b.run.status() == {"a": "ok"}


def test_a_damaged_cache_is_no_error(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    b.reads(["kl.0000"], ["kl.0000"])
    profile.profile_stage(b.run)
    (kept,) = (profile_cache._folder()).iterdir()
    (kept / "stalls.parquet").write_bytes(b"x")
    b.again()
    profile.profile_stage(b.run)
    assert len(b.profiled()) == 2


def test_the_chip_is_asked_for_its_metrics_once(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    b.reads(["kl.0000"], ["kl.0000"])
    profile.profile_stage(b.run)
    b.again(force=True)
    profile.profile_stage(b.run)
    calls = [json.loads(line) for line in b.calls.read_text().splitlines()]
    assert [call for call in calls if "--query-metrics" in call] == [["--query-metrics", "--chip", "gh100"]]


def test_names_that_the_chip_lacks_are_not_asked_for(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    listing = Path(b.folder / "query.txt")
    listing.write_text(listing.read_text().replace("sm__pipe_fmaheavy_cycles_active  Counter", ""))
    b.reads(["kl.0000"])
    profile.profile_stage(b.run)
    assert "sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_active" not in b.note["metrics"]
    assert b.value("a", "pipe_fmaheavy") == ["not_supported"]
    assert b.value("a", "pipe_fma") == ["not_collected"]


def test_experiment_metrics_and_the_full_set(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    options = ProfileOptions(set="full", metrics=("filler__7.sum", "gone__x.sum"), sources=False)
    b.run.experiment = dataclasses.replace(b.run.experiment, profile=options)
    b.reads(["kl.0000"])
    profile.profile_stage(b.run)
    call = [json.loads(line) for line in b.calls.read_text().splitlines()][-1]
    assert call[call.index("--set") + 1] == "full"
    assert "--import-source" not in call
    asked = call[call.index("--metrics") + 1].split(",")
    assert "filler__7.sum" in asked
    assert "gone__x.sum" not in asked
    assert b.value("a", "ncu.gone__x.sum") == ["not_supported"]
    assert b.value("a", "ncu.filler__7.sum") == ["not_collected"]


def test_skipped_sizes_dead_variants_and_commands_are_left_out(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b", "c")
    b.run.dir.manifest["skips"] = {"a": {SIZE: "M % 128 == 0"}}
    b.run.fail({"b": ("wrong_result", "no")})
    assert profile.pairs_of(b.run) == [("c", SIZE)]


def test_nothing_to_profile(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    b.run.fail({"a": ("crashed", "no")})
    profile.profile_stage(b.run)
    assert b.note["outcome"] == "nothing_to_profile"
    assert b.profiled() == []


def leave_out(b: Bench, *names: str) -> None:
    wanted = dataclasses.replace(b.run.experiment.profile, skip=names)
    b.run.experiment = dataclasses.replace(b.run.experiment, profile=wanted)


def test_what_the_experiment_leaves_out_says_so_in_its_row(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b", "c")
    leave_out(b, "a", "c")
    b.run.fail({"c": ("crashed", "no")})  # this one has another reason
    b.reads(["kl.0000"])
    profile.profile_stage(b.run)
    assert b.profiled() == [[f"kernel-ladder@{range_name(0)}/"]]
    assert (b.value("a", "registers"), b.value("b", "registers")) == ([], [1])
    assert (b.note["outcome"], b.note["skip"]) == ("ok", ["a"])
    data = RunData.load(b.run.dir)
    assert no_counters(data, "a") == "left_out"
    assert data.total("a", SIZE, "instructions").why_text == WHY_TEXT["left_out"]
    assert no_counters(data, "b") == "not_collected"
    assert {row.variant: row.limit.text == WHY_TEXT["left_out"] for row in ladder_rows(data)} == {
        "a": True,
        "b": False,
        "c": False,
    }
    assert [(gap.where, gap.why) for gap in gaps(data) if gap.what == "counters"] == [("a", WHY_TEXT["left_out"])]


def test_all_may_be_left_out(bench: Callable[..., Bench]) -> None:
    b = bench("a")
    leave_out(b, "a")
    profile.profile_stage(b.run)
    assert b.profiled() == []
    assert b.note == {"outcome": "nothing_to_profile", "skip": ["a"]}
    data = RunData.load(b.run.dir)
    assert no_counters(data, "a") == "left_out"
    assert [gap.why for gap in gaps(data) if gap.what == "counters"] == [WHY_TEXT["left_out"]]


def test_what_is_left_out_is_known_without_a_profiler(bench: Callable[..., Bench]) -> None:
    b = bench("a", "b")
    leave_out(b, "a")
    b.run.toolchain = Toolchain()
    profile.profile_stage(b.run)
    assert (b.note["outcome"], b.note["skip"]) == ("no_ncu", ["a"])
    data = RunData.load(b.run.dir)
    assert no_counters(data, "a") == "left_out"
    assert "ncu" in no_counters(data, "b")
    assert len([gap for gap in gaps(data) if gap.what == "counters"]) == 2


def test_no_path_of_this_machine_stays_in_the_frames(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    b = bench("a")
    mine = tmp_path / "proj" / "a.py"
    mine.parent.mkdir()
    mine.write_text("x = 1\n")
    variant = dataclasses.replace(b.run.experiment.variants[0], source=mine, kind="triton")
    b.run.experiment = dataclasses.replace(b.run.experiment, variants=(variant,))
    files = [str(mine), f"/home/me/.cache/kernel-ladder/builds/{'0' * 64}/src/common/x.cuh", "/opt/torch/y.h", None]
    rows = [[16 * i, "NOP", file, 1, {}, 1, None, None, None, None, None] for i, file in enumerate(files)]
    one = dataclasses.replace(launch("kl.0000"), pcs={"columns": COLUMNS, "rows": rows})
    monkeypatch.setattr(profile, "read_report", lambda *_, **__: RawReport((one,), "sha"))
    profile.profile_stage(b.run)
    named = [row["file"] for row in frames.rows_of(b.run.dir.frame("source"))]
    assert named == ["a.py", "common/x.cuh", "y.h", None]


def test_remarks_reach_the_manifest(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench("a")
    odd = launch("kl.0000", **{"smsp__average_warp_latency_per_inst_issued.ratio": (9.0, "cycle")})
    monkeypatch.setattr(profile, "read_report", lambda *_, **__: RawReport((odd, launch("kl.0007")), "sha"))
    profile.profile_stage(b.run)
    assert b.note["remarks"] == [
        f"a at {SIZE}: the stall reasons add up to 2.500 cycles, the latency is 9.000",
        "1 launches of profile.ncu-rep lie in no known range",
    ]
