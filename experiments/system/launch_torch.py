"""What a launch costs from PyTorch: L in-place additions of a tensor whose kernel takes about so long.

    python launch_torch.py --launches=1000 --ns=2000 [--graph]

Prints the time per launch, by the host's clock from an idle device to an idle device; exits with 1 where the sum is
wrong.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch


def wall_us(work: Callable[[], None]) -> float:
    """Return the microseconds from an idle device to an idle device."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - began)


def settled_us(work: Callable[[], None], repetitions: int) -> float:
    """Return the median of some repetitions after 150 ms of the same work."""
    spent = 0.0
    while spent < 150e3:
        spent += wall_us(work)
    return statistics.median(wall_us(work) for _ in range(repetitions))


def captured(x: torch.Tensor, launches: int) -> torch.cuda.CUDAGraph:
    """Return the additions as a CUDA graph."""
    x.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            x.add_(1)
    return graph


def alone_us(elements: int) -> float:
    """Return what one addition takes in a CUDA graph of 50, where Python is not in the way."""
    graph = captured(torch.zeros(elements, dtype=torch.int32, device="cuda"), 50)
    return settled_us(graph.replay, 5) / 50


def main() -> int:
    """Calibrate the size, time the loop, check the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--ns", type=int, default=2000)
    parser.add_argument("--graph", action="store_true", help="replay the additions as one CUDA graph")
    arguments = parser.parse_args()

    wanted = 1e-3 * arguments.ns
    elements = 1 << 10
    while (takes := alone_us(elements)) < wanted and elements < 1 << 28:
        elements *= 2
    if takes > wanted and elements > 1 << 10:  # doubling may have overshot
        elements = int(elements * wanted / takes)
    work_us = alone_us(elements)
    x = torch.zeros(elements, dtype=torch.int32, device="cuda")
    if arguments.graph:
        graph = captured(x, arguments.launches)
        work: Callable[[], None] = graph.replay
    else:

        def work() -> None:
            for _ in range(arguments.launches):
                x.add_(1)

    each = settled_us(work, 15) / arguments.launches
    x.zero_()
    wall_us(work)
    if not bool((x == arguments.launches).all()):
        print(f"the sum is {int(x[0])} instead of {arguments.launches}", file=sys.stderr)
        return 1
    print(f"{elements} elements, {work_us:.4f} us each in a graph of 50\nper launch {each:.4f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
