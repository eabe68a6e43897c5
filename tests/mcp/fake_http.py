"""An MCP server behind an address that behaves as its first argument says. It writes its port to the file that the second
names, and ends after two minutes."""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE, HOME = sys.argv[1], sys.argv[2]
sessions = iter(range(1, 10**9))
known = set()


def note(name, text):
    with open(os.path.join(HOME, name), "a") as file:
        file.write(text + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def allows(self, message):
        """Whether it is answered as everybody's is. Where it is not, it was answered here."""
        return True

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("content-length", 0)))
        if MODE.startswith("sends_to:"):
            return self.reply(307, location=MODE.removeprefix("sends_to:"))
        note("asked", self.headers.get("x-key", "nobody"))
        message = json.loads(text)
        if not self.allows(message):
            return
        method, number = message.get("method"), message.get("id")
        answer = lambda result, **headers: self.reply(200, {"jsonrpc": "2.0", "id": number, "result": result}, **headers)
        note("methods", method or "")
        if method == "server/discover" and MODE == "hangs":
            time.sleep(60)
        elif method == "server/discover" and MODE == "refuses":
            error = {"code": -32000, "message": "the key is missing"}
            self.reply(200, {"jsonrpc": "2.0", "id": number, "error": error})
        elif method == "initialize" and MODE != "refuses":
            session = "s%d" % next(sessions)
            known.add(session)
            answer({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "1"}}, mcp_session_id=session)
        elif number is None:
            self.reply(202)
        elif method == "tools/list":
            answer({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            note("acted", self.headers.get("mcp-session-id", ""))
            if MODE == "forgets" and len(known) == 1:
                self.reply(404)
            else:
                answer({"content": [{"type": "text", "text": "acted at last"}]})
        else:
            self.reply(200, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Timer(120, lambda: os._exit(1)).start()
    note("port", str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    serve(Handler)
