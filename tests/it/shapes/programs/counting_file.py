"""Computes, and writes how far it is to a file."""

import time

total, next_note = 0, 0.0
with open("progress", "w") as notes:
    step = 0
    while True:
        step += 1
        total = (total * 31 + step) % 1_000_003
        if step % 100_000 == 0 and time.monotonic() > next_note:
            notes.write(f"step {step}, total {total}\n")
            notes.flush()
            next_note = time.monotonic() + 1
