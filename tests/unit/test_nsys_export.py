"""Exports of Nsight Systems: every schema and oddity seen in the field, bad files, and the scrubber."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler import frames
from profiler.errors import UsageError
from profiler.nsys_export import read_export, scrub
from profiler.parse.nsys import Export, named
from tests.make_nsys import API, D2H, H2D, KERNEL, PAGEABLE, PID, PINNED, TID, NsysFile, large

Fill = Callable[[NsysFile], None]


def export_of(path: Path, fill: Fill) -> Export:
    with NsysFile(path / "x.sqlite") as export:
        fill(export)
    return read_export(path / "x.sqlite")


def rows_of(export: Export) -> list[dict[str, Any]]:
    return frames.rows_of(export.spans.frame)


def usual(export: NsysFile) -> None:
    export.version()
    export.gpu()
    export.streams(s7=3, s13=2)
    export.range("step", (1_000, 9_000))
    export.launch("void k<(int)4>(float *)", (2_000, 3_000), (5_000, 8_000))
    export.copy(H2D, (4_000, 4_500), (9_000, 11_000), 4096, memory=PAGEABLE, stream=13)
    export.copy(D2H, (5_000, 5_500), (11_000, 12_000), 64, memory=PINNED)


def test_a_usual_export(tmp_path: Path) -> None:
    export = export_of(tmp_path, usual)
    rows = rows_of(export)
    assert [row["kind"] for row in rows] == ["nvtx", "api", "api", "kernel", "api", "copy", "copy"]
    kernel = rows[3]
    assert kernel["name"] == "void k<(int)4>(float *)"
    assert (kernel["start_ns"], kernel["duration_ns"], kernel["stream"], kernel["device"]) == (4_000, 3_000, 7, 0)
    assert (kernel["parent"], kernel["stream_type"], kernel["correlation"]) == ("step", "default", 1)
    assert rows[1]["name"] == "cudaLaunchKernel"
    assert [(row["direction"], row["memory"], row["bytes"], row["stream_type"]) for row in rows[5:]] == [
        ("h2d", "pageable", 4096, "non_blocking"), ("d2h", "pinned", 64, "default"),
    ]  # fmt: skip
    assert export.facts["EXPORT_PRODUCT_VERSION"] == "2025.3.2.0"
    assert export.gpus == {0: "NVIDIA H200"}
    assert export.remarks == ()
    assert export.spans.origin_ns == 1_000


def test_the_frame_is_that_of_the_design_and_survives_its_file(tmp_path: Path) -> None:
    export = export_of(tmp_path, usual)
    assert list(export.spans.frame.columns) == frames.columns("spans")
    frames.write(tmp_path / "spans.parquet", "spans", export.spans.frame)
    assert frames.rows_of(frames.read(tmp_path / "spans.parquet", "spans")) == rows_of(export)


@pytest.mark.parametrize("table", ["NVTX_EVENTS_V2", "NVTX_EVENTS_V3"])
@pytest.mark.parametrize("by_id", [False, True])
def test_ranges_of_later_tables_and_names_by_id(tmp_path: Path, table: str, by_id: bool) -> None:
    export = export_of(tmp_path, lambda e: e.range("later", (0, 10), table=table, by_id=by_id))
    assert [(row["kind"], row["name"], row["duration_ns"]) for row in rows_of(export)] == [("nvtx", "later", 10)]


def test_the_newest_of_several_tables_counts() -> None:
    assert named({"NVTX_EVENTS": [], "NVTX_EVENTS_V2": [], "NVTX_EVENTS_V10": []}, "NVTX_EVENTS") == ["NVTX_EVENTS_V10"]
    assert named({"NVTX_EVENTS_OLD": [], "NVTX_PAYLOAD_SCHEMAS": []}, "NVTX_EVENTS") == []


def test_marks_and_categories_are_no_ranges_and_open_ranges_end_with_the_trace(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.range("mark", (5, None), kind=34)
        export.range("domain", (0, None), kind=75)
        export.range("open", (10, None), kind=60)
        export.launch("k", (0, 1), (20, 50))

    export = export_of(tmp_path, fill)
    ranges = [row for row in rows_of(export) if row["kind"] == "nvtx"]
    assert [(row["name"], row["duration_ns"]) for row in ranges] == [("open", 40)]
    assert export.remarks == ("1 NVTX range was still open at the end",)


def test_the_metadata_table_of_before_2023(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.version("2022.1.1.61", "2.9.1", table="EXPORT_META_DATA")
        export.launch("k", (0, 1), (2, 3))

    assert export_of(tmp_path, fill).facts["EXPORT_PRODUCT_VERSION"] == "2022.1.1.61"


def test_an_export_of_2020_calls_each_call_twice(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.launch("k", (10, 20), (30, 40))
        export.rows("CUPTI_ACTIVITY_KIND_RUNTIME", API, [(9, 21, 67, TID, 1, export.text("cudaLaunchKernel"), 0)])

    assert [row["name"] for row in rows_of(export_of(tmp_path, fill)) if row["kind"] == "api"] == ["cudaLaunchKernel"]


def test_calls_but_no_kernel_is_remarked(tmp_path: Path) -> None:
    export = export_of(tmp_path, lambda e: e.call("cudaMalloc_v3020", (0, 10)))
    assert "no kernel" in export.remarks[0]
    assert rows_of(export)[0]["name"] == "cudaMalloc"


def test_graphs_traced_as_a_whole(tmp_path: Path) -> None:
    columns = (
        "start",
        "end",
        "deviceId",
        "graphId",
        "graphExecId",
        "contextId",
        "streamId",
        "correlationId",
        "globalPid",
    )

    def fill(export: NsysFile) -> None:
        export.call("cudaGraphLaunch_v10000", (0, 5), correlation=3)
        rows = [(10, 90, 0, 77, 5, 1, 7, 3, PID), (100, 150, 0, 78, 6, 1, 7, 4, PID)]
        export.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns, rows)

    export = export_of(tmp_path, fill)
    graphs = [row for row in rows_of(export) if row["kind"] == "graph"]
    assert [(row["name"], row["duration_ns"]) for row in graphs] == [("CUDA graph 1", 80), ("CUDA graph 2", 50)]
    assert export.remarks == (
        "CUDA graphs were traced as a whole: the kernels in them are not in the file; trace with "
        "--cuda-graph-trace=node to see them",
    )


def test_times_that_make_no_sense_are_kept_without_a_duration_and_told(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.launch("zero", (0, 1), (10, 10))
        export.launch("back", (2, 3), (30, 20))
        export.launch("endless", (4, 5), (40, None))
        row = (None, 60, 0, 1, 7, 9, PID, export.text("lost"), 0, 1, 1, None)
        export.rows("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, [row])

    export = export_of(tmp_path, fill)
    kernels = {row["name"]: row["duration_ns"] for row in rows_of(export) if row["kind"] == "kernel"}
    assert kernels == {"zero": 0, "back": None, "endless": None}
    assert [text.split(" ")[:3] for text in export.remarks] == [
        ["1", "row", "without"], ["1", "row", "ends"], ["1", "row", "without"],
    ]  # fmt: skip


def test_rows_in_any_order(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.launch("second", (100, 110), (120, 130))
        export.launch("first", (0, 10), (20, 30))

    starts = [row["start_ns"] for row in rows_of(export_of(tmp_path, fill))]
    assert starts == sorted(starts)


def test_gpus_that_cannot_run_cuda_are_left_out(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        columns = ("id", "name", "cuDevice", "computeMajor")
        listed = [(0, "GTX 1060", 0, 6), (1, "Intel HD", 0, 0), (2, "Render Driver", 0, None)]
        export.rows("TARGET_INFO_GPU", columns, listed)
        export.launch("k", (0, 1), (2, 3))

    assert export_of(tmp_path, fill).gpus == {0: "GTX 1060"}


def test_old_lists_of_gpus(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.rows("TARGET_INFO_CUDA_GPU", ("name", "deviceId"), [("A100", 0), ("A100", 1)])
        export.launch("k", (0, 1), (2, 3))

    assert export_of(tmp_path, fill).gpus == {0: "A100", 1: "A100"}


def test_two_processes_that_both_call_their_gpu_zero(tmp_path: Path) -> None:
    other = (4243 << 24) | 9

    def fill(export: NsysFile) -> None:
        export.launch("a", (0, 10), (20, 30))
        export.correlation = 0  # each process counts for itself
        export.launch("b", (100, 110), (120, 130), thread=other)
        devices = [(0, 0, 4242), (3, 0, 4243)]
        export.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"), devices)

    rows = rows_of(export_of(tmp_path, fill))
    kernels = {
        row["name"]: (row["device"], row["process"], row["correlation"]) for row in rows if row["kind"] == "kernel"
    }
    assert kernels == {"a": (0, 0, 1), "b": (3, 1, 1)}
    assert {row["thread"] for row in rows if row["kind"] == "api"} == {0, 1}  # no process or thread id of the machine


def test_no_names_at_all(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.tables["StringIds"] = ()
        export.launch("k", (0, 1), (2, 3))

    assert {row["name"] for row in rows_of(export_of(tmp_path, fill))} == {
        "a kernel without a name",
        "a call without a name",
    }


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with NsysFile(path) as export:
        export.launch("k", (0, 1), (2, 3))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE StringIds SET value = CAST(X'6B FF 31' AS TEXT) WHERE value = 'k'".replace(" FF ", "FF"))
    db.close()
    assert "k\ufffd1" in {row["name"] for row in rows_of(read_export(path))}


def test_the_parent_is_the_innermost_range_of_the_calls_thread(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.range("outer", (0, 100))
        export.range("inner", (10, 20))
        export.range("elsewhere", (0, 100), thread=PID | 8)
        export.launch("in", (12, 15), (500, 510))
        export.launch("out", (30, 35), (520, 530))
        export.launch("after", (120, 125), (540, 550))

    rows = rows_of(export_of(tmp_path, fill))
    assert {row["name"]: row["parent"] for row in rows if row["kind"] == "kernel"} == {
        "in": "inner", "out": "outer", "after": None,
    }  # fmt: skip


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def half(path: Path) -> bytes:
    with NsysFile(path / "whole.sqlite") as export:
        usual(export)
    content = (path / "whole.sqlite").read_bytes()
    return content[: len(content) // 2]


def spoilt(path: Path) -> bytes:
    """An export whose header is whole and whose pages are not."""
    with NsysFile(path / "whole.sqlite") as export:
        usual(export)
    content = (path / "whole.sqlite").read_bytes()
    return content[:100] + b"\xff" * (len(content) - 100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.sqlite is empty"),
        (b"hello\n", "x.sqlite is text, not an SQLite export"),
        (b"\x89PNG\0\0", "x.sqlite is something else"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-LFS pointer"),
    ],
)
def test_what_is_no_export_is_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_export(write(tmp_path / "x.sqlite", content))
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_a_spoilt_export(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x.sqlite cannot be read: it is damaged"):
        read_export(write(tmp_path / "x.sqlite", spoilt(tmp_path)))


def test_a_truncated_export(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x.sqlite is truncated: \d+ of \d+ bytes are there"):
        read_export(write(tmp_path / "x.sqlite", half(tmp_path)))


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        read_export(tmp_path / "none.sqlite")
    with pytest.raises(UsageError, match="is a folder"):
        read_export(tmp_path)


def test_another_database(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.sqlite")
    db.execute("CREATE TABLE people (name)")
    db.commit()
    db.close()
    with pytest.raises(UsageError, match="not an export of Nsight Systems"):
        read_export(tmp_path / "x.sqlite")


def test_an_export_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without CUDA or NVTX events"):
        export_of(tmp_path, lambda e: e.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"), [("a", "b")]))


def test_an_export_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.nsys_export._WAIT_S", 0.1)
    with NsysFile(tmp_path / "x.sqlite") as export:
        usual(export)
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        db = sqlite3.connect(tmp_path / "x.sqlite")
        db.execute("BEGIN EXCLUSIVE")
        locked.set()
        done.wait(20)
        db.close()

    writer = threading.Thread(target=hold)
    writer.start()
    locked.wait(20)
    try:
        with pytest.raises(UsageError, match="another program holds it locked"):
            read_export(tmp_path / "x.sqlite")
    finally:
        done.set()
        writer.join()


def test_a_column_of_numbers_that_holds_words(tmp_path: Path) -> None:
    def fill(export: NsysFile) -> None:
        export.rows("CUPTI_ACTIVITY_KIND_KERNEL", ("start", "end", "demangledName"), [("soon", 5, 1)])

    with pytest.raises(UsageError, match="a column of numbers holds something else"):
        export_of(tmp_path, fill)


SECRETS = ("SECRET_TOKEN=hunter2", "alice", "build-host-17", "/home/alice/project", "0000:00:06.0", "GPU-1234-uuid")


def test_the_scrubber_leaves_the_timeline_and_nothing_of_machine_or_user(tmp_path: Path) -> None:
    source, target = tmp_path / "x.sqlite", tmp_path / "clean.sqlite"
    with NsysFile(source) as export:
        usual(export)
        export.rows("META_DATA_CAPTURE", ("name", "value"), [("ENVIRONMENT_VARIABLE", SECRETS[0]), ("USER", "alice")])
        export.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"), [("Hostname", SECRETS[2])])
        export.rows("PROCESSES", ("globalPid", "name"), [(PID, SECRETS[3])])
        export.rows("A_TABLE_OF_THE_FUTURE", ("who",), [("alice",)])
        export.rows(
            "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs", "localTime"), [(1_795_983_809_708_192_737, "alice")]
        )
        for secret in SECRETS:
            export.text(secret)
        export.rows("ThreadNames", ("nameId", "globalTid"), [(export.text(SECRETS[3]), TID)])
    before = read_export(source)
    scrub(source, target)
    content = target.read_bytes()
    assert [secret for secret in SECRETS if secret.encode() in content] == []
    after = read_export(target)
    assert rows_of(after) == rows_of(before)
    assert (after.facts, after.gpus, after.taken_ns) == (before.facts, before.gpus, before.taken_ns)


def test_a_file_that_cannot_be_scrubbed_leaves_nothing(tmp_path: Path) -> None:
    broken = write(tmp_path / "x.sqlite", spoilt(tmp_path))
    with pytest.raises(UsageError, match="cannot be scrubbed: it is damaged"):
        scrub(broken, tmp_path / "clean.sqlite")
    assert not (tmp_path / "clean.sqlite").exists()


@pytest.mark.parametrize(
    ("name", "kinds", "version"),
    [
        ("nsys/a100x4_2020_no_meta_table.sqlite", {"kernel": 6, "api": 18}, ""),
        (
            "nsys/gtx1060_2022.1_no_nvtx_bad_utf8.sqlite",
            {"kernel": 9, "copy": 11, "memset": 1, "api": 71}, "2022.1.1.61",
        ),
        (
            "nsys/h100x2_2026.2_trimmed_no_gpu_info.sqlite",
            {"kernel": 3442, "copy": 904, "memset": 22, "api": 5796, "nvtx": 16782}, "2026.2.1.210",
        ),
        ("nsys/rtx3080_2026.1_2kernels.sqlite", {"kernel": 2, "copy": 1, "api": 9}, "2026.1.1.204"),
        ("h200/sgemm_naive_smem.sqlite", {"kernel": 12, "api": 507, "nvtx": 6}, "2025.3.2.0"),
    ],
)  # fmt: skip
def test_real_exports(samples: Path, name: str, kinds: dict[str, int], version: str) -> None:
    export = read_export(samples / name)
    assert dict(export.spans.counts) == kinds
    assert export.facts.get("EXPORT_PRODUCT_VERSION", "") == version
    frame = export.spans.frame
    assert frame["start_ns"].min() == 0
    assert frame["duration_ns"].notna().all()


def test_a_real_export_agrees_with_its_own_rows(samples: Path) -> None:
    path = samples / "nsys/h100x2_2026.2_trimmed_no_gpu_info.sqlite"
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    kernel = (
        "SELECT SUM(k.end - k.start), MIN(k.start), COUNT(DISTINCT s.value) "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"
    )
    total, first, distinct = db.execute(kernel).fetchone()
    copied = dict(db.execute("SELECT copyKind, SUM(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1").fetchall())
    db.close()
    export = read_export(path)
    frame = export.spans.frame
    kernels, copies = frame[frame["kind"] == "kernel"], frame[frame["kind"] == "copy"]
    assert (kernels["duration_ns"].sum(), kernels["start_ns"].min() + export.spans.origin_ns) == (total, first)
    assert kernels["name"].nunique() == distinct
    assert copies[copies["direction"] == "h2d"]["bytes"].sum() == copied[1]
    assert copies[copies["direction"] == "d2d"]["bytes"].sum() == copied[8]


def test_a_large_export_is_read_by_column(tmp_path: Path) -> None:
    large(tmp_path / "x.sqlite", 20_000)
    frame = read_export(tmp_path / "x.sqlite").spans.frame
    assert (frame["kind"] == "kernel").sum() == 20_000
    assert (np.diff(frame["start_ns"].to_numpy(np.int64)) >= 0).all()
    assert frame[frame["kind"] == "kernel"]["correlation"].nunique() == 20_000
