"""The exact command lines of ncu, and what its output is taken to mean."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from profiler.ncu_command import (
    DOMAIN,
    ProfileOptions,
    chip_name,
    classify_log,
    parse_query_metrics,
    profile_argv,
    query_argv,
    range_expression,
    range_name,
    too_old,
)
from profiler.toolchain import Tool

NCU = Tool(Path("/opt/nsight/ncu"), "2025.3.1.0")
REPORT, LOG = Path("raw/profile.ncu-rep"), Path("raw/profile.ncu.log")
PROGRAM = ["python", "-m", "profiler.worker.profile_program", "spec.json"]
CONNECTED = "==PROF== Connected to process 4242 (/usr/bin/python3.11)\n"


def test_profile_argv() -> None:
    assert profile_argv(NCU, PROGRAM, REPORT, LOG, ["a.sum", "b.avg"], ["kl.0000", "kl.0001"]) == [
        "/opt/nsight/ncu", "--target-processes", "application-only",
        "--clock-control", "none", "--cache-control", "all",
        "--nvtx", "--nvtx-include", "kernel-ladder@kl.0000/", "--nvtx-include", "kernel-ladder@kl.0001/",
        "--section", "SourceCounters", "--import-source", "yes",
        "--metrics", "a.sum,b.avg",
        "--log-file", "raw/profile.ncu.log", "-f", "-o", "raw/profile",
        "python", "-m", "profiler.worker.profile_program", "spec.json",
    ]  # fmt: skip


def test_profile_argv_full_without_sources() -> None:
    argv = profile_argv(NCU, PROGRAM, REPORT, LOG, [], ["kl.0000"], ProfileOptions("full", False, "base", "none"))
    assert argv == [
        "/opt/nsight/ncu", "--target-processes", "application-only",
        "--clock-control", "base", "--cache-control", "none",
        "--nvtx", "--nvtx-include", "kernel-ladder@kl.0000/",
        "--set", "full",
        "--log-file", "raw/profile.ncu.log", "-f", "-o", "raw/profile",
        *PROGRAM,
    ]  # fmt: skip


def test_paths_with_blanks_stay_one_argument() -> None:
    argv = profile_argv(NCU, PROGRAM, Path("a b/ünï (1).ncu-rep"), LOG, ["m"], ["kl.0000"])
    assert argv[argv.index("-o") + 1] == "a b/ünï (1)"


def test_ranges_need_no_escaping_and_are_push_pop() -> None:
    for index in (0, 7, 9999):
        expression = range_expression(range_name(index))
        domain, _, name = expression.partition("@")
        assert expression.endswith("/")
        assert not set("@,[]*+/$\\") & set(domain + name.rstrip("/"))
    assert range_name(3) == "kl.0003"


def test_query_argv() -> None:
    assert query_argv(NCU, "gh100") == ["/opt/nsight/ncu", "--query-metrics", "--chip", "gh100"]
    assert query_argv(NCU, None) == ["/opt/nsight/ncu", "--query-metrics"]
    assert chip_name((9, 0)) == "gh100"
    assert chip_name((99, 9)) is None
    assert chip_name(None) is None


def test_parse_query_metrics() -> None:
    listing = """Device NVIDIA H200 (GH100)
-------------------------- --------- ----- ----------------------
Metric Name                Type      Unit  Metric Description
-------------------------- --------- ----- ----------------------
dram__bytes                Counter   byte  # of bytes accessed in DRAM
  sm__warps_active         Counter   warp  cumulative # of warps in flight
"smsp__inst_executed","Counter","inst","# of warp instructions; see sm__inst_executed"

