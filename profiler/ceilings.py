"""Ceilings of this card in this run: what small kernels reach, and what the datasheet's arithmetic says.

They are roofs for the chart and controls for a comparison of two runs. Whatever goes wrong here leaves rows out, with a
remark, and never touches a variant.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler import frames
from profiler.clocks import CardClocks, card_clocks
from profiler.controls import parse_row_name
from profiler.run import Run
from profiler.timing_helpers import build_library
from profiler.worker.protocol import number
from profiler.worker_session import Event, WorkerSession, WorkerUnusable

SOURCE = Path(__file__).resolve().parent / "worker" / "ceilings.cu"
#: Longest silence of the worker: it speaks before each ceiling, and one takes about a tenth of a second.
SILENCE_S = 20.0
#: Lanes of FP32 multiply-add per multiprocessor, by compute capability (CUDA programming guide, arithmetic throughput).
_FP32_LANES: Mapping[tuple[int, int], int] = {
    (7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (10, 3): 128,
    (12, 0): 128,
}  # fmt: skip
#: Dense BF16 operations per multiprocessor and cycle, and the instruction that the datasheet means (A100 and H100
#: datasheets: 312 TFLOP/s of 108 multiprocessors at 1410 MHz, 989 of 132 at 1830 MHz). FP16 runs at this rate, TF32 at
#: half of it.
_BF16_OPS: Mapping[tuple[int, int], tuple[str, str, int]] = {
    (8, 0): ("mma.sync", "hmma", 2048),
    (9, 0): ("wgmma", "hgmma", 4096),
}
_OF_BF16: Mapping[str, int] = {"BF16": 1, "FP16": 1, "TF32": 2}
_SHARED_BYTES = 128


def ceiling_library(run: Run) -> str | None:
    """Return the path of the ceiling kernels for this GPU, built when needed; None where they cannot be built."""
    library, why = build_library(run, SOURCE)
    if why:
        run.say(f"the ceiling kernels do not build ({why}); no ceilings are measured")
    return library


def measure_ceilings(run: Run, session: WorkerSession, helpers: str | None, library: str | None) -> None:
    """Measure what the card reaches and write the frame ``ceilings``; never raises for a worker that is lost."""
    rows: list[dict[str, Any]] = []
    absent: dict[str, str] = {}
    started = time.monotonic()

    def on_event(event: Event) -> None:
        if event["event"] == "ceiling":
            if event["value"] is None:
                absent[event["name"]] = event["why"]
            else:
                rows.append(_row(event))
        elif event["event"] == "unmeasured":
            absent["the rest"] = event["reason"]

    if library is None:
        absent["any"] = "their kernels are not built (there is no compiler, or it failed)"
    else:
        command = {"cmd": "ceilings", "helpers": helpers, "library": library}
        try:
            outcome = session.ask(command, on_event, min(SILENCE_S, run.settings.timeout_s))
            if outcome.kind != "done":
                absent.setdefault("the rest", outcome.reason)
        except WorkerUnusable as error:
            absent["any"] = str(error)
    gpu = run.dir.manifest["gpu"] or {}
    if run.gpu is not None:
        rows += nominal_rows(int(gpu.get("sm_count") or 0), run.gpu.compute_capability, card_clocks(run.gpu.uuid))
    controls = [row for row in frames.rows_of(run.dir.frame("ceilings")) if parse_row_name(str(row["name"]))]
    run.dir.write_frame("ceilings", [*rows, *controls])
    run.note("ceilings", {"seconds": round(time.monotonic() - started, 3), "absent": absent})
    if absent:
        listed = "; ".join(f"{name}: {why}" for name, why in absent.items())
        run.remark(f"Ceilings that were not measured: {listed}.")


def nominal_rows(multiprocessors: int, capability: tuple[int, int], clocks: CardClocks) -> list[dict[str, Any]]:
    """Return the peaks that follow from units, rates and the highest clocks; what is unknown is left out."""
    rows: list[dict[str, Any]] = []

    def add(name: str, key: str, value: float, unit: str, mhz: int) -> None:
        rows.append(
            {"name": name, "level_or_pipe": key, "value": value, "unit": unit, "clock_mhz": float(mhz),
             "origin": "nominal"}
        )  # fmt: skip

    if clocks.memory_max_mhz and clocks.bus_bits:
        hz = clocks.memory_max_mhz * 1e6
        add("DRAM", "dram", hz * 2 * clocks.bus_bits / 8, "B/s", clocks.memory_max_mhz)  # two transfers a cycle
    if clocks.sm_max_mhz and multiprocessors:
        mhz, cycles = clocks.sm_max_mhz, clocks.sm_max_mhz * 1e6 * multiprocessors
        add("shared memory", "shared", _SHARED_BYTES * cycles, "B/s", mhz)
        if capability in _FP32_LANES:
            add("FP32", "ffma", 2 * _FP32_LANES[capability] * cycles, "FLOP/s", mhz)
        if capability in _BF16_OPS:
            name, key, ops = _BF16_OPS[capability]
            for kind, part in _OF_BF16.items():
                add(f"{name} {kind}", f"{key}_{kind.lower()}", ops // part * cycles, "FLOP/s", mhz)
    return rows


def _row(event: Event) -> dict[str, Any]:
    return {
        "name": event["name"],
        "level_or_pipe": event["level_or_pipe"],
        "value": number(event["value"]),
        "unit": event["unit"],
        "clock_mhz": number(event["clock_mhz"]),
        "origin": "measured",
    }
