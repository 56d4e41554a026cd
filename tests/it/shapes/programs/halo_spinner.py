"""A spinner of halo over a child's work."""

import subprocess

from halo import Halo

with Halo(text="Resolving dependencies", spinner="dots"):
    subprocess.run(["sleep", "85"], check=True)
