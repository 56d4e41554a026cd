"""Drives the server with the official Python SDK: python_sdk.py BINARY legacy|auto [CONNECTIONS].

`legacy` opens with `initialize`, `auto` with `server/discover` and takes tasks. On each of
CONNECTIONS more the server is killed three times. Prints one line a check; the last line counts them. Exits 1 when a check failed.
"""

import os
import random
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result

TOOLS = {"zsh", "zsh_poll", "zsh_send", "zsh_kill", "zsh_tasks", "zsh_health",
         "zsh_alan_stats", "zsh_alan_query", "zsh_neverhang_status", "zsh_neverhang_reset"}
# Seconds for anything that should happen at once; only a fault runs it out.
PATIENCE = 20


class Checks:
    """Counts and prints checks."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def that(self, name, holds, seen=""):
        if holds:
            self.passed += 1
            print(f"ok    {name}")
        else:
            self.failed += 1
            print(f"FAIL  {name}\n      {str(seen)[:2000]!r}")


class Processes:
    """The server and all that it started, told by their scratch HOME or the task cookie."""

    def __init__(self, home):
        self.marks = [f"HOME={home}\0".encode()]

    def learn_cookie(self, cookie):
        self.marks.append(f"ZSH_TOOL_TASK={cookie.split('/')[0]}/".encode())

    def running(self, *arguments):
        """Command lines of the marked processes that carry all the arguments."""
        return [command for _, command in self.find(*arguments)]

    def servers(self):
        """The pids of the servers, without their guards."""
        return [pid for pid, _ in self.find() if name(pid) == "ztool"]

    def find(self, *arguments):
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                environment = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # It has just ended, or is another user's.
            if any(mark in environment for mark in self.marks) and set(arguments) <= set(command):
                found.append((int(entry.name), " ".join(command)))
        return found


def name(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class CreatedTask(Result):
    """The answer to a call that has become a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: int


class DetailedTask(Result):
    """The answer to `tasks/get`."""

    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    """What every method of the extension says."""

    task_id: str


