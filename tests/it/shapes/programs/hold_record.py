"""Takes a record lock on the file `records`, for long; says so when it has it."""

import fcntl
import time

with open("records", "a") as records:
    fcntl.lockf(records, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(300)
