"""Right or wrong: a computed output against its float64 reference.

The error of an element is what its own final rounding does not explain, relative to the scale of the sum behind it:

    error = max over elements of  max(|C - R| - u |R|, 0) / magnitude

with ``u`` half an ulp of the output type relative to the value, and ``magnitude`` the sum of absolute products (|A| |B|
for a matrix product). It is compared as ``error <= tolerance``, so that NaN fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

#: Output type -> (largest relative error of rounding to nearest, 2^-p for p bits of significand; half the smallest
#: subnormal). Absent: the output is as fine as the accumulator, whose rounding the tolerance covers.
ROUNDING: dict[str, tuple[float, float]] = {
    "bfloat16": (2.0**-8, 2.0**-134),
    "float16": (2.0**-11, 2.0**-25),
    "float8_e4m3fn": (2.0**-4, 2.0**-10),
    "float8_e5m2": (2.0**-3, 2.0**-17),
}

_SCALE_FLOOR = 2.0**-13
_RMS_FACTOR = 1.5
_LEAST_COUNT = 64
#: Elements judged at a time: each takes a few float64 temporaries, which for a matrix of 8 GiB would fill a card.
_CHUNK = 1 << 26


@dataclass(frozen=True)
class Judgement:
    """The largest error, whether it is within the tolerance, and the element that has it."""

    error: float
    ok: bool
    worst_index: tuple[int, ...]


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64 with its values unchanged; 8-bit floats go through float32, which every device has."""
    import torch

    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.to(torch.float32)
    return tensor.to(torch.float64)


def _type_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def judge(
    output: torch.Tensor,
    reference: torch.Tensor,
    magnitude: torch.Tensor,
    tolerance: float,
    output_dtype: str | torch.dtype,
    *,
    nan_matches: bool = False,
) -> Judgement:
    """Return the judgement of one output.

    Where ``magnitude`` is 0, any difference is an infinite error; NaN or infinity where the reference has another value
    is one too. A reference that is NaN never passes, unless ``nan_matches``: then NaN, and nothing else, is right.
    """
    if output.shape != reference.shape:
        raise ValueError(f"the output has the shape {tuple(output.shape)}, the reference {tuple(reference.shape)}")
    if output.numel() == 0:
        raise ValueError("an output without elements cannot be judged")
    rounding = ROUNDING.get(_type_name(output_dtype), (0.0, 0.0))
    shape = tuple(output.shape)
    if output.numel() <= _CHUNK:
        worst, at = _worst(output, reference, magnitude, rounding, nan_matches)
        return Judgement(worst, worst <= tolerance, _unravel(at, shape))
    dim = max(range(len(shape)), key=lambda d: shape[d])
    step = max(1, _CHUNK // (output.numel() // shape[dim]))
    worst, index = -math.inf, (0,) * len(shape)
    for first in range(0, shape[dim], step):
        parts = [t.narrow(dim, first, min(step, shape[dim] - first)) for t in (output, reference, magnitude)]
        error, at = _worst(parts[0], parts[1], parts[2], rounding, nan_matches)
        if not error <= worst:  # NaN is worst of all
            place = list(_unravel(at, tuple(parts[0].shape)))
            place[dim] += first
            worst, index = error, tuple(place)
        if worst == math.inf:
            break
    return Judgement(worst, worst <= tolerance, index)


def _worst(
    output: torch.Tensor,
    reference: torch.Tensor,
    magnitude: torch.Tensor,
    rounding: tuple[float, float],
    nan_matches: bool,
) -> tuple[float, int]:
    """Return the largest error of a part, and its flat index there."""
    import torch

    relative, absolute = rounding
    computed = exact(output)
    excess = (computed - reference).abs_()
    excess.sub_(reference.abs().mul_(relative).add_(absolute)).clamp_(min=0.0)
    # 0 / 0 is exact agreement about an empty sum; anything else over 0 is infinitely wrong already.
    error = torch.where(excess == 0.0, excess, excess / magnitude)
    same = computed == reference  # equal infinities, whose difference is NaN
    if nan_matches:
        same |= torch.isnan(computed) & torch.isnan(reference)
    broken = ~(torch.isfinite(computed) & torch.isfinite(reference)) | torch.isnan(error)
    error = torch.where(same, 0.0, torch.where(broken, math.inf, error))
    flat = int(torch.argmax(error))
    return float(error.flatten()[flat]), flat


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for extent in reversed(shape):
        flat, rest = divmod(flat, extent)
        index.append(rest)
    return tuple(reversed(index))


def aggregate(
    output: torch.Tensor, reference: torch.Tensor, baseline_output: torch.Tensor | None = None
) -> tuple[bool, str]:
    """Return whether the output as a whole is right, and the figures.

    Where outputs are coarse, an error below half an ulp hides in each element but not in all of them together: a scale
    ``<C,R> / <R,R>`` off 1, or a root mean square error well above the baseline's own. A baseline of another type than
    the output's says nothing about it and is not used.
    """
    import torch

    unit, _ = ROUNDING.get(_type_name(output.dtype), (0.0, 0.0))
    if unit == 0.0:
        return True, "the output is as fine as its sums: judged by its elements"
    finite = torch.isfinite(reference)
    if not bool(finite.all()):  # NaN and infinities are judged one by one
        output, reference = output[finite], reference[finite]
        baseline_output = baseline_output[finite] if baseline_output is not None else None
    computed, count = exact(output), output.numel()
    if count < _LEAST_COUNT:
        return True, f"fewer than {_LEAST_COUNT} elements: judged one by one"
    energy = float((reference * reference).sum())
    if not energy > 0.0:
        ok = bool((computed == 0.0).all())
        return ok, "the reference is zero and so is the output" if ok else "the reference is zero, the output is not"
    size = math.sqrt(energy / count)
    rms = math.sqrt(float((computed - reference).square_().sum()) / count)
    scale = float((computed * reference).sum()) / energy
    # Independent roundings move the scale by about 0.75 u / sqrt(n) (one standard deviation, normal outputs). Where the
    # density of the values changes from one step of the type to the next, roundings also have a mean, of order u^2:
    # 7e-4 for normal values in e4m3, nothing that could be seen in bfloat16.
    band = 4.0 * unit / math.sqrt(count) + unit * unit + _SCALE_FLOOR
    floor = (unit * (0.125 + 1.0 / math.sqrt(count)) + 2.0**-22) * size
    if baseline_output is not None and baseline_output.dtype == output.dtype:
        other = exact(baseline_output)
        baseline_rms = math.sqrt(float((other - reference).square_().sum()) / count)
        limit, source = _RMS_FACTOR * baseline_rms + floor, f"{_RMS_FACTOR} x the baseline's {baseline_rms:.3g}"
        drift = abs(float((other * reference).sum()) / energy - 1.0)
        band += min(drift, _SCALE_FLOOR)  # accumulators that truncate shrink long sums: theirs and ours
    else:
        limit, source = unit * size + floor, "all of its rounding"
    ok = abs(scale - 1.0) <= band and rms <= limit
    return ok, f"scale {scale:.7g} (allowed 1 +- {band:.2g}), rms error {rms:.3g} (allowed {limit:.3g}: {source})"
