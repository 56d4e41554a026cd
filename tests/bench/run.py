#!/usr/bin/env python3
"""Prints the table of performance figures of the release binary.

    tests/bench/run.py [--binary FILE] [--only WORD] [--save FILE]

Everything is measured over stdio with the real server, as a client sees it. Where a
figure is a ratio, both sides are measured in turns in the same run. Times are medians,
with the ninth decile in brackets; they include what this client needs to wake up and to
decode. Nothing is saved unless --save names a file. Exits 1 when a figure misses its
must. Only Python's standard library is used.
"""

import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import time

from client import BenchFailed, Server

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target")), "release/zsh-tool")

MIB = 1024 * 1024
# After the first new output a poll waits so long for more; it is not the server's delay.
SETTLE_S = 0.030
RUNNING_TASKS = 60
# A line of output is long enough not to be a flood of line ends, short enough for text.
LINE = "the quick brown fox jumps over the lazy dog, 64 bytes in a line"
FLOOD = f"yes '{LINE}' | head -c {{}}"
GIGABYTE = 10**9
GIBIBYTE = 2**30


class Figure:
    """One row: a value against the most that it must and should be."""

    def __init__(self, name, value, unit, must, aim, detail=""):
        self.name, self.value, self.unit = name, value, unit
        self.must, self.aim, self.detail = must, aim, detail

    def verdict(self):
        if self.value <= self.aim:
            return "aim"
        return "must" if self.value <= self.must else "MISSED"

    def cells(self):
        limits = [f"≤ {limit:g} {self.unit}" for limit in (self.must, self.aim)]
        return [self.name, f"{self.value:.3g} {self.unit}", *limits, self.verdict(), self.detail]


def times(name, samples, must, aim, detail=""):
    """A row of a time in milliseconds, from samples in seconds."""
    samples = [sample * 1000 for sample in samples]
    ninth = statistics.quantiles(samples, n=10)[-1]
    spread = f"p90 {ninth:.3g} ms, n={len(samples)}"
    return Figure(name, statistics.median(samples), "ms", must, aim, "; ".join(filter(None, [spread, detail])))


def bare(command):
    """Seconds that zsh alone needs for a command, started by posix_spawn."""
    zsh = next(path for folder in os.get_exec_path() if os.access(path := os.path.join(folder, "zsh"), os.X_OK))
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    begun = time.perf_counter()
    pid = os.posix_spawn(zsh, ["zsh", "-c", command], os.environ, file_actions=null)
    os.waitpid(pid, 0)
    return time.perf_counter() - begun


def round_trip(binary, rounds=300):
    """A whole call of `true` against zsh alone, in turns."""
    ours, alone = [], []
    with Server(binary) as server:
        for round_number in range(rounds + 20):
            begun = time.perf_counter()
            server.call("zsh", command="true")
            called = time.perf_counter() - begun
            started = bare("true")
            # The first ones load the page cache and the allocator.
            if round_number >= 20:
                ours.append(called)
                alone.append(started)
    median, reference = statistics.median(ours), statistics.median(alone)
    ninth = statistics.quantiles(ours, n=10)[-1]
    detail = f"{median * 1000:.3g} ms (p90 {ninth * 1000:.3g}) against {reference * 1000:.3g} ms, n={rounds}"
    return [Figure("`zsh` of `true`, round trip, against `zsh -c true`", median / reference, "×", 2, 1.3, detail)]


def ping_under_load(binary, rounds=1000):
    """Memory with 60 tasks, then `ping` while one more of them floods."""
    with Server(binary) as server:
        for _ in range(RUNNING_TASKS):
            server.call("zsh", command="sleep 600", background=True, yield_after=0)
        # The last answer may precede its worker's first wait.
        server.call("zsh", command="true")
        together, parts = server.resident(), server.memory()
        server.call("zsh", command=f"yes '{LINE}'", background=True, yield_after=0)
        samples = []
        for _ in range(rounds):
            begun = time.perf_counter()
            server.request("ping", {})
            samples.append(time.perf_counter() - begun)
    return [
        times(f"`ping`, {RUNNING_TASKS} tasks running and one flooding", samples, 1, 0.1),
        Figure(f"RSS with {RUNNING_TASKS} tasks running", together / 1024, "MiB", 30, 15, memory_parts(*parts)),
    ]


def memory_parts(guard, proper):
    """What each has mapped; what both have counts in both."""
    return f"guard {guard / 1024:.3g}, server {proper / 1024:.3g}"


def listen_delay(binary, rounds=60):
    """From the print of a line to the answer of the poll that waits for it."""
    samples = []
    with Server(binary) as server:
        fifo = os.path.join(server.scratch.name, "fifo")
        os.mkfifo(fifo)
        command = f"zmodload zsh/datetime; while read -ru 3; do print -r -- $EPOCHREALTIME; done 3<>{fifo}"
        _, task = server.call("zsh", command=command, background=True)
        with open(fifo, "wb", buffering=0) as trigger:
            for _ in range(rounds):
                poll = server.begin("zsh_poll", task_id=task["task_id"], wait_for="output", listen=20)
                # A ping is answered after the poll has been taken.
                server.request("ping", {})
                time.sleep(0.005)
                trigger.write(b"\n")
                text, _ = server.finish(poll)
                samples.append(server.arrived - printed_time(text) - SETTLE_S)
    return [times("output arrives → the poll's answer, beyond the settle", samples, 10, 2)]


