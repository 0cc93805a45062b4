"""The worker's main loop: ``python -m profiler.worker.main --reply-fd N``; commands on stdin, events on N.

Everything is imported at once and the GPU is opened at the first command, so that a worker may be started early, while
kernels are built and before the card's lock is held.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from profiler.worker.protocol import CONTEXT_LOST, Replies


def main(argv: list[str] | None = None) -> int:
    """Serve commands until standard input ends; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reply-fd", type=int, required=True)
    replies = Replies(parser.parse_args(argv).reply_fd)
    try:
        from profiler.worker.device import versions
        from profiler.worker.serve import Server

        versions()  # imports Triton, where it is
    except ImportError as error:
        replies.send("fatal", reason=f"the worker cannot import what it needs: {error}")
        return 1
    server: Server | None = None
    for line in sys.stdin:
        command: Mapping[str, Any] = json.loads(line)
        if server is None:
            try:
                server = Server(replies)
            except Exception as error:  # a GPU that is there and broken says so in many ways
                replies.send("fatal", reason=f"the device cannot be used: {_first_line(error)}")
                return 1
        try:
            healthy = server.serve(command)
        except Exception as error:  # not a variant's fault, and the same would happen in a new worker
            traceback.print_exc()
            replies.send("fatal", reason=f"the worker failed: {type(error).__name__}: {error}")
            return 1
        if not healthy:
            # The CUDA context is lost: even a normal exit may hang in destructors.
            sys.stdout.flush()
            os._exit(CONTEXT_LOST)
    return 0


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
