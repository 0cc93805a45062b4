"""Reading reports in a child: whole ones, damaged ones, and files that are none."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from profiler import ncu_reader, process
from profiler.errors import LadderError
from profiler.ncu_reader import Unreadable, check_file, extract, read_report, reader_paths
from profiler.process import Completed
from tests.unit.ncu_samples import LADDER, OTHERS, sample


def test_two_children_give_what_one_gives(tmp_path: Path) -> None:
    path = sample(OTHERS[1])
    one = read_report(path, tmp_path, parts=1)
    two = read_report(path, tmp_path, parts=3)
    assert one == two
    assert len(one.launches) == 4
    assert one.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_ranges_and_names(tmp_path: Path) -> None:
    report = read_report(sample(LADDER), tmp_path)
    assert [launch.pushed("<default domain>") for launch in report.launches] == [
        ("launch_naive",), ("launch_smem",), ("cublas_fp32",), ("cublas_bf16",), ("cublas_fp8",),
    ]  # fmt: skip
    smem = report.launches[1]
    assert (smem.function, smem.mangled) == ("sgemm_smem", "_Z10sgemm_smemILi32EEviiiPKfS1_Pf")
    assert smem.demangled.startswith("void sgemm_smem<(int)32>(")
    assert smem.pushed("kernel-ladder") == ()
    assert not [n for n in smem.scalars if n.startswith(("group:", "breakdown:")) or "TriageCompute" in n]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.ncu-rep", b"", "is empty"),
        ("x.ncu-rep", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git-LFS pointer"),
        ("x.ncu-rep", b"SQLite format 3\0" + b"\0" * 100, "SQLite"),
        ("x.nsys-rep", b"\x01\x02" * 100, "Nsight Systems"),
        ("x.ncu-rep", b"\x01\x02" * 100, "not a Nsight Compute report"),
        ("x.ncu-rep", b"just some text\n", "not a Nsight Compute report"),
        ("x.ncu-rep", b"NVR\0", "holds no launches"),
    ],
)
def test_what_is_no_report(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    if content == b"NVR\0":
        sample(LADDER)  # needs the reader
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LadderError, match=reason) as error:
        read_report(path, tmp_path)
    assert "\n" not in error.value.message


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(LadderError, match=r"gone\.ncu-rep: No such file"):
        read_report(tmp_path / "gone.ncu-rep", tmp_path)
    with pytest.raises(LadderError, match="Is a directory"):
        read_report(tmp_path, tmp_path)


@pytest.mark.parametrize("cut", [1, 1000, 60_000])
def test_a_truncated_report_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(sample(OTHERS[1]).read_bytes()[:-cut])
    with pytest.raises(LadderError, match=r"damaged|truncated|cannot be read|no launches") as error:
        read_report(path, tmp_path)
    assert error.value.hint


def test_a_bent_report_never_ends_in_a_traceback(tmp_path: Path) -> None:
    content = sample(OTHERS[5]).read_bytes()
    for start in range(0, len(content), len(content) // 5):
        bent = bytearray(content)
        for position in range(start, min(start + 200, len(bent))):
            bent[position] ^= 0x5A
        path = tmp_path / "bent.ncu-rep"
        path.write_bytes(bytes(bent))
        said, launches = "", ()
        try:
            launches = read_report(path, tmp_path, timeout_s=60).launches
        except LadderError as error:
            said = error.message
        assert bool(said) != bool(launches)
        assert "\n" not in said
        assert "Traceback" not in said
        assert all(launch.function and launch.scalars for launch in launches)


def completed(returncode: int, stderr: str = "", timed_out: bool = False) -> Completed:
    return Completed(("python",), returncode, "", stderr, 0.1, timed_out)


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (completed(-11), "killed by SIGSEGV"),
        (completed(1, "boom\nMemoryError: out of it\n"), "exit code 1: MemoryError"),
        (completed(-15, timed_out=True), "did not finish in 3 s"),
    ],
)
def test_a_child_that_dies_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Completed, reason: str
) -> None:
    monkeypatch.setattr(process, "run", lambda *_, **__: done)
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(LadderError, match=reason) as error:
        read_report(path, tmp_path, timeout_s=3)
    assert error.value.message.startswith("x.ncu-rep cannot be read")


def test_an_old_result_is_not_taken_for_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncu-0.json").write_text(json.dumps({"ok": True, "total": 0, "launches": []}))
    monkeypatch.setattr(process, "run", lambda *_, **__: completed(-11))
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(LadderError, match="SIGSEGV"):
        read_report(path, tmp_path)


def test_launches_that_do_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def child(argv: list[str], **_: Any) -> Completed:
        out = Path(argv[argv.index("profiler.ncu_reader") + 2])
        out.write_text(json.dumps({"ok": True, "total": 2, "launches": []}))
        return completed(0)

    monkeypatch.setattr(process, "run", child)
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(LadderError, match="0 of 2 launches came back"):
        read_report(path, tmp_path)


def test_an_interrupt_does_not_wait_for_the_other_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, ended = Event(), Event()

    def child(argv: list[str], **_: Any) -> Completed:
        if argv[argv.index("--part") + 1] == "0/2":
            started.wait(5)
            raise KeyboardInterrupt
        started.set()
        ended.wait(5)
        return completed(-15)

    monkeypatch.setattr(process, "run", child)
    monkeypatch.setattr(process, "end_running", ended.set)
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(KeyboardInterrupt):
        read_report(path, tmp_path, parts=2)
    assert ended.is_set()


# ---- the child, with a stand-in for NVIDIA's reader ------------------------------------------------------------------


class Metric:
    ValueKind_UINT64 = 6

    def __init__(self, value: Any, unit: str = "", instances: dict[int, Any] | None = None, has: bool = True) -> None:
        self._value, self._unit, self._instances, self._has = value, unit, instances or {}, has

    def value(self, index: int | None = None) -> Any:
        return self._value if index is None else list(self._instances.values())[index]

    def as_uint64(self, index: int) -> int:
        return int(self.value(index))

    def kind(self) -> int:
        first = next(iter(self._instances.values()), self._value)
        return self.ValueKind_UINT64 if isinstance(first, int) else 0

    def unit(self) -> str:
        return self._unit

    def has_value(self) -> bool:
        return self._has

    def num_instances(self) -> int:
        return len(self._instances)

    def correlation_ids(self) -> Metric:
        return Metric(0, "", {i: key for i, key in enumerate(self._instances)})


class Action:
    NameBase_DEMANGLED, NameBase_MANGLED = 1, 2

    def __init__(
        self, metrics: dict[str, Metric], name: str | None = "k", rules: list[dict[str, Any]] | None = None
    ) -> None:
        self._metrics, self._name, self._rules = metrics, name, rules or []

    def name(self, base: int = 0) -> str | None:
        return self._name

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> Metric | None:
        return self._metrics.get(name)

    def nvtx_state(self) -> None:
        return None

    def rule_results_as_dicts(self) -> list[dict[str, Any]]:
        return self._rules

    def sass_by_pc(self, pc: int) -> str:
        return f"  OP{pc:x}"

    def source_info(self, pc: int) -> Any:
        return SimpleNamespace(file_name=lambda: "k.cu", line=lambda: pc // 16) if pc % 32 == 0 else None


def reader(*actions: Action) -> Any:
    return SimpleNamespace(load_report=lambda path: [list(actions)] if actions else [])


def test_values_that_are_none(tmp_path: Path) -> None:
    action = Action(
        {
            "a": Metric(1.5, "ns"), "none": Metric(None), "nan": Metric(float("nan")), "inf": Metric(float("inf")),
            "unset": Metric(0.0, has=False), "zero": Metric(0), "text": Metric("x"), "group:g": Metric("a,b"),
            "derived_tempMetric4": Metric(1), "SM_A.TriageCompute.x": Metric(1),
        }
    )  # fmt: skip
    got = extract(tmp_path / "r.ncu-rep", reader(action))["launches"][0]
    assert got["scalars"] == {
        "a": [1.5, "ns"], "none": None, "nan": None, "inf": None, "unset": None, "zero": [0, ""], "text": ["x", ""],
    }  # fmt: skip
    assert got["pcs"] is None
    assert got["ranges"] == []
    json.dumps(got, allow_nan=False)


def test_an_estimate_that_is_no_number_costs_the_estimate_alone(tmp_path: Path) -> None:
    said = {"title": "T", "message": "advice", "type": 2}
    rules = [
        {"rule_identifier": "A", "rule_message": said, "speedup_estimation": {"type": 2, "speedup": speedup},
         "focus_metrics": [{"name": "m", "value": float("nan")}]}
        for speedup in (float("nan"), 12.5)
    ]  # fmt: skip
    got = extract(tmp_path / "r.ncu-rep", reader(Action({"a": Metric(1)}, rules=rules)))["launches"][0]["rules"]
    assert got == [
        {"rule_identifier": "A", "rule_message": said},
        {"rule_identifier": "A", "rule_message": said, "speedup_estimation": {"type": 2, "speedup": 12.5}},
    ]
    json.dumps(got, allow_nan=False)


def test_instructions_are_joined_by_address_and_counted_from_the_function(tmp_path: Path) -> None:
    base = 0x7F0000000000
    stall = "smsp__pcsamp_warps_issue_stalled_wait"
    action = Action(
        {
            "launch__function_pcs": Metric(1, "", {0: base}),
            "inst_executed": Metric(9, "inst", {base: 4, base + 16: 5, base + 32: 0}),
            "smsp__pcsamp_sample_count": Metric(7, "", {base + 48: 7}),  # sampled, yet not in inst_executed
            stall: Metric(7, "warp", {base + 48: 7}),
            f"{stall}_not_issued": Metric(7, "warp", {base + 48: 7}),
            "smsp__pcsamp_warps_issue_stalled_barrier": Metric(0, "warp", {base + 48: 0}),
        }
    )
    pcs = extract(tmp_path / "r.ncu-rep", reader(action))["launches"][0]["pcs"]
    rows = [dict(zip(pcs["columns"], row, strict=True)) for row in pcs["rows"]]
    assert [(r["pc"], r["executed"], r["samples"], r["stalls"]) for r in rows] == [
        (0, 4, None, {}), (16, 5, None, {}), (48, None, 7, {"wait": 7}),
    ]  # fmt: skip
    assert [(r["file"], r["line"] is None) for r in rows] == [("k.cu", False), (None, True), (None, True)]
    assert rows[0]["sass"] == "OP7f0000000000"


@pytest.mark.parametrize("action", [Action({"a": Metric(1)}, name=None), Action({})])
def test_what_the_reader_lost_is_an_error(tmp_path: Path, action: Action) -> None:
    with pytest.raises(Unreadable, match="damaged or truncated: launch 0 has no"):
        extract(tmp_path / "r.ncu-rep", reader(action))


def test_no_ranges_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="holds no launches"):
        extract(tmp_path / "r.ncu-rep", reader())


def test_parts_share_the_launches(tmp_path: Path) -> None:
    module = reader(*[Action({"a": Metric(i)}, name=f"k{i}") for i in range(5)])
    parts = [extract(tmp_path / "r.ncu-rep", module, part, 2) for part in range(2)]
    assert [[launch["index"] for launch in part["launches"]] for part in parts] == [[0, 2, 4], [1, 3]]
    assert [part["total"] for part in parts] == [5, 5]


def test_no_reader_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    path, out = tmp_path / "x.ncu-rep", tmp_path / "out.json"
    path.write_bytes(b"NVR\0")
    assert ncu_reader.main([str(path), str(out)]) == ncu_reader.NO_READER
    assert "ncu_report" in json.loads(out.read_text())["reason"]


def test_the_reader_beside_ncu_is_found(tmp_path: Path) -> None:
    real = tmp_path / "opt" / "nsight-compute" / "2025.3.1"
    (real / "extras" / "python").mkdir(parents=True)
    (real / "ncu").touch()
    link = tmp_path / "bin" / "ncu"
    link.parent.mkdir()
    link.symlink_to(real / "ncu")
    assert reader_paths(link) == [real / "extras" / "python"]
    assert reader_paths(tmp_path / "bin" / "none") == []


def test_check_file_gives_the_content(tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0abc")
    assert check_file(path) == b"NVR\0abc"


def test_two_kinds_of_children_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample(OTHERS[2])
    monkeypatch.setattr(ncu_reader.os, "cpu_count", lambda: 4)
    assert path.stat().st_size > ncu_reader._WORTH_TWO_BYTES
    split = read_report(path, tmp_path)
    assert sorted(p.name for p in tmp_path.glob("ncu-*")) == ["ncu-sass-0.json", "ncu-values-0.json"]
    assert split == read_report(path, tmp_path, parts=1)
    assert split.launches[0].pcs is not None
    assert split.launches[0].pcs["rows"][0][1].split(" ")[0].isupper()


def test_a_wrapper_on_the_path_still_finds_the_installed_reader(tmp_path: Path) -> None:
    wrapper = tmp_path / "bin" / "ncu"
    wrapper.parent.mkdir()
    wrapper.write_text("#!/bin/sh\n")
    installed = tmp_path / "nsight-compute"
    for version in ("2024.1.0", "2025.3.1"):
        (installed / version / "extras" / "python").mkdir(parents=True)
    found = reader_paths(wrapper, (installed, "*"))
    assert found == [installed / version / "extras" / "python" for version in ("2025.3.1", "2024.1.0")]
