"""What the figures hold for: the machine, the versions, and how busy it was."""

import datetime
import os
import platform
import re
import statistics
import subprocess
import time

# Beyond this load other work takes part of the time that is measured.
QUIET_LOAD = 0.5


def load():
    """Processes that want to run, averaged over the last minute."""
    return os.getloadavg()[0]


def busy_warning(at_start):
    """What to think of figures that were taken under this load, if there is anything."""
    if at_start <= QUIET_LOAD:
        return None
    return (
        f"The machine was busy with other work when this run began (load {at_start:.1f}; quiet is "
        f"at most {QUIET_LOAD}): times here are longer than on a quiet one, and no ratio is exact."
    )


def lateness(count=10, pause=0.1):
    """Milliseconds by which sleeps end late, in the median. A load does not show what the host of a
    virtual machine takes of its processors and its memory; this does."""
    late = []
    for _ in range(count):
        begun = time.perf_counter()
        time.sleep(pause)
        late.append((time.perf_counter() - begun - pause) * 1000)
    return statistics.median(late)


def machine_rows(at_start):
    """Name and value of what the machine is."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ["CPU", cpu()],
        ["cores", str(os.cpu_count())],
        ["memory", f"{gib:.0f} GiB"],
        ["kernel", f"{platform.system()} {platform.release()}"],
        ["load at the start", f"{at_start:.2f}"],
        ["date", str(datetime.date.today())],
    ]


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        models = re.findall(r"^model name\s*: (.*)$", cpus.read(), re.MULTILINE)
    return models[0] if models else platform.machine()


def version_rows(binary, repository, peers):
    """Name and version of what was measured, and of what it was measured with."""
    commit = said(["git", "-C", repository, "describe", "--always", "--dirty"])
    version = said([binary, "--version"]).removeprefix("zsh-tool ")
    return [
        ["zsh-tool", f"{version}, {commit}"],
        ["zsh", said(["zsh", "--version"]).split()[1]],
        ["rustc", said(["rustc", "--version"]).split()[1]],
        ["Python", platform.python_version()],
        ["Node.js", said(["node", "--version"]).removeprefix("v")],
        *peers,
    ]


def said(command):
    """What a program prints; `unknown …` where there is none."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown version"
    return run.stdout.strip()
