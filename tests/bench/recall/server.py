"""The model server that both products talk to: OpenAI's chat completions on loopback, in this process.

It refuses what does not fit into its window as real servers do, counts a token for four bytes of tools and messages, plays the
turn that it was given, sums up what it is asked to sum up, and keeps of each request what the judge needs.
"""

import json
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import summary

MODEL = "scripted"
# What an answer needs besides the request; a server reserves it where the request names no bound.
ANSWER = 256
# Words by which the last message of a request asks for a summary, whatever else it says.
ASKS_FOR_SUMMARY = re.compile(r"\b(?:summari[sz]e|sum up) (?:the|this|our|all)\b|\b(?:write|create|provide) (?:a|the|your) summary\b", re.I)


def packed(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rendered(body):
    """The request as a model reads it: the tools, then one message a line."""
    return "\n".join([packed(body.get("tools") or []), *(packed(message) for message in body["messages"])])


def shared(before, after):
    """How many characters of one text the other begins with."""
    if after.startswith(before):
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass
class Request:
    """What is kept of a request that was answered."""

    kind: str
    turn: int
    step: int
    tokens: int
    # Characters, those that the request before of the same kind began with as well, and that one's own.
    size: int
    repeated: int
    before: int
    # Tokens that no request before began with.
    new: int
    # Characters of messages behind the system's that the request before had and this one has not.
    dropped: int = 0
    # Where the prefix broke, for whoever looks for the cause.
    broke: str = ""


@dataclass
class Record:
    requests: list = field(default_factory=list)
    refused: int = 0
    # The last request that was no request for a summary, as a model reads it.
    last: str = ""
    # The first request of the turn.
    first: str = ""
    # The codes that a request had directly behind the search for them.
    found: set = field(default_factory=set)


class Server:
    def __init__(self, window):
        self.window = window
        self.record = Record()
        self.lock = threading.Lock()
        self.turn, self.step = 0, 0
        # What the person said last.
        self.said = "?"
        self.steps, self.words, self.translate = [], "", None
        # The codes that the last step searched for.
        self.sought = []
        self.seen = {"main": "", "summary": ""}
        handler = type("Handler", (Handler,), {"server_of_models": self})
        self.http = Http(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def play(self, turn, said, steps, words):
        """What the model does in the turn that begins now."""
        with self.lock:
            self.said = said
            self.turn, self.step, self.steps, self.words = turn, 0, list(steps), words

    def answer(self, body):
        """Status, and the message or the error."""
        with self.lock:
            text = rendered(body)
            tokens = len(text.encode()) // 4
            asked = body.get("max_completion_tokens") or body.get("max_tokens")
            if tokens + (asked or ANSWER) > self.window:
                self.record.refused += 1
                return 400, refusal(self.window, tokens, asked or 0)
            kind = "summary" if self._wants_summary(body) else "main"
            cached = self._note(kind, text, tokens, body)
            if kind == "summary":
                message = {"role": "assistant", "content": summary.summed_up(body["messages"], asked)}
            else:
                message = self._next(body)
            said = len(packed(message).encode()) // 4
            usage = {
                "prompt_tokens": tokens,
                "completion_tokens": said,
                "total_tokens": tokens + said,
                "prompt_tokens_details": {"cached_tokens": cached},
            }
            return 200, {"message": message, "usage": usage}

    def _wants_summary(self, body):
        # Without tools it is a request of its own; else it is appended to the conversation.
        last = summary.text_of(body["messages"][-1])[0].rpartition(self.said)[2]
        return not body.get("tools") or bool(ASKS_FOR_SUMMARY.search(last))

    def _note(self, kind, text, tokens, body):
        before = self.seen[kind]
        repeated = shared(before, text) if before else 0
        best = max(repeated, *(shared(other, text) for name, other in self.seen.items() if name != kind and other), 0)
        cached = len(text[:best].encode()) // 4
        broke, dropped = "", 0
        if before and repeated < len(before):
            still = set(text.split("\n"))
            dropped = sum(len(part) for part in before.split("\n")[2:] if part not in still)
            line = before.count("\n", 0, repeated)
            around = slice(max(repeated - 60, 0), repeated + 100)
            broke = f"part {line} of {before.count(chr(10)) + 1}: {before[around]!r} became {text[around]!r}"
        self.record.requests.append(
            Request(kind, self.turn, self.step, tokens, len(text), repeated, len(before), tokens - cached, dropped, broke)
        )
        self.seen[kind] = text
        if kind == "main":
            self.record.last = text
            if self.step == 0:
                self.record.first = text
        return cached

    def _next(self, body):
        tools = {tool["function"]["name"] for tool in body.get("tools") or []}
        self.record.found.update(code for code in self.sought if code in self.record.last)
        self.sought = []
        self.step += 1
        while self.steps and body.get("tool_choice") != "none":
            actions = self.steps.pop(0)
            self.sought = [action[2] for action in actions if action[0] == "search"]
            calls = [call for call in (self.translate(action) for action in actions) if call[0] in tools]
            if calls:
                calls = [self._call(number, *call) for number, call in enumerate(calls)]
                return {"role": "assistant", "content": None, "tool_calls": calls}
        return {"role": "assistant", "content": self.words}

    def _call(self, number, name, arguments):
        # Nine letters and digits, which every server takes.
        identity = f"c{self.turn % 1000:03}{self.step % 1000:03}{number % 100:02}"
        return {"id": identity, "type": "function", "function": {"name": name, "arguments": packed(arguments)}}


def refusal(window, tokens, asked):
    return {
        "error": {
            "message": f"This model's maximum context length is {window} tokens. However, you requested {tokens + asked} tokens "
            f"({tokens} in the messages, {asked} in the completion). Please reduce the length of the messages or completion.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }


class Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that has gone needs no answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_models = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server_of_models
        if self.path == "/v1/models":
            model = {"id": MODEL, "object": "model", "owned_by": "bench", "max_model_len": server.window}
            return self._json(200, {"object": "list", "data": [model]})
        return self._json(404, {"error": {"message": "there is nothing here", "type": "not_found"}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path != "/v1/chat/completions":
            return self._json(404, {"error": {"message": "there is nothing here", "type": "not_found"}})
        body = json.loads(body)
        status, answer = self.server_of_models.answer(body)
        if status != 200:
            return self._json(status, answer)
        message, usage = answer["message"], answer["usage"]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        head = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self._json(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        delta = dict(message)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": number, **call} for number, call in enumerate(delta["tool_calls"])]
        head["object"] = "chat.completion.chunk"
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**head, "choices": [], "usage": usage},
        ]
        text = "".join(f"data: {packed(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return self._send(200, "text/event-stream", text)

    def _json(self, status, value):
        self._send(status, "application/json", packed(value))

    def _send(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
