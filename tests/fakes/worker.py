"""A worker without a GPU: answers like the real one, and misbehaves where the environment says so.

FAKE_WORKER holds JSON: ``{"naive": "crash"}`` and so on; behaviours: crash, hang, sticky, wrong, launch_failed,
wrong_then_crash (wrong at the first size, a crash at the next),
crash_in_time, hang_in_time, wrong_in_time, no_start, silent_start, fails; crash_in_sustained, wrong_in_sustained,
no_room_in_sustained; for ``*`` crash_in_ceilings, hang_in_ceilings, refused_ceilings, crash_in_control,
refused_control.

FAKE_TIMES holds JSON, or ``@`` and a file of it: ``{"before:naive": 1000.0}``, a variant's time in ns (a name that is
not in it: ``*``); every process then takes as many samples as it is asked for, with a noise of 0.1 % between processes
and 0.2 % within.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.worker.abba import block_order, launches_for


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reply-fd", type=int, required=True)
    fd = parser.parse_args().reply_fd
    behaviour = json.loads(os.environ.get("FAKE_WORKER", "{}"))

    def send(event: str, **fields: object) -> None:
        os.write(fd, (json.dumps({"event": event, **fields}) + "\n").encode())

    given = os.environ.get("FAKE_TIMES", "{}")
    times = json.loads(Path(given[1:]).read_text() if given.startswith("@") else given)

    def time_of(name: str, index: int, process: int, order: int) -> float:
        if not times:
            return 1000.0 * (index + 1)
        between = random.Random(f"{name}/{process}").gauss(0, 0.001)
        within = random.Random(f"{name}/{process}/{order}").gauss(0, 0.002)
        return float(times.get(name, times.get("*", 1000.0))) * (1 + between + within)

    def sized(dims: dict[str, int]) -> str:
        return ",".join(f"{k}={v}" for k, v in dims.items())

    if behaviour.get("*") == "no_start":
        send("fatal", reason="the device cannot be used: CUDA error 999")
        return 1
    if behaviour.get("*") == "silent_start":
        return 3
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "hello":
            send("hello", gpu={"name": "Fake H200", "uuid": "GPU-fake", "sm_count": 132}, versions={"torch": "0"})
        elif behaviour.get("*") == "fails":
            send("fatal", reason="the worker failed: AttributeError: no such thing")
            return 1
        elif command["cmd"] == "verify":
            wrong: set[str] = set()
            for job in command["jobs"]:
                name, how = job["variant"], behaviour.get(job["variant"], "")
                send("begin", variant=name, size=job["size"], what="check")
                if how == "crash":
                    os.kill(os.getpid(), 11)
                if how == "hang":
                    time.sleep(600)
                row = {
                    "variant": name, "size": job["size"], "when": job["when"], "seed": job["seed"], "status": "ok",
                    "reason": "", "error": 1e-7, "tolerance": 1e-5, "baseline_error": 1e-7,
                }  # fmt: skip
                if how == "sticky":
                    send("check", **{**row, "status": "crashed", "reason": "CUDA error: illegal address"})
                    send("done", healthy=False)
                    return 70
                if how == "wrong_then_crash" and name in wrong:
                    os.kill(os.getpid(), 11)
                if how in ("wrong", "wrong_then_crash"):
                    wrong.add(name)
                    row.update(status="wrong_result", reason="C[0, 0] is 1, the reference 2", error=0.5)
                if how == "launch_failed":
                    row.update(status="launch_failed", reason="launch returned CUDA error 9", error=None)
                send("check", **row)
            send("done", healthy=True)
        elif command["cmd"] == "ceilings":
            how = behaviour.get("*", "")
            send("begin", variant="", size="", what="ceiling copy")
            send(
                "ceiling", name="copy", level_or_pipe="dram", value=4.2e12, unit="B/s", clock_mhz=1950.0, blocks=30,
                launches=16,
            )  # fmt: skip
            send("ceiling", name="wgmma BF16", level_or_pipe="hgmma_bf16", value=None, why="no such instruction")
            if how == "crash_in_ceilings":
                os.kill(os.getpid(), 11)
            if how == "hang_in_ceilings":
                time.sleep(600)
            if how == "refused_ceilings":
                send("unmeasured", reason="CUDA error: out of memory")
            send("done", healthy=True)
        elif command["cmd"] == "sustained":
            key = sized(command["plan"]["dims"])
            names = [spec["name"] for spec in command["variants"]]
            for order, name in block_order(names):
                how = behaviour.get(name, "")
                send("begin", variant=name, size=key, what="sustained block")
                if how == "crash_in_sustained" and order == 1:
                    os.kill(os.getpid(), 11)
                if how == "no_room_in_sustained":
                    if order == 0:
                        send("unsustained", variant=name, size=key, reason="two sets do not fit in memory")
                    continue
                if order == 1:
                    wrong = how == "wrong_in_sustained"
                    send(
                        "check", variant=name, size=key, when="during", seed=9, error=1.0 if wrong else 1e-7,
                        status="wrong_after_timing" if wrong else "ok", reason="differs" if wrong else "",
                        tolerance=1e-5, baseline_error=None,
                    )  # fmt: skip
                send(
                    "sample", variant=name, size=key, process=command["plan"]["process"], order=order,
                    method="sustained", cache="rotated", launches=launches_for(0.5, 1.1e-6, 64), time_ns=1100.0,
                    sm_clock_mhz=1500.0, temperature_c=60.0, power_w=690.0, throttle="sw_power_cap", foreign=False,
                )  # fmt: skip
            send("done", healthy=True)
        elif command["cmd"] == "time":
            key = sized(command["plan"]["dims"])
            send("note", blocking="fake", flush_bytes=1)
            names = [spec["name"] for spec in command["variants"]]
            for name in names:
                send("method", variant=name, size=key, method="single", cache="cold", launches=1, sets=1, samples=3)
            for control in command["plan"]["controls"]:
                send("begin", variant=control["name"], size=key, what="time")
                if behaviour.get("*") == "crash_in_control":
                    os.kill(os.getpid(), 9)
                if behaviour.get("*") == "refused_control":
                    send("failed", variant=control["name"], status="launch_failed", reason="out of memory", fatal=False)
                    break
                send(
                    "method", variant=control["name"], size=key, method="single", cache="cold", launches=1, sets=1,
                    samples=3, moved=2 * control["bytes"],
                )  # fmt: skip
                for order in range(3):
                    send(
                        "sample", variant=control["name"], size=key, process=command["plan"]["process"], order=order,
                        method="single", cache="cold", launches=1, time_ns=[700.0, 800.0, 900.0][order],
                        sm_clock_mhz=1980.0, temperature_c=40.0, power_w=200.0, throttle="", foreign=False,
                    )  # fmt: skip
            for order in range(command["plan"]["samples"] if times else 3):
                for index, name in enumerate(names):
                    how = behaviour.get(name, "")
                    send("begin", variant=name, size=key, what="time")
                    if how == "crash_in_time":
                        os.kill(os.getpid(), 9)
                    if how == "hang_in_time":
                        time.sleep(600)
                    if how == "launch_failed_in_time":
                        send("failed", variant=name, status="launch_failed", reason="launch returned 9", fatal=False)
                        break
                    if how == "wrong_in_time" and order == 1:
                        send(
                            "check", variant=name, size=key, when="during", seed=9, status="wrong_after_timing",
                            reason="differs", error=1.0, tolerance=1e-5, baseline_error=None,
                        )  # fmt: skip
                    send(
                        "sample", variant=name, size=key, process=command["plan"]["process"], order=order,
                        method="single", cache="cold", launches=1, sm_clock_mhz=1980.0,
                        time_ns=time_of(name, index, command["plan"]["process"], order), temperature_c=40.0,
                        power_w=200.0, throttle="", foreign=False,
                    )  # fmt: skip
                else:
                    continue
                break
            send("done", healthy=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
