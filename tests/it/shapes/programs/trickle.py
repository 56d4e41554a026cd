"""Appends a few kilobytes several times a second."""

import time

while True:
    with open("part", "ab") as part:
        part.write(bytes(5000))
    time.sleep(0.2)
