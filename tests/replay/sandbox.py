"""A place where any command line may run: own namespaces for users, mounts, processes and the
network, the system read-only, and a few writable directories that are emptied for each run.
"""

import ctypes
import hashlib
import os
import shutil
import stat
import subprocess

# What a command line finds in PATH; /usr/local is left out, since it differs among machines.
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "var")
# Devices that no line can harm. The machine's disks are not among them.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Where lines run and write: the working directory, HOME, and what some of the sources' lines name.
WORK, HOME = "/work", "/home"
WRITABLE = (WORK, HOME, "/tmp", "/testbed", "/system", "/workspace", "/backup")
# The files of the tool itself, and what is restored before each run.
TOOL, TEMPLATES, RECORDED = "/tool", "/templates", "/recorded"
MEMORY = "1g"
# All files of a template are equally old, so that listings of them are equal.
LONG_AGO = 1_600_000_000

AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442


def unshared(command):
    """A command line that runs another one in namespaces of its own, as its root."""
    namespaces = ["--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid"]
    return ["unshare", *namespaces, "--fork", "--kill-child", *command]


def enter(root, binary, recorded):
    """Makes the machine's system and copies of the tool and the recorded files the root."""
    mount("-t", "tmpfs", "-o", f"size={MEMORY},mode=755", "tmpfs", root)
    for name in SYSTEM:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{root}/{name}")
            mount("--rbind", f"/{name}", f"{root}/{name}")
            make_read_only(f"{root}/{name}")
    for name in (*WRITABLE, TOOL, TEMPLATES, RECORDED, "/dev", "/proc"):
        os.mkdir(root + name)
    mount("-t", "proc", "proc", f"{root}/proc")
    for name in DEVICES:
        open(f"{root}/dev/{name}", "wb").close()
        mount("--bind", f"/dev/{name}", f"{root}/dev/{name}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{root}/dev/{name}")
    shutil.copy(binary, f"{root}{TOOL}/zsh-tool")
    for number, file in enumerate(recorded):
        shutil.copyfile(file, f"{root}{RECORDED}/{number:03}")
    os.chroot(root)
    os.chdir("/")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def make_read_only(path):
    # struct mount_attr: what to set, to clear, the propagation, and a user namespace.
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.sizeof(attributes)
    if libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, size) != 0:
        raise OSError(ctypes.get_errno(), "cannot make it read-only", path)


def keep_as_template(name):
    """Keeps what is in the writable directories, to begin with it again by `restore`."""
    for place in WRITABLE:
        kept = f"{TEMPLATES}/{name}{place}"
        shutil.copytree(place, kept, symlinks=True)
        for folder, _, files in os.walk(kept, topdown=False):
            for path in (*(os.path.join(folder, file) for file in files), folder):
                if os.stat(path, follow_symlinks=False).st_mtime > LONG_AGO:
                    os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def restore(name):
    """Empties the writable directories and fills them as the template has them."""
    clear()
    for place in WRITABLE:
        shutil.copytree(f"{TEMPLATES}/{name}{place}", place, symlinks=True, dirs_exist_ok=True)


def clear():
    for place in WRITABLE:
        os.chmod(place, 0o755)
        for entry in os.scandir(place):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def files():
    """Names, modes and contents of what is in the writable directories."""
    seen = {}
    for place in WRITABLE:
        for folder, folders, names in os.walk(place):
            for name in (*folders, *names):
                path = os.path.join(folder, name)
                seen[path] = described(path)
    return seen


def described(path):
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return [oct(status.st_mode), os.readlink(path)]
    if not stat.S_ISREG(status.st_mode):
        return [oct(status.st_mode), ""]
    with open(path, "rb") as file:
        return [oct(status.st_mode), hashlib.sha256(file.read()).hexdigest()]


def processes(known):
    """The processes of this namespace that are not known, but for those that ended: their
    ids and names."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if text.rpartition(")")[2].split()[0] not in "ZX":
                found[int(name)] = text[text.index("(") + 1 : text.rindex(")")]
    return found
