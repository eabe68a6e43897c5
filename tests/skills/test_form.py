"""The bundled skills are of the form that the Agent Skills format asks for, and what they name exists."""

import re
import unittest

from trial import SKILLS, Trial

NAMES = sorted(entry.name for entry in SKILLS.iterdir())
MAX_BYTES = 300_000
MAX_LINES = 500
MAX_DESCRIPTION = 1024
KEYS = {"name", "description", "license", "metadata", "compatibility", "allowed-tools"}
PIN = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9.]*(; python_version [<>=]+ "3\.\d+")?')


def files(name):
    return [path for path in (SKILLS / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def front(text):
    """Front matter of simple lines, which every reader of YAML understands in the same way."""
    lines = text.split("\n")
    assert lines[0] == "---", "it begins with front matter"
    end = lines.index("---", 1)
    found = {}
    for line in lines[1:end]:
        name, colon, value = line.partition(":")
        assert colon, line
        if not line.startswith(" "):
            found[name] = value.strip()
            assert not re.search(r": | #|^[\[{&*!|>%@`'\"]", found[name]), f"needs quotes: {line}"
    return found, lines[end + 1 :]


class Form(unittest.TestCase):
    def test_there_are_skills(self):
        self.assertTrue(NAMES)

    def test_front_matter(self):
        for name in NAMES:
            with self.subTest(name):
                about, body = front((SKILLS / name / "SKILL.md").read_text(encoding="utf-8"))
                self.assertEqual(about["name"], name)
                self.assertRegex(name, r"^[a-z0-9]+(-[a-z0-9]+)*$")
                self.assertLessEqual(len(name), 64)
                self.assertTrue(60 < len(about["description"]) < MAX_DESCRIPTION, about["description"])
                self.assertIn("Use it", about["description"], "it says when")
                self.assertEqual(about["license"], "Apache-2.0")
                self.assertLessEqual(set(about), KEYS)
                self.assertLess(len(body), MAX_LINES)

    def test_size(self):
        for name in NAMES:
            self.assertLess(sum(path.stat().st_size for path in files(name)), MAX_BYTES, name)

    def test_what_is_named_exists(self):
        for name in NAMES:
            for path in files(name):
                if path.suffix == ".md":
                    text = path.read_text(encoding="utf-8")
                    for named in re.findall(r"skills/[a-z-]+/[A-Za-z0-9_./-]+\.(?:py|md|json)", text):
                        self.assertTrue((SKILLS.parent / named).is_file(), f"{path}: {named}")
                    for named in re.findall(r"`([a-z_]+\.py)", text):
                        self.assertTrue((SKILLS / name / "scripts" / named).is_file(), f"{path}: {named}")

    def test_every_reference_is_named(self):
        for name in NAMES:
            text = (SKILLS / name / "SKILL.md").read_text(encoding="utf-8")
            for path in (SKILLS / name).glob("reference/*"):
                self.assertIn(f"skills/{name}/reference/{path.name}", text)

    def test_requirements_are_pinned_and_agree(self):
        pins = {}
        for name in NAMES:
            path = SKILLS / name / "requirements.txt"
            lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
            for line in lines:
                if line and not line.startswith("#"):
                    self.assertRegex(line, PIN, name)
                    package = re.split("==", line)[0]
                    self.assertEqual(pins.setdefault((package, line.partition(";")[2]), line), line, name)

    def test_the_product_speaks_of_itself_only(self):
        for name in NAMES:
            for path in files(name):
                text = path.read_text(encoding="utf-8")
                self.assertNotRegex(text, r"/tmp/wt|/wor[k]/|(?i:claude|openai|anthropic)", path)


class Scripts(Trial):
    def test_each_script_explains_itself(self):
        for name in NAMES:
            self.skill = name
            for path in sorted((SKILLS / name / "scripts").glob("*.py")):
                if "arguments(" not in path.read_text(encoding="utf-8") or path.name == "cli.py":
                    continue
                with self.subTest(f"{name}/{path.name}"):
                    self.assertIn("usage:", self.done(path.name, "--help"))
                    wrong = self.call(path.name, "--no-such-option")
                    self.assertEqual(wrong.code, 2, wrong)


if __name__ == "__main__":
    unittest.main()
