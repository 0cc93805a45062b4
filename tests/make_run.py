"""Synthetic runs for tests: realistic in shape, seeded, and marked synthetic everywhere a reader could look.

No figure here was measured. The numbers are drawn around plausible values so that sums, shares and roofs agree with
each other the way a real run's do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from profiler.rundir import RunDir
from profiler.sizes import parse_size_key

GPU = "Synthetic H200"
SIZE = "M=4096,N=4096,K=4096"
SMALL_SIZES = ("M=1024,N=1024,K=1024", "M=2048,N=2048,K=2048", SIZE)
_SMS = 132
_DRAM_CLOCK_HZ = 3.2e9
_ROOF_PER_CYCLE = {  # per SM clock cycle of the whole chip
    "ffma": 16896 * 2.0,
    "hmma_bf16": 360448.0,
    "hgmma_bf16": 540672.0,
    "shared": 132 * 128.0,
    "l1": 132 * 128.0,
    "l2": 188 * 32.0,
}


@dataclass(frozen=True)
class Rung:
    """A synthetic variant: its share of its pipe's roof, traffic per level in units of the least bytes, stalls."""

    name: str
    dtype: str
    kind: str
    idea: str
    share: float
    pipe: str
    registers: int
    clock_ghz: float
    dram: float
    l2: float
    l1: float
    shared: float  #: share of the shared-memory roof
    stalls: Mapping[str, float] = field(default_factory=dict)
    warps: float = 16.0
    params: Mapping[str, Any] = field(default_factory=dict)


