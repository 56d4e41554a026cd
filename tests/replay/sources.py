"""The command lines and the recorded outputs: all are read from pinned packages of the
registries and from this repository's own files, none are copied into it.
"""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
# What nl2bash's lines are about is made by the scripts beside them, mostly in this directory.
SETUPS = {1: "/testbed", 2: "/system", 3: "/workspace", 4: "/work", 5: "/testbed"}
PLAIN = "plain"


@dataclass
class Line:
    source: str
    name: str
    text: str
    template: str = PLAIN
    cwd: str = "/work"


def crates():
    """The folders of the pinned crates and of all that they depend on, by name and version."""
    command = ["cargo", "metadata", "--quiet", "--locked", "--format-version", "1"]
    manifest = os.path.join(HERE, "Cargo.toml")
    told = subprocess.run([*command, "--manifest-path", manifest], stdout=subprocess.PIPE, check=True)
    packages = json.loads(told.stdout)["packages"]
    return {(it["name"], it["version"]): os.path.dirname(it["manifest_path"]) for it in packages if it["source"]}


def wheels(folder):
    """The pinned packages of PyPI, fetched when there are none or others are wanted."""
    wanted, had = os.path.join(HERE, "requirements.txt"), os.path.join(folder, "requirements.txt")
    if not os.path.exists(had) or read(had) != read(wanted):
        shutil.rmtree(folder, ignore_errors=True)
        environment = os.path.join(folder, "python")
        subprocess.run(["python3", "-m", "venv", environment], check=True)
        fetch = [f"{environment}/bin/pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*fetch, "--require-hashes", "--requirement", wanted, "--dest", folder], check=True)
        shutil.copyfile(wanted, had)
    return sorted(glob.glob(os.path.join(folder, "*.whl")))


def all_lines(folders, archives):
    """Every line once, in an order that depends on nothing but the sources."""
    only = {name: folder for (name, _), folder in folders.items()}
    found = [
        *nl2bash(archives),
        *spec_cases(only["bashkit"]),
        *yaml_cases(only["brush-shell"]),
        *scripted_tests(only["yash-cli"]),
        *projects(folders),
        *sessions(),
    ]
    unique = {}
    for line in found:
        if line.text.strip() and "\0" not in line.text:
            unique.setdefault((line.template, line.text), line)
    return list(unique.values())


def nl2bash(archives):
    """Command lines that answer questions in English, and the files that they are about."""
    for archive in archives:
        with zipfile.ZipFile(archive) as wheel:
            for number, cwd in SETUPS.items():
                name = f"icalfa/assets/datasets/nl2bash_fs_{number}.json"
                if name not in wheel.namelist():
                    continue
                for index, row in enumerate(json.loads(wheel.read(name))):
                    for key in ("gold", "gold2"):
                        yield Line("nl2bash", f"{number}.{index}.{key}", row[key], f"nl2bash{number}", cwd)


def setups(archives):
    """The scripts that make what nl2bash's lines are about, by template."""
    scripts = {}
    for archive in archives:
        with zipfile.ZipFile(archive) as wheel:
            for number in SETUPS:
                name = f"icalfa/assets/docker/setup_nl2b_fs_{number}.sh"
                if name in wheel.namelist():
                    scripts[f"nl2bash{number}"] = wheel.read(name).decode()
    return scripts


def spec_cases(folder):
    """The cases of an interpreter of bash for agents: `### name`, lines, `### expect`."""
    for path in sorted(glob.glob(f"{folder}/tests/spec_cases/*/*.sh")):
        name, body = None, []
        for line in read(path).splitlines():
            words = line.split()
            if words[:2] == ["###", "expect"]:
                yield Line("bashkit", f"{os.path.basename(path)}: {name}", "\n".join(body))
                name = None
            elif words[:1] == ["###"] and words[1:2] != ["end"] and name is None:
                name, body = " ".join(words[1:]), []
            elif words[:1] != ["###"]:
                body.append(line)


def yaml_cases(folder):
    for path in sorted(glob.glob(f"{folder}/tests/cases/**/*.yaml", recursive=True)):
        for index, text in enumerate(values_of("stdin", read(path))):
            yield Line("brush", f"{os.path.relpath(path, folder)}: {index}", text)


def scripted_tests(folder):
    """The tests of a POSIX shell: `test_oE 'name'`, lines, `__IN__`. Those whose test has
    options for the shell are left out."""
    case = re.compile(r"^test_[a-zA-Z]+ (?:-e \S+ )?('[^'\n]*')\n(.*?)\n?__IN__$", re.MULTILINE | re.DOTALL)
    for path in sorted(glob.glob(f"{folder}/tests/scripted_test/*.sh")):
        for name, text in case.findall(read(path)):
            yield Line("yash", f"{os.path.basename(path)}: {name}", text)


def projects(folders):
    """What crates run in their continuous integration and show in their documentation."""
    fence = re.compile(r"^[ ]*```(?:sh|bash|shell|zsh|console)[ ]*\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
    for (crate, version), folder in sorted(folders.items()):
        for path in sorted(glob.glob(f"{folder}/.github/workflows/*.y*ml")):
            for text in values_of("run", read(path)):
                # What the runner puts in is no text of a shell.
                yield Line("projects", f"{crate} {version}", re.sub(r"\$\{\{.*?\}\}", "stable", text))
        for path in sorted(glob.glob(f"{folder}/**/*.md", recursive=True)):
            for block in fence.findall(read(path)):
                prompts = re.findall(r"^[ ]*\$ (.*)$", block, re.MULTILINE)
                for text in prompts or [block]:
                    yield Line("projects", f"{crate} {version}", text)
        for path in sorted(glob.glob(f"{folder}/**/Makefile", recursive=True)):
            for text in re.findall(r"^\t[-@]*(.*[^\\])$", read(path), re.MULTILINE):
                yield Line("projects", f"{crate} {version}", text.replace("$$", "$"))


def sessions():
    """The commands of this repository's recorded sessions, and of its table of command lines."""
    for path in sorted(glob.glob(f"{REPOSITORY}/tests/fixtures/sessions/*.jsonl")):
        for line in read(path).splitlines():
            yield Line("sessions", os.path.basename(path), json.loads(line)["command"])
    table = read(f"{REPOSITORY}/tests/fixtures/commands/commands.txt")
    for first, further in re.findall(r"^\$ (.*)\n((?:> ?.*\n)*)", table, re.MULTILINE):
        yield Line("sessions", "commands.txt", "\n".join([first, *(it[2:] for it in further.splitlines())]))


def values_of(key, text):
    """The values of a key of YAML that are on its line or an indented block below it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = re.match(rf"( *)(?:- )?{key}: *(.*)$", line)
        if not found:
            continue
        value = found[2]
        if value[:1] in ("|", ">"):
            block = []
            for below in lines[number + 1 :]:
                if below.strip() and len(below) - len(below.lstrip()) <= len(found[1]):
                    break
                block.append(below)
            indents = [len(it) - len(it.lstrip()) for it in block if it.strip()]
            cut = min(indents, default=0)
            yield "\n".join(it[cut:] for it in block).rstrip("\n")
        elif value[:1] == '"':
            try:
                yield json.loads(value)
            except ValueError:
                yield value.strip('"')
        else:
            yield value.strip("'")


def recorded(folders, made):
    """Files of recorded output: what the crates' tests hold of terminals and of bytes that are no
    text, the largest logs, and files `made` here, with what outputs have at their worst."""
    only = {name: folder for (name, _), folder in sorted(folders.items())}
    places = {
        "alacritty_terminal": ("tests/ref/*/alacritty.recording", "tests/ref/[a-r]*/grid.json"),
        "vte": ("tests/demo.vte",),
        "flate2": ("tests/*.gz", "tests/*.bin", "examples/*.gz"),
        "insta": ("tests/snapshots/*",),
        "bashkit": ("tests/fixtures/**/*", "benches/results/*"),
        "brush-shell": ("tests/cases/brush/snaps/*",),
    }
    for crate, patterns in places.items():
        for pattern in patterns:
            for path in sorted(glob.glob(os.path.join(only[crate], pattern), recursive=True)):
                if os.path.isfile(path):
                    yield path
    yield from worst_cases(made)


def worst_cases(folder):
    chance = random.Random(1)
    progress = "".join(f"\rcopy {percent:3}% {'#' * (percent // 2)}" for percent in range(101))
    texts = {
        "empty": b"",
        "no-line-end": b"no line end",
        "line-ends": b"\n\n\r\n\r\r\n\n",
        "all-bytes": bytes(range(256)) * 16,
        "zeros": bytes(1 << 20),
        "noise": chance.randbytes(3 << 20),
        "cut-utf-8": "naïve – 日本語 🎉".encode()[:-2] + b"\n" + b"\xff\xfe\xc3\n" * 99,
        "one-long-line": b"x" * (8 << 20),
        "many-lines": b"".join(b"line %d of the log\n" % number for number in range(1_000_000)),
        "progress": progress.encode() + b"\ndone\n",
        "controls": b"".join(b"\x1b[%dm%d\x1b[0m\x07\x08 \x1b]0;title\x07\x1b[2J" % (n, n) for n in range(110)),
    }
    for name, content in texts.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        yield path


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
