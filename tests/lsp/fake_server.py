"""A language server for tests. It finds an error in each line that says BROKEN, and else does as its argument says."""

import json
import os
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "works"
texts, versions = {}, {}
# Names of files with reported changes, and the kinds of the changes.
changed_files = []
loaded = MODE not in ("loads", "progresses")
writing = threading.Lock()


def write(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with writing:
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sys.stdout.buffer.flush()


def load(capabilities):
    """Knows nothing of the project for a while, and says so in its way before it answers anything."""
    status = capabilities.get("experimental", {}).get("serverStatusNotification")
    if MODE == "loads" and status:
        write({"method": "experimental/serverStatus", "params": {"health": "ok", "quiescent": False}})
    if MODE == "progresses":
        write({"id": "p", "method": "window/workDoneProgress/create", "params": {"token": 7}})
        write({"method": "$/progress", "params": {"token": 7, "value": {"kind": "begin", "title": "loads"}}})

    def end():
        global loaded
        time.sleep(4)
        loaded = True
        if MODE == "loads" and status:
            write({"method": "experimental/serverStatus", "params": {"health": "ok", "quiescent": True}})
        if MODE == "progresses":
            write({"method": "$/progress", "params": {"token": 7, "value": {"kind": "end"}}})

    threading.Thread(target=end, daemon=True).start()


def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if not line.strip():
            return json.loads(sys.stdin.buffer.read(length))
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])


def place(line, start, end):
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def findings(uri):
    found = []
    if not loaded:
        return found
    if MODE == "imports" and "BROKEN" in seen(os.path.dirname(uri[len("file://"):]) + "/b.fk"):
        found.append({"range": place(0, 0, 1), "severity": 1, "message": "what it imports is broken"})
    for number, line in enumerate(texts[uri].split("\n")):
        if "BROKEN" in line:
            message = "this is broken:\n\x1b[31m " + line.strip()
            found.append({"range": place(number, 0, len(line)), "severity": 1, "code": "E1", "source": "fake", "message": message})
        if MODE == "reads" and "BROKEN" in line:
            paths = [os.path.join(folder, name) for folder, _, names in os.walk("/project") for name in names]
            found[-1]["message"] = "|".join(seen(path) for path in sorted(paths) if not path.endswith(".fk"))
        if "ODD" in line:
            found.append({"range": place(number, 0, 1), "severity": 2, "message": "this is odd"})
    return found


def seen(path):
    try:
        with open(path) as file:
            return os.path.basename(path) + "=" + file.read().strip()
    except OSError:
        return os.path.basename(path) + " is closed"


def look_again():
    """Says a little after a change on the disk what it makes of the texts by now."""
    time.sleep(0.3)
    for uri in list(texts):
        write({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "version": versions[uri], "diagnostics": findings(uri)}})


def misbehave():
    if MODE == "crashes":
        sys.exit(3)
    if MODE == "floods":
        while True:
            write({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 10000}})
    if MODE == "nonsense":
        sys.stdout.write("Segmentation fault\n" * 3)
        sys.stdout.flush()
        time.sleep(3600)
    if MODE == "huge":
        sys.stdout.write("Content-Length: 99999999999\r\n\r\n")
        sys.stdout.flush()
        time.sleep(3600)
    if MODE == "memory":
        kept = []
        while True:
            kept.append(bytearray(16 << 20))
    if MODE == "deaf":
        time.sleep(3600)


def names(text, symbol):
    for number, line in enumerate(text.split("\n")):
        at = line.find(symbol)
        while at >= 0:
            yield number, at
            at = line.find(symbol, at + 1)


if MODE == "dies":
    sys.exit(7)
while True:
    message = read()
    method, params = message.get("method"), message.get("params") or {}
    uri = (params.get("textDocument") or {}).get("uri")
    if method == "initialize":
        if MODE == "mute":
            time.sleep(3600)
        capabilities = {"textDocumentSync": 1}
        pulled = MODE in ("pulled", "loads", "progresses")
        if pulled:
            capabilities["diagnosticProvider"] = {"interFileDependencies": False, "workspaceDiagnostics": False}
        write({"id": message["id"], "result": {"capabilities": capabilities}})
        write({"id": "c", "method": "workspace/configuration", "params": {"items": [{"section": "a"}, {"section": "b"}]}})
        if not loaded:
            load(params["capabilities"])
    elif method in ("textDocument/didOpen", "textDocument/didChange"):
        misbehave()
        document = params["textDocument"]
        changes = params.get("contentChanges")
        texts[uri] = changes[0]["text"] if changes else document["text"]
        versions[uri] = document["version"]
        if MODE == "slow":
            time.sleep(1)
        if MODE != "hangs" and not pulled:
            shown = {"uri": uri, "version": versions[uri], "diagnostics": findings(uri)}
            if MODE == "unversioned":
                del shown["version"]
            write({"method": "textDocument/publishDiagnostics", "params": shown})
    elif method == "workspace/didChangeWatchedFiles":
        changed_files += [change["uri"].rsplit("/", 1)[1] + "-" + str(change["type"]) for change in params["changes"]]
        if MODE == "imports":
            threading.Thread(target=look_again, daemon=True).start()
    elif method == "textDocument/diagnostic":
        write({"id": message["id"], "result": {"kind": "full", "items": findings(uri)}})
    elif method == "textDocument/references":
        if MODE == "network":
            # What it can reach, returned as a location.
            import socket

            try:
                socket.create_connection(("127.0.0.1", 9), 1)
                access = "reached"
            except OSError as error:
                access = "refused" if error.errno == 111 else "closed"
            for path in (texts and "/project/made", os.path.expanduser("~/made")):
                try:
                    open(path, "w").close()
                    access += "-written"
                except OSError:
                    access += "-held"
            write({"id": message["id"], "result": [{"uri": "file:///" + access, "range": place(0, 0, 1)}]})
        elif not loaded:
            write({"id": message["id"], "result": None})
        else:
            found = [{"uri": uri, "range": place(line, at, at + 3)} for line, at in names(texts[uri], "foo")]
            found += [{"uri": "file:///changed/" + name, "range": place(0, 0, 1)} for name in changed_files]
            write({"id": message["id"], "result": found})
    elif method == "textDocument/definition":
        found = [{"uri": uri, "range": place(line, at, at + 3)} for line, at in names(texts[uri], "foo")][:1]
        outside = {"uri": "file:///usr/lib/fake/b%1b.fk", "range": place(4, 0, 1)}
        write({"id": message["id"], "result": found + [outside]})
    elif method == "textDocument/rename":
        others = {"escapes": "/../../etc/other.fk", "hooks": "/.git/hooks/other.fk"}
        other = uri.rsplit("/", 1)[0] + others.get(MODE, "/other.fk")
        new = "evil" if MODE == "wrong" else params["newName"]
        edits = [{"range": place(line, at, at + 3), "newText": new} for line, at in names(texts[uri], "foo")]
        changes = {uri: edits, other: [{"range": place(0, 0, 3), "newText": params["newName"]}]}
        write({"id": message["id"], "result": {"changes": changes}})
    elif method == "shutdown":
        write({"id": message["id"], "result": None})
    elif method == "exit":
        sys.exit(0)
    elif method and "id" in message:
        write({"id": message["id"], "error": {"code": -32601, "message": "no"}})
