"""What is measured inside of one process, by programs that cargo builds: the database's
part of a call, and the pure parts by a benchmark crate.
"""

import json
import os
import subprocess
import tempfile

from figures import Figure, short

# The units of what a benchmark goes through in each round.
NANOSECONDS = 1e9
MEGABYTE = 1e6
# Where the time goes that the database takes before an answer.
BEFORE_PROFILE = """by `strace`, the circuit check makes 2 system calls and the history 7 when other servers
have written nothing meanwhile: both ask whether the file is still the same and read from the log, and
the history takes and gives back a lock of the log. The rest is SQLite's and this program's own code."""
# What each micro-benchmark's figure tells, by its name.
MEANINGS = {
    "output/counting lines": "the index of lines, for every byte that a command prints",
    "output/plain lines to text": "lines as a result shows them, without anything to take out",
    "output/coloured lines to text": "the same with escape sequences taken out",
    "output/rewritten lines to text": "the same of progress that is drawn over itself",
    "output/laying out a result": "numbering, and cutting to what a result may show",
    "output/screen of a terminal": "the emulation of a full screen, for every byte of a terminal",
    "command line/reading as zsh does": "words, pipelines and redirections of a command line",
    "command line/reading and template": "the same, and what kind of command it is",
    "command line/redaction": "its secrets taken out, before it is written anywhere",
    "redaction of output/without a secret": "what is remembered of output, when there is nothing to take out",
    "redaction of output/a secret in each line": "the same with something to take out all over",
    "result/of a running task": "the text of an answer and its twin for programs",
    "result/of a finished task": "the same at the end",
    "protocol/frames to messages": "one request from bytes to its method and params",
    "progress/a look, a change and a judgement": "what is noted at each look at a running task",
    "progress/a heartbeat": "what an agent's sign of life costs",
    "agent/stream to activities": "an agent's stdout, for every byte of it",
}


def database(cargo):
    """Rows for what the database costs one call, at each number of observations."""
    run = cargo(["run", "--release", "--quiet", "--example", "store_bench"], stdout=subprocess.PIPE)
    figures = []
    for line in run.stdout.splitlines():
        measured = json.loads(line)
        call = measured["whole call"]
        parts = ("check", "history", "record")
        medians = [f"{part} {short(measured[part]['median'])}" for part in parts]
        detail = f"p99 {short(call['p99'])} ms; {', '.join(medians)}"
        meaning = "circuit check, history and record, until it is written; half of all rows are of that command"
        name = f"database work of one call at {measured['observations']:,} observations"
        figures.append(Figure(name, call["median"], "ms", 1, 0.5, detail, meaning))
        check = measured["check"]["median"]
        before = check + measured["history"]["median"]
        detail = f"{short(check + measured['history read']['median'])} for a command that is not in memory"
        name = f"of it before the answer, at {measured['observations']:,}"
        meaning = "circuit check and history, while the command runs; the latest 16 commands are in memory"
        figures.append(Figure(name, before, "ms", 0.1, 0.05, detail, meaning, BEFORE_PROFILE))
    return figures


def micro(cargo):
    """Head, rows and meanings of the table of micro-benchmarks."""
    with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as home:
        environment = {**os.environ, "CRITERION_HOME": home}
        # It tells its progress on stderr, which matters only when it fails.
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        cargo(["bench", "--quiet", "--bench", "micro", "--", "--noplot"], env=environment, **silent)
        found = {}
        for folder, _, files in os.walk(home):
            if os.path.basename(folder) == "new" and "estimates.json" in files:
                benchmark = read(os.path.join(folder, "benchmark.json"))
                found[benchmark["full_id"]] = row(benchmark, read(os.path.join(folder, "estimates.json")))
    # In the order of the source, and what is new there at the end.
    names = [*(name for name in MEANINGS if name in found), *sorted(found.keys() - MEANINGS.keys())]
    meanings = [(name_of(name), MEANINGS.get(name)) for name in names]
    return ["pure part", "takes", "range of its median", "that is"], [found[name] for name in names], meanings


def row(benchmark, estimates):
    """The cells of one benchmark; its estimates are in nanoseconds a round."""
    median = estimates["median"]
    interval = median["confidence_interval"]
    unit, count = next(iter(benchmark["throughput"].items()))
    if unit == "Bytes":
        work, units = f"{count:,} bytes", 1
        rate = f"{short(count / (median['point_estimate'] / NANOSECONDS) / MEGABYTE)} MB/s"
    else:
        work, units = "each", count
        rate = f"{in_words(NANOSECONDS * count / median['point_estimate'])} a second"
    times = [time_of(nanoseconds / units) for nanoseconds in (interval["lower_bound"], interval["upper_bound"])]
    taken = f"{time_of(median['point_estimate'] / units)} ({work})"
    return [name_of(benchmark["full_id"]), taken, " to ".join(times), rate]


def name_of(benchmark):
    return benchmark.replace("/", ": ", 1)


def in_words(count):
    for word, size in (("million", 1e6), ("thousand", 1e3)):
        if count >= size:
            return f"{short(count / size)} {word}"
    return short(count)


def time_of(nanoseconds):
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{short(nanoseconds / size)} {unit}"
    return f"{short(nanoseconds)} ns"


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
