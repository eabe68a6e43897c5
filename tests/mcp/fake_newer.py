"""An MCP server on standard input and output that knows the protocol since 2026-07-28 and nothing before, unless its home has the
file `old`: then it is of the time before. It behaves as its first argument says."""

import json
import os
import sys
import threading
import time

MODE = sys.argv[1]
HOME = os.environ.get("HOME", "/tmp")
IS_OLD = os.path.exists(os.path.join(HOME, "old"))
LOCK = threading.Lock()
VERSION = "io.modelcontextprotocol/protocolVersion"


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(dict(message, jsonrpc="2.0")) + "\n")
        sys.stdout.flush()


def note(name, text="yes"):
    with open(os.path.join(HOME, name), "a") as file:
        file.write(text + "\n")


def refuse(message, code, why, **data):
    send({"id": message["id"], "error": {"code": code, "message": why, "data": data}})


def answer(message, result, **more):
    send({"id": message["id"], "result": dict({"resultType": "complete"} if not IS_OLD else {}, **result, **more)})


def say(message, text):
    answer(message, {"content": [{"type": "text", "text": text}]})


def ask(message, state, *names):
    """Asks the person before the call is done."""
    form = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    params = {"mode": "form", "message": "Who are you?", "requestedSchema": form}
    asked = {name: {"method": "elicitation/create", "params": params} for name in names}
    more = {"inputRequests": asked} if asked else {}
    answer(message, {"resultType": "input_required", "requestState": state}, **more)


def act(message):
    params = message["params"]
    answers, state = params.get("inputResponses"), params.get("requestState", "0")
    note("acted", json.dumps([answers, state]))
    if MODE == "asks" and not answers:
        ask(message, "1", "who")
    elif MODE == "asks":
        say(message, json.dumps([answers, state]))
    elif MODE == "asks_for_ever":
        ask(message, str(int(state) + 1), "who")
    elif MODE == "asks_at_once":
        ask(message, "1", *["n%d" % number for number in range(500)])
    elif MODE == "never_done":
        ask(message, "1")
    elif MODE == "samples":
        words = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
        sample = {"method": "sampling/createMessage", "params": {"messages": words, "maxTokens": 5}}
        answer(message, {"resultType": "input_required", "inputRequests": {"it": sample}})
    elif MODE == "meta":
        say(message, json.dumps(params["_meta"]))
    else:
        say(message, "acted: " + json.dumps(params.get("arguments")))


def report(message):
    """Reports changes to whoever subscribes."""
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    wanted = message["params"]["notifications"]
    acknowledged = {"_meta": meta, "notifications": wanted}
    send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    while MODE == "changes":
        send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
        time.sleep(0.02)


def main():
    note("started", "old" if IS_OLD else "new")
    capabilities = {"tools": {"listChanged": True}}
    for line in sys.stdin:
        message = json.loads(line)
        method, meta = message.get("method"), message.get("params", {}).get("_meta", {})
        if "id" not in message or method is None:
            continue
        note("asked", method)
        if IS_OLD and method == "initialize":
            answer(message, {"protocolVersion": "2025-06-18", "capabilities": capabilities,
                             "serverInfo": {"name": "fake", "version": "1"}})
        elif IS_OLD and method == "server/discover":
            if MODE != "silent":
                refuse(message, -32601, "no such method")
        elif not IS_OLD and meta.get(VERSION) != "2026-07-28":
            refuse(message, -32022, "no such version", supported=["2026-07-28"], requested=str(meta.get(VERSION)))
        elif method == "server/discover" and MODE == "refuses":
            refuse(message, -32000, "the key is missing")
        elif method == "server/discover":
            info = {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "2"}}
            answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": info,
                             "ttlMs": 0, "cacheScope": "private"})
        elif method == "tools/list":
            names = ["act", "tool_%d" % int(time.time() * 10)] if MODE == "changes" else ["act"]
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            note("listed")
            answer(message, {"tools": tools}, **({} if IS_OLD else {"ttlMs": 0, "cacheScope": "private"}))
        elif method == "subscriptions/listen":
            threading.Thread(target=report, args=(message,), daemon=True).start()
        elif method == "tools/call":
            threading.Thread(target=act, args=(message,), daemon=True).start()
        else:
            refuse(message, -32601, "no such method")


main()
