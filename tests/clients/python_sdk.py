"""Drives the server with the official Python SDK: python_sdk.py BINARY legacy|auto.

`legacy` opens with `initialize`, `auto` with `server/discover`. Prints one line a
check; the last line counts them. Exits 1 when a check failed.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

TOOLS = {"zsh", "zsh_poll", "zsh_send", "zsh_kill", "zsh_tasks", "zsh_health"}
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
                found.append(" ".join(command))
        return found


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

    await client.call_tool("zsh", {"command": "setsid sleep 62 & sleep 63", "yield_after": 0})
    both = await eventually(lambda: processes.running("sleep", "62") and processes.running("sleep", "63"))
    checks.that("two processes run at the close", both)


async def main(binary, mode):
    checks = Checks()
    scratch = tempfile.mkdtemp(prefix="zsh-tool-python-")
    environment = {"HOME": scratch, "ZSH_TOOL_STATE_DIR": f"{scratch}/state"}
    processes = Processes(scratch)
    try:
        server = StdioServerParameters(command=binary, args=["serve"], env=environment, cwd=scratch)
        try:
            async with Client(server, mode=mode, read_timeout_seconds=60) as client:
                await session(client, checks, processes)
        except Exception as error:  # The last line must count this, too.
            checks.that("the session goes through", False, repr(error))
        left = processes.running()
        checks.that("nothing is left after the close", not left, left)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1], sys.argv[2]))
