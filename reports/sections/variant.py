"""Section 5: each variant by itself, and all of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.access import Banks, GlobalAccess, Spills, banks, global_access, spills
from profiler.analysis.advice import advice
from profiler.analysis.identity import declared, identity
from profiler.analysis.kernels import Kernel, kernels, no_binary, no_counters, parameters, profiled_size
from profiler.analysis.ladder import LadderRow
from profiler.analysis.leads import Lead
from profiler.analysis.limits import limit_rows, tile_of
from profiler.analysis.occupancy_view import CAVEAT, OccupancyView, occupancy_view
from profiler.analysis.rundata import Row, RunData, Value
from profiler.analysis.sass_mix import Mix, instruction_mix
from profiler.analysis.traffic import Traffic, traffic
from profiler.analysis.verdicts import verdicts
from profiler.metrics import metric
from reports.figures import Figure
from reports.formatting import slug
from reports.sections import variant_cells as cells
from reports.sections import variant_parts as parts
from reports.sections.ladder import STATUS_MARKS
from reports.variant_figures import occupancy_figure


@dataclass(frozen=True)
class Found:
    """The analysis of one variant; the parts of a kernel are None when it has none."""

    row: Row
    size: str
    kernels: Sequence[Kernel]
    occupancy: OccupancyView | None
    traffic: Traffic
    access: GlobalAccess | None
    banks: Banks | None
    spills: Spills | None
    mix: Mix | None
    why: str  #: why there is no kernel


def build(data: RunData, rows: Sequence[LadderRow], fastest: Mapping[tuple[str, str], Lead]) -> dict[str, Any]:
    """Return what the template of section 5 shows; ``figures`` holds the charts of its blocks."""
    found = [_find(data, row) for row in data.variants]
    best = _best(data, fastest)
    stated = declared(data)
    blocks = []
    for one in found:
        name = str(one.row["name"])
        own = [row for row in rows if row.variant == name]
        known = parts.identity_part(identity(data, one.row, stated.get(name, {})), own)
        blocks.append(_block(data, one, own, name == best) | {"identity": known})
    return {
        "table": [_side_by_side(one) for one in found],
        "meanings": {name: metric(name).meaning for name in _MEANINGS},
        "blocks": blocks,
        "caveat": CAVEAT,
        "figures": [block["figure"] for block in blocks if block["figure"] is not None],
    }


_MEANINGS = (
    "registers", "shared_static", "achieved_occupancy", "theoretical_occupancy", "dram_bytes", "l2_hit_rate",
    "l1_hit_rate", "bytes_used_per_load_sector", "shared_wavefronts_excess", "shared_bank_conflicts",
    "sectors_per_load_request", "spill_instructions", "local_load_instructions", "local_store_instructions",
    "ptxas.stack_bytes", "ptxas.spill_store_bytes", "ptxas.spill_load_bytes", "sass.local_accesses", "waves",
)  # fmt: skip


def block_id(name: str) -> str:
    """Return the id of a variant's block: ``variant-NAME``."""
    return f"variant-{slug(name)}"


def _find(data: RunData, row: Row) -> Found:
    name = str(row["name"])
    size = profiled_size(data, name)
    listed = kernels(data, name, size)
    bytes_moved = traffic(data, name, str(row["dtype"] or ""), size)
    if not listed:
        whys = (no_counters(data, name), no_binary(data, name))
        why = "; ".join(dict.fromkeys(Value(None, why=one).why_text for one in whys))
        return Found(row, size, listed, None, bytes_moved, None, None, None, None, why)
    kernel = listed[0]
    return Found(
        row, size, listed, occupancy_view(kernel), bytes_moved, global_access(kernel), banks(kernel), spills(kernel),
        instruction_mix(kernel), "",
    )  # fmt: skip


def _best(data: RunData, fastest: Mapping[tuple[str, str], Lead]) -> str:
    """The block that is open at first: the best rung of the first contract, else the first variant."""
    ranked = verdicts(data, fastest)
    if ranked:
        return ranked[0].row.variant
    return str(data.variants[0]["name"]) if data.variants else ""


