"""A file system in user space whose file `slow` never answers a read, nor the folder `deep` a look."""

import errno
import stat
import sys
import time

from fuse import FUSE, FuseOSError, Operations


class Slow(Operations):
    def init(self, path):
        print("held", flush=True)

    def getattr(self, path, handle=None):
        if path in ("/", "/deep"):
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path == "/slow":
            return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": 100}
        raise FuseOSError(errno.ENOENT)

    def readdir(self, path, handle):
        if path == "/deep":
            time.sleep(300)
        return [".", "..", "slow", "deep"]

    def read(self, path, size, offset, handle):
        time.sleep(300)
        return b""


FUSE(Slow(), sys.argv[1], foreground=True)
