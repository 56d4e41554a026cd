"""What a client sees: each figure is measured over stdio with the real server.

Where a figure is a ratio, both sides run in turns, with the same environment and in the
same directory, and take turns in being first. Times are medians; they include what this
client needs to wake up and to decode.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from client import BenchFailed, Server, process_tree, proportional_mib
from figures import Figure, ninth_decile, short, times

MIB = 1024 * 1024
# After the first new output a poll waits so long for more; it is not the server's delay.
SETTLE_S = 0.030
RUNNING_TASKS = 60
# After its first answer a server gives back what only its start needed.
STARTED_S = 1
# The kernel sums memory up page by page for each sample, which takes a quarter of a millisecond.
SAMPLE_S = 0.01
# 5 s after the last end of a command, a server gives memory back.
IDLE_S = 6
# As many as a server keeps by default.
FINISHED_TASKS = 1000
# A line of output is long enough not to be a flood of line ends, short enough for text.
LINE = "the quick brown fox jumps over the lazy dog, 64 bytes in a line"
FLOOD = f"yes '{LINE}' | head -c {{}}"
GIGABYTE = 10**9
GIBIBYTE = 2**30
# Where `make static` leaves its binary, under the target directory.
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STATIC = "x86_64-unknown-linux-musl/release/zsh-tool"
# The first rounds load the page cache and the allocator.
WARM_UP = 20
# Where the time of a measurement goes, for the report of those that are short of their aim: by the
# scheduler's events of `perf` between one step and the next, and by `strace -c`.
PROFILES = {
    "round_trip": """\
of 2.6 ms, zsh itself takes 1.6 ms between its exec and its exit. Before it, the thread of the call is
awake after 0.05 ms and prepares the task in 0.18 ms; a thread starts for the task in 0.1 ms, and its
fork and exec take 0.2 ms. After it, the kernel needs 0.2 ms to free zsh's memory and to wake the
task's thread; that takes 0.12 ms to note what the command cost and where it ended, and the thread of
the call 0.12 ms to lay out the answer and to write it.""",
    "slowest": """\
in three runs of 1,000 calls, 18 or 19 fell together with an fsync of the history, which made them
0.2 ms longer in the median, and 2 to 5 of the 10 slowest were of these. In the others no single step
is slow: the start, zsh itself or the end takes up to 0.6 ms longer than in the median.""",
    "ping": """\
of 0.05 ms, 0.018 ms pass in the server: 0.006 until its reader runs, 0.005 until that has read the
request, 0.003 until the writer runs, 0.004 until the answer is written. The rest is the client's.""",
    "listen": """\
of 0.47 ms, 0.1 ms pass between the time that zsh takes and its write, and 0.05 ms until the task's
thread has told the waiting call; that is awake 0.02 ms after the settle, and takes 0.23 ms to lay out
the answer and to write it.""",
    "end": """\
of 0.6 ms, zsh's exit and the wake-up of the task's thread take 0.2 ms; that notes in 0.18 ms what the
command cost, what it left and where it ended; the thread of the call takes 0.12 ms to lay out the
answer and to write it.""",
    "drain": """\
93 % of the time of the task's thread is in the kernel: 24 parts in 45 are reads of the pipe, 21 writes
to the files of the output (ext4 finds blocks and folios for them in 14), 6 the removal of the oldest
file; this program's own code, which counts lines, has 3.""",
    "memory": """\
after a first command, 5.7 of 8.0 MiB are pages of the program's file, of which the kernel maps what
is near to what runs; the heap has 1.3 MiB and other anonymous memory 0.8. Later 2.2 MiB of the file's
are left.""",
    "tasks": """\
13.2 of 13.9 MiB are the server's. 2.8 MiB of them are given back 5 s later, when the pages of the
program's file that nothing uses are; the 60 workers add 3.3 MiB to what a first command leaves.""",
    "start": """\
of 3.5 ms, fork and exec by the client take 0.4 ms, and 2.2 ms pass until the guard forks the server:
the loader's relocations (0.45 ms under `strace`), libraries and page faults, of which there are 250.
The server starts its threads in 1.0 ms, and the answer takes 0.4 ms. Two thirds of all this are in
the kernel.""",
    "sandbox": """\
between fork and exec, a child makes 109 system calls instead of 70 and takes 0.1 to 0.2 ms longer: it
enters the mounts of its policy, drops capabilities by 33 calls, and sets the rules of Landlock and the
filter. Before that, the thread of the call takes 0.1 to 0.3 ms longer to prepare them.""",
    "kill": """\
of 2.9 ms, 1 passes before the signals, with one scan of /proc and what each process of the tree has
used; the processes take 0.8 to end, the scan for what is left 0.3, and what becomes of the task's
record and its waiting call 0.65. The rest are hand-overs between client and threads.""",
    "stop": """\
with a single task, 4.1 of 7 ms remain, and three calls of fsync for the history take 3.5 ms with all.""",
    "binary": """\
7.4 MiB are code, 1.5 the tables that unwind it and 1.2 constants. Half of it is this package's own
with the generic code of others; of the rest, TLS has 0.6 MiB, YAML 0.45, regular expressions and
SQLite 0.4 each.""",
    "overhead": """\
29 characters are the status line, and 17 the rules around the output. Of these, 9 are the task's id in
the closing rule, so that no line of output can be taken for it.""",
}


