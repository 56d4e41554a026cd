"""Drives the server with agents that are made of an SDK: sdk_agents.py BINARY openai|pydantic.

openai-agents and pydantic-ai run against a scripted model, which speaks OpenAI's Chat Completions on
the loopback. What is checked is what the model is given. Prints one line a check; the last line counts
them. Exits 1 when a check failed.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from python_sdk import Checks, Processes

# Seconds for anything that should happen at once; only a fault runs it out.
PATIENCE = 20


class Model:
    """The scripted model. A step is the name and the arguments of a call, or a function that makes them
    of the newest result; after the last step it says that the script is over."""

    def __init__(self, steps):
        self.steps, self.requests = list(steps), []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                answer = json.dumps(model.answer(json.loads(body))).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, body):
        self.requests.append(body)
        number = len(self.requests)
        message, reason = {"role": "assistant", "content": "the script is over"}, "stop"
        if self.steps:
            step = self.steps.pop(0)
            name, arguments = step(self.results()[-1]) if callable(step) else step
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def results(self):
        """What the model was given of its calls, in their order."""
        messages = self.requests[-1]["messages"]
        texts = []
        for message in messages:
            if message["role"] == "tool":
                content = message["content"]
                texts.append(content if isinstance(content, str) else "\n".join(part["text"] for part in content))
        return texts

    def tools(self):
        return {tool["function"]["name"]: tool["function"] for tool in self.requests[0]["tools"]}


def task_in(result):
    found = re.search(r"task(?:_id)?[=\": \\]+([0-9a-f]{8})", result)
    return found[1] if found else "none"


class OpenaiAgents:
    """openai-agents: a call is given up after 5 s, unless it is told otherwise."""

    async def run(self, command, environment, model):
        from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
        from agents.mcp import MCPServerStdio
        from openai import AsyncOpenAI

        set_tracing_disabled(True)
        params = {"command": command[0], "args": command[1:], "env": environment}
        async with MCPServerStdio(params=params) as server:
            client = AsyncOpenAI(base_url=model.url, api_key="x")
            agent = Agent(
                name="agent",
                model=OpenAIChatCompletionsModel("scripted", client),
                mcp_servers=[server],
                mcp_config={"convert_schemas_to_strict": True},
            )
            return (await Runner.run(agent, "go", max_turns=60)).final_output


class PydanticAi:
    """pydantic-ai: shows its model the structured result alone, where there is one."""

    async def run(self, command, environment, model):
        from fastmcp.client.transports import StdioTransport
        from openai import AsyncOpenAI
        from pydantic_ai import Agent
        from pydantic_ai.mcp import MCPToolset
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        from pydantic_ai.usage import UsageLimits

        client = AsyncOpenAI(base_url=model.url, api_key="x")
        provider = OpenAIProvider(openai_client=client)
        toolset = MCPToolset(StdioTransport(command[0], command[1:], env=environment, keep_alive=False))
        agent = Agent(OpenAIChatModel("scripted", provider=provider), toolsets=[toolset])
        async with agent:
            result = await agent.run("go", usage_limits=UsageLimits(request_limit=60))
        return result.output


def filled(schema):
    """What models fill in for what they leave out, where a strict schema requires all arguments."""
    values = {"string": "", "boolean": False, "number": 0, "integer": 0, "array": [], "object": {}}
    kinds = {name: described.get("type") for name, described in schema["properties"].items()}
    plain = {name: next((k for k in kind if k != "null"), "string") if isinstance(kind, list) else kind
             for name, kind in kinds.items()}
    return {name: values[kind or "string"] for name, kind in plain.items()}


async def cancelled(agent, binary, environment, model, processes):
    """Cancels the agent once its command runs; whether it ran."""
    run = asyncio.create_task(agent.run([binary, "serve"], environment, model))
    limit = time.monotonic() + PATIENCE
    while not (ran := bool(processes.running("sleep", "64"))) and time.monotonic() < limit:
        await asyncio.sleep(0.02)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return ran


def main():
    binary, which = sys.argv[1:3]
    agent = {"openai": OpenaiAgents, "pydantic": PydanticAi}[which]()
    checks = Checks()
    home = tempfile.mkdtemp(prefix="zsh-tool-clients-")
    environment = {"PATH": os.environ["PATH"], "HOME": home}
    processes = Processes(home)
    os.mkfifo(f"{home}/go")
    ended, first = [], {}

    def remember(result):
        first["id"] = task_in(result)
        return "zsh", {"command": "seq 1 40000; exit 7", "max_output": 490000, "yield_after": 4}

    def ended_then(name, arguments):
        """A call of the tool once the task that was started before it has ended unseen."""
        def step(result):
            task = task_in(result)
            ended.append((name, task))
            with open(f"{home}/go", "w") as gate:
                gate.write("\n")
            limit = time.monotonic() + PATIENCE
            while time.monotonic() < limit:
                listed = subprocess.run([binary, "tasks", "--all", "--json"], env=environment, capture_output=True, text=True)
                if any(task in line and '"failed"' in line for line in listed.stdout.splitlines()):
                    break
            return name, {key: first["id"] if key == "task_id" else value for key, value in arguments.items()}
        return step

    tools = {
        "zsh": {"command": "echo x"}, "zsh_poll": {"task_id": "", "from_line": 1},
        "zsh_send": {"task_id": "", "input": "x"}, "zsh_kill": {"task_id": ""}, "zsh_tasks": {"all": True},
        "zsh_health": {}, "zsh_alan_stats": {}, "zsh_alan_query": {"command": "true"},
        "zsh_neverhang_status": {}, "zsh_neverhang_reset": {},
    }
    gated = ("zsh", {"command": f"read < {home}/go; exit 4", "background": True})
    model = Model([
        ("zsh", {"command": "echo quick | cat; exit 3"}),
        remember,
        ("zsh", {"command": "echo begun; sleep 8; echo woke", "yield_after": 30}),
        ("zsh_poll", {"task_id": "none"}),
        ("zsh", {"command": "sleep 7; echo later", "yield_after": 30}),
        lambda result: ("zsh_poll", {"task_id": task_in(result), "wait_for": "end", "listen": 30}),
        lambda result: ("zsh_poll", {"task_id": task_in(result), "wait_for": "end", "listen": 30}),
        ("zsh", {"command": "read -s 'a?Password: '", "pty": True, "yield_after": 4}),
        lambda result: ("zsh_kill", {"task_id": task_in(result)}),
        *[step for name, arguments in tools.items() for step in (gated, ended_then(name, arguments))],
        ("zsh", {"command": "setsid sleep 62 & sleep 63", "background": True}),
    ])
    said = asyncio.run(agent.run([binary, "serve"], environment, model))
    results = model.results()
    checks.that("the agent runs the script to its end", "script is over" in said, said)
    quick, long, slow, after, later, polled, again, password, killed = results[:9]
    checks.that("a quick command", "quick" in quick and "✘ exit=3" in quick, quick)
    checks.that("long output: the exit code", "✘ exit=7" in long, long[-600:])
    for name, task in ended:
        notice = f"┌ notify: task '{task}' failed (exit=4"
        told = [result for result in results if notice in result]
        checks.that(f"a notice before {name}, once", len(told) == 1, (told, results))
    if which == "openai":
        checks.that("a call of 5 s is given up", "error occurred" in slow and "woke" not in slow, slow)
        checks.that("the next answer tells of its command", "your earlier call's command still runs" in after, after)
        checks.that("later calls return in time", "⟳ RUNNING  4." in later, later)
    checks.that("its output and its end", "later" in polled + again + later and "✔ exit=0" in polled + again + later,
                (later, polled, again))
    checks.that("a password prompt", "WAITING FOR A PASSWORD" in password, password)
    checks.that("a kill", "no survivors" in killed, killed)
    limit = time.monotonic() + PATIENCE
    while processes.running() and time.monotonic() < limit:
        time.sleep(0.02)
    checks.that("nothing is left after it", not processes.running(), processes.running())

    # A program that cancels the agent during a call.
    model.server.shutdown()
    waiting = Model([("zsh", {"command": "sleep 64", "yield_after": 40})])
    checks.that("a cancellation comes during the call", asyncio.run(cancelled(agent, binary, environment, waiting, processes)))
    limit = time.monotonic() + PATIENCE
    while processes.running() and time.monotonic() < limit:
        time.sleep(0.02)
    checks.that("and ends its command", not processes.running(), processes.running())
    waiting.server.shutdown()

    # All arguments filled in, by the schemas that the agent has made of the tools.
    task = {}
    schemas = model.tools()
    steps = []

    def with_task(name):
        def step(result):
            task.setdefault("id", task_in(result))
            arguments = filled(schemas[name]["parameters"])
            for required, value in {"task_id": task["id"], "command": "echo strict"}.items():
                if required in arguments:
                    arguments[required] = value
            if name == "zsh_send":
                arguments["input"] = "typed"
            return name, arguments
        return step

    order = sorted(schemas, key=lambda name: name == "zsh_kill")
    strict = Model([("zsh", {"command": "cat", "stdin_open": True, "background": True}), *map(with_task, order)])
    asyncio.run(agent.run([binary, "serve"], environment, strict))
    checks.that("there are ten tools", len(order) == 10, order)
    for name, result in zip(order, strict.results()[1:], strict=True):
        wrong = re.search(r"must be|cannot go|exclude|needs the argument|rror invoking|validation", result)
        checks.that(f"{name} with all arguments filled in", not wrong, result)
    is_strict = [name for name, tool in schemas.items() if tool.get("strict")]
    print(f"strict schemas: {', '.join(is_strict) or 'none'}")

    strict.server.shutdown()
    shutil.rmtree(home, ignore_errors=True)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
