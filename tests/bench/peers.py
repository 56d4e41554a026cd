"""Other MCP servers that run commands, beside zsh-tool: the same work through the same
client, in the same scratch HOME and environment, in the same run and in turns.

The peers are installed under target/peers, from npm and PyPI, in the versions named here.
What a peer has no tool for is left out by a dash. Nothing is said of what they are made
for besides running commands.
"""

import contextlib
import functools
import glob
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import facts
from client import BenchFailed, Server, process_tree
from end_to_end import LINE, bare, in_turns, timed
from figures import short

DESKTOP_COMMANDER = "0.2.52"
MCP_SHELL_SERVER = "1.1.14"
CODEX_SHELL_TOOL = "0.97.0"
STARTS = 5
ROUNDS = 50
# The first calls load what a server loads on demand.
WARM_UP = 5
MEGABYTE = 10**6
FLOOD_BYTES = 2 * 10**8
JOB_S = 20
# A tree is looked for so long after its end was asked for, in seconds: a peer may ask its
# processes to end before it ends them.
GRACE = 3.0
# How much of the cause a cell tells when a peer fails.
CAUSE_CHARS = 100


class ZshTool:
    """This project's release binary."""

    name = "zsh-tool"
    shell = "zsh"

    def __init__(self, binary):
        self.start = lambda: Server(binary)

    def run(self, server, command):
        return server.call("zsh", command=command, yield_after=50)[0]

    def background(self, server, command):
        return server.call("zsh", command=command, background=True)[1]["task_id"]

    def kill(self, server, task):
        server.call("zsh_kill", task_id=task)

    def job(self, server, command):
        text, task = server.call("zsh", command=command)
        calls = 1
        while task["status"] == "running":
            text, task = server.call("zsh_poll", task_id=task["task_id"], wait_for="end", listen=50)
            calls += 1
        return calls


def one_call(peer, server, command):
    """A job in the one call that such servers have for it."""
    peer.run(server, command)
    return 1


class DesktopCommander:
    """@wonderwhy-er/desktop-commander, of npm. It starts zsh as a login shell."""

    name = f"desktop-commander {DESKTOP_COMMANDER}"
    package = "@wonderwhy-er/desktop-commander"
    shell = "zsh"

    def __init__(self, folder):
        modules = with_npm(f"{folder}/npm", self.package, DESKTOP_COMMANDER)
        # Nobody is told of calls that only measure, and none waits for that.
        quiet = {"DESKTOP_COMMANDER_DISABLE_TELEMETRY": "1"}
        self.start = lambda: Server([f"{modules}/.bin/desktop-commander"], quiet)

    def run(self, server, command):
        return server.call("start_process", command=command, timeout_ms=50_000, shell="zsh")[0]

    def background(self, server, command):
        text, _ = server.call("start_process", command=command, timeout_ms=300, shell="zsh")
        return int(re.search(r"PID (\d+)", text).group(1))

    def kill(self, server, task):
        server.call("force_terminate", pid=task)

    job = one_call


class CodexShellTool:
    """@openai/codex-shell-tool-mcp, of npm: bash, in calls that wait for the end. Its own client
    tells it first in which sandbox commands run: here in none."""

    name = f"codex-shell-tool {CODEX_SHELL_TOOL}"
    package = "@openai/codex-shell-tool-mcp"
    shell = "bash"
    kill = None

    def __init__(self, folder):
        modules = with_npm(f"{folder}/npm-codex", self.package, CODEX_SHELL_TOOL)
        self.command = [f"{modules}/.bin/codex-shell-tool-mcp"]

    def start(self):
        server = Server(self.command)
        state = {"sandboxPolicy": {"type": "danger-full-access"}, "sandboxCwd": server.scratch.name}
        server.request("codex/sandbox-state/update", {**state, "codexLinuxSandboxExe": None, "useLinuxSandboxBwrap": False})
        return server

    def arguments(self, server, command):
        return {"command": command, "workdir": server.scratch.name, "login": False, "timeout_ms": 50_000}

    def run(self, server, command):
        return server.call("shell", **self.arguments(server, command))[0]

    def background(self, server, command):
        """There is no such thing: the call is under way."""
        server.begin("shell", **self.arguments(server, command))
        time.sleep(1)

    job = one_call


