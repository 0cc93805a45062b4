"""Verification on the device: poisoned, guarded outputs; unchanged inputs; errors against float64 references."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from profiler.judge import aggregate, judge
from profiler.problem import InOut, Out, Problem
from profiler.sizes import size_key
from profiler.worker.buffers import FLOAT_POISON, INTEGER_POISON, Guarded
from profiler.worker.cases import Case, Cases, WeakCheck, output_dtype
from profiler.worker.device import Device
from profiler.worker.launchable import Bound, CudaVariant, LaunchError, PythonVariant

#: Output types whose own rounding is coarse: their aggregate (scale, rms) is tested too.
COARSE = (torch.float16, torch.bfloat16)
#: A launch that has finished although its stream is held ran somewhere else; this is how long it is given to do so.
_STRAY_WAIT_S = 0.02


@dataclass
class Verdict:
    """What a check says: ``ok``, ``wrong_result``, ``launch_failed`` or ``crashed``, and why."""

    status: str
    reason: str = ""
    error: float | None = None


@dataclass
class Buffers:
    """One set of buffers of a variant: shared inputs, guarded outputs of its own."""

    inputs: dict[str, torch.Tensor]
    outputs: dict[str, Guarded]
    originals: dict[str, torch.Tensor] = field(default_factory=dict)  #: InOut values to restore

    def restore(self) -> None:
        """Put the InOut tensors back to what they were (outside any timed window)."""
        for name, original in self.originals.items():
            self.outputs[name].tensor.copy_(original)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the output tensors by name."""
        return {name: guarded.tensor for name, guarded in self.outputs.items()}


def make_buffers(
    problem: type[Problem], case: Case, contract: str, dims: Mapping[str, int], options: Mapping[str, str]
) -> Buffers:
    """Return buffers for a case: its inputs, and fresh poisoned outputs."""
    outputs, originals = {}, {}
    for arg in (*problem.tensors(Out), *problem.tensors(InOut)):
        guarded = Guarded.empty(arg.extents(dims, options), output_dtype(problem, arg.name, contract), "cuda")
        outputs[arg.name] = guarded
        if isinstance(arg, InOut):
            originals[arg.name] = case.inputs[arg.name]
    buffers = Buffers({k: v for k, v in case.inputs.items() if k not in originals}, outputs, originals)
    buffers.restore()
    return buffers


def judge_outputs(problem: type[Problem], case: Case, contract: str, bound: Bound, buffers: Buffers) -> Verdict:
    """Judge what a finished launch left: guards, type and shape, error, aggregate."""
    for name, guarded in buffers.outputs.items():
        damage = guarded.damage()
        if damage:
            return Verdict("wrong_result", f"writes outside of {name}: {damage}")
    worst = 0.0
    for name, got in bound.outputs().items():
        if name not in case.reference:
            continue
        expected = buffers.outputs[name].tensor
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return Verdict(
                "wrong_result",
                f"{name} is {got.dtype} {tuple(got.shape)}, not {expected.dtype} {tuple(expected.shape)}",
            )
        reference, magnitude = case.reference[name], case.magnitude[name]
        judgement = judge(got, reference, magnitude, case.tolerance, got.dtype)
        worst = max(worst, judgement.error) if judgement.error == judgement.error else judgement.error
        if not judgement.ok:
            return Verdict("wrong_result", _wrong_text(name, got, reference, judgement.worst_index), worst)
        if got.dtype in COARSE:
            baseline = (case.baseline_outputs or {}).get(name)
            fine, text = aggregate(got, reference, baseline)
            if not fine:
                return Verdict("wrong_result", f"{name}: {text}", worst)
    return Verdict("ok", "", worst)


