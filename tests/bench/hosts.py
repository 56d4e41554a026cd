"""What it costs that a command runs on a host: over a real sshd on the loopback, beside the same
call here and beside ssh with a warm master.
"""

import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from client import BenchFailed, Server
from end_to_end import FLOOD, GIGABYTE, WARM_UP, in_turns, timed
from figures import Figure, short

SSHD = "/usr/sbin/sshd"
ROUNDS = 200
START_LIMIT_S = 10


@contextlib.contextmanager
def loopback(folder):
    """A running sshd with keys of its own; the path of a configuration that names it `there`."""
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
    # Needed where root starts it.
    with contextlib.suppress(OSError):
        os.makedirs("/run/sshd", exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write(f"{folder}/sshd_config", f"""
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
# As from another shell: bash reads no ~/.bashrc then, which would be measured on the side of ssh.
SetEnv SHLVL=1
""")
    with open(f"{folder}/host.pub", encoding="ascii") as key:
        write(f"{folder}/known", f"[127.0.0.1]:{port} {key.read()}")
    write(f"{folder}/config", f"""
Host there
HostName 127.0.0.1
Port {port}
IdentityFile {folder}/user
IdentitiesOnly yes
UserKnownHostsFile {folder}/known
BatchMode yes
ControlPath {folder}/master
""")
    sshd = subprocess.Popen([SSHD, "-D", "-f", f"{folder}/sshd_config"], stderr=subprocess.DEVNULL)
    try:
        await_port(port)
        yield f"{folder}/config"
    finally:
        sshd.terminate()
        sshd.wait()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def await_port(port):
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > deadline:
            raise BenchFailed("sshd does not listen")
        time.sleep(0.02)


def hosts(binary):
    """A call of `true` there, here and by ssh, in turns; and what of a flood crosses."""
    if not os.path.exists(SSHD):
        raise BenchFailed(f"{SSHD} is missing: install openssh-server")
    binary = os.path.abspath(binary)
    with tempfile.TemporaryDirectory(prefix="zsh-tool-bench-") as folder, loopback(folder) as config:
        far = ["env", f"HOME={folder}", f"ZSH_TOOL_STATE_DIR={folder}/state"]
        carrier = ", ".join(["ssh", "-F", config, "-S", "none", "-T", "there", *far])
        write(f"{folder}/config.yaml", f"hosts:\n  there: {{command: [{carrier}], install: never, binary_directory: {os.path.dirname(binary)}}}\n")
        master = ["ssh", "-F", config]
        subprocess.run([*master, "-M", "-N", "-f", "there"], check=True)
        try:
            with Server(binary, {"ZSH_TOOL_CONFIG": f"{folder}/config.yaml"}) as server:
                zsh = shutil.which("zsh", path=server.environment["PATH"])
                by_ssh = [*master, "there", zsh, "-c", "true"]
                there, here, ssh, ping = (
                    statistics.median(samples[WARM_UP:]) * 1000
                    for samples in in_turns(
                        ROUNDS + WARM_UP,
                        lambda: timed(server.call, "zsh", command="true", host="there"),
                        lambda: timed(server.call, "zsh", command="true"),
                        lambda: timed(subprocess.run, by_ssh, check=True),
                        lambda: timed(server.call, "zsh_tasks", host="there"),
                    )
                )
                crossed = flood(server)
        finally:
            subprocess.run([*master, "-O", "exit", "there"], check=False, stderr=subprocess.DEVNULL)
    detail = f"{short(there)} ms there, {short(here)} ms here, {short(ssh)} ms by ssh, {short(ping)} ms for a list of tasks there"
    return [
        Figure(
            "`true` on a host, without a round trip to it, against the same call here", (there - ping) / here, "×", 1.3, None, detail,
            "a call on a host on the loopback; the round trip is that of the shortest call",
        ),
        Figure("`true` on a host against ssh with a warm master", there / ssh, "×", 0.5, None, detail),
        Figure(
            "what crosses of 1 GB that a command on a host writes", crossed / 1000, "kB", 200, None,
            meaning="bytes that the carrier reads and writes until the end is told",
        ),
    ]


def flood(server):
    before = carried(server)
    text, task = server.call("zsh", command=FLOOD.format(GIGABYTE), host="there", yield_after=50)
    while task["status"] == "running":
        text, task = server.call("zsh_poll", task_id=task["task_id"], wait_for="end", listen=50)
    if task["status"] != "completed":
        raise BenchFailed(f"the flood ended as {task['status']}: {text}")
    return carried(server) - before


def carried(server):
    """Bytes that the carrier has read and written so far: each byte crosses it twice."""
    pid = server.server_pid()
    total = 0
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        found = children.read().split()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
            found += children.read().split()
    for child in set(found):
        with open(f"/proc/{child}/comm", encoding="utf-8") as name, open(f"/proc/{child}/io", encoding="ascii") as counters:
            if name.read().strip() == "ssh":
                fields = dict(line.split(": ") for line in counters.read().splitlines())
                total += (int(fields["rchar"]) + int(fields["wchar"])) // 2
    return total


MEASUREMENTS = [hosts]
