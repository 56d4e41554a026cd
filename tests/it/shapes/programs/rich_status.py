"""A status line of rich over slow work: a timer, or an answer of a server."""

import sys
import time
import urllib.request

from rich.console import Console

with Console().status("Building wheels"):
    if len(sys.argv) > 1:
        urllib.request.urlopen(sys.argv[1]).read()
    else:
        time.sleep(85)
