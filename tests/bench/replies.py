"""Whether the reply of an interactive program is in the answer to the call that asks for it: one
`zsh_send` for each line, on terminals and on pipes, of programs that reply at once and of programs
that work for a while first.
"""

import contextlib
import shutil

from client import BenchFailed, Server
from figures import Figure

# Far beyond what any reply takes, in seconds.
LISTEN_S = 20
# What every reply contains; no line that is typed does.
REPLY = "four-two"
GETPASS = "python3 -c 'import getpass; getpass.getpass(); print(\"four\" + \"-two\")'"
# Programs that may not be installed; the other commands are zsh's own.
NEEDED = ["bash", "zsh", "sh", "python3", "node", "sqlite3", "bc", "gdb", "perl", "ed"]
# Each program, the lines that are typed into it, and whether it gets a terminal. It says in its
# first answer that it waits for the first line.
PROGRAMS = [
    ("bash --norc -i", ["echo four''-two", "sleep 2; echo four''-two", "for i in 1 2; do sleep 0.4; done; echo four''-two"], True),
    ("zsh -f -i", ["echo four''-two", "sleep 2; echo four''-two"], True),
    ("sh -i", ["echo four''-two", "sleep 2; echo four''-two"], True),
    ("python3 -q", ["print('four' '-two')", "import time; time.sleep(2); print('four' '-two')"], True),
    ("node", ["'four' + '-two'", "const end = Date.now() + 2000; while (Date.now() < end); 'four' + '-two'"], True),
    ("sqlite3", ["select 'four' || '-two';", ".shell sleep 2; echo four''-two"], True),
    ("bc -q", ['print "four", "-two\\n"', 'for (i = 0; i < 3000000; i++) x = i; print "four", "-two\\n"'], True),
    ("gdb -q -nx", ["shell echo four''-two", "shell sleep 2; echo four''-two"], True),
    ("perl -de0", ["print 'four' . '-two'", "sleep 2; print 'four' . '-two'"], True),
    ("ed -p '*'", ["!echo four''-two", "!sleep 2; echo four''-two"], True),
    ("read -r 'name?Name: '; sleep 1; print -r $name-two", ["four"], True),
    ("printf 'Continue connecting (yes/no)? '; read -r answer; sleep 1; print -r ${answer/yes/four}-two", ["yes"], True),
    (GETPASS, ["a word"], True),
    ("while read -r line; do print -r $line-two; done", ["four", "four"], False),
    ("while read -r line; do sleep 2; print -r $line-two; done", ["four", "four"], False),
]


def replies(binary):
    """Replies that the answer to the call lacks, of all."""
    missing, asked, absent = [], 0, []
    with Server(binary) as server:
        for command, lines, on_terminal in PROGRAMS:
            program = command.split()[0]
            if program in NEEDED and not shutil.which(program, path=server.environment["PATH"]):
                absent.append(program)
                continue
            missing += [f"{command}: {line}" for line in unanswered(server, command, lines, on_terminal)]
            asked += len(lines)
    detail = "; ".join([*missing, *(f"{name} is not installed" for name in absent)])
    name = f"replies that are not in the answer to the call, of {asked}"
    meaning = f"of {len(PROGRAMS) - len(absent)} interactive programs, half of them after a second or two of work"
    return [Figure(name, len(missing), "", 0, 0, detail, meaning)]


def unanswered(server, command, lines, on_terminal):
    """The lines whose answer lacks the reply."""
    kind = {"pty": True} if on_terminal else {"stdin_open": True}
    text, task = server.call("zsh", command=command, yield_after=LISTEN_S, **kind)
    if task["status"] != "running":
        raise BenchFailed(f"{command} has ended before it could be asked: {text}")
    found = []
    for line in lines:
        text, _ = server.call("zsh_send", task_id=task["task_id"], input=line, listen=LISTEN_S)
        if REPLY not in text:
            found.append(line)
    # Some have ended with their only reply.
    with contextlib.suppress(BenchFailed):
        server.call("zsh_kill", task_id=task["task_id"])
    return found


MEASUREMENTS = [replies]
