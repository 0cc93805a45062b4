"""Verification on the device: poisoned, guarded outputs; unchanged inputs; errors against float64 references."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from profiler.judge import aggregate, exact, judge
from profiler.problem import InOut, Problem
from profiler.sizes import size_key
from profiler.worker.buffers import INTEGER_POISON, Guarded
from profiler.worker.cases import Case, Cases, WeakCheck, canonical, output_dtype
from profiler.worker.device import Device, is_context_lost
from profiler.worker.launchable import Bound, CudaVariant, LaunchError, PythonVariant

#: Output types whose own rounding is coarse: their aggregate (scale, rms) is tested too.
COARSE = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
#: A launch that has finished although its stream is held ran somewhere else; this is how long it is given to do so.
_STRAY_WAIT_S = 0.02


@dataclass
class Verdict:
    """What a check says: ``ok``, ``wrong_result``, ``launch_failed`` or ``crashed``, and why.

    ``error``, ``tolerance`` and ``baseline_error`` are of ``output``: the one that is wrong, else the one that comes
    nearest to its tolerance. ``errors`` has every judged output's.
    """

    status: str
    reason: str = ""
    error: float | None = None
    tolerance: float | None = None
    baseline_error: float | None = None
    output: str = ""
    errors: dict[str, float] = field(default_factory=dict)


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
    for arg in problem.outputs():
        guarded = Guarded.empty(arg.extents(dims, options), output_dtype(problem, arg.name, contract), "cuda")
        outputs[arg.name] = guarded
        if isinstance(arg, InOut):
            originals[arg.name] = case.inputs[arg.name]
    buffers = Buffers({k: v for k, v in case.inputs.items() if k not in originals}, outputs, originals)
    buffers.restore()
    return buffers


def judge_outputs(problem: type[Problem], case: Case, bound: Bound, buffers: Buffers) -> Verdict:
    """Judge what a finished launch left: guards, type and shape, error, aggregate."""
    for name, guarded in buffers.outputs.items():
        damage = guarded.damage()
        if damage:
            return Verdict("wrong_result", f"writes outside of {name}: {damage}")
    outputs = bound.outputs()
    verdict = Verdict("ok")
    for name in case.reference:
        got, expected = outputs[name], buffers.outputs[name].tensor
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return Verdict(
                "wrong_result",
                f"{name} is {got.dtype} {tuple(got.shape)}, not {expected.dtype} {tuple(expected.shape)}",
            )
    compared = canonical(problem, case, {name: outputs[name] for name in case.reference})
    for name, reference in case.reference.items():
        got, tolerance = outputs[name], case.tolerances[name]
        judgement = judge(
            compared[name], reference, case.magnitude[name], tolerance, got.dtype, nan_matches=case.nan_matches
        )  # fmt: skip
        reason = "" if judgement.ok else _wrong_text(name, compared[name], reference, judgement.worst_index)
        if reason and compared[name] is not got:
            reason += f" (for the output {got[judgement.worst_index].item()})"
        if judgement.ok and got.dtype in COARSE:
            whole = compared[name] if compared[name].dtype == got.dtype else got
            fine, text = aggregate(whole, reference, (case.baseline_outputs or {}).get(name))
            reason = "" if fine else f"{name}: {text}"
        errors = {**verdict.errors, name: judgement.error}
        nearest = not verdict.output or _share(judgement.error, tolerance) > _share(verdict.error, verdict.tolerance)
        if reason or nearest:
            verdict = Verdict(
                "wrong_result" if reason else "ok", reason, judgement.error, tolerance, case.baseline_error(name), name
            )
        verdict.errors = errors
        if reason:
            break
    return verdict


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
            patterns = case.poisons if floats else INTEGER_POISON
            for index, pattern in enumerate(patterns):
                for name, guarded in buffers.outputs.items():
                    if name not in buffers.originals:
                        of_floats = case.poisons[index % len(case.poisons)]
                        guarded.poison(of_floats if guarded.tensor.is_floating_point() else pattern)
                buffers.restore()
                torch.cuda.synchronize()
                bound.launch()
                torch.cuda.synchronize()
                verdict = judge_outputs(problem, case, bound, buffers)
                for name, tensor in case.inputs.items():
                    if name not in buffers.originals and not same_bytes(tensor, pristine[name]):
                        tensor.copy_(pristine[name])  # other variants are judged with it
                        reason = f"{verdict.reason}; " if verdict.reason else ""
                        verdict = replace(verdict, status="wrong_result", reason=f"{reason}changes its input {name}")
                if verdict.status != "ok":
                    break
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
    contract, dims, full = spec["dtype"], job["dims"], ""
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
        case = cases.get(contract, dims, job["seed"], job.get("distribution", ""))
        if baseline is not None and case.baseline_errors is None and baseline is not variant:
            _judge_baseline(baseline, problem, case, contract, dims, options, device)
        verdict, _ = check_once(variant, problem, case, contract, dims, options, device, stray=job.get("stray", False))
        row.update(
            status=verdict.status, reason=verdict.reason, error=verdict.error, tolerance=verdict.tolerance,
            baseline_error=verdict.baseline_error,
        )  # fmt: skip
    except WeakCheck as error:
        row.update(status="wrong_result", reason=f"not verified: {error}")
    except LaunchError as error:
        row.update(status="launch_failed", reason=str(error))
    except torch.OutOfMemoryError as error:
        full = f"out of device memory: {_first_line(error)}"
        row.update(status="launch_failed", reason=full)
    except RuntimeError as error:  # torch reports CUDA errors of a launch at the next synchronisation
        row.update(status="crashed" if is_context_lost() else "launch_failed", reason=_first_line(error))
    if job.get("distribution"):
        row["reason"] = f"{job['distribution']} inputs{': ' if row['reason'] else ''}{row['reason']}"
    if full and cases.keep_newest():  # not the variant's fault before the memory was its own
        return run_check(spec, variant, problem, cases, job, options, device, baseline)
    return row


def _judge_baseline(
    baseline: CudaVariant | PythonVariant,
    problem: type[Problem],
    case: Case,
    contract: str,
    dims: Mapping[str, int],
    options: Mapping[str, str],
    device: Device,
) -> None:
    """Keep the baseline's errors and outputs in the case; one that cannot be launched leaves them unknown, as that is
    its own row's failure and nobody else's.
    """
    case.baseline_errors = {}
    try:
        judged, outputs = check_once(baseline, problem, case, contract, dims, options, device)
    except Exception:  # a Python variant may raise anything
        if is_context_lost():
            raise
        return
    case.baseline_errors = judged.errors
    if judged.status == "ok":
        compared = canonical(problem, case, {name: outputs[name] for name in case.reference})
        case.baseline_outputs = {
            name: compared[name] if compared[name].dtype == output.dtype else output
            for name, output in outputs.items()
            if name in compared
        }


def _stray(bound: Bound, buffers: Buffers, device: Device, verdict: Verdict) -> Verdict:
    if device.blocking.startswith("torch"):
        return verdict  # a fixed sleep cannot tell
    for name, guarded in buffers.outputs.items():
        if name not in buffers.originals:
            guarded.poison()
    buffers.restore()
    torch.cuda.synchronize()
    device.block()
    try:
        started = time.perf_counter()
        bound.launch()
        waited = time.perf_counter() - started
        written = False
        if waited < _STRAY_WAIT_S * 5:
            with torch.cuda.stream(device.side):
                time.sleep(_STRAY_WAIT_S)
                written = any(
                    not same_bytes(guarded.tensor, buffers.originals[name])
                    if name in buffers.originals
                    else not guarded.untouched()
                    for name, guarded in buffers.outputs.items()
                )
                device.side.synchronize()
    finally:
        device.release()
    torch.cuda.synchronize()
    if device.block_gave_up():
        reason = "launch synchronises (or waits for the device); it must only enqueue"
        return replace(verdict, status="wrong_result", reason=reason)
    if written:
        reason = "launch works on another stream than the one it was given"
        return replace(verdict, status="wrong_result", reason=reason)
    return verdict


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one type hold the same bytes; NaN equals itself, and 8-bit floats need no comparison."""
    return bool(torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)))


def _share(error: float | None, tolerance: float | None) -> float:
    """Return how much of its tolerance an error takes up."""
    if not error:
        return 0.0
    return error / tolerance if tolerance else float("inf")


def _wrong_text(name: str, got: torch.Tensor, reference: torch.Tensor, worst: tuple[int, ...]) -> str:
    place = ", ".join(str(i) for i in worst)
    nans = int((torch.isnan(exact(got)) & ~torch.isnan(reference)).sum()) if got.is_floating_point() else 0
    if nans:
        return f"{name} has {nans} NaN (never written, or computed so) of {got.numel()}"
    return f"{name}[{place}] is {float(got[worst]):.6g}, the reference {float(reference[worst]):.6g}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
