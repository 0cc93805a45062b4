"""What a worker writes, and when; the SM clock between two stamps."""

from __future__ import annotations

import json
import os
import select
from typing import Any

import numpy as np
import pytest

from profiler.worker.protocol import Replies


class Pipe:
    """The two ends of the reply descriptor."""

    def __init__(self) -> None:
        self.read_fd, write_fd = os.pipe()
        self.replies = Replies(write_fd)

    def heard(self) -> list[dict[str, Any]]:
        """Return what was written since the last call."""
        if not select.select([self.read_fd], [], [], 0)[0]:
            return []
        return [json.loads(line) for line in os.read(self.read_fd, 1 << 16).splitlines()]


def test_a_sample_is_written_with_what_follows_it() -> None:
    pipe = Pipe()
    pipe.replies.send("begin", variant="a")
    assert [one["event"] for one in pipe.heard()] == ["begin"]
    pipe.replies.send("sample", variant="a", time_ns=float("inf"))
    assert pipe.heard() == []
    pipe.replies.send("begin", variant="b")  # before b is launched, which may be the end of this process
    assert [(one["event"], one["variant"]) for one in pipe.heard()] == [("sample", "a"), ("begin", "b")]
    pipe.replies.send("sample", variant="b", time_ns=1.0)
    pipe.replies.send("done", healthy=True)
    assert [one["event"] for one in pipe.heard()] == ["sample", "done"]


def test_the_clock_is_the_median_of_the_multiprocessors_that_ran_both_stamps() -> None:
    pytest.importorskip("torch")
    from profiler.worker.device import clock_of

    stamps = np.zeros((2, 6, 2), dtype=np.int64)
    for sm, (cycles, ns) in enumerate([(1900, 1000), (2000, 1000), (1500, 1000), (1800, 1000)]):
        stamps[0, sm] = (10**12 + sm, 10**15 + sm)
        stamps[1, sm] = (10**12 + sm + cycles, 10**15 + sm + ns)
    stamps[1, 4] = (10**12, 10**15)  # ran the second stamp alone
    stamps[0, 5] = stamps[1, 5] = (10**12, 10**15)  # and this one an earlier pair
    assert clock_of(stamps) == pytest.approx(1800.0)  # of four the lower of the middle two
    assert clock_of(np.zeros((2, 6, 2), dtype=np.int64)) is None
