"""Compares a part of the lines inside a sandbox: reads what to do from stdin as JSON and
writes a JSON line for each line that it has compared.
"""

import json
import os
import subprocess
import sys
import tempfile

import sandbox
import sources
from compare import ENVIRONMENT, Comparison

# What the other lines find.
PLAIN_FILES = {
    "README.md": "# A project\n\nIt has a few files.\n",
    "a b.txt": "a name with a blank\n",
    "data.csv": "name,count\nalpha,3\nbeta,10\ngamma,2\n",
    "data.json": '{"name": "project", "items": [1, 2, 3]}\n',
    "file.txt": "one\ntwo\nthree\n\nfive\ntwo\n",
    "Makefile": "all: ; @echo all\ntest: ; @echo testing; false\n",
    "run.sh": "#!/bin/sh\necho run \"$@\"\nexit 3\n",
    "src/main.c": "#include <stdio.h>\nint main(void) { return 0; }\n",
    "src/lib/util.py": "def double(x):\n    return 2 * x\n",
}


def main():
    job = json.load(sys.stdin)
    sandbox.enter(job["root"], job["binary"], job["recorded"])
    tempfile.tempdir = sandbox.TOOL
    become_child_of_init()
    os.mkdir(ENVIRONMENT["ZSH_TOOL_STATE_DIR"], 0o700)
    make_templates(job["setups"])
    comparison = Comparison()
    for line in job["lines"]:
        result = comparison.compare(line)
        print(json.dumps({"index": line["index"], **result}), flush=True)
    comparison.close()
    left = sandbox.processes({1, os.getpid()})
    print(json.dumps({"left at the end": sorted(left.values())}), flush=True)


def become_child_of_init():
    """The first process of a namespace gets the orphans, and has to wait for them."""
    child = os.fork()
    while child:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def make_templates(setups):
    for name, script in setups.items():
        sandbox.clear()
        command = ["bash", "-c", script]
        subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sandbox.keep_as_template(name)
    sandbox.clear()
    for name, text in PLAIN_FILES.items():
        path = os.path.join(sandbox.WORK, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755 if name.endswith(".sh") else 0o644)
    sandbox.keep_as_template(sources.PLAIN)


if __name__ == "__main__":
    main()