def _block(data: RunData, found: Found, rows: Sequence[LadderRow], opened: bool) -> dict[str, Any]:
    row = found.row
    name = str(row["name"])
    mark, tone = STATUS_MARKS.get(str(row["status"]), ("✕", "bad"))
    here = next((one for one in rows if one.size == found.size), None)
    figure = _figure(found)
    block: dict[str, Any] = {
        "id": block_id(name),
        "name": name,
        "dtype": str(row["dtype"] or "") or "no contract",
        "open": opened,
        "baseline": name in data.baselines,
        "status": formatting.status(str(row["status"] or "")),
        "mark": mark,
        "tone": tone,
        "idea": "" if found.kernels and row["idea"] == found.kernels[0].name else str(row["idea"] or ""),
        "reason": str(row["reason"] or "") if row["status"] != "ok" else "",
        "headline": _headline(here),
        "size": formatting.size(found.size) if "=" in found.size else "",
        "sizes": len(data.sizes) > 1,
        "figure": figure,
        "why": found.why,
        "advice": parts.advice_part(advice(data, name, found.size)),
        "traffic": parts.traffic_part(found.traffic),
    }
    if not found.kernels or not (found.occupancy and found.access and found.banks and found.spills and found.mix):
        return block | dict.fromkeys(("kernel", "limits", "occupancy", "access", "banks", "spills", "mix"))
    kernel = found.kernels[0]
    tile, why = tile_of(parameters(row), found.size)
    limits = limit_rows(kernel, str(row["dtype"] or ""), tile, why, found.occupancy.resident, found.mix)
    return block | {
        "kernel": parts.kernel_part(found.kernels),
        "limits": parts.limits_part(limits, why),
        "occupancy": parts.occupancy_part(found.occupancy),
        "access": parts.access_part(found.access),
        "banks": parts.banks_part(found.banks),
        "spills": parts.spills_part(found.spills),
        "mix": parts.mix_part(found.mix),
    }


def _figure(found: Found) -> Figure | None:
    name = str(found.row["name"])
    return occupancy_figure(f"chart-occupancy-{slug(name)}", name, found.occupancy) if found.occupancy else None


def _headline(row: LadderRow | None) -> list[str]:
    """What a closed block says: time, rate, ratio to the baseline, what binds it."""
    if row is None or row.time is None:
        return []
    said = [formatting.time_ns(row.time.value)]
    if row.rate:
        said.append(formatting.si(row.rate, row.rate_unit))
    if row.ratio is not None and not row.is_baseline:
        said.append(f"{formatting.ratio(row.ratio.value)} of {formatting.short(row.baseline or '', 40)}")
    if row.limit.verdict in ("near", "between", "latency"):
        said.append(row.limit.text)
    return said


def _side_by_side(found: Found) -> dict[str, Any]:
    """One row of the table across variants: the numbers that tell rungs apart, each with a link to its block."""
    name = str(found.row["name"])
    kernel = found.kernels[0] if found.kernels else None
    missing = cells.none(found.why)
    dram = next((level for level in found.traffic.levels if level.key == "dram"), None)
    return {
        "name": name,
        "id": block_id(name),
        "dtype": str(found.row["dtype"] or ""),
        "registers": _registers(kernel) if kernel else missing,
        "shared": _shared(kernel) if kernel else missing,
        "occupancy": cells.occupancy_cell(found.occupancy) if found.occupancy else missing,
        "dram": cells.times_cell(dram) if dram else missing,
        "sectors": cells.sectors_cell(found.access) if found.access else missing,
        "banks": cells.banks_cell(found.banks) if found.banks else missing,
        "spills": cells.spills_cell(found.spills) if found.spills else missing,
        "work": cells.work_cell(found.mix) if found.mix else missing,
    }


def _registers(kernel: Kernel) -> dict[str, Any]:
    value = kernel.counted("registers")
    if value.value is None:
        value = kernel.compiled("ptxas.registers")
    return cells.cell(value, cells.integer)


def _shared(kernel: Kernel) -> dict[str, Any]:
    static, dynamic = kernel.counted("shared_static"), kernel.counted("shared_dynamic")
    if static.value is not None and dynamic.value is not None:
        return cells.cell(Value(static.value + dynamic.value, "B", static.origin), cells.kibibytes)
    if static.value is not None:
        return cells.cell(static, cells.kibibytes)
    compiled = kernel.compiled("ptxas.shared_bytes")
    if compiled.value is not None and kernel.compiled("model.occupancy.blocks").value is None:
        return cells.none("it is given at the launch, which the binary cannot know")
    return cells.cell(compiled, cells.kibibytes)
