"""How many turns an agent needs for jobs when it does what each answer suggests: the call
that the text names, else a poll as long as the text says. The same for clients that wait
for different times.
"""

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from client import BenchFailed, Server
from figures import Figure

JOB_S, BUILD_S, TEST_S, READY_S = 120, 600, 8, 12
# A call that names no deadline has one of two minutes, which these jobs miss.
DEADLINE_S = 3600
# After so many runs of a command it is known how long it takes.
RUNS_KNOWN = 3
TESTS = 5
# A suggestion at the end of a line: `→ zsh_poll task_id=3dc8c9ee wait_for=end listen=45`.
SUGGESTED = re.compile(r"→ (zsh_\w+)((?: \w+=\S+)*)$", re.MULTILINE)
# The next wait, where no call is suggested: `◷ next: zsh_poll wait_for=end listen=20`.
NEXT = re.compile(r"next: zsh_poll wait_for=end listen=(\d+)$", re.MULTILINE)
# Who needs more turns than this does not get there.
MOST_TURNS = 60
# The clients, by the longest wait of their calls: how they appear, and the most turns for the
# job, the build, the tests and the development server.
CLIENTS = {
    "an unknown client (50 s)": ({}, (4, 14, 8, 1)),
    "Claude Code's terminal (110 s)": ({"stateless": True, "client": "claude-code"}, (3, 7, 8, 1)),
    "Codex (280 s)": ({"client": "codex-mcp-client"}, (2, 4, 8, 1)),
}


def turns(binary):
    """For each client: the job for the first time, while others of its kind run beside it, and
    once more, now that it is known how long it takes; the build, for the first time; the tests,
    again and again. And the job as a task of the client's. All at once: nearly all of it waits."""
    with ThreadPoolExecutor(max_workers=4 * len(CLIENTS) + 1) as pool:
        as_task = pool.submit(job_as_task, binary)
        rows = [
            (name, most, *(pool.submit(work, binary, seen) for work in (job, build, tests, development_server)))
            for name, (seen, most) in CLIENTS.items()
        ]
        figures = []
        for name, (most_job, most_build, most_tests, most_server), job_turns, build_turns, tests_turns, server_turns in rows:
            first, known = job_turns.result()
            figures += [
                figure(f"a 2-minute job, first time, {name}", first, most_job),
                figure(f"a 2-minute job, known from {RUNS_KNOWN} runs, {name}", known, most_job),
                figure(f"a 10-minute build, first time, {name}", build_turns.result(), most_build),
                figure(f"{TESTS} test runs of {TEST_S} s, {name}", tests_turns.result(), most_tests),
                figure(f"a server that is ready after {READY_S} s, {name}", server_turns.result(), most_server),
            ]
        calls = as_task.result()
    meaning = "the call, and the turn in which the client tells its model of the end"
    name = "turns for a 2-minute job, `background` with MCP tasks"
    return [*figures, Figure(name, len(calls), "turns", 4, 2, "; ".join(calls), meaning)]


def figure(name, calls, most):
    characters = sum(length for _, length in calls)
    waits = [call for call, _ in calls]
    detail = f"{'; '.join(waits)} ({characters:,} characters)"
    meaning = "tool calls until the end is told, each as the answer before it suggests"
    return Figure(f"turns for {name}", len(calls), "turns", most, None, detail, meaning)


def loop(seconds):
    return f"for second in {{1..{seconds}}}; do print $second; sleep 1; done"


def started(binary, seen):
    return Server(binary, {"NEVERHANG_TIMEOUT_MAX": str(DEADLINE_S)}, **seen)


def job(binary, seen):
    with started(binary, seen) as server:
        for _ in range(RUNS_KNOWN - 1):
            server.answer(server.begin("zsh", command=loop(JOB_S), background=True))
        return followed(server, loop(JOB_S)), followed(server, loop(JOB_S))


def build(binary, seen):
    with started(binary, seen) as server:
        return followed(server, loop(BUILD_S))


def tests(binary, seen):
    with started(binary, seen) as server:
        return [call for _ in range(TESTS) for call in followed(server, loop(TEST_S))]


def development_server(binary, seen):
    """A call that waits for the port at which the command listens when it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"sleep {READY_S}; exec python3 -m http.server --bind 127.0.0.1 {port}"
    with started(binary, seen) as server:
        text, _ = server.call("zsh", command=command, background=True, until_port=str(port), yield_after=45)
        if f"listening on {port}" not in text and f"port {port}" not in text:
            raise BenchFailed(f"the server is not ready: {text}")
        return [("zsh background=true until_port yield_after=45", len(text))]


def job_as_task(binary):
    with Server(binary, stateless=True) as server:
        created = server.answer(server.begin("zsh", command=loop(JOB_S), background=True))
        return taken_over(server, created)


def followed(server, command):
    """The calls that an agent makes until it is told that the command has ended, each with the
    characters of its answer."""
    calls, tool, arguments = [], "zsh", {"command": command, "timeout": DEADLINE_S}
    while len(calls) < MOST_TURNS:
        text, task = server.call(tool, **arguments)
        shown = " ".join([tool, *(f"{name}={value}" for name, value in arguments.items() if name == "listen")])
        calls.append((shown, len(text)))
        if task["status"] != "running":
            if task["status"] != "completed":
                raise BenchFailed(f"the job ended as {task['status']}: {text}")
            return calls
        tool, arguments = suggested(text, task)
        if tool != "zsh_poll":
            raise BenchFailed(f"an answer about a job that gets on suggests {tool}: {text}")
    raise BenchFailed(f"the job is not over after {MOST_TURNS} turns")


def suggested(text, task):
    """The call that an answer suggests, and its arguments."""
    named = SUGGESTED.findall(text)
    if named:
        tool, words = named[-1]
        arguments = dict(word.split("=", 1) for word in words.split())
        return tool, {name: int(value) if name == "listen" else value for name, value in arguments.items()}
    found = NEXT.search(text)
    if not found:
        raise BenchFailed(f"an answer about a running job does not say what is next: {text}")
    listen = int(found.group(1))
    return "zsh_poll", {"task_id": task["task_id"], "wait_for": "end", "listen": listen}


def taken_over(server, created):
    """What it comes to when the client asks, and not the model, whether the task is over."""
    while True:
        task = server.request("tasks/get", {"taskId": created["taskId"]})
        if task["status"] == "completed":
            return ["zsh background=true", "the end"]
        if task["status"] != "working":
            raise BenchFailed(f"the client's task ended as {task['status']}")
        time.sleep(task["pollIntervalMs"] / 1000)


MEASUREMENTS = [turns]
