"""Work in threads that waits for child processes, and ends them when the command is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from profiler import process

T = TypeVar("T")


def run_all(jobs: Mapping[str, Callable[[], T]], workers: int) -> Iterator[tuple[str, T]]:
    """Yield (name, result) of every job, in the order given; the first exception ends the rest and their children."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(workers, len(jobs) or 1)))
    try:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        for name, future in futures.items():
            yield name, future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        process.end_running()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
