"""A server and its client in one task: the answer waits for a lock that is never released, or for
the end of a sleep."""

import http.server
import subprocess
import sys
import threading
import time

lock = threading.Lock()
lock.acquire()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if sys.argv[1] == "lock":
            lock.acquire()
        time.sleep(300)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
subprocess.run(["curl", "-s", f"http://127.0.0.1:{server.server_port}"])
