"""The system view: what the devices did over time, why they were idle, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.rundata import RunData
from profiler.analysis.timeline import Timeline, timeline
from profiler.analysis.timeline_findings import Finding, findings
from profiler.analysis.timeline_gaps import MEANING, Idle, idle, streams
from profiler.analysis.timeline_lanes import picture
from profiler.analysis.timeline_tables import Group, api_calls, copies, kernels, latency, overlap, ranges
from profiler.analysis.timeline_variants import traced_variants
from reports.sections import timeline_rows as rows
from reports.timeline_data import timeline_data

_ROUTES = {
    "nsys": "Nsight Systems",
    "cupti": "CUPTI, through PyTorch's profiler",
}


def build(data: RunData) -> dict[str, Any] | None:
    """Return what the template of the timeline shows; None where nothing was traced."""
    if data.spans is None or not data.traced:
        return None
    line = timeline(data.spans)
    drawn = picture(line)
    places = rows.Places(line, drawn)
    idles = [idle(line, device) for device in line.devices]
    timed = latency(line)
    calls = kernels(line)
    traced = traced_variants(data.spans, line)
    return {
        "data": timeline_data(line, drawn, data.gpu_names),
        "sentences": _sentences(data, idles, calls),
        "method": _method(data),
        "remarks": list((data.manifest.get("trace") or {}).get("remarks") or ()),
        "findings": [_finding(line, one, places) for one in findings(line, idles)],
        "variants": [rows.variant_row(one) for one in traced],
        "devices": [rows.device_row(one, data.gpu_names) for one in idles],
        "causes": [{"name": name, "meaning": text} for name, text in MEANING.items() if _occurs(name, idles)],
        "gaps": rows.gap_rows(line, idles, places),
        "kernels": rows.group_rows(line, calls, places),
        "overlaps": [rows.overlap_matrix(overlap(line, device), data.gpu_names) for device in line.devices],
        "copies": [rows.copy_row(line, one, places) for one in copies(line)],
        "latency": rows.latency_rows(timed) if timed is not None else None,
        "latency_why": _why_no_latency(line),
        "calls": rows.group_rows(line, api_calls(line), places),
        "ranges": rows.range_rows(line, ranges(line), places),
        "streams": [rows.stream_row(one) for one in streams(line)][: rows.MOST_ROWS],
        "lanes": rows.lane_rows(line, drawn),
        "left_out": drawn.left_out,
        "exact": drawn.resolutions[0] == 0,
        "resolution": formatting.time_ns(float(drawn.resolutions[0])) if drawn.resolutions[0] else "",
        "spans": len(line),
    }


def _sentences(data: RunData, idles: Sequence[Idle], calls: Sequence[Group]) -> list[str]:
    if not idles:
        return ["The file holds no work of a device: no kernel, no copy, no memset."]
    said = []
    for one in idles:
        if one.window_ns <= 0:
            continue
        name = rows.device_name(one.device, data.gpu_names)
        busy = formatting.percent(one.busy_ns / one.window_ns)
        parts = [f"kernels {formatting.percent(one.kernel_ns / one.window_ns)}"]
        if one.copy_ns:
            parts.append(f"copies and memsets alone {formatting.percent(one.copy_ns / one.window_ns)}")
        text = f"{name} is busy for {busy} of {formatting.time_ns(float(one.window_ns))}: {formatting.listed(parts)}"
        causes = [(cause, time) for cause, (time, _) in one.by_cause().items() if cause != "copy"]
        lost = one.window_ns - one.busy_ns
        if lost > 0.01 * one.window_ns and causes:
            cause, time = causes[0]
            text += f"; most of its idle time is {rows.CAUSE_WORDS[cause]} ({formatting.percent(time / lost)})"
        said.append(text + ".")
    if calls:
        first = calls[0]
        said.append(
            f"{formatting.short(rows.plain(first.name), 60)} takes {formatting.percent(first.share)} of all "
            f"kernel time, in {first.count} launch{'es' * (first.count != 1)} of {rows.duration(first.median_ns)} "
            "each (median)."
        )
    return said


def _method(data: RunData) -> str:
    trace = data.manifest.get("trace") or {}
    tool = _ROUTES.get(str(trace.get("route")), "a tracer")
    version = f" {trace['version']}" if trace.get("version") else ""
    return (
        f"Traced with {tool}{version}. Tracing adds to each call of the host, so that short launches look longer than "
        "they are; nothing here ranks or compares variants."
    )


def _finding(line: Timeline, one: Finding, places: rows.Places) -> dict[str, Any]:
    return {
        "key": one.key,
        "title": one.title,
        "evidence": one.evidence,
        "advice": one.advice,
        "gain": f"at most {formatting.ratio(one.gain_bound)} faster" if one.gain_bound else "",
        "spans": [places.link(line, span) for span in one.spans],
    }


def _occurs(cause: str, idles: Sequence[Idle]) -> bool:
    return any(cause in one.by_cause() for one in idles)


def _why_no_latency(line: Timeline) -> str:
    if not line.computes.any():
        return "the trace holds no kernel"
    return "the trace holds no call of the host that belongs to a kernel"
