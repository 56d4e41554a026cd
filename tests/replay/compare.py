"""Runs one command line in bare zsh, bare bash, `zsh-tool exec` and the tool `zsh` of the MCP
server, and says what differs.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import sandbox

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
from client import BenchFailed, Server  # noqa: E402

BINARY = f"{sandbox.TOOL}/zsh-tool"
# A line that takes bare zsh longer is left out.
BARE_SECONDS = 2
# The tool has as long as this before a line counts as hung.
TOOL_SECONDS = 20
# What outlives its shell may yet be about to end.
GRACE_SECONDS = 0.3
# The server reads manual pages of failed programs by `man`, which ends by itself.
SERVER_GRACE_SECONDS = 5
# Lines that look at their own parents see the tool there. Bare zsh runs the last command in its own
# place, and the tool's shell remains to report how that ended: a shell that is started last is one deeper.
ANCESTRY = re.compile(r"\bpstree\b|\bPPID\b|\bppid\b|\$0 -c '[^']*SHLVL")
# How often bare zsh runs a line with a difference again, to find out whether it varies by itself.
REPETITIONS = 8
ENVIRONMENT = {
    "PATH": sandbox.PATH,
    "LANG": "C.UTF-8",
    "HOME": sandbox.HOME,
    "ZSH_TOOL_STATE_DIR": f"{sandbox.TOOL}/state",
    # What the tool sets where it is not set.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GH_PROMPT_DISABLED": "1",
}
# The one variable that the tool always adds, where a line prints the environment.
TASK = re.compile(rb"(ZSH_TOOL_TASK[=\"'\s]+)[0-9a-f]+/[0-9a-f]+")
BARE_TASK = {"ZSH_TOOL_TASK": "0/0"}
# How `exec`'s own lines begin, which follow what the command has written to stderr, even
# within a line.
STATUS = re.compile(r"(?:✔|✘) exit=\d+  [^\n]*s\n".encode())
# A warning about text that is written for bash: one that speaks of zsh, but for what zsh has
# reported twice.
DIALECT = re.compile(r"(?!Same failure).*\bzsh\b", re.DOTALL)


@dataclass
class Run:
    """What a run did. `left` are the names of the processes that outlived their shell."""

    output: bytes
    errors: bytes
    code: int
    files: dict
    left: list

    def compared(self):
        return {"stdout": self.output, "stderr": self.errors, "exit code": self.code, "files": self.files}


class TooSlow(Exception):
    """A run did not end within its limit."""


def without_task(output):
    return TASK.sub(rb"\g<1>0/0", output)


def running(command, line, limit, is_merged=False, environment=ENVIRONMENT):
    """Runs a program on a line, and waits a little for what it leaves behind, which is then
    killed."""
    known = set(sandbox.processes(set()))
    errors = subprocess.STDOUT if is_merged else subprocess.PIPE
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        cwd=line["cwd"],
        start_new_session=True,
    )
    taken = {1: [], 2: []}
    deadline = time.monotonic() + limit
    with selectors.DefaultSelector() as waits:
        exited = os.pidfd_open(child.pid)
        waits.register(exited, selectors.EVENT_READ)
        waits.register(child.stdout, selectors.EVENT_READ, 1)
        if child.stderr:
            waits.register(child.stderr, selectors.EVENT_READ, 2)
        is_over = False
        while waits.get_map():
            ready = waits.select(max(0, deadline - time.monotonic()))
            if not ready:
                break
            for key, _ in ready:
                if key.fd == exited:
                    waits.unregister(exited)
                    is_over = True
                    deadline = time.monotonic() + GRACE_SECONDS
                elif chunk := os.read(key.fd, 1 << 20):
                    taken[key.data].append(chunk)
                else:
                    waits.unregister(key.fileobj)
        os.close(exited)
    left = left_over(known | {child.pid})
    if not is_over:
        child.kill()
    code = child.wait()
    child.stdout.close()
    if child.stderr:
        child.stderr.close()
    if not is_over:
        raise TooSlow
    output, errors = (without_task(b"".join(taken[stream])) for stream in (1, 2))
    return Run(output, errors, code if code >= 0 else 128 - code, sandbox.files(), left)


def left_over(known, seconds=GRACE_SECONDS):
    """The names of the processes that are still there after a while, which are killed."""
    deadline = time.monotonic() + seconds
    while found := sandbox.processes(known):
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    names = sorted(found.values())
    while found:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.002)
        found = sandbox.processes(known)
    return names


class Comparison:
    """The runs of one line after another, with one MCP server for all."""

    def __init__(self):
        self.server = None

    def close(self):
        if self.server:
            self.server.__exit__()

    def bare(self, line, shell="zsh", is_merged=False):
        sandbox.restore(line["template"])
        command = [shell, "-c", line["text"]]
        return running(command, line, BARE_SECONDS, is_merged, {**ENVIRONMENT, **BARE_TASK})

    def exec(self, line):
        sandbox.restore(line["template"])
        run = running([BINARY, "exec", "--", line["text"]], line, TOOL_SECONDS)
        starts = [found.start() for found in STATUS.finditer(run.errors)]
        if starts:
            run.errors = run.errors[: starts[-1]]
        return run

    def call(self, line):
        """The run by MCP, and the answer's `_meta`. Afterwards only the server is left, if
        `zsh_kill` does what it is for."""
        sandbox.restore(line["template"])
        if not self.server:
            self.server = Server(BINARY, ENVIRONMENT)
        known = set(sandbox.processes(set()))
        _, meta = self.server.call("zsh", command=line["text"], cwd=line["cwd"], yield_after=TOOL_SECONDS)
        task = meta["task_id"]
        if meta["leftovers"] or meta["status"] == "running":
            self.server.call("zsh_kill", task_id=task)
        left = left_over(known, SERVER_GRACE_SECONDS)
        files = sandbox.files()
        code = meta["exit_code"] if meta["status"] != "running" else "still running"
        return Run(without_task(self.log(task)), b"", code, files, left), meta

    def log(self, task):
        """All bytes of a task's output, which no answer holds."""
        log = subprocess.run([BINARY, "log", task], env=ENVIRONMENT, capture_output=True, stdin=subprocess.DEVNULL)
        if log.returncode:
            raise BenchFailed(log.stderr.decode())
        return log.stdout

    def compare(self, line):
        """What came of a line: why it is not comparable, or what differs."""
        if ANCESTRY.search(line["text"]):
            return {"dropped": "looks at its parents"}
        try:
            bare = self.bare_twice(line)
            differences, told = self.tool_differences(line, *bare)
            # Bare zsh runs before and after, since what lies between may be a new minute.
            tries = REPETITIONS if differences else 1
            if any(self.bare_twice(line) != bare for _ in range(tries)):
                return {"dropped": "varies"}
            dialect = self.dialect(line, bare[0])
        except TooSlow:
            return {"dropped": "takes long"}
        only_once = bool(differences) and not self.tool_differences(line, *bare)[0]
        return {"differences": differences, "only once": only_once, "left by zsh": bare[0].left, "dialect": dialect, **told}

    def bare_twice(self, line):
        """With stdout and stderr apart, and with both in one pipe."""
        return self.bare(line), self.bare(line, is_merged=True)

    def tool_differences(self, line, apart, merged):
        """By the way of running it, what differs from bare zsh, each as (what, expected, got); and
        what the answer by MCP told."""
        differences, told = {}, {}
        try:
            run = self.exec(line)
            differences["exec"] = differing(apart, run) + left_behind(run)
        except TooSlow:
            differences["exec"] = [["end", f"within {BARE_SECONDS} s", f"not within {TOOL_SECONDS} s"]]
        try:
            run, meta = self.call(line)
            differences["MCP"] = differing(merged, run) + left_behind(run)
            is_told = any(kind == "warning" and DIALECT.match(text) for kind, text in meta["insights"])
            named = sorted(it["name"] for it in meta["leftovers"])
            told = {"told": is_told, "insights": meta["insights"], "left by MCP": named}
        except BenchFailed as error:
            differences["MCP"] = [["answer", "", str(error)]]
            self.close()
            self.server = None
        return {way: found for way, found in differences.items() if found}, told

    def dialect(self, line, apart):
        """Whether bash does something else with the line, whatever its errors are called."""
        bash = self.bare(line, "bash")
        parts = ("stdout", "exit code", "files")
        return any(apart.compared()[part] != bash.compared()[part] for part in parts)


def left_behind(run):
    return [["processes left", [], run.left]] if run.left else []


def differing(expected, got):
    pairs = ((part, value, got.compared()[part]) for part, value in expected.compared().items())
    return [[part, shown(part, value, other), shown(part, other, value)] for part, value, other in pairs if value != other]


def shown(part, value, other):
    """As much of a value as an engineer needs to see the difference from another."""
    if part == "files":
        return {path: it for path, it in value.items() if other.get(path) != it}
    if isinstance(value, bytes):
        at = len(os.path.commonprefix([value, other]))
        start = max(0, at - 80)
        return f"{len(value)} bytes, from {start}: {value[start : at + 200]!r}"
    return value
