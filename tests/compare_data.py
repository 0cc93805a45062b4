"""Kernels with planted faults, as runs in memory: what the tests of a comparison's causes hold against each other.

A kernel's time follows from its factors, so that the exact product of the decomposition holds as in a real profile.
Every number is made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profiler.analysis.rundata import RunData
from profiler.comparison.causes import explain_row
from profiler.comparison.evidence import Side
from profiler.comparison.model import (
    Cause,
    CodeIdentity,
    Comparison,
    Control,
    Diff,
    Estimate,
    Mismatch,
    Noise,
    RowComparison,
    Times,
)

SIZE = "M=4096,N=4096,K=4096"
NAME = "kernel"
_SCHEDULERS = 528
_CLOCK = 1.9e9
_ROOFS = {"roof.shared": 132 * 128 * _CLOCK, "roof.l1": 132 * 128 * _CLOCK, "roof.l2": 9e12, "roof.dram": 4.8e12}


@dataclass(frozen=True)
class Line:
    """One instruction of the source frame: executions, and wavefronts and sectors with their excess."""

    sass: str
    executed: int
    wavefronts: int = 0
    excess: int = 0
    sectors: int = 0
    excess_sectors: int = 0
    line: int = 41


@dataclass(frozen=True)
class Planted:
    """A kernel: its counters, what the compiler says, its instructions."""

    instructions: float = 100e6
    stalls: Mapping[str, float] = field(
        default_factory=lambda: {"selected": 1.0, "short_scoreboard": 1.0, "long_scoreboard": 2.0, "mio_throttle": 1.0}
    )
    warps: float = 8.0  #: per scheduler
    lines: Sequence[Line] = (
        Line("LDG.E.128 R4, [R2]", 1_000_000, sectors=16_000_000),
        Line("STS [R9], R4", 4_000_000, wavefronts=4_000_000),
        Line("LDS.128 R8, [R10]", 2_000_000, wavefronts=8_000_000),
        Line("FFMA R1, R2, R3, R1", 90_000_000),
    )
    registers: int = 64
    spills: tuple[int, int] = (0, 0)
    stack: int = 0
    local: int = 0
    occupancy: float = 50.0
    limits: Mapping[str, int] = field(
        default_factory=lambda: {"registers": 4, "shared_memory": 6, "warps": 8, "blocks": 32, "barriers": 32}
    )
    block: int = 256
    grid: int = 1024
    dram_bytes: float = 1e9
    l2_bytes: float = 4e9
    widths: Mapping[str, int] = field(default_factory=lambda: {"LDG.128": 4, "STS.32": 8, "LDS.128": 4})
    opcodes: Mapping[str, int] = field(default_factory=lambda: {"FFMA": 64, "LDG": 4, "STS": 8, "LDS": 4})
    metrics: Mapping[str, float] = field(default_factory=dict)  #: further counters, or others than follow
    static: Mapping[str, float | str] = field(default_factory=dict)  #: further facts of the binary
    without: tuple[str, ...] = ()  #: stems of metrics that were not collected
    profiled: bool = True
    sources: bool = True
    timed: bool = True
    source_hash: str = "s1"
    binary_hash: str = "b1"
    kind: str = "cuda"

    @property
    def latency(self) -> float:
        """Cycles between two instructions of a warp."""
        return sum(self.stalls.values())

    @property
    def seconds(self) -> float:
        """The duration that the factors multiply to."""
        return self.instructions / _SCHEDULERS * self.latency / self.warps / 0.97 / _CLOCK

    def run(self, name: str = NAME) -> RunData:
        """Return the kernel as the only variant of a run."""
        variant = {
            "name": name, "dtype": "fp32", "kind": self.kind, "status": "ok", "reason": None, "verified": "yes",
            "origin": "measured", "order": 0, "idea": None, "params": "{}", "source_hash": self.source_hash,
            "binary_hash": self.binary_hash,
        }  # fmt: skip
        rows: dict[str, list[dict[str, Any]]] = {
            "variants": [variant], "samples": self._samples(name) if self.timed else [],
            "metrics": [*self._static(name), *(self._counters(name) if self.profiled else ())],
        }  # fmt: skip
        base = {"variant": name, "size": SIZE, "launch": 0, "kernel": "kernel"}
        if self.profiled:
            rows["stalls"] = [
                {**base, "reason": reason, "cycles_per_issue": cycles, "samples": 1}
                for reason, cycles in self.stalls.items()
            ]
        if self.profiled and self.sources:
            rows["source"] = [
                {**base, "file": "gemm/kernel.cu", "line": one.line, "pc": 16 * i, "sass": one.sass,
                 "executed": one.executed, "samples": 1, "samples_by_reason": None, "sectors": one.sectors or None,
                 "excess_sectors": one.excess_sectors if one.sectors else None,
                 "shared_wavefronts": one.wavefronts or None, "excess": one.excess if one.wavefronts else None}
                for i, one in enumerate(self.lines)
            ]  # fmt: skip
        return RunData(_manifest(), rows)

    def side(self) -> Side:
        """Return the kernel as one side of a comparison."""
        return Side(self.run(), NAME, SIZE)

    def _samples(self, name: str) -> list[dict[str, Any]]:
        return [
            {"variant": name, "size": SIZE, "gpu": "g", "process": 0, "order": i, "method": "single", "cache": "cold",
             "launches": 1, "time_ns": self.seconds * 1e9, "sm_clock_mhz": 1900.0, "temperature_c": 50.0,
             "power_w": 500.0, "throttle": "none", "foreign": False}
            for i in range(5)
        ]  # fmt: skip

    def _static(self, name: str) -> list[dict[str, Any]]:
        values: dict[str, float | str] = {
            "ptxas.registers": self.registers, "ptxas.spill_store_bytes": self.spills[0],
            "ptxas.spill_load_bytes": self.spills[1], "ptxas.stack_bytes": self.stack, "ptxas.shared_bytes": 16384,
            "sass.instructions": sum(self.opcodes.values()),
        }  # fmt: skip
        values |= {f"sass.width.{key}": count for key, count in self.widths.items()}
        values |= {f"sass.opcode.{key}": count for key, count in self.opcodes.items()} | dict(self.static)
        return [
            {"variant": name, "size": None, "launch": None, "kernel": "kernel", "metric": metric,
             "value": None if isinstance(value, str) else float(value),
             "text": value if isinstance(value, str) else None, "unit": "1", "origin": "ptxas", "why": None}
            for metric, value in values.items()
        ]  # fmt: skip

    def _counters(self, name: str) -> list[dict[str, Any]]:
        per_scheduler = self.instructions / _SCHEDULERS
        wavefronts = float(sum(one.wavefronts for one in self.lines))
        excess = float(sum(one.excess for one in self.lines))
        loads = [one for one in self.lines if one.sass.startswith("LDG")]
        stores = [one for one in self.lines if one.sass.startswith("STG")]
        values: dict[str, float] = {
            "duration": self.seconds, "sm_clock": _CLOCK, "instructions": self.instructions,
            "instructions_per_scheduler": per_scheduler, "warp_latency": self.latency,
            "warps_per_scheduler": self.warps, "active_share": 0.97, "issue_active": self.warps / self.latency,
            "shared_wavefronts_sass": wavefronts, "shared_wavefronts_excess": excess, "shared_wavefronts": wavefronts,
            "shared_bank_conflicts": excess * 1.02, "l1_wavefronts": wavefronts + 4e6 + self.local,
            "l1_bytes": (wavefronts + 4e6 + self.local) * 128, "l2_bytes": self.l2_bytes,
            "dram_bytes": self.dram_bytes, "dram_bytes_read": self.dram_bytes * 0.8,
            "dram_bytes_write": self.dram_bytes * 0.2, "l2_hit_rate": 70.0, "l1_hit_rate": 1.0,
            "global_load_requests": float(sum(one.executed for one in loads)),
            "global_load_sectors": float(sum(one.sectors for one in loads)),
            "global_store_requests": float(sum(one.executed for one in stores)),
            "global_store_sectors": float(sum(one.sectors for one in stores)),
            "local_load_instructions": self.local / 2, "local_store_instructions": self.local / 2,
            "theoretical_occupancy": self.occupancy, "registers": float(self.registers), "block": float(self.block),
            "grid": float(self.grid), "cluster": 0.0, "shared_static": 16384.0, "shared_dynamic": 0.0,
            "threads_per_instruction": 32.0, "ffma_instructions": 2.88e9, "fp32_flop": 2e9,
            "roof.ffma": 64e12, **{f"occupancy_limit_{key}": float(v) for key, v in self.limits.items()}, **_ROOFS,
            **self.metrics,
        }  # fmt: skip
        return [
            {"variant": name, "size": SIZE, "launch": 0, "kernel": "kernel", "metric": metric, "value": value,
             "text": None, "unit": "B" if "bytes" in metric else "1", "origin": "ncu", "why": None}
            for metric, value in values.items() if not metric.startswith(self.without)
        ]  # fmt: skip


def _manifest() -> dict[str, Any]:
    return {
        "schema": 1, "experiment": {"name": "planted", "text": ""},
        "problem": {"kind": "gemm", "options": {"layout": "nn"}, "init": {"seed": 0}, "sizes": [SIZE],
                    "flops": {SIZE: 2 * 4096**3}},
        "gpu": {"name": "Synthetic", "driver": "1", "uuid": "GPU-0", "sm_count": 132}, "arch": "sm_90a",
        "tools": {"nvcc": "13.0.88"}, "versions": {"torch": "2.11", "torch_cuda": "13.0", "triton": "3.6"},
        "timing": {"cache": "cold"}, "builds": {}, "profile": {"outcome": "ok"}, "stages": {},
    }  # fmt: skip


BASE = Planted()
#: A store to shared memory whose 32 lanes meet in one bank.
CONFLICTS = replace(
    BASE,
    lines=(
        BASE.lines[0],
        Line("STS [R9], R4", 4_000_000, wavefronts=128_000_000, excess=124_000_000, line=57),
        *BASE.lines[2:],
    ),
    stalls={"selected": 1.0, "short_scoreboard": 6.0, "long_scoreboard": 2.0, "mio_throttle": 6.0},
)
SPILLS = replace(
    BASE, registers=32, spills=(300, 220), stack=304, local=60_000_000, instructions=160e6, l2_bytes=9e9,
    stalls={"selected": 1.0, "short_scoreboard": 1.0, "long_scoreboard": 7.0, "mio_throttle": 1.0, "lg_throttle": 3.0},
    lines=(*BASE.lines, Line("STL [R1], R4", 30_000_000), Line("LDL R4, [R1]", 30_000_000)),
)  # fmt: skip
NARROW = replace(
    BASE, instructions=112e6, widths={"LDG.32": 16, "STS.32": 8, "LDS.128": 4},
    lines=(Line("LDG.E R4, [R2]", 4_000_000, sectors=16_000_000), *BASE.lines[1:]),
    stalls={"selected": 1.0, "short_scoreboard": 1.0, "long_scoreboard": 2.0, "mio_throttle": 1.0, "lg_throttle": 1.0},
)  # fmt: skip
LOW_OCCUPANCY = replace(
    BASE, registers=128, occupancy=25.0, warps=4.0, limits={**BASE.limits, "registers": 2},
    stalls={**BASE.stalls, "selected": 1.0},
)  # fmt: skip
SCATTERED = replace(
    BASE,
    lines=(Line("LDG.E.128 R4, [R2]", 1_000_000, sectors=32_000_000, excess_sectors=16_000_000), *BASE.lines[1:]),
    stalls={**BASE.stalls, "long_scoreboard": 5.0},
)


def times(value_ns: float, samples: int = 50) -> Times:
    """Return a side's times."""
    return Times(value_ns, value_ns * 0.996, value_ns * 1.004, samples, 5)


