"""A home of its own for a client package: a scripted model server, and the programs in its search path.

The daemon is not started here: the packages find it, or start it.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

# Longer than anything takes when all is well; nothing waits for ever.
PATIENCE = 60
ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PROGRAMS = TARGET / os.environ.get("PROFILE", "debug")
WORDS = [f"word{number} " for number in range(400)]

# One reply for each request, chosen by words of the input. The slow one streams for longer than any test needs.
SCRIPT = [
    {"match": "Write it", "tool_calls": [{"name": "write_file", "arguments": {"path": "outputs/a.txt", "content": "a"}}]},
    {"match": "Write it", "reasoning": "Now tell them.", "text": "It is written, é and all."},
    {"match": "Talk on", "deltas": WORDS, "delay_ms": 20},
    {"match": "Talk on", "text": "And on."},
    {"match": "Ask them", "tool_calls": [{"name": "ask_human", "arguments": {"question": "Tea?", "choices": ["yes", "no"]}}]},
    {"match": "Ask them", "text": "They said yes."},
    {"match": "On the side", "text": "By the way."},
    {"match": "Cut it", "deltas": WORDS[:60], "delay_ms": 10},
    {"match": "Look into it", "tool_calls": [{"name": "client_buffer", "arguments": {"path": "src/main.rs"}}]},
    {"match": "Look into it", "text": "It says hello."},
    {"match": "Fail on it", "tool_calls": [{"name": "client_buffer", "arguments": {"path": "none.rs"}}]},
    {"match": "Fail on it", "text": "There is none."},
]


class World(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        # Not in TMPDIR: a socket's path must be short.
        self.home = Path(tempfile.mkdtemp(prefix="agentd-test-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.project = self.home / "shop"
        self.project.mkdir()
        script = self.home / "script.json"
        script.write_text(json.dumps(SCRIPT), encoding="utf-8")
        model = subprocess.Popen([PROGRAMS / "model-server", "script", script], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, model)
        self.addCleanup(model.stdout.close)
        self.environment = {
            "PATH": f"{PROGRAMS}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": str(self.home),
            "MODEL_BASIC_BASE_URL": model.stdout.readline().strip(),
        }
        self.addCleanup(self.kill_daemon)

    def kill_daemon(self):
        # Of its files nothing is needed any more, so it need not end in order.
        status = self.agentctl("status", "--json")
        if status.returncode == 0:
            os.kill(json.loads(status.stdout)["pid"], signal.SIGKILL)

    def end(self, process):
        process.kill()
        process.wait(PATIENCE)

    def agentctl(self, *words):
        command = [PROGRAMS / "agentctl", *words]
        return subprocess.run(
            command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )


class Proxy:
    """A socket in front of the daemon's, whose connections can be cut."""

    def __init__(self, path, target):
        self.path, self.target = str(path), target
        self.writers = []

    async def __aenter__(self):
        self.server = await asyncio.start_unix_server(self.connected, self.path)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.cut()

    def cut(self):
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def connected(self, reader, writer):
        try:
            other_reader, other_writer = await asyncio.open_unix_connection(self.target)
            self.writers += [writer, other_writer]
            await asyncio.gather(self.copy(reader, other_writer), self.copy(other_reader, writer))
        except OSError:
            writer.transport.abort()

    async def copy(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
