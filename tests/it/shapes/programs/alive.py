"""A bar of alive-progress without a total."""

import time

from alive_progress import alive_bar

with alive_bar(title="Indexing"):
    time.sleep(85)
