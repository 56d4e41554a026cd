"""What a whole session costs an agent: the same work in a small project, through zsh-tool and through
a plain tool that runs `bash -c`, waits for its end and returns its output, whole or as much of its
head and tail as fits. Turns are calls; characters are those of the answers.
"""

import os
import socket
import subprocess
import tempfile

import facts
from client import Server
from figures import Figure
from turns import suggested

# What Claude Code's Bash shows at most.
SHOWN_CHARS = 30_000
TESTS = 400
# The tests that expect what is wrong.
BROKEN = (7, 140, 273)
BUILD_S, READY_S = 20, 3
# The longest wait of a call that is to tell the end of a command.
LISTEN_S = 50

PARSER = "".join(
    f"def rule_{number}(text):\n    \"\"\"Whether the text begins with the number {number}.\"\"\"\n    return text.startswith(\"{number}\")\n\n\n"
    for number in range(TESTS)
)
CHECKS = "import unittest\n\nimport parser_rules\n\n\nclass Rules(unittest.TestCase):\n" + "".join(
    f"    def test_rule_{number}(self):\n        self.assertTrue(parser_rules.rule_{number}(\"{wanted}\"))\n\n"
    for number in range(TESTS)
    for wanted in [f"x{number}" if number in BROKEN else f"{number}"]
)
# Prints what compilers print: a line for each unit, and the same warning for many of them.
BUILD = f"""\
import sys, time

for unit in range(300):
    print(f"  CC   build/unit_{{unit:03}}.o", flush=True)
    if unit % 3 == 0:
        print(f"src/unit_{{unit:03}}.c:41:9: warning: unused variable 'state' [-Wunused-variable]", file=sys.stderr)
    time.sleep({BUILD_S} / 300 if "--slow" in sys.argv else 0)
print("  LD   build/app")
"""
BREAK = "print(\"src/unit_300.c:12:5: error: too few arguments to function 'parse'\", file=sys.stderr); sys.exit(1)\n"
SERVER = f"import http.server, time; time.sleep({READY_S}); http.server.test(port={{port}}, bind=\"127.0.0.1\")"
# What agents do, in its order: commands that both sides run as they are, and where they differ a call
# of zsh-tool's and the commands of the plain side. PORT is that of the server.
SERVE = "python3 server.py"
STEPS = [
    "ls -la",
    "git status --short",
    "git log --oneline | head -5",
    "cat README.md",
    "grep -rn 'rule_7(' --include='*.py' .",
    "sed -n 1,60p parser_rules.py",
    "python3 -m unittest -v",
    "grep -n -A2 'def test_rule_7(' test_rules.py",
    "python3 -m unittest -v test_rules.Rules.test_rule_7",
    "sed -i 's/\"x\\([0-9]*\\)\"/\"\\1\"/' test_rules.py",
    "git diff --stat; git diff",
    "python3 -m unittest -v",
    "find . -name '*.py' -not -path './.git/*' | xargs wc -l",
    "python3 build.py",
    "python3 broken.py",
    "python3 build.py --slow",
    "git add -A && git commit -qm 'Mend the tests' && git log --oneline | head -1",
    (
        ("zsh", {"command": SERVE, "background": True, "until_port": "PORT", "yield_after": LISTEN_S}),
        [f"{SERVE} >server.log 2>&1 & echo $! >server.pid", "sleep 5; curl -sS -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:PORT/"],
    ),
    "curl -sS http://127.0.0.1:PORT/README.md",
    "cat parser_rules.py",
    "gti status",
    (("zsh_kill", {}), ["kill $(cat server.pid); sleep 0.2; git status --short"]),
]


def make_project(folder):
    """A repository with rules, their tests, a build and a server; the port that this has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    files = {
        "README.md": "# Rules\n\nRun the tests with `python3 -m unittest`, and the build with `python3 build.py`.\n",
        "parser_rules.py": PARSER,
        "test_rules.py": CHECKS,
        "build.py": BUILD,
        "broken.py": BUILD + BREAK,
        "server.py": SERVER.format(port=port),
        ".gitignore": "__pycache__\n*.log\n",
    }
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    who = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return port


def variables(folder):
    """The environment of both sides."""
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Bench"), ("EMAIL", "b@example.org"))}
    return {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", **names}


def by_zsh_tool(binary):
    """The text of each answer; of commands that still run, to the end that the answers lead to."""
    with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as folder, Server(binary, variables(folder)) as server:
        port = make_project(folder)
        answers, service = [], None
        for step in STEPS:
            tool, arguments = ("zsh", {"command": step}) if isinstance(step, str) else step[0]
            if tool == "zsh_kill":
                arguments = {"task_id": service}
            else:
                texts = {name: value.replace("PORT", port) for name, value in arguments.items() if isinstance(value, str)}
                arguments = {**arguments, **texts, "cwd": folder}
            text, task = server.call(tool, **arguments)
            answers.append(text)
            if arguments.get("background"):
                service = task["task_id"]
                continue
            while task["status"] == "running":
                tool, arguments = suggested(text, task)
                text, task = server.call(tool, **arguments)
                answers.append(text)
        return answers


def by_bash():
    """The output of each call."""
    with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as folder:
        port = make_project(folder)
        commands = [command for step in STEPS for command in ([step] if isinstance(step, str) else step[1])]
        return [plain(command.replace("PORT", port), folder) for command in commands]


def plain(command, folder):
    run = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=variables(folder), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    text = run.stdout.decode(errors="replace")
    return text + (f"\nExit code {run.returncode}" if run.returncode else "")


def named(answers):
    """How many of the failures the answers name: tests, and the error of the build."""
    text = "".join(answers)
    return sum(f"FAIL: test_rule_{number} " in text for number in BROKEN) + ("too few arguments" in text)


def sessions(binary):
    ours, whole = by_zsh_tool(binary), by_bash()
    cut = [facts.head_and_tail(text, SHOWN_CHARS) for text in whole]
    chars, all_chars, cut_chars = (sum(map(len, answers)) for answers in (ours, whole, cut))
    kept = ", ".join(f"{named(answers)} of {len(BROKEN) + 1} failures named by {who}" for who, answers in (("these", ours), ("head and tail", cut)))
    return [
        Figure(
            f"characters of a session's answers, against head and tail of {SHOWN_CHARS:,}", chars / cut_chars, "×", 1, 0.75,
            f"{chars:,} against {cut_chars:,}, and {all_chars:,} of whole output; {kept}",
            f"{len(STEPS)} steps of an agent in a small project: listings, searches, tests, builds, a server",
        ),
        Figure(
            "turns of the session, against a call that waits for the end", len(ours) / len(whole), "×", 1.1, 1,
            f"{len(ours)} against {len(whole)}", "commands of more than 2 s take a second call, in which the agent could do something else",
        ),
    ]


MEASUREMENTS = [sessions]
