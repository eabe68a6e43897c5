"""A workspace with the bundled skills in it, as a model finds it, and their scripts run as it runs them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKILLS = ROOT / "skills"
# Documents that other programs made.
FIXTURES = ROOT / "crates/index/tests/fixtures"
# Longer than anything takes when all is well; nothing waits for ever.
PATIENCE = 120


class Ran:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def __repr__(self):
        return f"exit code {self.code}\n{self.out[-3000:]}\n{self.err[-3000:]}"


class Trial(unittest.TestCase):
    """One skill in a workspace of its own."""

    skill = ""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="agentd-skill-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("uploads", "outputs", "temp"):
            (self.folder / name).mkdir()
        (self.folder / "skills").symlink_to(SKILLS)

    def path(self, name):
        return self.folder / name

    def write(self, name, content):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return name

    def take(self, fixture):
        """A document from the fixtures, in `uploads/`."""
        name = f"uploads/{Path(fixture).name}"
        shutil.copy(FIXTURES / fixture, self.path(name))
        return name

    def call(self, script, *arguments, **variables):
        """Runs a script. Whatever it is given, it never ends in a trace."""
        command = [sys.executable, f"skills/{self.skill}/scripts/{script}", *map(str, arguments)]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(self.folder / "temp"), **variables}
        ran = Ran(subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, encoding="utf-8", timeout=PATIENCE,
            stdin=subprocess.DEVNULL, check=False,
        ))  # fmt: skip
        self.assertNotIn("Traceback", ran.err, ran)
        return ran

    def done(self, script, *arguments, **variables):
        ran = self.call(script, *arguments, **variables)
        self.assertEqual(ran.code, 0, ran)
        return ran.out

    def refused(self, script, *arguments, says, code=2):
        """It ends with this code, and one line says what is wrong."""
        ran = self.call(script, *arguments)
        self.assertEqual(ran.code, code, ran)
        self.assertIn(says, ran.err, ran)
        return ran

    def bomb(self, name, part):
        """A package of a few hundred kilobytes whose part unpacks to much more than anybody needs."""
        with zipfile.ZipFile(self.path(name), "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr("[Content_Types].xml", "<Types/>")
            with package.open(part, "w", force_zip64=True) as stream:
                for _ in range(260):
                    stream.write(b" " * (1 << 20))
        self.assertLess(self.path(name).stat().st_size, 1 << 20)
        return name