RUNGS: tuple[Rung, ...] = (
    Rung("naive", "fp32", "cuda", "one thread per element of C", 0.093, "ffma", 32, 1.976, 1.9, 60, 1500, 0.0,
         {"lg_throttle": 13.9, "not_selected": 8.1, "long_scoreboard": 5.5, "dispatch_stall": 5.0, "selected": 1.0,
          "wait": 1.6, "math_pipe_throttle": 0.7, "drain": 0.2}, 62.9),
    Rung("shared", "fp32", "cuda", "a 32 x 32 tile of A and B in shared memory", 0.142, "ffma", 38, 1.979, 1.6, 52, 64,
         0.88, {"mio_throttle": 21.9, "not_selected": 6.8, "long_scoreboard": 5.2, "barrier": 3.3, "selected": 1.0,
                "short_scoreboard": 1.4, "wait": 1.1}, 62.8),
    Rung("tile_2d", "fp32", "cuda", "128 x 128 tile, 8 x 8 results per thread", 0.38, "ffma", 118, 1.971, 1.3,
         18, 20, 0.62, {"selected": 1.0, "not_selected": 1.2, "long_scoreboard": 1.9, "short_scoreboard": 0.8,
                        "mio_throttle": 0.9, "barrier": 0.7, "wait": 0.5, "dispatch_stall": 0.3}, 16.0,
         {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
    Rung("double_buffer", "fp32", "cuda", "the next tile is loaded while this one multiplies", 0.50, "ffma", 128, 1.962,
         1.3, 16, 17, 0.66, {"selected": 1.0, "not_selected": 1.3, "long_scoreboard": 0.4, "short_scoreboard": 0.5,
                             "mio_throttle": 0.4, "barrier": 0.4, "wait": 0.4, "dispatch_stall": 0.3}, 15.9,
         {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8, "STAGES": 2}),
    Rung("cublas_fp32", "fp32", "python", "the vendor's library, TF32 off", 0.78, "ffma", 202, 1.964, 1.2, 12, 13, 0.55,
         {"selected": 1.0, "not_selected": 0.81, "short_scoreboard": 0.14, "dispatch_stall": 0.14, "wait": 0.1,
          "barrier": 0.07}, 8.0),
    Rung("mma_sync", "bf16", "cuda", "mma.sync on 16-byte fragments, three stages of cp.async", 0.52, "hmma_bf16", 166,
         1.795, 1.5, 22, 24, 0.71, {"selected": 1.0, "math_pipe_throttle": 2.6, "long_scoreboard": 1.4,
                                    "short_scoreboard": 1.1, "barrier": 1.5, "wait": 1.2, "not_selected": 0.7}, 8.0,
         {"BM": 128, "BN": 128, "BK": 32, "STAGES": 3}),
    Rung("triton", "bf16", "triton", "the same product in Triton, autotuned", 0.72, "hgmma_bf16", 168, 1.66, 1.3,
         15, 6, 0.58, {"selected": 1.0, "barrier": 4.8, "long_scoreboard": 3.2, "gmma": 5.1, "wait": 1.8,
                        "not_selected": 0.3}, 9.4),
    Rung("cublas_bf16", "bf16", "python", "the vendor's library", 0.90, "hgmma_bf16", 168, 1.61, 1.2, 11, 4, 0.62,
         {"selected": 1.0, "barrier": 6.0, "long_scoreboard": 3.8, "gmma": 3.7, "wait": 2.2, "not_selected": 0.2,
          "sleeping": 2.7}, 9.4),
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A variant that fails: its status, and what the pipeline says of it."""

    status: str
    reason: str


FAULTS: Mapping[str, Fault] = {
    "shared": Fault("wrong_result", "error 0.31 is above the tolerance 1.2e-05 at M=67,N=131,K=35 (first at C[64, 0])"),
    "tile_2d": Fault("build_failed", "05_tile_2d.cu(41): error: identifier \"smem_a\" is undefined"),
    "triton": Fault("crashed", "an illegal memory access; the other variants went on in a new worker"),
}  # fmt: skip


def make_run(
    path: Path,
    *,
    rungs: Sequence[Rung] = RUNGS,
    sizes: Sequence[str] = (SIZE,),
    faults: Mapping[str, Fault] | None = None,
    timed: bool = True,
    counters: bool = True,
    recorded: bool = False,
    baseline: Mapping[str, str] | None = None,
    samples: int = 50,
    processes: int = 1,
    seed: int = 0,
    title: str = "From naive to tensor cores (synthetic)",
) -> RunDir:
    """Write a run directory of synthetic numbers and return it.

    ``faults`` maps variants to failures; without ``timed`` there is only what a compiler says (no GPU); without
    ``counters`` the times are there and the profiler was refused.
    """
    rng = np.random.default_rng(seed)
    faults = faults or {}
    baseline = {"fp32": "cublas_fp32", "bf16": "cublas_bf16"} if baseline is None else baseline
    run = RunDir.create(path, _manifest(rungs, sizes, timed, counters, recorded, baseline, processes, title))
    origin = "none" if not timed else "recorded" if recorded else "measured"
    run.write_frame("variants", [_variant(r, i, faults, origin, timed) for i, r in enumerate(rungs)])
    run.write_frame("checks", [row for r in rungs for row in _checks(r, sizes, faults, timed, rng)])
    alive = [r for r in rungs if r.name not in faults]
    if timed:
        run.write_frame("samples", _samples(alive, sizes, samples, processes, rng))
    metrics = [row for r in rungs if not _unbuilt(r, faults) for row in _static(r)]
    if timed:
        why = "" if counters else "not_permitted"
        metrics += [row for r in alive for size in sizes for row in _counters(r, size, why)]
    run.write_frame("metrics", metrics)
    if timed and counters:
        run.write_frame("stalls", [row for r in alive for size in sizes for row in _stalls(r, size)])
    if timed:
        run.write_frame("ceilings", _ceilings())
    return run


def duration_s(rung: Rung, size: str) -> float:
    """Return the synthetic kernel's time: its operations at its share of its roof; small sizes lose to latency."""
    work = flops(size)
    loss = 1 + (1.2e10 / work) * 0.4
    return work * loss / (rung.share * _ROOF_PER_CYCLE[rung.pipe] * rung.clock_ghz * 1e9)


def flops(size: str) -> int:
    """Return the operations of a product of that size."""
    dims = parse_size_key(size)
    return 2 * dims["M"] * dims["N"] * dims["K"]


def least_bytes(dtype: str, size: str) -> int:
    """Return the least bytes that must move."""
    d = parse_size_key(size)
    return (d["M"] * d["K"] + d["K"] * d["N"] + d["M"] * d["N"]) * (4 if dtype == "fp32" else 2)


def _manifest(
    rungs: Sequence[Rung], sizes: Sequence[str], timed: bool, counters: bool, recorded: bool,
    baseline: Mapping[str, str], processes: int, title: str,
) -> dict[str, Any]:  # fmt: skip
    dtypes = list(dict.fromkeys(r.dtype for r in rungs))
    gpu = {
        "name": GPU, "uuid": "GPU-00000000-synthetic", "driver": "580.159", "compute_capability": "9.0",
        "sm_count": _SMS, "memory_bytes": 150_000_000_000, "clocks": {"sm_max_mhz": 1980, "memory_max_mhz": 3201},
    }  # fmt: skip
    skipped = {"status": "skipped", "seconds": 0.0, "reason": "there is no GPU here"}
    stages: dict[str, Any] = {
        "plan": {"status": "done", "seconds": 0.4}, "build": {"status": "done", "seconds": 11.8},
        "static": {"status": "done", "seconds": 1.9},
        "verify": {"status": "done", "seconds": 6.1} if timed and not recorded else skipped,
        "time": {"status": "done", "seconds": 14.2} if timed and not recorded else skipped,
        "profile": {"status": "done", "seconds": 21.7} if timed and counters and not recorded else skipped,
    }  # fmt: skip
    profile: dict[str, Any] = {
        "outcome": "ok", "ncu_version": "2025.3.1", "cache_control": "all", "clock_control": "none",
        "passes": 25,
    } if timed else {}  # fmt: skip
    if timed and not counters:
        profile = {
            "outcome": "not_permitted", "reason": "the driver does not permit counters to this user (ERR_NVGPUCTRPERM)",
            "hint": "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0, or run as an administrator",
            "ncu_version": "2025.3.1",
        }  # fmt: skip
    manifest: dict[str, Any] = {
        "experiment": {"name": "gemm_ladder", "title": title, "text": "schema: 1\nname: gemm_ladder\n# synthetic\n"},
        "problem": {
            "kind": "gemm", "options": {"layout": "nn"}, "dims": ["M", "N", "K"], "sizes": list(sizes),
            "flops": {size: flops(size) for size in sizes},
            "min_bytes": {dtype: {size: least_bytes(dtype, size) for size in sizes} for dtype in dtypes},
        },
        "baseline": dict(baseline),
        "gpu": gpu if timed and not recorded else {},
        "tools": {"nvcc": "13.0.88", "ncu": "2025.3.1", "cuda": "13.0", "torch": "2.11.0", "triton": "3.6.0",
                  "python": "3.11.9"},
        "versions": {"kernel-ladder": "0.1.0"},
        "created": "2026-11-29 20:00:00 UTC",
        "command": ["run_experiment", "gemm_ladder"],
        "arch": "sm_90a",
        "stages": stages,
        "timing": {"method": {}, "cache": "cold", "flush": "256 MiB written, then a clean 128 MiB buffer read",
                   "warmup_ms": 1000, "samples": 50, "blocking": True, "processes": processes},
        "profile": profile,
        "builds": {},
        "notes": ["SYNTHETIC: every number in this run was drawn from a random generator for tests."],
    }  # fmt: skip
    if recorded:
        there = {"name": GPU, "driver": "580.159"}
        manifest["replay"] = {"from": "h200/gemm_ladder", "gpu": there, "date": "2026-11-29", "driver": "580.159"}
    return manifest


def _unbuilt(rung: Rung, faults: Mapping[str, Fault]) -> bool:
    return rung.kind != "cuda" or (rung.name in faults and faults[rung.name].status == "build_failed")


def _variant(rung: Rung, order: int, faults: Mapping[str, Fault], origin: str, timed: bool) -> dict[str, Any]:
    fault = faults.get(rung.name)
    status, reason, verified = "ok", None, "yes"
    if fault is not None:
        status, reason = fault.status, fault.reason
        verified = "no" if fault.status.startswith("wrong") else "unverified"
        origin = "none"
    elif not timed:
        status, reason, verified = "not_run", "there is no GPU here and nothing recorded matches", "unverified"
    return {
        "name": rung.name, "dtype": rung.dtype, "kind": rung.kind, "status": status, "reason": reason,
        "verified": verified, "origin": origin, "order": order, "idea": rung.idea,
        "params": json.dumps(dict(rung.params), sort_keys=True, separators=(",", ":")),
        "source_hash": f"{order:064x}", "binary_hash": f"{order + 100:064x}",
    }  # fmt: skip


def _checks(
    rung: Rung, sizes: Sequence[str], faults: Mapping[str, Fault], timed: bool, rng: np.random.Generator
) -> list[dict[str, Any]]:
    if not timed:
        return []
    fault = faults.get(rung.name)
    if fault is not None and fault.status == "wrong_result":
        return [{"variant": rung.name, "size": "M=67,N=131,K=35", "when": "before", "seed": 1, "status": "wrong_result",
                 "reason": fault.reason, "error": 0.31, "tolerance": 1.2e-5, "baseline_error": 2.1e-7}]  # fmt: skip
    if fault is not None:
        return []
    scale = 1e-6 if rung.dtype == "fp32" else 4e-3
    return [
        {"variant": rung.name, "size": size, "when": when, "seed": seed, "status": "ok", "reason": None,
         "error": float(scale * rng.uniform(0.2, 0.4)), "tolerance": scale, "baseline_error": scale * 0.25}
        for size in (*sizes, "M=67,N=131,K=35") for seed, when in ((1, "before"), (2, "after"))
    ]  # fmt: skip


def _samples(
    rungs: Sequence[Rung], sizes: Sequence[str], count: int, processes: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Interleaved rounds: what all variants share in a round (the card's state) is drawn once."""
    rows = []
    for size in sizes:
        for process in range(processes):
            offset = rng.normal(0, 0.0015)
            for order in range(count):  # as the worker has it: the round, which all variants share
                shared = rng.normal(0, 0.003)
                for index in rng.permutation(len(rungs)):
                    rung = rungs[index]
                    noise = 1 + offset + shared + abs(rng.normal(0, 0.004))
                    rows.append(
                        {"variant": rung.name, "size": size, "gpu": "GPU-00000000-synthetic", "process": process,
                         "order": order, "method": "single", "cache": "cold", "launches": 1,
                         "time_ns": round(duration_s(rung, size) * 1e9 * noise / 32) * 32.0,
                         "sm_clock_mhz": rung.clock_ghz * 1000 * (1 - abs(shared)), "temperature_c": 52.0,
                         "power_w": 610.0, "throttle": "none", "foreign": False}
                    )  # fmt: skip
    return rows


def _static(rung: Rung) -> list[dict[str, Any]]:
    values = {
        "ptxas.registers": (rung.registers, "1", "ptxas"),
        "ptxas.spill_store_bytes": (0, "byte", "ptxas"),
        "model.occupancy.percent": (rung.warps / 64 * 100, "%", "model"),
    }
    return [
        {"variant": rung.name, "size": None, "launch": None, "kernel": f"{rung.name}_kernel", "metric": metric,
         "value": float(value), "unit": unit, "origin": origin}
        for metric, (value, unit, origin) in values.items()
    ]  # fmt: skip


def _counters(rung: Rung, size: str, why: str) -> list[dict[str, Any]]:
    seconds = duration_s(rung, size) * 1.015
    hz = rung.clock_ghz * 1e9
    work = float(flops(size))
    least = least_bytes(rung.dtype, size)
    reuse = parse_size_key(size)["K"] / 4096
    shared = rung.shared * _ROOF_PER_CYCLE["shared"] * hz * seconds
    issue, active = min(0.97, rung.warps / 4 / sum(rung.stalls.values())), 0.965
    values: dict[str, tuple[float, str]] = {
        "duration": (seconds, "s"), "sm_clock": (hz, "Hz"), "dram_clock": (_DRAM_CLOCK_HZ, "Hz"),
        "dram_bytes_read": (least * rung.dram * 0.8, "B"), "dram_bytes_write": (least * rung.dram * 0.2, "B"),
        "dram_bytes": (least * rung.dram, "B"), "l2_bytes": (least * rung.l2 * reuse, "B"),
        "shared_bytes": (shared, "B"), "shared_wavefronts": (shared / 128, "1"),
        "l1_bytes": (least * rung.l1 * reuse * 1.1 + shared, "B"),
        "warp_latency": (sum(rung.stalls.values()) * 1.001, "cycle"),
        "issue_active": (issue, "1"), "active_share": (active, "1"),
        "instructions_per_scheduler": (issue * active * seconds * hz, "inst"),
        "warps_active": (rung.warps, "warp"), "warps_per_scheduler": (rung.warps / 4, "warp"),
        "registers": (float(rung.registers), "register"), "theoretical_occupancy": (rung.warps / 64 * 100, "%"),
        "fp32_flop": (work if rung.pipe == "ffma" else 0.0, "FLOP"),
        "tensor_ops_bf16": (0.0 if rung.pipe == "ffma" else work, "op"),
        "tensor_ops_bf16_hmma": (work if rung.pipe == "hmma_bf16" else 0.0, "op"),
        "tensor_ops_bf16_hgmma": (work if rung.pipe == "hgmma_bf16" else 0.0, "op"),
    }  # fmt: skip
    values["roof.dram"] = (1504 * _DRAM_CLOCK_HZ, "B/s")
    for name, per_cycle in _ROOF_PER_CYCLE.items():
        values[f"roof.{name}"] = (per_cycle * hz, "B/s" if name in ("l1", "l2", "shared") else "FLOP/s")
    base = {"variant": rung.name, "size": size, "launch": 0, "kernel": f"{rung.name}_kernel", "origin": "ncu"}
    rows: list[dict[str, Any]] = [
        {**base, "metric": metric, "value": None if why else value, "unit": unit, "why": why or None}
        for metric, (value, unit) in values.items()
    ]
    rows.append(
        {**base, "metric": "tma_load_instructions", "value": None, "unit": "inst", "why": why or "not_supported"}
    )
    return rows


def _stalls(rung: Rung, size: str) -> list[dict[str, Any]]:
    return [
        {"variant": rung.name, "size": size, "launch": 0, "kernel": f"{rung.name}_kernel", "reason": reason,
         "cycles_per_issue": cycles, "samples": int(cycles * 1000)}
        for reason, cycles in rung.stalls.items()
    ]  # fmt: skip


def _ceilings() -> list[dict[str, Any]]:
    return [
        {"name": "copy", "level_or_pipe": "dram", "value": 4.22e12, "unit": "B/s", "clock_mhz": 1980.0,
         "origin": "measured"},
        {"name": "FFMA loop", "level_or_pipe": "ffma", "value": 64.1e12, "unit": "FLOP/s", "clock_mhz": 1965.0,
         "origin": "measured"},
        {"name": "mma.sync loop", "level_or_pipe": "hmma_bf16", "value": 655e12, "unit": "FLOP/s", "clock_mhz": 1830.0,
         "origin": "measured"},
    ]  # fmt: skip
