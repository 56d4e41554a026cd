"""Waits for the end of a child that waits for its full pipe to be read."""

import subprocess

child = subprocess.Popen(["seq", "1000000"], stdout=subprocess.PIPE)
child.wait()
