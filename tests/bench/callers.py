"""Many calls at once: whether calls become slower with their number, and what of them stays
in memory. Eight callers, each of which makes its next call when the last is answered; one
thread drives them all, so that the client takes as little as possible of the machine.
"""

import contextlib
import itertools
import os
import select
import statistics
import tempfile
import time

from client import BenchFailed, Server
from figures import Figure, ninth_decile, short

CALLERS = 8
CALLS = 2_000
SERVERS = 3
# How often a growth is measured, each time with new servers.
RUNS = 5
# Caches are given back by then, and the threads that are not kept for later calls have ended.
REST_S = 60
# What is held then, by `/proc/PID/smaps`.
HELD = """\
on one server, 4.4 of 11.4 MiB are pages of the program's file, since the last background commands
still run and are looked at, and 6.6 anonymous memory. Of this, 3 MiB are the 1,000 ended tasks that a
server keeps by default: 3 kB each, by as many calls of `true`."""
# What the last calls do that the first do not.
REPEATED = """\
by `perf`, nothing: with all tasks kept, the last 400 of 2,800 calls take no more CPU time than the
first 400, in the same shares, most of it the kernel's for starting zsh and making its files."""
# An answer is late when even the slowest call of a mix would have been answered.
PATIENCE_S = 60


def only_true():
    """A caller that runs `true` again and again; each call's latency counts."""
    while True:
        yield "zsh", {"command": "true"}, True


def mixed(caller):
    """A caller that does what agents do, in turns: quick commands, of which the latency
    counts, output, failures, background commands with polls and kills, and terminals."""
    for number in itertools.count():
        yield "zsh", {"command": "true"}, True
        yield "zsh", {"command": f"echo {caller} {number}"}, True
        seen = yield "zsh", {"command": f"seq {100 + number % 7}"}, True
        yield "zsh_poll", {"task_id": seen["task_id"], "grep": "42"}, False
        yield "zsh", {"command": f"false | cat {caller}{number}"}, False
        yield "zsh", {"command": "seq 20000"}, False
        yield "zsh", {"command": "cat", "stdin": "some text\n" * 100}, False
        task = yield "zsh", {"command": "echo on; sleep 600", "background": True, "yield_after": 0}, False
        yield "zsh_poll", {"task_id": task["task_id"], "listen": 1}, False
        yield "zsh_tasks", {}, False
        yield "zsh_kill", {"task_id": task["task_id"]}, False
        task = yield "zsh", {"command": "read a; echo $a", "pty": True, "yield_after": 0}, False
        yield "zsh_send", {"task_id": task["task_id"], "input": f"line {number}"}, False


class Caller:
    """One caller on one server: the call that is under way, and since when."""

    def __init__(self, server, calls):
        self.server, self.calls = server, calls
        self.last = None

    def begin(self):
        tool, arguments, self.counts = self.calls.send(self.last)
        self.request = self.server.begin(tool, **arguments)
        self.begun = time.perf_counter()

    def take(self):
        """Seconds that the call took, once it is answered; None before."""
        if self.request not in self.server.answers:
            return None
        took = time.perf_counter() - self.begun
        _, self.last = self.server.finish(self.request)
        return took


def latencies(callers, calls):
    """Seconds of each call that counts, in the order of the answers."""
    taken, answered = [], 0
    for caller in callers:
        caller.begin()
    by_output = {caller.server.output: caller.server for caller in callers}
    while answered < calls:
        ready = select.select(list(by_output), [], [], PATIENCE_S)[0]
        if not ready:
            raise BenchFailed(f"no answer within {PATIENCE_S} s")
        for output in ready:
            by_output[output].take_frames()
        for caller in callers:
            took = caller.take()
            if took is None:
                continue
            answered += 1
            if caller.counts:
                taken.append(took)
            caller.begin()
    # What is still under way ends with its answer, so that nothing is left behind.
    for caller in callers:
        _, caller.last = caller.server.finish(caller.request)
    return taken


def growth(taken):
    """The last fifth against the first, by the median; and both in words."""
    fifth = len(taken) // 5
    first, last = (statistics.median(part) * 1000 for part in (taken[:fifth], taken[-fifth:]))
    slowest = ninth_decile(taken[-fifth:]) * 1000
    return last / first, f"{short(last)} ms (p90 {short(slowest)}) against {short(first)} ms, n={len(taken)}"


def middle(runs):
    """The run with the median growth, and all in words: a machine that becomes slower or faster
    meanwhile shows in a single one."""
    ordered = sorted(runs)
    ratio, detail = ordered[len(ordered) // 2]
    return ratio, f"{detail}; {len(runs)} runs: {', '.join(short(ratio) for ratio, _ in ordered)}"


def repeated_calls(binary):
    """`true` by eight callers at once."""
    runs = []
    for _ in range(RUNS):
        with Server(binary) as server:
            runs.append(growth(latencies([Caller(server, only_true()) for _ in range(CALLERS)], CALLS)))
    ratio, detail = middle(runs)
    name = f"`true` by {CALLERS} callers at once, last fifth of {CALLS:,} against the first"
    meaning = "whether calls become slower by those that were made before"
    return [Figure(name, ratio, "×", 1.3, 1.1, detail, meaning, REPEATED)]


def mixed_calls(binary):
    """The mix on one server, and on three of one database."""
    figures = []
    for count in (1, SERVERS):
        runs = []
        for number in range(RUNS):
            with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as shared, contextlib.ExitStack() as stack:
                environment = {"ZSH_TOOL_STATE_DIR": os.path.join(shared, "state")}
                servers = [stack.enter_context(Server(binary, environment)) for _ in range(count)]
                callers = [Caller(servers[n % count], mixed(n)) for n in range(CALLERS * count)]
                runs.append(growth(latencies(callers, CALLS * count)))
                if number + 1 == RUNS:
                    time.sleep(REST_S)
                    held = max(server.proportional() for server in servers)
        ratio, detail = middle(runs)
        where = "one server" if count == 1 else f"{count} servers on one database"
        figures += [
            Figure(
                f"quick calls among {CALLS:,} mixed ones by {CALLERS} callers, {where}, last fifth against the first",
                ratio, "×", 1.3, 1.1, detail, "the same among polls, kills, floods and terminals",
            ),
            Figure(
                f"memory {REST_S} s after them, {where}", held, "MiB", 14, 10,
                meaning="what finished calls leave in the proportional set size of guard and server, the largest of the servers",
                profile=HELD,
            ),
        ]
    return figures


MEASUREMENTS = [repeated_calls, mixed_calls]
