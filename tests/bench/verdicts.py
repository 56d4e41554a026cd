"""How often the word for a silent command is wrong: the situations of tests/it/shapes, which are
real programs with the word that each is to get, watched by the tests for seconds each.
"""

import os
import re
import subprocess

from client import BenchFailed
from figures import Figure

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Written by the tests, whatever the target directory is.
TABLE = os.path.join(REPOSITORY, "target/shapes/further-short.txt")
TESTS = ["test", "--quiet", "--test", "it"]
WATCHED = "shapes::further::programs_of_many_kinds_get_the_word_that_is_theirs"
# `stuck           30     28      2          1             0                0`
SUMMARY = re.compile(r"^(\w+) +" + r" +".join([r"(\d+)"] * 6) + "$", re.MULTILINE)
WRONG = re.compile(r"^WRONG (.*?)  ", re.MULTILINE)


def watch(binary):
    """The summary and the names of those that are wrong."""
    subprocess.run(["scripts/shape-programs"], cwd=REPOSITORY, check=True, stdout=2)
    began = os.path.getmtime(TABLE) if os.path.exists(TABLE) else 0
    environment = {**os.environ, "ZSH_TOOL_BIN": binary}
    # It fails at more than a few wrong words; the table says which, and the figure decides here.
    subprocess.run(["cargo", *TESTS, "--", "--exact", WATCHED], cwd=REPOSITORY, env=environment, stdout=2, check=False)
    if not os.path.exists(TABLE) or os.path.getmtime(TABLE) <= began:
        raise BenchFailed(f"the tests have written no {TABLE}")
    with open(TABLE, encoding="utf-8") as file:
        text = file.read()
    rows = {name: [int(count) for count in counts] for name, *counts in SUMMARY.findall(text)}
    return rows, WRONG.findall(text)


def verdicts(binary):
    """What is wrong of all, the harmful part of it, and the stuck ones that are not named."""
    rows, names = watch(binary)
    programs, _, wrong, _, _, falsely_waiting = rows["all"]
    stuck, _, unnamed, *_ = rows.get("stuck", [0] * 6)
    called_stuck = sum(counts[4] for name, counts in rows.items() if name not in ("stuck", "all"))
    return [
        Figure(
            f"words that are wrong, of {programs} silent programs", 100 * wrong / programs, "%", 3, 3, "; ".join(names),
            "the status and the reason that an answer gives for a command that prints nothing",
        ),
        Figure(
            "healthy ones called stuck, or falsely said to wait for input", called_stuck + falsely_waiting, "", 0, 0, "",
            "the words that make an agent kill what works, or type into what does not read",
        ),
        Figure(
            f"stuck ones that are not named, of {stuck}", unnamed, "", stuck * 4 // 30, stuck * 4 // 30, "",
            "commands that nothing can end, still called silent or idle when their watch is over",
        ),
    ]


MEASUREMENTS = [verdicts]