def with_npm(folder, package, version):
    """The folder of modules in which the package is installed."""
    modules = f"{folder}/node_modules"
    if installed_by_npm(f"{modules}/{package}/package.json") != version:
        quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        install = ["npm", "install", "--prefix", folder, *quietly, f"{package}@{version}"]
        subprocess.run(install, check=True, stdout=sys.stderr)
    return modules


def installed_by_npm(manifest):
    """The version of a package; `None` where it is not installed."""
    if not os.path.exists(manifest):
        return None
    with open(manifest, encoding="utf-8") as package:
        return json.load(package)["version"]


class McpShellServer:
    """mcp-shell-server, of PyPI: programs of a list and pipes between them, no shell."""

    name = f"mcp-shell-server {MCP_SHELL_SERVER}"
    shell = background = kill = None
    job = one_call

    def __init__(self, folder):
        python = f"{folder}/python"
        if not glob.glob(f"{python}/lib/python*/site-packages/mcp_shell_server-{MCP_SHELL_SERVER}.dist-info"):
            subprocess.run([sys.executable, "-m", "venv", python], check=True)
            install = [f"{python}/bin/pip", "install", "--quiet"]
            subprocess.run([*install, f"mcp-shell-server=={MCP_SHELL_SERVER}"], check=True)
        self.start = lambda: Server([f"{python}/bin/mcp-shell-server"], {"ALLOW_COMMANDS": "true,false,head,wc,sleep,cat"})

    def run(self, server, command):
        return server.call("shell_execute", command=shlex.split(command), directory=server.scratch.name, timeout=60)[0]


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


def first_answer(peers):
    def start(peer):
        with peer.start() as server:
            return server.first_answer

    return medians(in_turns(STARTS, *(functools.partial(start, peer) for peer in peers)))


def round_trip(peers):
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(peer.start()) for peer in peers]
        calls = [functools.partial(timed, peer.run, server, "true") for peer, server in zip(peers, servers)]
        return medians(samples[WARM_UP:] for samples in in_turns(ROUNDS + WARM_UP, *calls))


def against_shell(peers):
    """The round trip beside the shell that runs the command, started alone, in turns."""
    return [attempted(multiple_of_shell, peer) for peer in peers]


def multiple_of_shell(peer):
    if not peer.shell:
        return None
    with peer.start() as server, contextlib.chdir(server.scratch.name):
        shell = shutil.which(peer.shell, path=server.environment["PATH"])
        calls, alone = in_turns(
            ROUNDS + WARM_UP,
            lambda: timed(peer.run, server, "true"),
            lambda: bare(shell, "true", server.environment),
        )
    ratio = statistics.median(calls[WARM_UP:]) / statistics.median(alone[WARM_UP:])
    return f"{short(ratio)} × {peer.shell}"


def long_job(peers):
    """Calls and seconds until the end is told, all at once: they only wait."""

    def job(peer):
        with peer.start() as server:
            begun = time.perf_counter()
            calls = peer.job(server, f"sleep {JOB_S}")
            return f"{calls} {'call' if calls == 1 else 'calls'}, {short(time.perf_counter() - begun)} s"

    with ThreadPoolExecutor(len(peers)) as pool:
        return list(pool.map(functools.partial(attempted, job), peers))


def medians(all_samples):
    return [f"{short(statistics.median(samples) * 1000)} ms" for samples in all_samples]


def idle_memory(peer):
    with peer.start() as server:
        peer.run(server, "true")
        return f"{short(memory_mib(server))} MiB"


