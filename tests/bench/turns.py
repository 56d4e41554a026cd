"""How many turns an agent needs for a job of two minutes when it does what each answer
suggests: the call that the text names, else a poll as long as the text says.
"""

import re
import time

from client import BenchFailed, Server
from figures import Figure

JOB_S = 120
JOB = f"for second in {{1..{JOB_S}}}; do print $second; sleep 1; done"
# A call that names no deadline has one of two minutes, which this job just misses.
DEADLINE_S = 600
# After so many runs of a command it is known how long it takes.
RUNS_KNOWN = 3
# A suggestion at the end of a line: `→ zsh_poll task_id=3dc8c9ee wait_for=end listen=45`.
SUGGESTED = re.compile(r"→ (zsh_\w+)((?: \w+=\S+)*)$", re.MULTILINE)
# How long the next wait is to be, where no call is suggested: `◷ next: listen=20`.
NEXT = re.compile(r"next: listen=(\d+)$", re.MULTILINE)
# Who needs more turns than this does not get there.
MOST_TURNS = 60
MUST, AIM = 4, 2


def turns(binary):
    """The job for the first time, while others of its kind run beside it; the same as a
    task of the client's; and once more, now that it is known how long it takes."""
    with Server(binary) as server, Server(binary, stateless=True) as other:
        for _ in range(RUNS_KNOWN - 1):
            server.call("zsh", command=JOB, background=True)
        task = other.begin("zsh", command=JOB, background=True)
        first = followed(server)
        as_task = taken_over(other, other.answer(task))
        known = followed(server)
    meaning = "tool calls until the end is told, each as the answer before it suggests"
    name = "turns for a 2-minute job"
    return [
        Figure(f"{name}, first time", len(first), "turns", MUST, None, "; ".join(first), meaning),
        Figure(f"{name}, known from {RUNS_KNOWN} runs", len(known), "turns", MUST, None, "; ".join(known), meaning),
        Figure(
            f"{name}, `background` with MCP tasks", len(as_task), "turns", MUST, AIM, "; ".join(as_task),
            "the call, and the turn in which the client tells its model of the end",
        ),
    ]


def followed(server):
    """The calls that an agent makes until it is told that the job is over."""
    calls, tool, arguments = [], "zsh", {"command": JOB, "timeout": DEADLINE_S}
    while len(calls) < MOST_TURNS:
        text, task = server.call(tool, **arguments)
        calls.append(" ".join([tool, *(f"{name}={value}" for name, value in arguments.items() if name == "listen")]))
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
