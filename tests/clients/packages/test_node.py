"""The Node package, installed from its archive: node.mjs has the tests, each in a home of its own."""

import json
import os
import shutil
import subprocess
import unittest

from world import PATIENCE, ROOT, TARGET, WORDS, World

HERE = ROOT / "tests/clients/packages"
INSTALLED = TARGET / "clients/node_modules"
NODE = os.environ.get("NODE", "node")


class NodePackage(World):
    def setUp(self):
        super().setUp()
        (self.home / "node_modules").symlink_to(INSTALLED)
        shutil.copy(ROOT / "clients/node/examples/vscode/extension.js", self.home)

    def node(self, *words):
        environment = {**self.environment, "WORDS": json.dumps(WORDS[:60])}
        done = subprocess.run(
            [NODE, *words], cwd=self.home, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check(self, name):
        shutil.copy(HERE / "node.mjs", self.home)
        self.node("node.mjs", name)

    def test_a_turn_with_a_call_and_an_approval(self):
        self.check("turn")

    def test_no_daemon_and_none_may_be_started(self):
        self.check("absent")

    def test_a_question_and_words_on_the_way(self):
        self.check("question")

    def test_an_approval_outlives_the_daemon(self):
        self.check("waiting")

    def test_a_cancel(self):
        self.check("cancel")

    def test_a_kill_of_the_daemon_in_mid_stream(self):
        self.check("kill")

    def test_who_only_watches_starts_no_daemon_that_was_stopped(self):
        self.check("stop")

    def test_a_broken_connection_loses_and_repeats_nothing(self):
        self.check("broken")

    def test_detach_and_attach(self):
        self.check("detach")

    def test_an_unsaved_buffer_is_a_tool(self):
        self.check("tool")

    def test_all_sessions_can_be_watched(self):
        self.check("watch")

    def test_the_extension_for_vs_code_asks_and_rewrites(self):
        self.check("extension")

    def test_the_types_say_what_may_be_written(self):
        shutil.copy(HERE / "types.mts", self.home)
        options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
        options += ["--lib", "es2023,esnext.disposable"]
        self.node("node_modules/typescript/bin/tsc", *options, "types.mts")


if __name__ == "__main__":
    unittest.main()