def row(
    variant: str = "kernel", verdict: Any = "unchanged", ratio: float | None = 1.0, before_ns: float = 1e6, **more: Any
) -> RowComparison:
    """Return a row with times and an interval of ±0.5 %."""
    made: dict[str, Any] = {}
    if ratio is not None:
        made = {
            "ratio": Estimate(ratio, ratio * 0.995, ratio * 1.005), "before": times(before_ns),
            "after": times(before_ns * ratio), "detectable": 0.012, "min_effect": 0.005,
            "noise": Noise(0.003, 40, "shipped defaults", "100 us-1 ms"),
        }  # fmt: skip
    direction = {"regressed": "slower", "improved": "faster", "suspected": "slower"}.get(str(verdict), "")
    return RowComparison(variant, SIZE, "fp32", verdict, **{"direction": direction, **made, **more})


def regression() -> Comparison:
    """Return a comparison with one regression that is explained, one suspected row and unchanged ones."""
    cause = Cause(
        "exact", "shared_wavefronts_excess.STS", 0.0, 124e6, "1", 0.94,
        "each shared store now takes 32.0 wavefronts instead of 1.0: 32-way bank conflicts, worst at kernel.cu:57",
        fault="bank_conflicts", basis="roofline: shared memory at its peak rate",
    )  # fmt: skip
    traffic = Cause("near", "l2_bytes", 4e9, 4.4e9, "B", None, "4.40 GB to and from L2 instead of 4.00 GB (1.10×)")
    diff = Diff(
        "gemm/kernel.cu",
        "@@ -56,3 +56,3 @@\n   // the tile of A\n-  tile[row][col ^ row] = value;\n+  tile[col][row] = value;\n"
        "   __syncthreads();",
        lines_left_out=2,
    )
    rows = (
        row("tile_2d", ratio=1.001, identity=CodeIdentity("same", words="identical machine code"),
            explanation="identical", words="identical code"),
        row("transpose", "regressed", 1.62, causes=(cause, traffic), explanation="explained", diffs=(diff,),
            words="slower in both stages"),
        row("naive", "suspected", 1.06, explanation="unexplained", words="below the least effect of stored runs"),
    )  # fmt: skip
    return Comparison(
        "gemm/20261129T200000Z-1a2b", "gemm/20261130T200000Z-3c4d", "stored", rows,
        (Mismatch("driver", "580.1", "590.2", "warn"),), (Control("copy", "ceiling", 1.002),), 1.002,
        notes=("another driver: 580.1 before, 590.2 after",),
    )  # fmt: skip


