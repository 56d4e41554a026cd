#!/usr/bin/env python3
"""Puts zsh-tool beside other MCP servers that run commands: the same work, through the
same client, in the same run.

    tests/bench/peers.py [--binary FILE]

The peers are installed under target/peers, from npm and PyPI, in the versions named here.
What a peer has no tool for is left out by a dash. Nothing is said of what they are made
for besides running commands. Only Python's standard library is used.
"""

import argparse
import contextlib
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

from client import BenchFailed, Server
from run import BINARY, LINE, REPOSITORY, heading

DESKTOP_COMMANDER = "0.2.52"
MCP_SHELL_SERVER = "1.1.14"
PEERS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target")), "peers")
ROUNDS = 50
FLOOD_BYTES = 100_000_000
# A tree is looked for so long after its end was asked for, in seconds.
GRACE = 1.0


class ZshTool:
    """This project's release binary."""

    name = "zsh-tool"

    def __init__(self, binary):
        self.start = lambda: Server(binary)

    def run(self, server, command):
        return server.call("zsh", command=command, yield_after=50)[0]

    def background(self, server, command):
        return server.call("zsh", command=command, background=True)[1]["task_id"]

    def kill(self, server, task):
        server.call("zsh_kill", task_id=task)


class DesktopCommander:
    """@wonderwhy-er/desktop-commander, of npm."""

    name = f"desktop-commander {DESKTOP_COMMANDER}"

    def __init__(self):
        if not os.path.exists(f"{PEERS}/npm/node_modules/.bin/desktop-commander"):
            install = ["npm", "install", "--prefix", f"{PEERS}/npm", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run([*install, f"@wonderwhy-er/desktop-commander@{DESKTOP_COMMANDER}"], check=True, stdout=sys.stderr)
        program = f"{PEERS}/npm/node_modules/.bin/desktop-commander"
        self.start = lambda: Server([program])

    def run(self, server, command):
        return server.call("start_process", command=command, timeout_ms=50_000, shell="zsh")[0]

    def background(self, server, command):
        text, _ = server.call("start_process", command=command, timeout_ms=300, shell="zsh")
        return int(re.search(r"PID (\d+)", text).group(1))

    def kill(self, server, task):
        server.call("force_terminate", pid=task)


class McpShellServer:
    """mcp-shell-server, of PyPI: programs of a list and pipes between them, no shell."""

    name = f"mcp-shell-server {MCP_SHELL_SERVER}"
    background = kill = None

    def __init__(self):
        program = f"{PEERS}/python/bin/mcp-shell-server"
        if not os.path.exists(program):
            subprocess.run([sys.executable, "-m", "venv", f"{PEERS}/python"], check=True)
            subprocess.run([f"{PEERS}/python/bin/pip", "install", "--quiet", f"mcp-shell-server=={MCP_SHELL_SERVER}"], check=True)
        self.start = lambda: Server([program], {"ALLOW_COMMANDS": "true,false,yes,head,wc"})

    def run(self, server, command):
        return server.call("shell_execute", command=shlex.split(command), directory=server.scratch.name, timeout=60)[0]


def process_tree(root):
    """A process and its descendants."""
    found, open_ends = [], [root]
    while open_ends:
        pid = open_ends.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                    open_ends += [int(child) for child in children.read().split()]
    return found


def memory_mib(server):
    """Memory of a server's processes by their proportional set size, in MiB: what they
    share counts once."""
    total = 0
    for pid in process_tree(server.guard.pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
            total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return total / 1024


def alive(mark):
    """Processes with this argument, zombies not counted."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
            if mark.encode() in line.read().split(b"\0"):
                found.append(int(pid))
    return found


def await_gone(mark):
    """How many processes with this argument outlive the grace; they are ended then."""
    deadline = time.monotonic() + GRACE
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = alive(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def first_answer(peer):
    samples = []
    for _ in range(10):
        with peer.start() as server:
            samples.append(server.first_answer * 1000)
    return f"{statistics.median(samples):.3g} ms"


def idle_memory(peer):
    with peer.start() as server:
        peer.run(server, "true")
        return f"{memory_mib(server):.3g} MiB"


def round_trip(peer):
    samples = []
    with peer.start() as server:
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            peer.run(server, "true")
            samples.append((time.perf_counter() - begun) * 1000)
    return f"{statistics.median(samples):.3g} ms"


def flood(peer):
    """Time, memory beyond the idle server's, and the size of the answer."""
    with peer.start() as server:
        peer.run(server, "true")
        before = memory_mib(server)
        begun = time.perf_counter()
        text = peer.run(server, f"yes '{LINE}' | head -c {FLOOD_BYTES}")
        elapsed = time.perf_counter() - begun
        return f"{elapsed:.2g} s, +{max(0, memory_mib(server) - before):.3g} MiB, {len(text):,} characters"


def exit_code(peer):
    """What an answer says of a command that fails."""
    with peer.start() as server:
        try:
            text = peer.run(server, "false")
        except BenchFailed:
            return "an error"
        return "exit=1" if re.search(r"exit\S*[ =:]+1|code 1", text) else "nothing"


def hidden_failure(peer):
    """What an answer says of a pipeline whose first command fails."""
    with peer.start() as server:
        try:
            text = peer.run(server, "false | wc -l")
        except BenchFailed:
            return "an error"
        return "pipestatus" if "pipestatus" in text else "nothing"


def killed_tree(peer):
    """Processes that outlive the end of their task: a child, and one in a session of its own."""
    if not peer.background:
        return None
    mark = str(600 + os.getpid())
    with peer.start() as server:
        task = peer.background(server, f"setsid sleep {mark} & sleep {mark} & wait")
        peer.kill(server, task)
        return f"{await_gone(mark)} of 2 left"


def client_gone(peer):
    """Processes that outlive the server after its client has closed the connection."""
    if not peer.background:
        return None
    mark = str(600 + os.getpid())
    with peer.start() as server:
        peer.background(server, f"setsid sleep {mark} & sleep {mark} & wait")
    return f"{await_gone(mark)} of 2 left"


WORK = {
    "start → first answer": first_answer,
    "memory, idle (PSS of all its processes)": idle_memory,
    "round trip of `true`": round_trip,
    "100 MB of output": flood,
    "what `false` is answered with": exit_code,
    "what `false | wc -l` is answered with": hidden_failure,
    "a killed task of two processes, one in its own session": killed_tree,
    "the client goes while the same task runs": client_gone,
}


def main():
    parser = argparse.ArgumentParser(description="Puts zsh-tool beside other MCP servers that run commands.")
    parser.add_argument("--binary", default=BINARY, help="the server (default: this repository's release build)")
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)
    if not os.access(binary, os.X_OK):
        print(f"peers: {binary} is not there: run `cargo build --release`", file=sys.stderr)
        return 2
    peers = [ZshTool(binary), DesktopCommander(), McpShellServer()]
    rows = [["work", *(peer.name for peer in peers)]]
    for work, measure in WORK.items():
        print(f"measuring: {work} …", file=sys.stderr, flush=True)
        rows.append([work, *(measured(measure, peer) for peer in peers)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print("\n".join(heading(binary)), end="\n\n")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0


def measured(measure, peer):
    try:
        return measure(peer) or "–"
    except BenchFailed as error:
        return f"failed: {str(error).splitlines()[0][:60]}"


if __name__ == "__main__":
    sys.exit(main())
