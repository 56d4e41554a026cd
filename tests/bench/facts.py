"""What an answer keeps of a long failure: the facts that somebody needs to mend it, in one call, and
in how many characters. The logs are those of really failing projects, which tests/it/shown.rs runs
and writes; or recorded test runs, in the folder that FACTS names, with `verdicts.json` beside them.
"""

import collections
import gzip
import json
import os
import subprocess

from client import BenchFailed, Server
from figures import Figure

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target")), "shown")
# An error line counts as kept if this much of its beginning is.
LINE_CHARS = 60


def make_logs():
    """Has the tests run the failing projects, and write what they print."""
    environment = {**os.environ, "ZSH_TOOL_LOGS": LOGS}
    command = ["cargo", "test", "--test", "it", "shown::of_failing_projects"]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, text=True, stdout=2)


def own_logs():
    """Name, text and facts of each log, which are made if there are none."""
    if not os.path.exists(os.path.join(LOGS, "facts.json")):
        make_logs()
    with open(os.path.join(LOGS, "facts.json"), encoding="utf-8") as file:
        facts = json.load(file)
    for name, of_log in sorted(facts.items()):
        with open(os.path.join(LOGS, f"{name}.log"), "rb") as log:
            yield name, log.read(), {"facts": of_log}


def verdicts_of(folder):
    with open(os.path.join(folder, "verdicts.json"), encoding="utf-8") as file:
        return json.load(file)


def recorded_logs(folder, verdicts):
    for name, verdict in sorted(verdicts.items()):
        with gzip.open(os.path.join(folder, f"{name}.gz")) as log:
            lines = [line[:LINE_CHARS] for line in verdict["error_lines"]]
            yield name, log.read(), {"names": verdict["failed"], "error lines": lines}


def sources():
    """What logs there are, and of each source the characters, and the limits: of facts of each kind
    that may be lost, and of the answers' share of the characters."""
    own = list(own_logs())
    characters = sum(len(log.decode(errors="replace")) for _, log, _ in own)
    found = [("failing projects", own, characters, {"facts": (0, 0)}, (40, 30))]
    if os.environ.get("FACTS"):
        # Of recorded runs, a share of the lines lies beyond what any bounded answer holds.
        verdicts = verdicts_of(os.environ["FACTS"])
        logs = list(recorded_logs(os.environ["FACTS"], verdicts))
        characters = sum(verdict["characters"] for verdict in verdicts.values())
        lines = sum(len(facts["error lines"]) for _, _, facts in logs)
        limits = {"names": (0, 0), "error lines": (lines // 100, 0)}
        found.append(("recorded test runs", logs, characters, limits, (27.3, 23.9)))
    for name, logs, *_ in found:
        if not logs:
            raise BenchFailed(f"no logs of {name}")
    return found


def head_and_tail(text, chars):
    """What plain tools show in as many characters: a third of the head, the rest of the tail."""
    return text if len(text) <= chars else text[: chars // 3] + text[len(text) - (chars - chars // 3) :]


def kept(logs, answer):
    """How many facts of each kind the answers to `cat` keep, of how many, and their characters."""
    found, wanted, chars = collections.Counter(), collections.Counter(), 0
    for _, log, facts in logs:
        text = answer(log)
        for kind, of_kind in facts.items():
            found[kind] += sum(fact in text for fact in of_kind)
            wanted[kind] += len(of_kind)
        chars += len(text)
    return found, wanted, chars


def answers_of(run, server):
    """Answers a log by what the server shows of a file with it."""

    def answer(log):
        path = os.path.join(server.scratch.name, "log")
        with open(path, "wb") as file:
            file.write(log)
        return run(server, f"cat {path}")

    return answer


def facts(binary):
    figures = []
    for name, logs, all_chars, limits, (must, aim) in sources():
        with Server(binary) as server:
            found, wanted, chars = kept(logs, answers_of(lambda server, command: server.call("zsh", command=command)[0], server))
        texts = [log.decode(errors="replace") for _, log, _ in logs]
        plain, _, _ = kept(logs, lambda log: head_and_tail(log.decode(errors="replace"), room_for(chars, texts)))
        for kind, (most_lost, should_lose) in limits.items():
            detail = f"{found[kind]:,} of {wanted[kind]:,} kept; by head and tail in as many characters {plain[kind]:,}"
            meaning = "names and first lines of what failed that the one answer to `cat` of the log lacks"
            lost = f"{kind} lost of {len(logs)} {name}"
            figures.append(Figure(lost, wanted[kind] - found[kind], "", most_lost, should_lose, detail, meaning))
        share = f"characters of these answers, {name}"
        detail = f"{chars:,} of {all_chars:,}"
        figures.append(Figure(share, 100 * chars / all_chars, "%", must, aim, detail, "of the characters of the logs"))
    return figures


def room_for(chars, texts):
    """The room of each answer in which head and tail of all come to as many characters."""
    low, high = 0, chars
    while low < high:
        room = (low + high + 1) // 2
        low, high = (room, high) if sum(min(len(text), room) for text in texts) <= chars else (low, room - 1)
    return low


def of_peer(peer):
    """The same of a peer, for a cell."""
    cells = []
    for name, logs, *_ in sources():
        with peer.start() as server:
            found, wanted, chars = kept(logs, answers_of(peer.run, server))
        kinds = ", ".join(f"{found[kind]:,} of {wanted[kind]:,} {kind}" for kind in wanted)
        cells.append(f"{kinds}, {chars:,} characters ({name})")
    return "; ".join(cells)


MEASUREMENTS = [facts]