def end_delay(binary, rounds=200):
    """From a command's last builtin to the answer: the shell's own end is included."""
    samples = []
    with Server(binary) as server:
        for _ in range(rounds):
            text, _ = server.call("zsh", command="zmodload zsh/datetime; print -r -- $EPOCHREALTIME")
            samples.append(server.arrived - printed_time(text))
    return [times("child exits → the answer, beyond the drain", samples, 10, 2, "with zsh's own exit")]


def printed_time(text):
    found = re.search(r"^(?:\d+: )?(\d+\.\d+)$", text, re.MULTILINE)
    if not found:
        raise BenchFailed(f"no time in the answer: {text}")
    return float(found.group(1))


def run_to_end(server, command):
    """Seconds from a command's start to the answer that tells its end."""
    begun = time.perf_counter()
    _, task = server.call("zsh", command=command, yield_after=50, max_output=1000)
    while task["status"] == "running":
        _, task = server.call("zsh_poll", task_id=task["task_id"], wait_for="end", listen=50, max_output=1000)
    if task["status"] != "completed":
        raise BenchFailed(f"the flood ended as {task['status']}")
    return time.perf_counter() - begun


def drain(binary, rounds=5):
    """The same producer into a task and into `cat > /dev/null`, in turns."""
    producer = FLOOD.format(GIGABYTE)
    ours, alone = [], []
    for _ in range(rounds):
        # A server for each, so that no round pays for the files of the one before.
        with Server(binary) as server:
            ours.append(run_to_end(server, producer))
        begun = time.perf_counter()
        subprocess.run(["zsh", "-c", f"{producer} | cat > /dev/null"], check=True)
        alone.append(time.perf_counter() - begun)
    median, reference = statistics.median(ours), statistics.median(alone)
    detail = f"{median:.3g} s against {reference:.3g} s, n={rounds}"
    return [Figure("draining 1 GB, against `… | cat > /dev/null`", median / reference, "×", 3, 1.3, detail)]


def memory(binary):
    """Memory of an idle server, and the most that 1 GiB of output adds to it."""
    with Server(binary) as server:
        idle, idle_parts = server.resident(), server.memory()
        server.call("zsh", command="true")
        used, used_parts = server.resident(), server.memory()
        before = sum(server.memory("VmHWM"))
        run_to_end(server, FLOOD.format(GIBIBYTE))
        growth = sum(server.memory("VmHWM")) - before
    return [
        Figure("RSS idle", idle / 1024, "MiB", 10, 6, memory_parts(*idle_parts)),
        Figure("RSS idle, with the database open", used / 1024, "MiB", 10, 6, memory_parts(*used_parts)),
        Figure("growth of the peak RSS by 1 GiB of output", growth / 1024, "MiB", 8, 2),
    ]


def start(binary, rounds=50):
    """From the start of the process to the answer to `initialize`."""
    samples = []
    for _ in range(rounds):
        with Server(binary) as server:
            samples.append(server.first_answer)
    return [times("start → first answer", samples, 50, 10)]


def kill(binary, rounds=40):
    """A shell with two children and a grandchild, all of which obey SIGTERM."""
    samples = []
    with Server(binary) as server:
        for _ in range(rounds):
            command = "sleep 600 & { sleep 600; true } & wait"
            _, task = server.call("zsh", command=command, background=True)
            begun = time.perf_counter()
            text, _ = server.call("zsh_kill", task_id=task["task_id"])
            samples.append(time.perf_counter() - begun)
            if "gone" not in text:
                raise BenchFailed(f"the tree is not gone: {text}")
    return [times("`zsh_kill` of a tree that obeys TERM", samples, 100, 20)]


def overhead(binary):
    """Characters of an answer beyond the output, the echoed line and insights."""
    with Server(binary) as server:
        text, _ = server.call("zsh", command="print hello")
    text = "\n".join(line for line in text.splitlines() if "A.L.A.N.: " not in line)
    own = len("$ print hello") + len("hello")
    return [Figure("characters beyond output and echo, finished command", len(text) - own, "chars", 80, 60)]


def size(binary):
    """The binary as it is built here."""
    return [Figure("release binary, stripped", os.path.getsize(binary) / MIB, "MiB", 10, 6)]


MEASUREMENTS = [round_trip, ping_under_load, listen_delay, end_delay, drain, memory, start, kill, overhead, size]


def heading(binary):
    """What the figures hold for: versions, machine and date."""
    zsh = subprocess.run(["zsh", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        models = re.findall(r"^model name\s*: (.*)$", cpus.read(), re.MULTILINE)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{version}, zsh {zsh}, Python {platform.python_version()}; {datetime.date.today()}",
        f"{os.cpu_count()} × {models[0] if models else platform.machine()}, {memory_gib:.0f} GiB, "
        f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f} at the start",
    ]


def table(figures):
    """Rows of aligned columns."""
    rows = [["figure", "measured", "must", "aim", "met", "detail"], *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def main():
    parser = argparse.ArgumentParser(description="Prints the table of performance figures.")
    parser.add_argument("--binary", default=BINARY, help="the server (default: this repository's release build)")
    parser.add_argument("--only", default="", metavar="WORD", help="only measurements with this in their name")
    parser.add_argument("--save", metavar="FILE", help="write the table to this file too")
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)
    if not os.access(binary, os.X_OK):
        print(f"bench: {binary} is not there: run `cargo build --release`", file=sys.stderr)
        return 2
    lines = heading(binary)
    figures = []
    for measure in MEASUREMENTS:
        if arguments.only in measure.__name__:
            print(f"measuring: {measure.__name__} …", file=sys.stderr, flush=True)
            figures.extend(measure(binary))
    lines += ["", *table(figures)]
    print("\n".join(lines))
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if any(figure.verdict() == "MISSED" for figure in figures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)
