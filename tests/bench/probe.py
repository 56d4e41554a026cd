"""What it costs to watch over many tasks that print nothing: who waits for input, who is
stuck, who gets on."""

import os
import time

from client import Server
from figures import Figure

TASKS = 64
# The looks at a task come often at first; these seconds are not what lasts.
SETTLE_S = 5
MEASURED_S = 30
# Each with the command, the percents of a core that it must and should take at most, and where the
# time goes, by `perf`.
KINDS = {
    "that sleep": (
        "exec sleep 600", 0.5, 0.2,
        """two thirds are in the kernel: opening files of /proc takes 13 %, making the text of `stat` 13 %, \
listing /proc 8 %, the waits of the 64 workers 17 %.""",
    ),
    "with five processes each": (
        "{ sleep 600 | sleep 600 } & { sleep 600; true } & wait", 1, 0.5,
        """three quarters are in the kernel: opening files of /proc takes 18 %, making the text of `stat` \
13 %, closing the files 5 %, listing /proc 5 %, the waits and wake-ups of the workers 14 %.""",
    ),
}


def probe(binary):
    """Part of a core that guard and server use, without what the tasks themselves use."""
    return [watched(binary, name, *kind) for name, kind in KINDS.items()]


def watched(binary, kind, command, must, aim, profile):
    with Server(binary) as server:
        for _ in range(TASKS):
            server.call("zsh", command=command, background=True, yield_after=0)
        time.sleep(SETTLE_S)
        before, begun = server.processor_seconds(), time.monotonic()
        time.sleep(MEASURED_S)
        used, passed = server.processor_seconds() - before, time.monotonic() - begun
        processes = sum(name.isdigit() for name in os.listdir("/proc"))
    detail = f"{used:.2f} s in {passed:.0f} s; {processes} processes on the machine"
    meaning = "CPU time of guard and server while nobody asks them anything: they look at the tasks"
    name = f"watching {TASKS} tasks {kind}, part of a core"
    return Figure(name, 100 * used / passed, "%", must, aim, detail, meaning, profile)


MEASUREMENTS = [probe]
