#!/usr/bin/env python3
"""Measures everything and prints it as Markdown: the table of performance figures, the
micro-benchmarks, and the same work done by other servers.

    tests/bench/run.py [--binary FILE] [--only WORD] [--save FILE]

`make bench` runs it with --save data/benchmarks.md. What is measured is built first, and
the load of the machine is taken before that. Exits 1 when a figure misses its must. Only
Python's standard library is used.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys

import callers
import end_to_end
import facts
import hosts
import in_process
import machine
import peers
import probe
import redaction
import replies
import sessions
import turns
import verdicts
from client import BenchFailed
from figures import meanings, short, table

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
BINARY = os.path.join(TARGET, "release/zsh-tool")
# What measurements run besides the server, by the name of each.
BUILDS = {
    "verdicts": verdicts.TESTS + ["--no-run"],
    "micro": ["bench", "--no-run", "--bench", "micro"],
    "database": ["build", "--release", "--example", "store_bench"],
}

INTRODUCTION = """\
# Benchmarks

Written by `make bench`, which measures all of it again, except for where the time goes, and
replaces this file: in half an hour on two cores after building, on a machine that does nothing
else meanwhile. A part is measured by `tests/bench/run.py --only WORD`, where WORD is in the name of
a measurement there.
No test passes or fails by one of these figures."""

FIGURES = """\
Each figure is a median where it is a time, and holds for this machine. `aim`: as good as it
should be. `must`: good enough. `MISSED`: neither, and the run fails. Where a figure is a ratio,
both sides run in turns in the same environment and directory."""

PROFILES = """\
Where the time goes in the figures above that are short of their aim, by profiles (`perf`, `strace`) of
these measurements. They were taken once, each when its figure was the one that it begins with: the
shares matter, not the sums."""

MICRO = """\
The parts that go over every byte of output, every command line and every message, timed by
[Criterion](https://docs.rs/criterion) in one process: the median, and where it lies with a
confidence of 95 %."""

PEERS = """\
Other MCP servers that run commands, with the same work through the same client in the same
environment; each is given what it takes by its own tools. zsh-tool and desktop-commander run
zsh, the latter as a login shell; codex-shell-tool runs bash; mcp-shell-server starts programs of a
list without a shell. All of them were measured here by themselves: what is also a figure above can
differ from it.
–: it has no tool for that. Nothing is said of what they are made for besides."""


# What is measured, in the order of the table.
MODULES = [end_to_end, callers, hosts, probe, turns, sessions, replies, verdicts, facts, redaction]


class Report:
    """The lines of the report, and whether a figure missed its must."""

    def __init__(self, binary, only):
        self.binary, self.only = binary, only
        self.lines = [INTRODUCTION]
        self.missed = []

    def wants(self, part):
        return self.only in part

    def section(self, title, *paragraphs):
        self.lines += ["", f"## {title}"]
        for paragraph in paragraphs:
            self.lines += ["", *([paragraph] if isinstance(paragraph, str) else paragraph)]

    def add_machine(self, load):
        rows = [*machine.machine_rows(load), *machine.version_rows(self.binary, REPOSITORY, peers.VERSIONS)]
        warning = machine.busy_warning(load)
        self.section("Machine and versions", table(["what", "which"], rows), *([f"**{warning}**"] if warning else []))

    def add_figures(self):
        figures, late = [], []
        for measure in itertools.chain.from_iterable(module.MEASUREMENTS for module in MODULES):
            if self.wants(measure.__name__):
                tell(measure.__name__)
                late.append(machine.lateness())
                figures += measure(self.binary)
        if self.wants("database"):
            tell("database")
            figures += in_process.database(cargo)
        if figures:
            late = late or [machine.lateness()]
            rows = table(["figure", "measured", "must", "aim", "met", "detail"], [figure.cells() for figure in figures])
            self.section("Figures", FIGURES, rows, reached(figures), quietness(late), meanings((figure.name, figure.meaning) for figure in figures))
        missing = [(figure.name, figure.profile) for figure in figures if figure.is_short_of_aim()]
        if any(profile for _, profile in missing):
            self.section("Where aims are missed", PROFILES, meanings(missing))
        self.missed += [figure.name for figure in figures if figure.verdict() == "MISSED"]

    def add_micro(self):
        if self.wants("micro"):
            tell("micro")
            head, rows, told = in_process.micro(cargo)
            self.section("Micro-benchmarks", MICRO, table(head, rows), meanings(told))

    def add_peers(self):
        if self.wants("peers"):
            head, rows, told = peers.compared(self.binary, os.path.join(TARGET, "peers"), tell)
            self.section("Beside other servers", PEERS, table(head, rows), meanings(told))


def reached(figures):
    """How many of the figures that have an aim are as good as it."""
    aimed = [figure for figure in figures if figure.aim is not None]
    count = sum(not figure.is_short_of_aim() for figure in aimed)
    return f"{count} of {len(aimed)} figures with an aim reach it."


def quietness(late):
    """How late sleeps ended before each measurement."""
    median, most = statistics.median(late), max(late)
    return (
        f"Before each measurement, sleeps of 0.1 s ended late by {short(median)} ms in the median, and by "
        f"{short(most)} ms at most. That a virtual machine's host is busy shows here and not in the load: "
        "all that begins with a wake-up, or touches memory that was idle, takes longer then."
    )


def tell(what):
    print(f"measuring: {what} …", file=sys.stderr, flush=True)


def cargo(arguments, **named):
    """Runs cargo in the repository; what it says of building goes to stderr."""
    return subprocess.run(["cargo", *arguments], cwd=REPOSITORY, check=True, text=True, **named)


def build(is_ours, only):
    """Builds all that is measured, so that nothing is built between two measurements."""
    for name, arguments in BUILDS.items():
        if only in name:
            cargo(arguments, stdout=sys.stderr)
    # The server comes last: the others build it too, with what the features of their own
    # dependencies add to it.
    if is_ours:
        cargo(["build", "--release"], stdout=sys.stderr)
    # What building wrote is on the disk before anything is timed.
    os.sync()


def main():
    load = machine.load()
    parser = argparse.ArgumentParser(description="Measures everything and prints it as Markdown.")
    parser.add_argument("--binary", metavar="FILE", help="another server than this repository's release build")
    parser.add_argument("--only", default="", metavar="WORD", help="only measurements with this in their name")
    parser.add_argument("--save", metavar="FILE", help="write all of it to this file too")
    arguments = parser.parse_args()
    if arguments.only and arguments.save:
        parser.error("--save is for all of it: leave out --only")
    warning = machine.busy_warning(load)
    if warning:
        print(f"bench: {warning}", file=sys.stderr)
    build(arguments.binary is None, arguments.only)
    report = Report(os.path.abspath(arguments.binary or BINARY), arguments.only)
    report.add_machine(load)
    report.add_figures()
    report.add_micro()
    report.add_peers()
    text = "\n".join(report.lines) + "\n"
    print(text, end="")
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            file.write(text)
    for name in report.missed:
        print(f"bench: missed its must: {name}", file=sys.stderr)
    return 1 if report.missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)
    except subprocess.CalledProcessError as error:
        print(error.stderr or "", end="", file=sys.stderr)
        print(f"bench: {' '.join(error.cmd)} failed with exit code {error.returncode}", file=sys.stderr)
        sys.exit(1)
