"""agentd, driven as a person drives it: `agentctl run` for each turn, `agentctl answer` for its questions."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import server

PATIENCE = 60


class Ours:
    def __init__(self, models, programs, folder):
        self.programs = pathlib.Path(programs)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ours-", dir=folder))
        self.project = self.folder / "project"
        (self.project / "reports").mkdir(parents=True)
        # A socket's path must be short.
        self.run = tempfile.mkdtemp(prefix="agentd-", dir="/tmp")
        # Nothing but the address and the name: how large the window is has to be asked.
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "AGENTD_SOCKET": f"{self.run}/agentd.sock",
            "AGENTD_CONFIG_DIR": str(self.folder / "config"),
            "AGENTD_DATA_DIR": str(self.folder / "data"),
            "XDG_CONFIG_DIRS": str(self.folder / "system"),
            "MODEL_BASIC_BASE_URL": models.url,
            "MODEL_BASIC_ID": server.MODEL,
        }
        self.session = None
        self.details = []
        self.log = open(self.folder / "log", "w")
        self.daemon = subprocess.Popen(
            [self.programs / "agentd"], env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self):
        """Until the daemon answers."""
        begun = time.monotonic()
        while self._ctl("status").returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() - begun > PATIENCE:
                raise RuntimeError("the daemon did not start: " + (self.folder / "log").read_text()[-500:])
            time.sleep(0.05)

    def _ctl(self, *arguments):
        command = [self.programs / "agentctl", *arguments]
        return subprocess.run(
            command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )

    def report(self, text):
        (self.project / "reports" / "today.txt").write_text(text)

    def turn(self, text, reply):
        """Plays one turn to its end; says whether it came to a good one."""
        command = [self.programs / "agentctl", "run", text, "--mode", "auto", "--on-interrupt", "wait"]
        command += ["--output", "stream-json"]
        command += ["--session", self.session] if self.session else ["-C", self.project]
        running = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        ended = None
        watch = threading.Timer(PATIENCE, running.kill)
        watch.start()
        try:
            for line in running.stdout:
                event = json.loads(line)
                self.session = self.session or event.get("session_id")
                kind = event.get("type")
                if kind == "interrupt_raised":
                    self._answer(event["interrupt"], reply)
                elif kind == "result":
                    ended = event.get("stop_reason")
                elif kind == "warning":
                    self.details.append(event)
            running.wait(PATIENCE)
        finally:
            watch.cancel()
            if running.poll() is None:
                running.kill()
                running.wait()
        return ended == "completed"

    def _answer(self, interrupt, reply):
        words = [reply] if interrupt["kind"] == "question" else ["approve"]
        answered = self._ctl("answer", interrupt["id"], *words)
        if answered.returncode != 0:
            raise RuntimeError(f"the answer was not taken: {answered.stderr}")

    @staticmethod
    def translate(action):
        """One action as a call of one of its tools."""
        kind, *rest = action
        if kind == "read":
            return "read_file", {"path": "/project/reports/today.txt"}
        if kind == "find":
            return "grep", {"pattern": rest[0], "path": "/project/reports"}
        if kind == "ask":
            return "ask_human", {"question": rest[0]}
        if kind == "write":
            return "write_file", {"path": f"outputs/{rest[0]}", "content": rest[1]}
        if kind == "search":
            return "search_history", {"query": f"{rest[0]} code"}
        states = ["completed"] * rest[0] + ["in_progress"] + ["pending"] * 4
        items = enumerate(zip(["Read the report", "Compare it", "Write the note", "Tell the result"], states))
        todos = [{"id": str(number), "content": words, "status": state} for number, (words, state) in items]
        return "todo_write", {"todos": todos}

    def close(self):
        if self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.log.close()
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
