"""A child that borrows its parent's memory opens a FIFO that nothing writes to, before it starts its
program."""

import os

actions = [(os.POSIX_SPAWN_OPEN, 0, "f", os.O_RDONLY, 0)]
os.waitpid(os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=actions), 0)