Note that these metrics must be appended with a valid suffix before profiling them.
"""
    assert parse_query_metrics(listing) == {"dram__bytes", "sm__warps_active", "smsp__inst_executed"}
    assert parse_query_metrics("==ERROR== unknown chip") == set()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2021.3.1.0", True), ("2022.1.0.0", False), ("2025.3.1.0", False), ("", False), ("nightly", False)],
)
def test_too_old(version: str, expected: bool) -> None:
    assert too_old(version, 2022) is expected


PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see ...\n"
)


@pytest.mark.parametrize(
    ("text", "returncode", "kind"),
    [
        (CONNECTED + PERMISSION, 1, "permission"),
        (CONNECTED + PERMISSION + "==PROF== Disconnected\n==WARNING== No kernels were profiled.", 0, "permission"),
        ("Traceback (most recent call last):\nRuntimeError: boom\n" + PERMISSION, 0, "permission"),
        ("==WARNING== No kernels were profiled.", 0, "no_kernels"),
        ("==ERROR== The application returned an error code (139).\n==WARNING== No kernels were profiled.", 1,
         "app_failed"),
        ("==ERROR== Failed to find metric regex:^nope__x(\\.(sum|avg))?$", 1, "unknown_metric"),
        ("==ERROR== Failed to access the following 2 metrics: nvlrx__bytes.sum, nvltx__bytes.sum\n", 255,
         "unknown_metric"),
        ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that ...", 1, "busy"),
        ("==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.", 0,
         "unsupported"),
        ("==ERROR== unrecognised option '--import-source'. Use --help for further details.", 1, "bad_option"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute", 1, "too_old"),
        ("==ERROR== Failed to profile kernel \"x\" in process 1", 1, "other"),
        ("", 0, "silent"),
        ("   \n", 1, "silent"),
        (CONNECTED + "==PROF== Report: x.ncu-rep", 0, "ok"),
        (CONNECTED, 3, "other"),
    ],
)  # fmt: skip
def test_classify_log(text: str, returncode: int, kind: str) -> None:
    outcome = classify_log(text, returncode)
    assert outcome.kind == kind
    assert outcome.returncode == returncode
    assert "\n" not in outcome.message
    if kind != "ok":
        assert outcome.message
        assert outcome.hint


def test_no_folder_of_this_machine_is_in_a_message() -> None:
    said = classify_log("==ERROR== Failed to open /home/someone/project/raw/profile.ncu-rep for writing\n", 1).message
    assert said == "ncu: Failed to open profile.ncu-rep for writing"


def test_names_of_refused_metrics() -> None:
    assert classify_log("==ERROR== Failed to find metric regex:^nope__x(\\.(sum|avg))?$", 1).names == ("nope__x",)
    assert classify_log("==ERROR== Failed to find metric nope__x.sum\n", 1).names == ("nope__x.sum",)
    text = "==ERROR== Failed to access the following 2 metrics: nvlrx__bytes.sum, nvltx__bytes.sum\n"
    assert classify_log(text, 1).names == ("nvlrx__bytes.sum", "nvltx__bytes.sum")


def test_only_refusals_are_final() -> None:
    kinds = {
        classify_log(PERMISSION, 1): True,
        classify_log("==ERROR== Profiling failed because a driver resource was unavailable.", 1): True,
        classify_log("==ERROR== The application returned an error code (1).", 1): False,
        classify_log("==WARNING== No kernels were profiled.", 0): False,
        classify_log("", 0): False,
    }
    assert all(outcome.final is expected for outcome, expected in kinds.items())


def test_what_the_program_prints_is_not_taken_for_ncu() -> None:
    text = CONNECTED + "my_tool: unrecognized option '--fast'\nthe driver is not compatible with me\n==PROF== Report: x"
    assert classify_log(text, 0).kind == "ok"


def test_the_profiled_program_pushes_the_ranges_that_ncu_selects() -> None:
    """Read, not imported: the program needs torch."""
    source = (Path(__file__).resolve().parents[2] / "profiler" / "worker" / "profile_program.py").read_text()
    tree = ast.parse(source)
    own = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "range_name")
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOMAIN")
    ]
    names: dict[str, Any] = {"DOMAIN": DOMAIN, "range_name": range_name}
    exec(compile(ast.Module(own, []), "profile_program", "exec"), names)
    assert own or "from profiler.ncu_command import" in source
    assert names["DOMAIN"] == DOMAIN
    assert names["range_name"](12) == range_name(12)
