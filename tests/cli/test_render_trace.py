"""render_report of exports and reports of Nsight Systems."""

from __future__ import annotations

import gzip
import html
import json
import re
import shutil
from pathlib import Path

import pytest
from make_run import make_run

from profiler import load_nsys_report
from profiler.cli.render_report import main
from tests.make_nsys import NsysFile, large

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "nsys"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    large(tmp_path / "x.sqlite", 500)
    return tmp_path / "x.sqlite"


def test_an_export_becomes_a_page_beside_it(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(export)]) == 0
    page = export.with_suffix(".html")
    assert capsys.readouterr().out.strip() == str(page)
    assert sorted(path.name for path in export.parent.iterdir() if path.is_file()) == ["x.html", "x.sqlite"]
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert "A file of Nsight Systems from elsewhere" in text
    assert 'id="timeline-data"' in text
    assert "default-src 'none'" in text
    assert re.search(r'(?:src|href)="(?:https?:)?//', text) is None
    assert 'id="plotly"' not in text


def test_perfetto_beside_the_page(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "trace.json"
    assert main([str(export), "--perfetto", str(target), "--json"]) == 0
    written = [entry["path"] for entry in json.loads(capsys.readouterr().out)["reports"]]
    assert written == [str(export.with_suffix(".html")), str(target)]
    spans = [event for event in json.loads(target.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == 500 + 500 + 5 + 5 + 5
    assert main([str(export), "--perfetto", str(tmp_path / "t.json.gz"), "-q"]) == 0
    with gzip.open(tmp_path / "t.json.gz", "rt") as file:
        assert json.load(file) == json.loads(target.read_text())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.sqlite", b"not a database\n", "a.sqlite is text, not an SQLite export of Nsight Systems"),
        ("a.sqlite", b"", "a.sqlite is empty"),
        ("a.nsys-rep", b"", "a.nsys-rep is empty"),
        ("a.nsys-rep", b"version https://git-lfs.github.com/spec/v1", "git-LFS pointer"),
        ("a.nsys-rep", b"NVR\0", "a report of Nsight Compute under another name"),
        ("a.nsys-rep", b"NSYS" * 9, "there is no nsys here to do it (nsys was not found)"),
        ("a.qdstrm", b"QDSTRM" * 9, "there is no nsys here to do it"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    message: str,
) -> None:
    monkeypatch.setenv("KERNEL_LADDER_TOOLS", str(tmp_path / "none"))
    (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    assert not (tmp_path / "a.html").exists()


def test_a_report_is_exported_where_nsys_is(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(FAKE, tools / "nsys")
    (tools / "nsys.env.json").write_text(json.dumps({"FAKE_NSYS_SQLITE": str(export)}))
    monkeypatch.setenv("KERNEL_LADDER_TOOLS", str(tools))
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"NSYS fake")
    assert main([str(report), "-q"]) == 0
    assert "run.nsys-rep" in report.with_suffix(".html").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.glob("run.*")) == ["run.html", "run.nsys-rep"]


def test_perfetto_needs_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", timed=False)
    assert main([str(run.path), "--perfetto", str(tmp_path / "x.json")]) == 2
    assert "holds no timeline" in capsys.readouterr().err


def test_a_run_with_spans_shows_them(tmp_path: Path, export: Path) -> None:
    run = make_run(tmp_path / "run", timed=False)
    data = load_nsys_report(export)
    run.write_frame("spans", data.spans)
    run.manifest["trace"] = {
        "outcome": "ok",
        "route": "nsys",
        "version": "2025.3",
        "gpus": {"0": "NVIDIA H200"},
        "remarks": [],
    }
    run.save()
    assert main([str(run.path), "-q", "--perfetto", str(tmp_path / "x.json")]) == 0
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert '<a href="#timeline">Timeline</a>' in text
    assert "Timeline: Nsight Systems 2025.3" in text
    assert json.loads((tmp_path / "x.json").read_text())["traceEvents"]


def test_nothing_of_the_machine_reaches_the_page(tmp_path: Path) -> None:
    with NsysFile(tmp_path / "x.sqlite") as made:
        made.version()
        made.launch("k", (0, 1_000), (2_000, 3_000))
        made.rows("META_DATA_CAPTURE", ("name", "value"), [("ENVIRONMENT_VARIABLE", "TOKEN=hunter2")])
        made.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"), [("Hostname", "build-host-17")])
        made.rows("PROCESSES", ("globalPid", "name"), [(1, "/home/alice/a.out")])
        made.text("/home/alice/secret")
    assert main([str(tmp_path / "x.sqlite"), "-q"]) == 0
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert [word for word in ("hunter2", "build-host-17", "alice") if word in text] == []


def test_frames_for_a_notebook(export: Path) -> None:
    data = load_nsys_report(export)
    assert len(data.spans) == 1015
    assert data.manifest["foreign"]["spans"]["kernel"] == 500
    assert set(data.findings["name"]) <= {"launch_bound", "no_overlap", "copies_alone"}
    assert len(data.variants) == 0


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "</script><script>window.pwned=1</script><img src=x onerror=alert(1)>"
    with NsysFile(tmp_path / "x.sqlite") as made:
        made.launch(name, (0, 1_000), (2_000, 3_000))
        made.range(name, (0, 5_000))
    assert main([str(tmp_path / "x.sqlite"), "-q"]) == 0
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<script>window.pwned" not in text
    assert "<img" not in text
