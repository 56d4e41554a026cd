"""A server with a client in the same process that has got its answer and keeps the connection."""

import http.client
import http.server
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.1)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
client = http.client.HTTPConnection("127.0.0.1", server.server_port)


def ask():
    client.request("GET", "/")
    client.getresponse().read()


threading.Thread(target=ask).start()
server.serve_forever()
