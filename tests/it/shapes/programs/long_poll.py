"""Asks a server and waits up to an hour for the answer, as `kubectl wait` does."""

import http.client
import os

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PEER_PORT"]), timeout=3600)
connection.request("GET", "/watch?timeoutSeconds=3600")
connection.getresponse()
