"""What an answer keeps of a long failure: the facts that somebody needs to mend it, in one call, and
in how many characters. The logs are those of really failing projects, which tests/it/shown.rs runs
and writes; or recorded test runs, in the folder that FACTS names, with `verdicts.json` beside them.
"""

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
            yield name, log.read(), of_log


def recorded_logs(folder):
    with open(os.path.join(folder, "verdicts.json"), encoding="utf-8") as file:
        verdicts = json.load(file)
    for name, verdict in sorted(verdicts.items()):
        with gzip.open(os.path.join(folder, f"{name}.gz")) as log:
            yield name, log.read(), [*verdict["failed"], *(line[:LINE_CHARS] for line in verdict["error_lines"])]


def head_and_tail(text, chars):
    """What plain tools show in as many characters: a third of the head, the rest of the tail."""
    return text if len(text) <= chars else text[: chars // 3] + text[len(text) - (chars - chars // 3) :]


def kept(logs, answer):
    """How many facts the answers to `cat` keep, of how many, and their characters."""
    found = wanted = chars = 0
    for _, log, facts in logs:
        text = answer(log)
        found += sum(fact in text for fact in facts)
        wanted += len(facts)
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
    sources = [("failing projects", list(own_logs()), 0)]
    if os.environ.get("FACTS"):
        # Of recorded runs, a share of the lines lies beyond what any bounded answer holds.
        sources.append(("recorded test runs", list(recorded_logs(os.environ["FACTS"])), 10))
    figures = []
    for name, logs, must in sources:
        if not logs:
            raise BenchFailed(f"no logs of {name}")
        with Server(binary) as server:
            found, wanted, chars = kept(logs, answers_of(lambda server, command: server.call("zsh", command=command)[0], server))
        all_chars = sum(len(log.decode(errors="replace")) for _, log, _ in logs)
        plain = kept(logs, lambda log: head_and_tail(log.decode(errors="replace"), chars // len(logs)))
        detail = f"{found} of {wanted} in {chars:,} of {all_chars:,} characters; head and tail of as many: {plain[0]}"
        meaning = "names and first lines of what failed that the one answer to `cat` of the log lacks"
        figures.append(Figure(f"facts lost of {len(logs)} {name}", wanted - found, "", must, 0, detail, meaning))
        share = f"characters of these answers, {name}"
        figures.append(Figure(share, 100 * chars / all_chars, "%", 40, 30, "", "of the characters of the logs"))
    return figures


def of_peer(peer):
    """The same of a peer, for a cell."""
    with peer.start() as server:
        found, wanted, chars = kept(own_logs(), answers_of(peer.run, server))
    return f"{found} of {wanted}, {chars:,} characters"


MEASUREMENTS = [facts]
