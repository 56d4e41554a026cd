"""A bar of tqdm that is drawn each second while its third step takes long."""

import subprocess

from tqdm import tqdm

with tqdm(total=10, desc="layers") as bar:
    bar.update(3)
    child = subprocess.Popen(["sleep", "85"])
    while True:
        try:
            child.wait(1)
            break
        except subprocess.TimeoutExpired:
            bar.refresh()
