#!/usr/bin/env python3
"""Runs real command lines and recorded outputs through zsh-tool and through bare zsh and bash,
and compares bytes, exit codes, files and the processes that are left.

    tests/replay/run.py [--binary FILE] [--only WORD] [--every N] [--save FILE]

`make replay` runs it. The lines come from pinned packages, which are fetched first, and run in
namespaces of their own. A line on which bare zsh does not agree with itself, or which takes
it longer than two seconds, is not comparable. Exits 1 if there is any difference between the
tool and bare zsh. Only Python's standard library is used.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter

import sandbox
import sources
from sources import REPOSITORY, Line

TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
BINARY = os.environ.get("ZSH_TOOL_BIN", os.path.join(TARGET, "release/zsh-tool"))
FOLDER = os.path.join(TARGET, "replay")
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
PROGRESS_EVERY = 500


def gathered():
    """All lines, those that print recorded files, the scripts that make files for the lines, and
    the recorded files."""
    folders = sources.crates()
    archives = sources.wheels(os.path.join(FOLDER, "wheels"))
    made = os.path.join(FOLDER, "made")
    os.makedirs(made, exist_ok=True)
    lines = sources.all_lines(folders, archives)
    recorded = list(sources.recorded(folders, made))
    prints = []
    for number, path in enumerate(recorded):
        file = f"{sandbox.RECORDED}/{number:03}"
        name = os.path.relpath(path, made if path.startswith(made) else os.path.commonpath(folders.values()))
        prints.append(Line("recorded", name, f"cat {file}; cat {file} >&2; exit {number % 256}"))
    return lines, prints, sources.setups(archives), recorded


def compared(lines, jobs, job):
    """The results of the lines, by index, and what the workers say at their ends."""
    told = queue.Queue()
    workers = []
    for number in range(jobs):
        root = os.path.join(FOLDER, f"root{number}")
        os.makedirs(root, exist_ok=True)
        mine = [{"index": index, **vars(line)} for index, line in enumerate(lines)][number::jobs]
        worker = subprocess.Popen(
            sandbox.unshared([sys.executable, WORKER]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        text = json.dumps({**job, "root": root, "lines": mine})
        reader = threading.Thread(target=talk, args=(worker, text, told))
        reader.start()
        workers.append((worker, reader))
    results, ends, alive = {}, [], jobs
    while alive:
        result = told.get()
        if result is None:
            alive -= 1
        elif "index" in result:
            results[result["index"]] = result
            if len(results) % PROGRESS_EVERY == 0:
                print(f"replay: {len(results):,} of {len(lines):,} lines …", file=sys.stderr, flush=True)
        else:
            ends.append(result)
    for worker, reader in workers:
        reader.join()
        worker.wait()
    return results, ends


def talk(worker, text, told):
    worker.stdin.write(text)
    worker.stdin.close()
    for line in worker.stdout:
        told.put(json.loads(line))
    told.put(None)


def report(lines, results):
    """Prints every difference; returns the rows of the table."""
    pairs = [(line, results.get(index, {"dropped": "not run"})) for index, line in enumerate(lines)]
    for line, result in pairs:
        if result.get("differences"):
            print(f"\n{line.source}, {line.name}{' (only once)' if result['only once'] else ''}:")
            print("\n".join(f"    {text}" for text in line.text.splitlines()))
            for way, found in result["differences"].items():
                for part, expected, got in found:
                    print(f"  {way}, {part}:\n    bare zsh: {expected}\n    zsh-tool: {got}")
    names = dict.fromkeys(line.source for line in lines)
    rows = [row(name, [result for line, result in pairs if line.source == name]) for name in names]
    return [*rows, row("all", [result for _, result in pairs])]


HEAD = ["source", "lines", "comparable", "bytes", "exit codes", "files", "none left", "left, named", "dialect", "noted", "noted else"]
LEGEND = """
bytes, exit codes, files: as of bare zsh, both by exec and by MCP. none left: no process is left after exec,
and after zsh_kill of what the answer names. left, named: lines that leave processes, and whether the answer
names them. dialect: bash prints, exits or leaves files otherwise. noted: the answer by MCP warns of that;
noted else: it warns although bash comes to the same."""


def row(name, results):
    """What the lines of a source have come to."""
    good = [result for result in results if "dropped" not in result]

    def equal(*parts):
        return sum(not any(found[0] in parts for way in it["differences"].values() for found in way) for it in good)

    left = [it for it in good if it["left by zsh"]]
    dialect = [it for it in good if it["dialect"]]
    counts = [
        len(results),
        len(good),
        equal("stdout", "stderr", "end", "answer"),
        equal("exit code", "end", "answer"),
        equal("files"),
        equal("processes left"),
    ]
    told = sum(bool(it.get("told")) for it in dialect)
    in_vain = sum(bool(it.get("told")) for it in good) - told
    named = f"{sum(bool(it.get('left by MCP')) for it in left)} of {len(left)}"
    return [name, *(f"{count:,}" for count in counts), named, f"{len(dialect):,}", f"{told:,}", f"{in_vain:,}"]


def print_table(rows):
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    print()
    for cells in (HEAD, *rows):
        print("  ".join(cell.ljust(width) if n == 0 else cell.rjust(width) for n, (cell, width) in enumerate(zip(cells, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=BINARY, metavar="FILE", help="another zsh-tool than this repository's release build")
    parser.add_argument("--only", default="", metavar="WORD", help="only lines with this in source, name or text")
    parser.add_argument("--every", default=1, type=int, metavar="N", help="only every Nth line, and all recorded outputs")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int, metavar="N", help="lines that run at once")
    parser.add_argument("--save", metavar="FILE", help="write all results to this file as JSON lines")
    arguments = parser.parse_args()
    lines, prints, setups, recorded = gathered()
    wanted = [*lines[:: arguments.every], *prints]
    wanted = [it for it in wanted if any(arguments.only in text for text in (it.source, it.name, it.text))]
    started = time.monotonic()
    job = {"binary": os.path.abspath(arguments.binary), "setups": setups, "recorded": recorded}
    results, ends = compared(wanted, arguments.jobs, job)
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            for index, line in enumerate(wanted):
                file.write(json.dumps({**vars(line), **results.get(index, {})}) + "\n")
    rows = report(wanted, results)
    print_table(rows)
    print(LEGEND)
    dropped = Counter(it["dropped"] for it in results.values() if "dropped" in it)
    print("\nnot comparable: " + ", ".join(f"{count} ({why})" for why, count in sorted(dropped.items())))
    print(f"{time.monotonic() - started:.0f} s")
    if len(results) < len(wanted) or len(ends) < arguments.jobs:
        print("replay: a worker has failed", file=sys.stderr)
        return 1
    left = [name for end in ends for name in end["left at the end"]]
    if left:
        print(f"left after the server's end: {', '.join(left)}")
    return 1 if left or any(it.get("differences") for it in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
