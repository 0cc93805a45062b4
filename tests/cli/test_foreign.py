"""Files of Nsight Compute from elsewhere: what becomes of each sample, of each bad file, and of hostile content."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, ncu_reader
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.roofline import roof_uses, roofline
from profiler.analysis.rundata import RunData
from profiler.cli.render_report import MOST_LAUNCHES, main
from profiler.errors import LadderError
from profiler.foreign import Foreign, RunFrames, frames_of, is_foreign, launches_shown, read
from profiler.parse.folders import without_folders
from profiler.parse.ncu import RawLaunch, RawReport
from profiler.parse.ncu_session import session_facts
from profiler.parse.ncu_tensor import tensor_scalars
from tests.unit.ncu_samples import FULL, LADDER, OTHERS, SAMPLES, report, sample

HOSTILE = ("</script><script>window.pwned=1</script>", "t" * 2000, "größe<!--😀", "<img src=x onerror=window.pwned=1>")
TENSOR = OTHERS[3]


def data_of(loaded: RunFrames) -> RunData:
    return RunData(loaded.manifest, {name: frames.rows_of(loaded.frame(name)) for name in frames.FRAME_NAMES})


def frames_of_sample(name: str) -> RunFrames:
    return frames_of(Foreign(sample(name), "ncu-rep", report(name)))


def made(*launches: RawLaunch, **session: str) -> RunFrames:
    return frames_of(Foreign(Path("x.ncu-rep"), "ncu-rep", RawReport(launches, "sha", session=session)))


def launch(name: str = "k", **scalars: Any) -> RawLaunch:
    pairs = {key.replace("___", "."): value for key, value in scalars.items()}
    return RawLaunch(name, f"{name}(int)", name, (), pairs)


# ---- the samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LADDER, FULL, *OTHERS])
def test_every_launch_is_a_row_without_ratio_or_rank(name: str) -> None:
    loaded = frames_of_sample(name)
    data = data_of(loaded)
    rows = ladder_rows(data)
    assert len(rows) == len(report(name).launches) == len(set(loaded.variants["name"]))
    for row in rows:
        assert (row.rank, row.ratio, row.step, row.baseline, row.time, row.verified) == (
            None, None, None, None, None, "unverified",
        )  # fmt: skip
        assert data.launch_value(row.variant, "", data.launches(row.variant, "")[0], "duration").value
        assert row.limit.verdict != "unknown"
    line = roofline(data, "")
    assert line.arrows == ()
    for point in line.points:
        assert (point.intensity is None) == bool(point.why)
        assert point.intensity is None or (point.intensity > 0 and math.isfinite(point.intensity))


@pytest.mark.parametrize(
    ("name", "gpu", "capability", "tool", "driver", "year"),
    [
        (LADDER, "NVIDIA H200", "9.0", "2025.3.1", None, "2026"),
        (OTHERS[0], "NVIDIA A100-PCIE-40GB", "8.0", "2020.3.0", "535.86.10", "2023"),
        (OTHERS[4], "NVIDIA GeForce GTX 1660 Ti", "7.5", "2022.4.0", "535.274.02", "2025"),
        (OTHERS[5], "NVIDIA GeForce RTX 3070", "8.6", "2022.3.0", "515.43.04", "2022"),
    ],
)
def test_gpu_tool_and_driver_come_from_the_file(
    name: str, gpu: str, capability: str, tool: str, driver: str | None, year: str
) -> None:
    manifest = frames_of_sample(name).manifest
    assert (manifest["gpu"]["name"], manifest["gpu"]["compute_capability"]) == (gpu, capability)
    assert manifest["tools"] == {"ncu": tool}
    assert manifest["gpu"].get("driver") == driver
    assert manifest["created"].startswith(year)


@pytest.mark.parametrize("name", [LADDER, FULL, *OTHERS])
def test_no_path_host_or_user_of_the_file_comes_along(name: str) -> None:
    loaded = frames_of_sample(name)
    texts = [json.dumps(dict(loaded.manifest))]
    for frame in frames.FRAME_NAMES:
        texts += [str(text) for column in loaded.frame(frame) for text in loaded.frame(frame)[column].dropna().unique()]
    found = [text for text in texts if re.search(r"/(home|root|usr|opt|work)/|user0|some_user|cn20", text)]
    assert found == []


def test_an_a100_says_what_its_tensor_cores_did() -> None:
    """The launch executes no matrix instruction: by count, not by absence."""
    data = data_of(frames_of_sample(TENSOR))
    name = str(data.variants[0]["name"])
    assert data.total(name, "", "tensor_ops_fp16").value == 0
    assert data.total(name, "", "pipe_tensor").value == 0
    assert {point.why for point in roofline(data, "").points} == {"it executes no operation of a known pipe"}


def test_shares_of_a_basic_set_are_the_profilers_own() -> None:
    data = data_of(frames_of_sample(OTHERS[5]))
    uses = {use.key: use for use in roof_uses(data, str(data.variants[0]["name"]), "")}
    assert uses["dram"].share == pytest.approx(0.31278, abs=1e-4)
    assert (uses["dram"].amount.value, uses["dram"].roof.value) == (None, None)
    assert "own utilization" in uses["dram"].why
    assert uses["shared"].share is None
    assert roofline(data, "").roofs == ()


# ---- the pages -------------------------------------------------------------------------------------------------------


def page(tmp_path: Path, source: Path, name: str = "") -> str:
    copy = tmp_path / (name or source.name)
    copy.write_bytes(source.read_bytes())
    before = set(tmp_path.iterdir())
    assert main([str(copy)]) == 0
    written = set(tmp_path.iterdir()) - before
    assert written == {copy.with_name(f"{copy.stem}.html")}
    return written.pop().read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [OTHERS[1], TENSOR, OTHERS[4]])
def test_a_page_beside_the_file(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    html = page(tmp_path, sample(name))
    assert capsys.readouterr().err == ""
    assert "Profiled duration" in html
    assert "not event times" in html
    assert 'title="Time of the baseline' not in html
    assert not re.search(r"/(home|root)/|some_user|user0", html)


def test_a_csv_renders_too(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        '"ID","Kernel Name","CC","gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"\n'
        '"","","","us","%"\n"0","void k<(int)4>(float *)","12.0","5.5","104.2"\n',
        encoding="utf-16",
    )
    assert main([str(path), "-q"]) == 0
    html = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "void k&lt;(int)4&gt;(float *)" in html
    assert "a GPU of compute capability 12.0" in html
    assert "5.500 µs" in html


def test_the_text_page_is_refused_with_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = SAMPLES / "ncu-csv" / "blackwell_details_page.txt"
    if not path.is_file():
        pytest.skip(f"no samples in {SAMPLES}")
    target = tmp_path / "x.html"
    assert main([str(path), "-o", str(target)]) == 2
    said = capsys.readouterr().err
    assert "ncu's text page, not CSV" in said
    assert "--page raw --csv" in said
    assert not target.exists()


def test_hostile_names_and_values(tmp_path: Path) -> None:
    from reports.render import render_foreign

    odd = {
        "gpu__time_duration___sum": (1000.0, "ns"), "dram__bytes_read___sum": (-5.0, "byte"),
        "dram__bytes_write___sum": (0.0, "byte"), "smsp__inst_executed___sum": None,
        "sm__warps_active___avg___pct_of_peak_sustained_active": (133.0, "%"),
        "smsp__sass_thread_inst_executed_op_ffma_pred_on___sum": (64.0, "inst"),
        "smsp__sass_thread_inst_executed_op_fadd_pred_on___sum": (0.0, "inst"),
        "smsp__sass_thread_inst_executed_op_fmul_pred_on___sum": (0.0, "inst"),
        "device__attribute_display_name": ("</script><b>GPU", ""),
    }  # fmt: skip
    loaded = made(*(launch(name, **odd) for name in HOSTILE), launch("bare"))
    data = data_of(loaded)
    html = render_foreign(data, tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<script>window.pwned" not in html
    assert "<img src=x" not in html
    assert "<b>GPU" not in html
    assert "133.0 %" in html
    assert "above 100 %" in html
    assert "-5 B" in html
    assert all(point.intensity is None for point in roofline(data, "").points)
    assert {
        point.why for point in roofline(data, "").points if point.variant == HOSTILE[0] and point.level == "dram"
    } == {"the profiler gave a count below zero"}
    assert data.total("bare", "", "duration").value is None


def test_many_launches_show_the_longest() -> None:
    names = [f"k{i}" for i in range(MOST_LAUNCHES + 12)]
    loaded = made(*(launch(n, gpu__time_duration___sum=(float(i + 1), "ns")) for i, n in enumerate(names)))
    shown, left_out = launches_shown(loaded, MOST_LAUNCHES)
    assert left_out == 12
    assert list(shown.variants["name"]) == names[12:]
    assert set(shown.metrics["variant"]) == set(names[12:])
    assert launches_shown(shown, MOST_LAUNCHES) == (shown, 0)


# ---- bad files -------------------------------------------------------------------------------------------------------

SQLITE = b"SQLite format 3\0" + b"\0" * 100
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.ncu-rep", b"", "is empty"), ("x.ncu-rep", LFS, "git-LFS pointer"), ("x.csv", LFS, "git-LFS pointer"),
        ("x.ncu-rep", SQLITE, "SQLite"), ("x.bin", SQLITE, "SQLite"), ("x.sqlite", SQLITE, "SQLite"),
        ("x.nsys-rep", b"NSYS\1", "Nsight Systems"),
        ("x.ncu-rep", bytes(range(256)) * 9, "not a Nsight Compute report"),
        ("x.bin", bytes([0x93, 7, 0, 0]) * 99, "not a Nsight Compute report"), ("x.csv", b"", "is empty"),
        ("x.txt", b"hello\n", "no line has the columns"), ("manifest.json", b"{}", "no line has the columns"),
        ("x.csv", b'"ID","Kernel Name","a"\n', "holds no kernels"),
    ],
)  # fmt: skip
def test_bad_files_are_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert main([str(path), "--runs-dir", str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert reason in lines[0]
    assert len(lines) <= 2
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("share", [0.3, 0.9, 0.9999])
def test_a_report_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float) -> None:
    content = sample(OTHERS[5]).read_bytes()
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(content[: int(len(content) * share)])
    assert main([str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_a_bad_file_stops_before_any_page_is_written(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text('"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","k","1.5"\n')
    bad.write_text("no\n")
    assert main([str(good), str(bad)]) == 2
    assert not (tmp_path / "good.html").exists()


def test_two_files_for_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x.csv", "x.log"):
        (tmp_path / name).write_text('"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","k","1.5"\n')
    assert main([str(tmp_path / "x.csv"), str(tmp_path / "x.log")]) == 2
    assert "would both write" in capsys.readouterr().err


def test_without_a_reader_the_way_to_the_csv_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0" + b"\0" * 99)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "ncu_report.py").write_text("raise ImportError('hidden')\n")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    monkeypatch.setattr(ncu_reader, "reader_paths", lambda *_: [])
    assert main([str(path)]) == 2
    said = capsys.readouterr().err
    assert "neither installed nor beside ncu" in said
    assert "--page raw --csv --print-units base" in said


def test_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    assert is_foreign(tmp_path / "x.csv")
    assert is_foreign(tmp_path / "gone.ncu-rep")
    assert not is_foreign(tmp_path)
    assert not is_foreign(Path("latest"))
    with pytest.raises(LadderError, match="there is no such file"):
        read(tmp_path / "gone.ncu-rep")


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_paths_are_reduced_to_names() -> None:
    text = "see /home/me/proj/k.cu:12 and C:\\work\\a b\\k.cu, memory and/or 3/4; https://docs.nvidia.com/a/b.html"
    said = without_folders(text)
    assert "/home" not in said
    assert "k.cu:12" in said
    assert "and/or 3/4; https://docs.nvidia.com/a/b.html" in said


def test_session_facts_take_only_closed_forms() -> None:
    content = (
        b"NVR\0"
        + b"\0" * 14
        + b'\x1aT\x10\xea\xa6\xb2\xd8\x06\x1aL /home/me\x16Display Driver Version\x12\t535.86.10"\0'
        b'2025.3.1.0 (build 36398880) (public-release)"/opt/x/ncu --clock-control none -o /home/me/secret app'
    )
    assert session_facts(content) == {
        "tool": "2025.3.1", "driver": "535.86.10", "taken": "1795986282", "cache_control": "all",
        "clock_control": "none",
    }  # fmt: skip
    assert session_facts(b"NVR\0" + bytes(range(256))) == {}


@pytest.mark.parametrize(
    ("opcodes", "kind", "expected"),
    [
        ({"HGMMA.64x128x16.F32.BF16": 2097152.0}, "bf16", 2 * 4096**3),
        ({"QGMMA.64x128x32.F32.E4M3.E4M3": 1048576.0}, "fp8", 2 * 4096**3),
        ({"HMMA.16816.F32": 2.0, "HMMA.1688.F32.TF32": 1.0}, "fp16", 2 * 2 * 16 * 8 * 16),
        ({"IMMA.16832.S8.S8": 1.0}, "int8", 2 * 16 * 8 * 32), ({"DMMA.884": 3.0}, "fp64", 3 * 2 * 8 * 8 * 4),
        ({"HFMA2.MMA": 5.0, "FFMA": 1.0}, "fp16", 0.0),
    ],
)  # fmt: skip
def test_operations_from_executed_matrix_instructions(opcodes: dict[str, float], kind: str, expected: float) -> None:
    assert tensor_scalars(opcodes)[f"opcodes__tensor_{kind}"][0] == expected


@pytest.mark.parametrize("opcode", ["HMMA.SP.16832.F32", "HMMA.884.F32", "UTCHMMA", "OMMA.168128"])
def test_a_matrix_instruction_of_unknown_shape_gives_no_sum(opcode: str) -> None:
    assert tensor_scalars({opcode: 1.0, "HMMA.16816.F32": 1.0}) == {}
    assert tensor_scalars({opcode: 0.0})["opcodes__tensor_fp16"] == (0.0, "")
    assert tensor_scalars(None) == {}


def test_an_unknown_gpu_and_no_metrics_at_all() -> None:
    loaded = made(launch("k"))
    assert loaded.manifest["gpu"] == {}
    assert ladder_rows(data_of(loaded))[0].limit.verdict == "unknown"
    assert dataclasses.is_dataclass(loaded)


def test_the_overhead_over_the_reader_is_small() -> None:
    """A loose guard: the figure itself comes from scripts/reader_overhead.py on a quiet machine."""
    path = sample(LADDER)
    script = Path(__file__).resolve().parents[2] / "scripts" / "reader_overhead.py"
    spec = importlib.util.spec_from_file_location("reader_overhead", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ratios = (module.measure(path, 1, quick=True)["ratio"] for _ in range(3))
    assert any(ratio <= 2.0 for ratio in ratios)  # a busy machine has a second and a third chance
