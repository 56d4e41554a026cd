"""Writes to a mapped file: no `write` names a byte of it.

The file is on a disk: the kernel counts what is written to pages that it has to write back.
"""

import mmap
import os
import tempfile
import time

SIZE = 1 << 20
with tempfile.TemporaryFile(dir=os.environ["ON_DISK"]) as file:
    file.truncate(SIZE)
    memory = mmap.mmap(file.fileno(), SIZE)
    round_ = 0
    while True:
        round_ += 1
        memory[:] = bytes([round_ % 256]) * SIZE
        memory.flush()
        time.sleep(0.3)