def in_turns(rounds, *sides):
    """Seconds that each side takes, round by round; who is first changes every round."""
    samples = [[] for _ in sides]
    for number in range(rounds):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            samples[side].append(sides[side]())
    return samples


def timed(work, *arguments, **named):
    """Seconds that a call takes."""
    begun = time.perf_counter()
    work(*arguments, **named)
    return time.perf_counter() - begun


def bare(zsh, command, environment):
    """Seconds that zsh alone needs for a command, started by posix_spawn, which is the
    fastest start that there is; it takes over this process's directory."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    begun = time.perf_counter()
    pid = os.posix_spawn(zsh, ["zsh", "-c", command], environment, file_actions=null)
    os.waitpid(pid, 0)
    return time.perf_counter() - begun


def round_trip(binary, rounds=300):
    """A whole call of `true` against zsh alone, in turns."""
    with Server(binary) as server, contextlib.chdir(server.scratch.name):
        zsh = shutil.which("zsh", path=server.environment["PATH"])
        ours, alone = in_turns(
            rounds + WARM_UP,
            lambda: timed(server.call, "zsh", command="true"),
            lambda: bare(zsh, "true", server.environment),
        )
    ours, alone = ours[WARM_UP:], alone[WARM_UP:]
    median, reference = statistics.median(ours) * 1000, statistics.median(alone) * 1000
    detail = f"{short(median)} ms (p90 {short(ninth_decile(ours) * 1000)}) against {short(reference)} ms, n={rounds}"
    name = "`zsh` of `true`, round trip, against `zsh -c true`"
    meaning = "what a call costs beyond starting zsh: pipe, parsing, worker, database, answer"
    slowest = statistics.quantiles(ours, n=100)[-1] * 1000
    return [
        Figure(name, median / reference, "×", 1.4, 1.25, detail, meaning, PROFILES["round_trip"]),
        Figure(
            "the same, p99 against the median of `zsh -c true`", slowest / reference, "×", 3, 2,
            f"{short(slowest)} ms against {short(reference)} ms", "what one call in a hundred costs at least",
            PROFILES["slowest"],
        ),
    ]


def ping_under_load(binary, rounds=1000):
    """Memory with 60 tasks, then `ping` while one more of them floods."""
    with Server(binary) as server:
        for _ in range(RUNNING_TASKS):
            server.call("zsh", command="sleep 600", background=True, yield_after=0)
        # The last answer may precede its worker's first wait.
        server.call("zsh", command="true")
        together = server.proportional()
        server.call("zsh", command=f"yes '{LINE}'", background=True, yield_after=0)
        samples = []
        for _ in range(rounds):
            samples.append(timed(server.request, "ping", {}))
    return [
        times(
            f"`ping`, {RUNNING_TASKS} tasks running and one flooding", samples, 0.1, 0.05,
            meaning="whether the server still answers at once when its tasks keep it busy", profile=PROFILES["ping"],
        ),
        Figure(
            f"memory with {RUNNING_TASKS} tasks running", together, "MiB", 13, 10, "",
            "proportional set size of guard and server, with a worker for each task", PROFILES["tasks"],
        ),
    ]


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
    meaning = f"how late a waiting poll tells a line, after the {SETTLE_S * 1000:.0f} ms in which more may come"
    return [times("output arrives → the poll's answer, beyond the settle", samples, 1, 0.5, meaning=meaning, profile=PROFILES["listen"])]


def end_delay(binary, rounds=200):
    """From a command's last builtin to the answer: the shell's own end is included."""
    samples = []
    with Server(binary) as server:
        for _ in range(rounds):
            text, _ = server.call("zsh", command="zmodload zsh/datetime; print -r -- $EPOCHREALTIME")
            samples.append(server.arrived - printed_time(text))
    meaning = "how late an answer tells that the command is over, from its last builtin on"
    return [times("child exits → the answer, beyond the drain", samples, 1, 0.4, "with zsh's own exit", meaning, PROFILES["end"])]


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


def drain(binary, rounds=15):
    """The same producer into a task and into `cat > /dev/null`, in turns."""
    producer = FLOOD.format(GIGABYTE)

    def into_task():
        # A server for each, so that no round pays for the files of the one before.
        with Server(binary) as server:
            return run_to_end(server, producer)

    def into_cat():
        with Server(binary) as server:
            where = {"env": server.environment, "cwd": server.scratch.name, "stdin": subprocess.DEVNULL}
            return timed(subprocess.run, ["zsh", "-c", f"{producer} | cat > /dev/null"], check=True, **where)

    ours, alone = in_turns(rounds, into_task, into_cat)
    median, reference = statistics.median(ours), statistics.median(alone)
    detail = f"{short(median)} s against {short(reference)} s, n={rounds}"
    meaning = "what it costs that all output is kept in files, counted and searchable"
    return [Figure("draining 1 GB, against `… | cat > /dev/null`", median / reference, "×", 1.4, 1.15, detail, meaning, PROFILES["drain"])]


@contextlib.contextmanager
def sampled(measure):
    """The values of `measure` while the body runs, and one after it."""
    samples, over = [], threading.Event()

    def sample():
        while not over.wait(SAMPLE_S):
            samples.append(measure())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        over.set()
        sampler.join()
    samples.append(measure())


def memory(binary):
    """Memory of an idle server, and the most that 1 GiB of output adds to it."""
    with Server(binary) as server:
        started = server.proportional()
        time.sleep(STARTED_S)
        idle = server.proportional()
        server.call("zsh", command="true")
        at_once = server.proportional()
        time.sleep(IDLE_S)
        used = server.proportional()
        with sampled(server.proportional) as samples:
            run_to_end(server, FLOOD.format(GIBIBYTE))
        growth = max(samples) - at_once
    return [
        Figure(
            "memory, idle", idle, "MiB", 4, 2, f"{short(started)} MiB right after the first answer",
            meaning=f"proportional set size of guard and server {STARTED_S} s after its first answer, before the first command",
        ),
        Figure(
            "memory right after a first command", at_once, "MiB", 9, 7,
            meaning="the same with the database open, before the server has given anything back", profile=PROFILES["memory"],
        ),
        Figure(
            "memory, idle, with the database open", used, "MiB", 5, 3,
            meaning=f"the same {IDLE_S} s later, when the server has given back what it does not use", profile=PROFILES["memory"],
        ),
        Figure(
            "growth of the peak memory by 1 GiB of output", growth, "MiB", 1, 0.4,
            f"{len(samples)} samples, {SAMPLE_S * 1000:g} ms apart",
            "the most while it comes, against right after that command; the kernel's own peak, VmHWM, is not exact",
        ),
    ]


def detached(binary, count=20, seconds=10):
    """What detached tasks cost while they sleep: memory of guard and shim, and their CPU time."""
    with Server(binary) as server:
        for _ in range(count):
            server.call("zsh", command="sleep 600", detach=True)
        processes = shims(server.environment["HOME"])
        if len(processes) != 2 * count:
            raise BenchFailed(f"{count} tasks have {len(processes)} guards and shims")
        before = sum(map(processor_ticks, processes))
        time.sleep(seconds)
        ticks = sum(map(processor_ticks, processes)) - before
        together = sum(map(proportional_mib, processes)) / count
        listed = server.call("zsh_tasks")[0]
        tasks = [line.split()[0] for line in listed.splitlines() if "detached, age" in line]
        for task in tasks[1:]:
            server.call("zsh_kill", task_id=task)
        await_shims(server.environment["HOME"], 2)
        alone = sum(map(proportional_mib, shims(server.environment["HOME"])))
        server.call("zsh_kill", task_id=tasks[0])
        await_shims(server.environment["HOME"], 0)
    share = ticks / os.sysconf("SC_CLK_TCK") / seconds * 100 / count
    return [
        Figure(
            "memory of a detached task", alone, "MiB", 10, 8, f"{short(together)} MiB each of {count} at once",
            "proportional set size of its guard and shim",
        ),
        Figure(
            "CPU time of a detached task that sleeps", share, "%", None, None, f"{count} tasks, {seconds} s",
            "of one core, for guard and shim",
        ),
    ]


def shims(home):
    """The pids of guards and shims of this HOME."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                is_shim = file.read().startswith(b"zsh-tool\0shim")
            with open(f"/proc/{pid}/environ", "rb") as file:
                if is_shim and f"HOME={home}\0".encode() in file.read():
                    found.append(int(pid))
    return found


