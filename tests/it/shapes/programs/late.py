"""Serves HTTP on FREE_PORT, and answers each request after so many seconds."""

import http.server
import os
import sys
import time


class Late(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[1]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"done\n")


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["FREE_PORT"])), Late)
print("held", flush=True)
server.serve_forever()
