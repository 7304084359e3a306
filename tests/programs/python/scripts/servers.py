# SPDX-License-Identifier: BSD-3-Clause
#
# An HTTP server in a thread, with a client; sockets with time limits; selectors.
import http.server
import selectors
import socket
import threading
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    print(urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port).read())
    server.shutdown()
    thread.join()
left, right = socket.socketpair()
left.send(b"x")
right.settimeout(0.05)
print(right.recv(1))
try:
    right.recv(1)
except TimeoutError:
    print("time limit")
with selectors.DefaultSelector() as selector:
    selector.register(right, selectors.EVENT_READ)
    left.send(b"y")
    print(len(selector.select()))