def await_shims(home, count):
    """Waits until this many of them are left; their ends are announced to no bystander."""
    deadline = time.monotonic() + 10
    while len(shims(home)) != count:
        if time.monotonic() > deadline:
            raise BenchFailed(f"{len(shims(home))} guards and shims are left instead of {count}")
        time.sleep(0.05)


def await_programs(root, name, count):
    """Waits until a process has so many descendants that run a program; their starts cost the
    processors more than what is measured next."""
    deadline = time.monotonic() + 10
    while [program_of(pid) for pid in process_tree(root)].count(name) != count:
        if time.monotonic() > deadline:
            raise BenchFailed(f"{name} does not run {count} times below process {root}")
        time.sleep(0.001)


def program_of(pid):
    """The name of a process's program; none once it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as name:
        return name.read().strip()


def processor_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def start(binary, rounds=50):
    """From the start of the process to the answer to `initialize`."""
    samples = []
    for _ in range(rounds):
        with Server(binary) as server:
            samples.append(server.first_answer)
    meaning = "from the start of the process to its answer to `initialize`"
    return [times("start → first answer", samples, 6, 3, meaning=meaning, profile=PROFILES["start"])]


def restart(binary, sessions=10, rounds=3):
    """From the kill of a server to the answer of the next to a request that was sent after it. More
    than three kills in a minute end a session."""
    samples = []
    for _ in range(sessions):
        with Server(binary) as server:
            server.call("zsh", command="true")
            for _ in range(rounds):
                begun = time.perf_counter()
                os.kill(server.server_pid(), signal.SIGKILL)
                server.request("ping", {})
                samples.append(time.perf_counter() - begun)
                # What the old one left is cleared away meanwhile, and the next is the only child then.
                server.call("zsh", command="true")
    meaning = "from `kill -9` of the server to the answer of the one that its guard starts on the same pipes"
    return [times("server killed → first answer of the next", samples, 20, 10, meaning=meaning)]


def sandbox(binary, rounds=300):
    """The same command with a sandbox and without: when it begins, and when it is answered."""
    command = "zmodload zsh/datetime; print -r -- $EPOCHREALTIME"

    def called(server):
        begun = time.time()
        text, _ = server.call("zsh", command=command)
        return printed_time(text) - begun, server.arrived - begun

    with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as folder:
        path = os.path.join(folder, "config.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("sandbox: {mode: workspace}\n")
        with Server(binary, {"ZSH_TOOL_CONFIG": path}) as confined, Server(binary) as free:
            if "sandbox=workspace" not in confined.call("zsh", command="true")[0]:
                raise BenchFailed("the server that is to have a sandbox has none")
            samples = in_turns(rounds + WARM_UP, lambda: called(confined), lambda: called(free))
    confined, free = ([statistics.median(part) * 1000 for part in zip(*side[WARM_UP:])] for side in samples)
    detail = (
        f"{short(confined[0])} ms against {short(free[0])} ms, n={rounds}; the whole answer "
        f"{short(confined[1])} ms against {short(free[1])} ms"
    )
    name = "what a start costs more in a sandbox (mode workspace)"
    meaning = "from the call to the first command of its shell: mounts, the rules of Landlock and the filter of system calls"
    return [Figure(name, confined[0] - free[0], "ms", 0.5, 0.3, detail, meaning, PROFILES["sandbox"])]


def kill(binary, rounds=40):
    """A shell with two children and a grandchild, all of which obey SIGTERM."""
    samples = []
    with Server(binary) as server:
        for _ in range(rounds):
            command = "sleep 600 & { sleep 600; true } & wait"
            _, task = server.call("zsh", command=command, background=True)
            await_programs(server.guard.pid, "sleep", 2)
            begun = time.perf_counter()
            text, _ = server.call("zsh_kill", task_id=task["task_id"])
            samples.append(time.perf_counter() - begun)
            if "gone" not in text:
                raise BenchFailed(f"the tree is not gone: {text}")
    meaning = "from the call to the receipt that says that all four processes are gone"
    return [times("`zsh_kill` of a tree that obeys TERM", samples, 10, 2, meaning=meaning, profile=PROFILES["kill"])]


def end(binary, rounds=5):
    """From the end of the input to the server's own, with all the finished tasks that it keeps."""
    samples = []
    for _ in range(rounds):
        with Server(binary) as server:
            for _ in range(FINISHED_TASKS):
                server.call("zsh", command="echo done")
            samples.append(timed(server.end))
    meaning = "from the end of its input to the exit of the guard; clients kill after 2 s"
    return [times(f"end with {FINISHED_TASKS:,} finished tasks", samples, 100, 15, meaning=meaning, profile=PROFILES["stop"])]


