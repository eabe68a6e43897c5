"""Puts a server that speaks over standard input and output behind an address, as the conformance suite wants it. Arguments: the file
that the port is written to, then the command. Each `initialize` starts a process of its own; requests of the newer era share one."""

import itertools
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT_FILE, COMMAND = sys.argv[1], sys.argv[2:]
VERSION = "io.modelcontextprotocol/protocolVersion"
numbers = itertools.count(1)
sessions = {}
LOCK = threading.Lock()
# The status of each refusal that has one of its own.
STATUS = {-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


class Program:
    def __init__(self):
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.waiting, self.lock = {}, threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            waiting = self.waiting.pop(message.get("id"), None)
            if waiting and "method" not in message:
                waiting[1].append(message)
                waiting[0].set()

    def ask(self, message):
        """The answer, under the caller's own id."""
        number, waiting = next(numbers), (threading.Event(), [])
        if "id" in message:
            self.waiting[number] = waiting
            message, own = dict(message, id=number), message["id"]
        with self.lock:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        if "id" in message and waiting[0].wait(10):
            return dict(waiting[1][0], id=own)


def program(name):
    with LOCK:
        if name not in sessions:
            sessions[name] = Program()
        return sessions[name]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict({"content-type": "application/json"} if text else {}, **headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        session, headers = self.headers.get("mcp-session-id", "newer"), {}
        said = message.get("params", {}).get("_meta", {}).get(VERSION)
        if message.get("method") == "initialize" and said is None:
            session = "s%d" % next(numbers)
            headers = {"mcp_session_id": session}
        if said and said != self.headers.get("mcp-protocol-version"):
            error = {"code": -32020, "message": "the header names another version"}
            return self.reply(400, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        answer = program(session).ask(message)
        if answer is None:
            return self.reply(202)
        status = STATUS.get(answer.get("error", {}).get("code"), 200) if session == "newer" else 200
        self.reply(status, answer, **headers)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Timer(120, lambda: os._exit(1)).start()
with open(PORT_FILE, "w") as file:
    file.write(str(server.server_port) + "\n")
server.serve_forever()
