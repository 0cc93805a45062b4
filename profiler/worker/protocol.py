"""The conversation between the pipeline and a worker: one JSON object a line, commands in, events out.

Commands (``cmd``): ``hello``, ``verify``, ``time``, ``sustained``, ``ceilings``. Events (``event``): ``hello``;
``begin`` (variant, size, what: the pipeline blames the last one when the worker is lost); ``check`` (a row of the frame
``checks``); ``sample`` (a row of ``samples``) and ``method``, of a variant or of a control; ``note``; ``unsustained``
(variant, size, reason); ``ceiling`` (a row of ``ceilings``, or ``value`` null and ``why``); ``unmeasured`` (reason: the
ceilings ended early); ``failed`` (variant, status, reason, fatal: the context is lost and the worker ends); ``done``.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

#: Exit code of a worker that ends itself because the CUDA context is lost.
CONTEXT_LOST = 70


class Replies:
    """Writes events to the reply descriptor, whole lines only.

    A sample is written together with the event behind it, the ``begin`` of the next one or ``done``: one write and one
    awakening of the reader for both. What is about to be launched is always said before it is.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._held = ""

    def send(self, event: str, **fields: Any) -> None:
        """Write one event."""
        line = json.dumps({"event": event, **{k: finite(v) for k, v in fields.items()}}) + "\n"
        if event == "sample":
            self._held += line
            return
        data, self._held = (self._held + line).encode(), ""
        while data:
            data = data[os.write(self._fd, data) :]


def finite(value: Any) -> Any:
    """Return a float that JSON can carry: infinities and NaN as text that :func:`number` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def number(value: Any) -> float | None:
    """Return a number that :func:`finite` may have written as text."""
    return None if value is None else float(value)