def overhead(binary):
    """Characters of an answer beyond the output, the echoed line and insights."""
    with Server(binary) as server:
        text, _ = server.call("zsh", command="print hello")
    text = "\n".join(line for line in text.splitlines() if "A.L.A.N.: " not in line)
    own = len("$ print hello") + len("hello")
    meaning = "what an answer costs a model beyond the output and the echoed command line, without insights"
    name = "characters beyond output and echo, finished command"
    return [Figure(name, len(text) - own, "chars", 60, 40, meaning=meaning, profile=PROFILES["overhead"])]


def carried(binary):
    """Characters that each session of a client costs a model before the first call."""
    with Server(binary) as server:
        tools = server.request("tools/list", {})["tools"]
        instructions = len(server.instructions)

    def characters(tools):
        shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
        return instructions + sum(len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False)) for tool in shown)

    loaded = [tool for tool in tools if tool.get("_meta", {}).get("anthropic/alwaysLoad")]
    detail = f"{characters(tools):,} for a client that loads all {len(tools)} tools; instructions {instructions}"
    meaning = "names, descriptions and arguments of the tools that are always loaded, and the instructions"
    name = "characters of tools and instructions in each session"
    return [Figure(name, characters(loaded), "chars", 8000, 7000, detail, meaning)]


def newest_source():
    """When what the program is built from was last changed, Unix seconds."""
    files = [os.path.join(REPOSITORY, name) for name in ("Cargo.toml", "Cargo.lock", "data/executors.yaml")]
    for folder in ("src", "data/schema", "data/dashboard"):
        for directory, _, names in os.walk(os.path.join(REPOSITORY, folder)):
            files += [os.path.join(directory, name) for name in names]
    return max(os.path.getmtime(file) for file in files)


def size(binary):
    """The static binary where `make static` has made one of these sources, else this one."""
    static = os.path.join(os.path.dirname(os.path.dirname(binary)), STATIC)
    is_newer = os.path.exists(static) and os.path.getmtime(static) >= newest_source()
    dynamic = "the dynamic one: `make static` was not run since the sources changed"
    measured, detail = (static, "static") if is_newer else (binary, dynamic)
    meaning = "what is carried to a host: SQLite, TLS and the page of the monitor are in it"
    return [Figure("binary, stripped", os.path.getsize(measured) / MIB, "MiB", 10.5, 9, detail, meaning, PROFILES["binary"])]


MEASUREMENTS = [round_trip, ping_under_load, listen_delay, end_delay, drain, memory, detached, start, restart, sandbox, kill, end, overhead, carried, size]
