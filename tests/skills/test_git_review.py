"""The skill `git-review`, on repositories that are made here, strange names and hostile settings included."""

import json
import os
import subprocess
import unittest

from trial import Trial

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"


class GitReview(Trial):
    skill = "git-review"

    def setUp(self):
        super().setUp()
        self.repo = self.path("temp/repo")
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("Begin", {
            "src/app.py": "import os\n\n\ndef first(a):\n    return a\n\n\ndef second(b):\n    assert b\n    return b + 1\n",
            "src/lib.rs": "pub fn one() -> u32 {\n    1\n}\n\nimpl Thing {\n    fn two(&self) {\n        run();\n    }\n}\n",
            "tests/test_app.py": "def test_first():\n    assert first(1) == 1\n",
            "Cargo.lock": "a\n", "README.md": "hello\n", "old name.txt": "one\ntwo\nthree\nfour\n",
        })  # fmt: skip

    def git(self, *arguments):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@example.org",
                       "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "a@example.org"}  # fmt: skip
        return subprocess.run(["git", *arguments], cwd=self.repo, env=environment, check=True, capture_output=True, text=True).stdout

    def commit(self, subject, files=()):
        for name, content in dict(files).items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)

    def overview(self, *arguments):
        return json.loads(self.done("overview.py", "--repo", "temp/repo", "--json", *arguments))

    def feature(self):
        self.git("checkout", "-q", "-b", "feature")
        (self.repo / "old name.txt").rename(self.repo / "neue 名.txt")
        self.commit("Change <things>", {
            "src/app.py": "import os\n\n\ndef first(a):\n    print(a)\n    return a * 2\n\n\ndef second(b):\n    return b + 1\n",
            "src/lib.rs": "pub fn one() -> u32 {\n    1\n}\n\nimpl Thing {\n    fn two(&self) {\n        run().unwrap();\n    }\n}\n",
            "Cargo.lock": "b\n", "migrations/2.sql": "DROP TABLE people;\n", "key.py": f"KEY = '{SECRET}'\n", "pic.bin": bytes(range(256)),
        })  # fmt: skip
        self.git("checkout", "-q", "main")
        self.commit("Something else on main", {"other.txt": "x\n"})

    def test_overview_of_a_branch(self):
        self.feature()
        overview_json = self.overview("main..feature")
        self.assertEqual([commit[3] for commit in overview_json["commits"]], ["Change <things>"])
        paths = [file["path"] for file in overview_json["files"]]
        self.assertNotIn("other.txt", paths, "what main did since is not reviewed")
        self.assertEqual((paths[0], paths[-1]), ("migrations/2.sql", "Cargo.lock"))
        files = {file["path"]: file for file in overview_json["files"]}
        self.assertEqual((files["neue 名.txt"]["status"], files["neue 名.txt"]["from"]), ("renamed", "old name.txt"))
        self.assertTrue(files["pic.bin"]["binary"])
        self.assertEqual((files["src/app.py"]["added"], files["src/app.py"]["removed"]), (2, 2))
        self.assertIn("def first", [name for name, _, _ in files["src/app.py"]["functions"]])
        self.assertEqual([name for name, _, _ in files["src/lib.rs"]["functions"]], ["fn two"])
        signs = {(sign["file"], sign["line"]): sign["reason"] for sign in overview_json["signs"]}
        self.assertEqual(signs["src/app.py", "5"], "output or a stop for debugging")
        self.assertEqual(signs["src/app.py", "-9"], "a check is gone")
        self.assertEqual(signs["src/lib.rs", "7"], "ends the program where it fails")
        self.assertEqual(signs["key.py", "1"], "looks like a secret")
        self.assertIn("changes or destroys stored data", [sign["reason"] for sign in overview_json["signs"]])
        text = self.done("overview.py", "--repo", "temp/repo", "main..feature")
        self.assertIn("1. migrations/2.sql  +1 -0  migration, new", text)
        self.assertIn("src/app.py:-9: a check is gone: assert b", text)

    def test_one_commit_and_the_first(self):
        self.feature()
        self.assertEqual([file["path"] for file in self.overview("HEAD")["files"]], ["other.txt"])
        self.assertEqual(len(self.overview("HEAD~1")["files"]), 6)
        self.assertEqual([file["path"] for file in self.overview()["files"]], ["other.txt"], "on main, the last commit")

    def test_uncommitted(self):
        (self.repo / "src/app.py").write_text("import os\n\n\ndef first(a):\n    return -a\n", encoding="utf-8")
        (self.repo / "new.txt").write_text("x", encoding="utf-8")
        self.assertEqual([file["path"] for file in self.overview("--uncommitted")["files"]], ["src/app.py"])
        self.assertEqual(self.overview("--staged")["files"], [])
        ran = self.call("overview.py", "--repo", "temp/repo", "--uncommitted")
        self.assertIn("does not know yet", ran.err)
        self.assertIn("new.txt", ran.err)
        self.git("add", "-A")
        self.assertEqual(len(self.overview("--staged")["files"]), 2)

    def test_hot_spots_and_tests(self):
        for number in range(9):
            self.commit(f"Change {number}", {"src/hot.py": f"def hot():\n    return {number}\n"})
        self.git("checkout", "-q", "-b", "more")
        self.commit("More", {"src/hot.py": "def hot():\n" + "    a = 1\n" * 9, "src/cold.py": "def cold():\n" + "    a = 1\n" * 9, "tests/test_cold.py": "def test_cold():\n    assert 1\n"})
        overview_json = self.overview()
        self.assertEqual(overview_json["files"][0]["path"], "src/hot.py")
        self.assertEqual(overview_json["files"][0]["commits_in_a_year"], 10)
        self.assertEqual(overview_json["untested"], ["src/hot.py"])
        self.assertIn("changed 10 times in a year", self.done("overview.py", "--repo", "temp/repo"))

    def test_show(self):
        self.feature()
        text = self.done("show.py", "--repo", "temp/repo", "src/app.py", "--range", "main..feature", "--context", "1")
        self.assertIn("+     5     print(a)", text)
        self.assertIn("-     9     assert b", text)
        self.assertIn("was old name.txt", self.done("show.py", "--repo", "temp/repo", "neue 名.txt", "--range", "main..feature"))
        self.refused("show.py", "--repo", "temp/repo", "nope.py", "--range", "main..feature", says="is not changed")
        ran = self.call("show.py", "--repo", "temp/repo", "src/app.py", "--range", "main..feature", "--lines", "2")
        self.assertIn("give --skip 2", ran.err)

    def test_the_repository_runs_nothing(self):
        self.feature()
        mark = self.folder / "ran"
        hook = self.write("temp/hook.sh", f"#!/bin/sh\ntouch {mark}\n")
        self.path(hook).chmod(0o755)
        program = str(self.path(hook))
        for key in ("diff.external", "core.fsmonitor", "core.pager", "diff.evil.textconv", "diff.evil.command", "gpg.program", "pager.diff", "pager.log"):
            self.git("config", key, program)
        self.git("config", "log.showSignature", "true")
        (self.repo / ".gitattributes").write_text("*.py diff=evil\n", encoding="utf-8")
        for arguments in (("main..feature",), ("--uncommitted",), ("HEAD",)):
            self.done("overview.py", "--repo", "temp/repo", *arguments)
        self.done("show.py", "--repo", "temp/repo", "src/app.py", "--range", "main..feature")
        self.assertFalse(mark.exists())

    def test_strange_content(self):
        self.git("checkout", "-q", "-b", "strange")
        self.commit("\x1b[31mred\x1b[0m", {
            'a "quoted"\\name.py': "x = 1\n", "-dash.py": "y = 1\n", "tab\tname.py": "z\n", "bad.py": b"\xff\xfe\x00caf\xe9\n", "latin.py": b"# caf\xe9\n",
            "long.js": "x" * 50_000 + "\n", "hidden.py": "a = 1 # \u202e evil\n", "diff.txt": "+++ b/x\n--- a/y\n@@ -1 +1 @@\ndiff --git a/q b/q\n", "nl.txt": "no end",
            "empty.txt": "", "mark.py": "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n",
        })  # fmt: skip
        overview_json = self.overview("main..strange")
        self.assertEqual(len(overview_json["files"]), 11)
        paths = {file["path"]: file for file in overview_json["files"]}
        self.assertIn("-dash.py", paths)
        self.assertIn('a "quoted"\\name.py', paths)
        self.assertIn("tab\tname.py", paths)
        self.assertEqual(paths["diff.txt"]["added"], 4)
        reasons = [(sign["file"], sign["reason"]) for sign in overview_json["signs"]]
        self.assertIn(("hidden.py", "letters that cannot be seen or turn the direction of a text"), reasons)
        self.assertEqual(reasons.count(("mark.py", "a mark of a merge conflict")), 3)
        text = self.done("overview.py", "--repo", "temp/repo", "main..strange")
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)
        self.done("show.py", "--repo", "temp/repo", "--range", "main..strange", "--", "-dash.py")

    def test_bad_input(self):
        self.refused("overview.py", "--repo", "temp/none", says="is not a folder")
        self.refused("overview.py", "--repo", "/", says="is not in a git repository")
        self.refused("overview.py", "--repo", "temp/repo", "nope..main", says="branches are: main")
        for name in ("--output=x..main", "a b", "main:src", "..--upload-pack=x"):
            ran = self.call("overview.py", "--repo", "temp/repo", "--", name)
            self.assertEqual(ran.code, 2, f"{name} {ran}")
        empty = self.path("temp/empty")
        empty.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=empty, check=True, capture_output=True)
        self.refused("overview.py", "--repo", "temp/empty", says="no commit yet")


if __name__ == "__main__":
    unittest.main()