def check_once(
    variant: CudaVariant | PythonVariant,
    problem: type[Problem],
    case: Case,
    contract: str,
    dims: Mapping[str, int],
    options: Mapping[str, str],
    device: Device,
    *,
    stray: bool = False,
) -> tuple[Verdict, dict[str, torch.Tensor]]:
    """Run a variant once per poison pattern and judge it; return the verdict and its outputs.

    With ``stray``, one more launch is made behind a held stream: a launch that finishes all the same used another
    stream, one that never returns synchronises.
    """
    pristine = {name: tensor.clone() for name, tensor in case.inputs.items()}
    buffers = make_buffers(problem, case, contract, dims, options)
    floats = all(guarded.tensor.is_floating_point() for guarded in buffers.outputs.values())
    verdict = Verdict("ok")
    with torch.cuda.stream(device.stream):
        bound = variant.bind(buffers.inputs, buffers.tensors(), dims)
        try:
            for pattern in FLOAT_POISON if floats else INTEGER_POISON:
                for name, guarded in buffers.outputs.items():
                    if name not in buffers.originals:
                        guarded.poison(pattern)
                buffers.restore()
                torch.cuda.synchronize()
                bound.launch()
                torch.cuda.synchronize()
                verdict = judge_outputs(problem, case, contract, bound, buffers)
                if verdict.status != "ok":
                    break
                for name, tensor in case.inputs.items():
                    if name not in buffers.originals and not torch.equal(tensor, pristine[name]):
                        tensor.copy_(pristine[name])
                        verdict = Verdict("wrong_result", f"changes its input {name}", verdict.error)
            if verdict.status == "ok" and stray:
                verdict = _stray(bound, buffers, device, verdict)
            outputs = {name: tensor.clone() for name, tensor in bound.outputs().items()}
        finally:
            bound.close()
    return verdict, outputs


def run_check(
    spec: Mapping[str, Any],
    variant: CudaVariant | PythonVariant,
    problem: type[Problem],
    cases: Cases,
    job: Mapping[str, Any],
    options: Mapping[str, str],
    device: Device,
    baseline: CudaVariant | PythonVariant | None,
) -> dict[str, Any]:
    """Check one (variant, size, seed) and return a row of the frame ``checks``.

    ``crashed`` in the row's status says that the context is lost.
    """
    contract, dims = spec["dtype"], job["dims"]
    row: dict[str, Any] = {
        "variant": spec["name"],
        "size": size_key(dims),
        "when": job["when"],
        "seed": job["seed"],
        "error": None,
        "tolerance": None,
        "baseline_error": None,
    }
    try:
        case = cases.get(contract, dims, job["seed"])
        row["tolerance"] = case.tolerance
        if baseline is not None and case.baseline_error is None and baseline is not variant:
            judged, outputs = check_once(baseline, problem, case, contract, dims, options, device)
            case.baseline_error = judged.error
            if judged.status == "ok":
                case.baseline_outputs = outputs
        verdict, _ = check_once(variant, problem, case, contract, dims, options, device, stray=job.get("stray", False))
        row["baseline_error"] = case.baseline_error
        row.update(status=verdict.status, reason=verdict.reason, error=verdict.error)
    except WeakCheck as error:
        row.update(status="wrong_result", reason=f"not verified: {error}")
    except LaunchError as error:
        row.update(status="launch_failed", reason=str(error))
    except torch.OutOfMemoryError as error:
        row.update(status="launch_failed", reason=f"out of device memory: {_first_line(error)}")
    except RuntimeError as error:  # torch reports CUDA errors of a launch at the next synchronisation
        row.update(status="crashed" if "CUDA error" in str(error) else "launch_failed", reason=_first_line(error))
    return row


def _stray(bound: Bound, buffers: Buffers, device: Device, verdict: Verdict) -> Verdict:
    if device.blocking.startswith("torch"):
        return verdict  # a fixed sleep cannot tell
    for name, guarded in buffers.outputs.items():
        if name not in buffers.originals:
            guarded.poison()
    buffers.restore()
    torch.cuda.synchronize()
    device.block()
    started = time.perf_counter()
    bound.launch()
    waited = time.perf_counter() - started
    written = False
    if waited < _STRAY_WAIT_S * 5:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            time.sleep(_STRAY_WAIT_S)
            written = any(
                not guarded.untouched() for name, guarded in buffers.outputs.items() if name not in buffers.originals
            )
            side.synchronize()
    device.release()
    torch.cuda.synchronize()
    if device.block_gave_up():
        return Verdict(
            "wrong_result", "launch synchronises (or waits for the device); it must only enqueue", verdict.error
        )
    if written:
        return Verdict("wrong_result", "launch works on another stream than the one it was given", verdict.error)
    return verdict


def _wrong_text(name: str, got: torch.Tensor, reference: torch.Tensor, worst: tuple[int, ...]) -> str:
    place = ", ".join(str(i) for i in worst)
    nans = int(torch.isnan(got).sum())
    if nans:
        return f"{name} has {nans} NaN (never written, or computed so) of {got.numel()}"
    return f"{name}[{place}] is {float(got[worst]):.6g}, the reference {float(reference[worst]):.6g}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
