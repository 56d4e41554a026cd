"""A client of the MCP server for measuring: no threads, nothing between the pipe and the
clock but the decoding of the answer. Only Python's standard library is used.
"""

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time

PROTOCOL_VERSION = "2025-06-18"
# What every request says of itself in the stateless era, here for a client that takes tasks.
STATELESS_VERSION = "2026-07-28"
TASKS_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
# Seconds to wait for one answer: more than the longest wait that a call can ask for.
ANSWER_LIMIT = 610
# Seconds for the server to end its tasks and itself.
EXIT_LIMIT = 5
READ_BYTES = 1 << 20


class BenchFailed(Exception):
    """The server did not do what was to be measured."""


class Server:
    """A server in a scratch HOME and state directory, and the requests to it. Any other MCP
    server is measured by its own command line and additions to the environment. `client` is the
    name of the program that it takes this for."""

    def __init__(self, program, environment=None, stateless=False, client="bench"):
        command = program if isinstance(program, list) else [program, "serve"]
        self.scratch = tempfile.TemporaryDirectory(prefix="zsh-tool-bench-")
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": self.scratch.name,
            "ZSH_TOOL_STATE_DIR": os.path.join(self.scratch.name, "state"),
            **(environment or {}),
        }
        self.errors = open(os.path.join(self.scratch.name, "stderr"), "w+b")
        self.started = time.time()
        self.guard = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=self.environment,
            cwd=self.scratch.name,
            bufsize=0,
        )
        self.input = self.guard.stdin.fileno()
        self.output = self.guard.stdout.fileno()
        self.rest = b""
        self.last_id = 0
        self.answers = {}
        self.arrived = 0.0
        self.client = {"name": client, "version": "1"}
        envelope = {**TASKS_ENVELOPE, "io.modelcontextprotocol/clientInfo": self.client}
        self.envelope = {"_meta": envelope} if stateless else {}
        if stateless:
            self.request("server/discover", {})
        else:
            self._shake_hands()

    def _shake_hands(self):
        params = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": self.client}
        self.instructions = self.request("initialize", params).get("instructions", "")
        self.first_answer = self.arrived - self.started
        self._write({"method": "notifications/initialized"})

    def __enter__(self):
        return self

    def end(self):
        """Closes the input and waits for the end; nothing, once it has ended."""
        if self.guard.returncode is None:
            # `wait` with a timeout sleeps between looks, up to as long again as it has waited.
            guard = os.pidfd_open(self.guard.pid)
            try:
                self.guard.stdin.close()
                ended, _, _ = select.select([guard], [], [], EXIT_LIMIT)
                if not ended:
                    self.guard.kill()
                self.guard.wait()
            finally:
                os.close(guard)

    def __exit__(self, *_):
        self.end()
        self.guard.stdout.close()
        self.errors.close()
        self.scratch.cleanup()

    def _write(self, frame):
        rest = (json.dumps({"jsonrpc": "2.0", **frame}) + "\n").encode()
        while rest:
            rest = rest[os.write(self.input, rest) :]

    def send(self, method, params):
        """Sends a request; its id is the key to the answer."""
        self.last_id += 1
        self._write({"id": self.last_id, "method": method, "params": {**params, **self.envelope}})
        return self.last_id

    def answer(self, request):
        """The result of a request. `arrived` is then when its bytes came, in Unix seconds."""
        deadline = time.monotonic() + ANSWER_LIMIT
        while request not in self.answers:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.output], [], [], left)[0]:
                raise BenchFailed(f"no answer within {ANSWER_LIMIT} s")
            self.take_frames()
        frame = self.answers.pop(request)
        if "error" in frame:
            raise BenchFailed(f"a request was refused: {frame['error']}")
        return frame["result"]

    def take_frames(self):
        """Takes what can be read, and waits until there is something."""
        chunk = os.read(self.output, READ_BYTES)
        self.arrived = time.time()
        if not chunk:
            self.errors.seek(0)
            raise BenchFailed(f"the server ended: {self.errors.read().decode()}")
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            frame = json.loads(line)
            # A server's own requests and notifications are passed over.
            if frame.get("id") is not None and "method" not in frame:
                self.answers[frame["id"]] = frame

    def request(self, method, params):
        """Sends a request and returns its result."""
        return self.answer(self.send(method, params))

    def begin(self, tool, **arguments):
        """Begins a call of a tool; its answer is taken by `finish`."""
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def finish(self, request):
        """The text of a call's answer, and what `_meta` says of its task."""
        result = self.answer(request)
        text = "".join(block.get("text", "") for block in result["content"])
        if result.get("isError"):
            raise BenchFailed(f"call failed: {text}")
        return text, result.get("_meta", {}).get("zsh-tool/result", {})

    def call(self, tool, **arguments):
        """Calls a tool; text and `_meta` of the answer."""
        return self.finish(self.begin(tool, **arguments))

    def server_pid(self):
        """The server proper, the guard's only child."""
        guard = self.guard.pid
        with open(f"/proc/{guard}/task/{guard}/children", encoding="ascii") as children:
            pids = [int(pid) for pid in children.read().split()]
        if len(pids) != 1:
            raise BenchFailed(f"the guard has the children {pids} instead of the server alone")
        return pids[0]

    def processor_seconds(self):
        """CPU time of the guard and of the server, without what their children use."""
        ticks = 0
        for pid in (self.guard.pid, self.server_pid()):
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                # What follows the name, which may hold anything; then utime and stime.
                fields = stat.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def proportional(self):
        """MiB of guard and server; a page that several processes have counts in parts."""
        return sum(proportional_mib(pid) for pid in (self.guard.pid, self.server_pid()))


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


def proportional_mib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