def merged(kernels: Mapping[str, Planted]) -> RunData:
    """Return one run that holds several kernels by name."""
    runs = [planted.run(name) for name, planted in kernels.items()]
    frames = {name for run in runs for name in run.rows}
    rows = {name: [one for run in runs for one in run.rows.get(name, ())] for name in frames}
    rows["variants"] = [{**one, "order": order} for order, one in enumerate(rows.get("variants", ()))]
    return RunData(_manifest(), rows)


def planted_comparison(rename: Mapping[str, str] | None = None) -> tuple[Comparison, RunData, RunData]:
    """Return a comparison of every planted fault, with both runs; ``rename`` gives variants other names."""
    faults = {"conflicts": CONFLICTS, "spills": SPILLS, "narrow": NARROW, "occupancy": LOW_OCCUPANCY, "same": BASE}
    names = {name: (rename or {}).get(name, name) for name in faults}
    before = merged({names[name]: BASE for name in faults})
    after = merged({names[name]: planted for name, planted in faults.items()})
    diff = regression().rows[1].diffs
    rows = []
    for name, planted in faults.items():
        ratio = planted.seconds / BASE.seconds
        verdict = "unchanged" if name == "same" else "suspected" if name == "narrow" else "regressed"
        code = CodeIdentity("same" if name == "same" else "changed", words="identical machine code")
        one = row(
            names[name], verdict, ratio, BASE.seconds * 1e9, identity=code, diffs=diff if name == "spills" else ()
        )
        rows.append(explain_row(one, before, after))
    rows.append(row("gone", "removed", None, words="the run has no such variant"))
    made = replace(regression(), rows=tuple(rows))
    return made, before, after
