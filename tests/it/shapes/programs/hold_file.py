"""Takes a record lock on a file, for long; says so when it has it."""

import fcntl
import sys
import time

with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(300)
