"""A bar of rich that does not know how much there is to do."""

import time

from rich.progress import Progress

with Progress() as progress:
    progress.add_task("Uploading", total=None)
    time.sleep(85)
