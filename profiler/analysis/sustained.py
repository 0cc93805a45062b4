"""The ratio of two variants in the sustained regime, with an interval that comes from the blocks of all variants.

A variant has two blocks, too few to say by themselves how far one block falls from the next. All variants of a run
together can say it, provided that their blocks scatter alike. The formula is that of the randomised complete block
design (R. A. Fisher, The Design of Experiments, 1935; a two-way layout without interaction): the log time of a block
is a term of its variant, plus a term of the pass that it was taken in (A B C, then C B A), plus noise. Of V variants
and R passes the noise has the variance s^2 = (sum of squared residuals) / ((V - 1)(R - 1)), the difference of two
variants' mean log times has the variance s^2 (1/R + 1/R), and the interval is Student's t with (V - 1)(R - 1) degrees
of freedom.

Drift: a step between the passes and a slope over both of them shift the mean of every variant by the same (each has
one block in each pass, and the middle of its two is the same moment for all), so both cancel in a ratio and neither
is its noise. The term of the pass takes the step out of s; what a slope does within a pass stays in it, which makes
the interval wider than it need be.

What recorded blocks say of these assumptions (H200; two recordings of 18 variants and a tuning run of 15, each at two
sizes):

- Second blocks were faster as a whole by 0.4 to 0.8 % in the recordings, slower by 0.1 and 0.4 % in the other run,
  once plainly (t = 3.0): passes differ, and not always the same way.
- The two blocks of the first three variants, which meet a card that has not settled, lay two to three times as far
  apart as those of later ones, whatever the kernels: this drift is neither step nor slope. The interval is too narrow
  for these, and too wide, by a tenth to a half, for the others.
- How far two blocks lay apart did not depend on the power drawn. All of them met the power limit, though. Below it
  the clock has less reason to wander: quartiles of single launches are mostly less than 1 % apart there, of FP32
  kernels 0.1 %, and 3 to 6 % at the limit. So variants that met the limit and those that did not are pools of their
  own.
- Between the two recordings, of two cards, the mean log times differed by 0.7 and 1.0 % (standard deviation over the
  variants, after what they shared), where the blocks within them say 1.0 and 0.8 %. Of 32 ratios to a baseline 31 came
  back within what their two intervals allow; the other was of the very first variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import CONFIDENCE, Array, Interval, Sample, t_quantile

#: With fewer there is no interval: of two, s lies between 0.16 and 1.9 of the truth (95 %), which 4.3 standard errors
#: pay for where two would do, and a pool of three variants does not show whether they scatter alike. Four variants of
#: two blocks have three.
LEAST_DOF = 3
_POWER_LIMIT = "sw_power_cap"

Place = tuple[int, int]  #: process and pass
Unit = Sequence[Place]  #: what is one replicate


def sustained_ratio(data: RunData, baseline: str | None, name: str, size: str) -> Interval | None:
    """Return the baseline's sustained time over a variant's with its interval, None where either was not taken.

    Of the baseline itself it is one, without an interval.
    """
    if baseline is None:
        return None
    timed = [str(row["name"]) for row in data.variants if data.timed(str(row["name"]))]
    blocks = {one: found for one in timed if (found := data.samples(one, size, "sustained"))}
    if name not in blocks or baseline not in blocks:
        return None
    if name == baseline:
        return Interval(1.0, None, None, len(blocks[name]))
    limited = {one: _power_limited(data, one, size) for one in blocks}
    pools = [[blocks[one] for one in blocks if limited[one] == state] for state in {limited[name], limited[baseline]}]
    return block_ratio(blocks[baseline], blocks[name], pools)


def block_ratio(
    slower: Sequence[Sample], faster: Sequence[Sample], pools: Sequence[Sequence[Sequence[Sample]]]
) -> Interval:
    """Return the ratio of the geometric mean times of two variants' blocks, above one when ``faster`` is.

    ``pools``: the blocks of all variants that scatter like one of the two, by variant; of several pools, the one that
    makes the interval wider counts. With one process its passes are the replicates. With several the processes are,
    each a mean over its passes: what a process does to a variant (placement in memory, say) is in all of its blocks.
    Only processes count in which both variants have all their blocks. Where there is none, the ratio is of all there is
    and has no bounds; nor has it where a pool has fewer than ``LEAST_DOF`` degrees of freedom.
    """
    first, second = _logs(slower), _logs(faster)
    others = [[_logs(variant) for variant in pool] for pool in pools]
    units = _units(first, second, [first, second, *(logs for pool in others for logs in pool)])
    above, below = _row(first, units), _row(second, units)
    if above is None or below is None:
        value = math.exp(_mean(first.values()) - _mean(second.values()))
        return Interval(value, None, None, min(len(first), len(second)))
    difference, count = float(above.mean() - below.mean()), sum(len(unit) for unit in units)
    widths = [_half_width([row for logs in pool if (row := _row(logs, units)) is not None]) for pool in others]
    known = [width for width in widths if width is not None]
    if not known or len(known) < len(widths):
        return Interval(math.exp(difference), None, None, count)
    half = max(known)
    return Interval(math.exp(difference), math.exp(difference - half), math.exp(difference + half), count)


def _half_width(rows: Sequence[Array]) -> float | None:
    """Half the interval of a difference of two rows' means, each row a variant's log times by replicate."""
    dof = (len(rows) - 1) * (len(rows[0]) - 1) if rows else 0
    if dof < LEAST_DOF:
        return None
    table = np.stack(rows)
    residuals = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    variance = float((residuals**2).sum()) / dof
    return t_quantile(CONFIDENCE, dof) * math.sqrt(2 * variance / table.shape[1])


def _logs(samples: Sequence[Sample]) -> Mapping[Place, float]:
    return {(sample.process, sample.order): math.log(sample.time_ns) for sample in samples}


def _units(
    first: Mapping[Place, float], second: Mapping[Place, float], every: Sequence[Mapping[Place, float]]
) -> list[Unit]:
    """The replicates of two variants: processes in which both are whole, or the passes of the only one."""
    passes = sorted({order for logs in every for _, order in logs})
    both = first.keys() & second.keys()
    whole = [one for one in sorted({process for process, _ in both}) if all((one, order) in both for order in passes)]
    if len(whole) == 1:
        return [[(whole[0], order)] for order in passes]
    return [[(process, order) for order in passes] for process in whole]


def _row(logs: Mapping[Place, float], units: Sequence[Unit]) -> Array | None:
    """A variant's mean log time in each replicate; None when a block is missing, or there is no replicate."""
    if not units or not all(place in logs for unit in units for place in unit):
        return None
    return np.asarray([_mean(logs[place] for place in unit) for unit in units], dtype=np.float64)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _power_limited(data: RunData, name: str, size: str) -> bool | None:
    """Whether the card was at its power limit in a sustained block of a variant; None when nobody looked."""
    rows = [row for row in data.sample_rows(name, size) if row["method"] == "sustained"]
    seen = [str(row["throttle"]) for row in rows if row["throttle"] is not None]
    return any(_POWER_LIMIT in text.split(",") for text in seen) if seen else None
