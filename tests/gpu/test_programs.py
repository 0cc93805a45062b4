"""Programs on a real GPU: one beside the rungs, and the host programs against their ideals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.toolchain import find_nsys
from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]


def measured(folder: Path, *args: str) -> dict[str, Any]:
    done = run_experiment([*args, "--runs-dir", str(folder), "--json"], timeout=850)
    document = document_of(done)
    assert done.returncode == 0, {row["name"]: row["reason"] for row in document["variants"] if row["status"] != "ok"}
    return document


def own(document: dict[str, Any], size: str) -> dict[str, float]:
    return {row["variant"]: row["own_time_ns"] for row in document["ladder"] if row["size"] == size}


def test_a_program_stands_beside_the_rungs(tmp_path: Path) -> None:
    if find_nsys()[0] is None:
        pytest.skip("there is no Nsight Systems here")
    rows = {
        row["variant"]: row for row in measured(tmp_path, "experiments/command_example/command_example.yaml")["ladder"]
    }
    traced, printed = rows["traced"], rows["printed"]
    assert (traced["own_method"], printed["own_method"]) == ("trace", "printed")
    assert {rows[name]["own_rank"] for name in ("tile_2d", "traced", "cublas_fp32")} == {1, 2, 3}
    assert printed["own_rank"] is None
    assert traced["own_time_ns"] == pytest.approx(printed["own_time_ns"], rel=0.03)
    assert rows["cublas_fp32"]["own_time_ns"] == pytest.approx(rows["cublas_fp32"]["time_ns"], rel=0.1)


def test_a_graph_costs_at_most_half_of_what_a_loop_does(tmp_path: Path) -> None:
    names = ("loop", "graph", "fused", "kernel")
    document = measured(tmp_path, "launch_overhead", "--skip", "profile", *(w for n in names for w in ("--only", n)))
    times = own(document, "L=1000,NS=2000")
    assert times["kernel"] < times["graph"] < times["loop"]
    assert times["graph"] - times["kernel"] <= 0.5 * (times["loop"] - times["kernel"])


def test_three_streams_reach_nine_tenths_of_the_ideal(tmp_path: Path) -> None:
    times = own(measured(tmp_path, "overlap", "--skip", "profile"), "N=67108864")
    assert times["ideal"] / times["three_streams"] >= 0.90
    assert times["serial_pinned"] > 1.5 * times["three_streams"]
    assert times["serial_pageable"] > times["serial_pinned"]


def test_small_kernels_run_beside_one_another(tmp_path: Path) -> None:
    times = own(measured(tmp_path, "concurrency", "--skip", "profile"), "K=64,NS=100000")
    assert times["one_stream"] > 30 * times["one_kernel"]
    # 64 kernels of 100 us in 32 streams last as long as their launches, some 5 us each by the CPU, and one kernel more.
    # A graph hands all of them over at once.
    assert times["connections_32"] < 0.4 * times["streams_4"]
    assert times["graph"] < 2 * times["one_kernel"]
    assert times["default_between"] > 1.5 * times["non_blocking"]
