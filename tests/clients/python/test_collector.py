"""Spans as a collector that others wrote receives them: rotel, which prints what comes.

A turn with two subagents runs while nothing listens, and its daemon is killed. The next one sends its spans, once the
collector is there, and what they say of tokens adds up to the result of the turn.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

try:
    import rotel
except ImportError:
    rotel = None

from test_turn import PATIENCE, Processes, program

DELEGATE = [{"name": "delegate_task", "arguments": {"task": task}} for task in ("Count the doors", "Count the windows")]
# The order of the requests is unknown, so all get the same reply.
SCRIPT = [{"tool_calls": DELEGATE}] + 9 * [{"text": "Twelve."}]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@unittest.skipIf(rotel is None, "the collector is made for other versions of Python")
class Collector(Processes):
    def setUp(self):
        # Not in TMPDIR: a socket's path must be short.
        self.home = Path(tempfile.mkdtemp(prefix="agentd-test-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        script = self.home / "script.json"
        script.write_text(json.dumps(SCRIPT), encoding="utf-8")
        model = self.start([program("model-server"), "script", str(script)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(model.stdout.close)
        self.port = free_port()
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "AGENTD_SOCKET": str(self.home / "run" / "agentd.sock"),
            "AGENTD_CONFIG_DIR": str(self.home / "config"),
            "AGENTD_DATA_DIR": str(self.home / "data"),
            "MODEL_BASIC_BASE_URL": model.stdout.readline().strip(),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
        }

    def start_daemon(self):
        log = open(self.home / "agentd.log", "ab")
        self.addCleanup(log.close)
        return self.start([program("agentd")], env=self.env, stdout=log, stderr=log)

    def agentctl(self, *arguments):
        command = [program("agentctl"), *arguments]
        done = subprocess.run(
            command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def start_collector(self):
        said = self.home / "collector.log"
        agent = Path(rotel.__file__).parent / "rotel-agent"
        listen = ["--otlp-http-endpoint", f"127.0.0.1:{self.port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"]
        show = ["--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"]
        with open(said, "wb") as log:
            self.start([str(agent), "start", *listen, *show], stdout=log, stderr=log, cwd=self.home)
        return said

    def spans(self, said, is_all):
        """Name and attributes of each span, once all are there."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            # What stands before the first span is of the collector.
            blocks = re.split(r"^Span #\d+$", said.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
            names = [re.search(r"Name +: (.*)", block) for block in blocks]
            spans = [
                (name[1], dict(re.findall(r"-> (\S+): \w+\((.*)\)", block))) for name, block in zip(names, blocks) if name
            ]
            if is_all(spans):
                return spans
            time.sleep(0.05)
        self.fail(f"the spans did not come:\n{said.read_text()}\n{(self.home / 'agentd.log').read_text()}")

    def test_a_turn_that_a_kill_kept_from_it_adds_up(self):
        killed = self.start_daemon()
        result = json.loads(self.agentctl("run", "How many are there?", "--on-interrupt", "approve", "--output", "json"))
        self.assertEqual(result["text"], "Twelve.", result)
        killed.kill()
        killed.wait(PATIENCE)
        said = self.start_collector()
        self.start_daemon()
        used = result["usage"]
        counted = lambda spans, begin: sum(name.startswith(begin) for name, _ in spans)
        is_all = lambda spans: counted(spans, "invoke_agent") >= 3 and counted(spans, "chat") >= used["calls"]
        spans = self.spans(said, is_all)
        # A subagent that says little is asked once more, in a turn of its own.
        sessions = {fields["gen_ai.conversation.id"] for name, fields in spans if name.startswith("invoke_agent")}
        counts = [len(sessions), counted(spans, "chat"), counted(spans, "execute_tool delegate_task")]
        self.assertEqual(counts, [3, used["calls"], 2], spans)
        for key, of in [("input", "prompt_tokens"), ("output", "completion_tokens")]:
            tokens = lambda begin: [
                int(fields[f"gen_ai.usage.{key}_tokens"]) for name, fields in spans if name.startswith(begin)
            ]
            self.assertEqual(sum(tokens("chat")), used[of], spans)
            self.assertEqual(max(tokens("invoke_agent")), used[of], spans)


if __name__ == "__main__":
    unittest.main()