class Tasks(ClientExtension):
    """The tasks extension: asks about a task until it is over."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created, context):
        while True:
            task = await ask(context.session, "tasks/get", created.task_id, DetailedTask)
            self.seen.append(task.status)
            if task.status == "completed":
                return CallToolResult.model_validate(task.result)
            if task.status != "working":
                return CallToolResult(content=[], is_error=True)
            await anyio.sleep(created.poll_interval_ms / 1000)


async def ask(session, method, task, result_type):
    request = Request[TaskParams, str](method=method, params=TaskParams(task_id=task))
    return await session.send_request(request, result_type)


async def settled(session, task):
    """The task once it no longer works, or as it is when patience runs out: the extension
    lets a cancellation take effect after its answer, and tells nobody."""
    detailed = None
    with anyio.move_on_after(PATIENCE):
        while detailed is None or detailed.status == "working":
            await anyio.sleep(0.02)
            detailed = await ask(session, "tasks/get", task, DetailedTask)
    return detailed


async def eventually(holds):
    """Whether the condition comes to hold; other processes offer nothing to await."""
    with anyio.move_on_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.02)
        return True
    return False


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def task_id(result):
    found = re.search(r"task=([0-9a-f]{8})", text(result))
    return found.group(1) if found else "none"


async def session(client, checks, processes):
    listed = (await client.list_tools()).tools
    names = {tool.name for tool in listed}
    checks.that("lists the tools", TOOLS <= names, names)
    checks.that("every schema is closed", all(t.input_schema.get("additionalProperties") is False for t in listed))

    result = await client.call_tool("zsh", {"command": "echo hi"})
    checks.that("echo hi", re.search(r"^hi$", text(result), re.MULTILINE) and "exit=0" in text(result), text(result))
    checks.that("a command's result is no error", not result.is_error)

    result = await client.call_tool("zsh", {"command": "exit 3"})
    checks.that("a failing command is no error", not result.is_error and "exit=3" in text(result), text(result))

    result = await client.call_tool("zsh", {"command": "true", "timout": 5})
    checks.that("an unknown argument is named", result.is_error and "timout" in text(result), text(result))
    result = await client.call_tool("zsh", {"command": "true", "timeout": "soon"})
    checks.that("an argument of a wrong type is named", result.is_error and "timeout" in text(result), text(result))

    try:
        await client.call_tool("no_such_tool", {})
        refused = None
    except MCPError as error:
        refused = error.code
    checks.that("an unknown tool is an error", refused == -32602, refused)

    # The client validates these against the schemas that it has listed.
    for name in ("zsh_tasks", "zsh_health"):
        result = await client.call_tool(name, {})
        checks.that(f"{name} is structured as declared", result.structured_content, result)

    result = await client.call_tool("zsh", {"command": "sleep 2; echo $((6 * 7))", "yield_after": 1})
    checks.that("yields after a second", "RUNNING" in text(result), text(result))
    result = await client.call_tool("zsh_poll", {"task_id": task_id(result), "wait_for": "end", "listen": PATIENCE})
    checks.that("a poll waits for the end", "42" in text(result) and "exit=0" in text(result), text(result))

    result = await client.call_tool("zsh", {"command": "print -r -- $ZSH_TOOL_TASK"})
    cookie = re.search(r"^\S+/[0-9a-f]{8}$", text(result), re.MULTILINE)
    checks.that("commands carry the cookie", cookie, text(result))
    if cookie:
        processes.learn_cookie(cookie.group())

    result = await client.call_tool("zsh", {"command": "sleep 60", "yield_after": 0})
    task = task_id(result)
    checks.that("sleep 60 runs", await eventually(lambda: processes.running("sleep", "60")), text(result))
    result = await client.call_tool("zsh_kill", {"task_id": task})
    checks.that("a kill gives a receipt", not result.is_error and "gone" in text(result), text(result))
    checks.that("sleep 60 is gone", not processes.running("sleep", "60"), processes.running("sleep", "60"))

    heard = []

    async def progress(value, _total, message):
        heard.append((value, message))

    command = "for i in 1 2 3; do echo tick $i; sleep 1; done"
    await client.call_tool("zsh", {"command": command, "yield_after": PATIENCE}, progress_callback=progress)
    checks.that("progress shows the last line", any("tick 2" in (message or "") for _, message in heard), heard)
    values = [value for value, _ in heard]
    checks.that("progress rises", values == sorted(set(values)), heard)

    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "zsh", {"command": "sleep 61", "yield_after": 50})
        started = await eventually(lambda: processes.running("sleep", "61"))
        group.cancel_scope.cancel()
    checks.that("sleep 61 runs", started)
    checks.that("a cancelled call's command ends", await eventually(lambda: not processes.running("sleep", "61")))
    result = await client.call_tool("zsh", {"command": "true"})
    checks.that("the server goes on after it", "exit=0" in text(result), text(result))

    # The parent of a command's shell is the server.
    result = await client.call_tool("zsh", {"command": "sleep 1; kill -KILL $PPID; sleep 65", "yield_after": PATIENCE})
    restarted = "server restarted (killed by SIGKILL)" in text(result)
    checks.that("a call is answered although its server is killed", result.is_error and restarted, text(result))
    result = await client.call_tool("zsh", {"command": "echo again"})
    checks.that("and the session goes on", "again" in text(result) and "exit=0" in text(result), text(result))
    checks.that("sleep 65 is gone", await eventually(lambda: not processes.running("sleep", "65")))

    await client.call_tool("zsh", {"command": "setsid sleep 62 & sleep 63", "yield_after": 0})
    both = await eventually(lambda: processes.running("sleep", "62") and processes.running("sleep", "63"))
    checks.that("two processes run at the close", both)


async def tasks(client, checks, processes, extension):
    command = "echo one; sleep 1; echo two; exit 3"
    result = await client.call_tool("zsh", {"command": command, "background": True})
    checks.that("a background command becomes a task", "working" in extension.seen, extension.seen)
    checks.that("it completes", extension.seen[-1:] == ["completed"], extension.seen)
    checks.that("its result is the whole output", "one\ntwo\n" in text(result) and "exit=3" in text(result), text(result))

    created = await client.session.call_tool("zsh", {"command": "sleep 64", "background": True}, allow_claimed=True)
    checks.that("sleep 64 runs", await eventually(lambda: processes.running("sleep", "64")))
    await ask(client.session, "tasks/cancel", created.task_id, Result)
    task = await settled(client.session, created.task_id)
    checks.that("a cancelled task is cancelled", task.status == "cancelled", task)
    checks.that("sleep 64 is gone", not processes.running("sleep", "64"), processes.running("sleep", "64"))


async def killed(server, mode, number, processes):
    """Calls on one connection while its server is killed at three random moments; returns what went wrong."""
    chance = random.Random(number)
    ran = Path(server.env["HOME"]) / f"ran-{mode}-{number}"
    wrong = []
    over = anyio.Event()

    async def kill_now_and_then():
        for _ in range(3):
            await anyio.sleep(chance.uniform(0, 0.3))
            before = processes.servers()
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            if not await eventually(lambda: set(processes.servers()) - set(before)):
                wrong.append("no server came back")
        over.set()

    async with Client(server, mode=mode, read_timeout_seconds=60) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(kill_now_and_then)
            calls = 0
            while calls < 8 or not over.is_set():
                more = chance.choice(["true", "sleep 0.05", "seq 30000", f": {'x' * 100_000}"])
                result = await client.call_tool("zsh", {"command": f"echo {calls} >> {ran}; {more}", "yield_after": PATIENCE})
                if "exit=0" not in text(result) and not text(result).startswith("server restarted (killed by SIGKILL)"):
                    wrong.append(text(result)[:300])
                calls += 1
        result = await client.call_tool("zsh", {"command": "echo over"})
        if "exit=0" not in text(result):
            wrong.append(text(result)[:300])
    lines = ran.read_text().split() if ran.exists() else []
    if len(lines) != len(set(lines)):
        wrong.append(f"ran twice: {lines}")
    return wrong


async def main(binary, mode, connections):
    checks = Checks()
    scratch = tempfile.mkdtemp(prefix="zsh-tool-python-")
    environment = {"HOME": scratch, "ZSH_TOOL_STATE_DIR": f"{scratch}/state"}
    processes = Processes(scratch)
    try:
        server = StdioServerParameters(command=binary, args=["serve"], env=environment, cwd=scratch)
        extension = Tasks()
        try:
            async with Client(server, mode=mode, read_timeout_seconds=60, extensions=[extension]) as client:
                await session(client, checks, processes)
                if mode == "auto":
                    await tasks(client, checks, processes, extension)
            wrong = []
            for number in range(connections):
                wrong += await killed(server, mode, number, processes)
            checks.that(f"{3 * connections} kills lose no call and repeat none", not wrong, wrong)
        except Exception as error:  # The last line must count this, too.
            checks.that("the session goes through", False, repr(error))
        left = processes.running()
        checks.that("nothing is left after the close", not left, left)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["3"])[0])))