def flood(size, peer):
    """Time, memory beyond the idle server's, and the size of the answer."""
    with peer.start() as server:
        peer.run(server, "true")
        # From a file, as not every peer has pipes through which output streams.
        source = os.path.join(server.scratch.name, "lines")
        with open(source, "w", encoding="ascii") as lines:
            lines.write(f"{LINE}\n" * (size // len(LINE) + 1))
        before = memory_mib(server)
        begun = time.perf_counter()
        text = peer.run(server, f"head -c {size} {source}")
        elapsed = time.perf_counter() - begun
        return f"{short(elapsed)} s, +{short(max(0, memory_mib(server) - before))} MiB, {len(text):,} characters"


def exit_code(peer):
    """What an answer says of a command that fails."""
    with peer.start() as server:
        try:
            text = peer.run(server, "false")
        except BenchFailed:
            return "an error"
        return "exit=1" if re.search(r"exit\w*( code)?[ =:]+1|code:? 1", text) else "nothing"


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
    if not (peer.background and peer.kill):
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


def one_by_one(measure):
    """Work that no peer does faster because another has just done it."""
    return lambda peers: [attempted(measure, peer) for peer in peers]


def attempted(measure, peer):
    """What a peer's work comes to, for a cell."""
    try:
        return measure(peer) or "–"
    except BenchFailed as error:
        return " ".join(str(error).split())[:CAUSE_CHARS]


# Each work: what it is called, how it is measured, and what its row tells.
WORK = [
    ("start → first answer", first_answer, "from the start of the process to its answer to `initialize`"),
    (
        "memory, idle", one_by_one(idle_memory),
        "proportional set size of all of a server's processes after a first command; what is shared counts once",
    ),
    ("round trip of `true`", round_trip, "a whole call, with the start of what runs the command"),
    ("the same, against its own shell alone", against_shell, "the call as a multiple of what the shell needs by itself"),
    (f"a job of {JOB_S} s", long_job, "calls and time until its end is told"),
    (
        "1 MB of output", one_by_one(functools.partial(flood, MEGABYTE)),
        "time, memory that stays afterwards, and how much of it a model is shown",
    ),
    (
        "200 MB of output", one_by_one(functools.partial(flood, FLOOD_BYTES)),
        "the same of a flood, which no model can read whole",
    ),
    (
        "facts kept of failing projects", one_by_one(facts.of_peer),
        "names and first lines of what failed in the one answer to `cat` of each log, and its size",
    ),
    (
        "what `false` is answered with", one_by_one(exit_code),
        "whether the answer to the call shows a model that the command failed",
    ),
    (
        "what `false | wc -l` is answered with", one_by_one(hidden_failure),
        "whether it shows that a part of a pipeline failed whose exit code is 0",
    ),
    (
        "a killed task of two processes", one_by_one(killed_tree),
        f"how many are there {GRACE:.0f} s after the task was ended; one is in a session of its own",
    ),
    (
        "the client goes while the same task runs", one_by_one(client_gone),
        "the same after the client has closed the connection",
    ),
]


def compared(binary, folder, tell):
    """Head, rows and meanings of the table; the peers are installed in `folder`."""
    peers = [ZshTool(binary), DesktopCommander(folder), CodexShellTool(folder), McpShellServer(folder)]
    rows, meanings = [], []
    for name, measure, meaning in WORK:
        tell(f"peers, {name}")
        try:
            cells = measure(peers)
        except BenchFailed as error:
            cells = [f"not measured: {error}"] * len(peers)
        rows.append([name, *cells])
        meanings.append((name, meaning))
    return ["work", *(peer.name for peer in peers)], rows, meanings


VERSIONS = [
    ["desktop-commander", DESKTOP_COMMANDER],
    ["codex-shell-tool", CODEX_SHELL_TOOL],
    ["mcp-shell-server", MCP_SHELL_SERVER],
]
