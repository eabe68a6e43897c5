"""Git, asked without letting the repository decide what runs: no hooks, no pagers, no outside programs for differences."""

import os
import re
import subprocess

from cli import Fault, place

SAFE = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "color.ui=never", "-c", "core.quotePath=false",
    "-c", "diff.external=", "-c", "log.showSignature=false", "-c", "protocol.allow=never", "-c", "submodule.recurse=false", "-c", "diff.renames=true",
    "-c", "diff.mnemonicPrefix=false", "-c", "diff.noprefix=false", "-c", "diff.interHunkContext=0",
)  # fmt: skip
DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "-M")
# What is read of one answer. A longer one is cut, and that is said.
MOST = 24 << 20
PATIENCE = 120


class Repository:
    def __init__(self, folder):
        self.folder = place(folder)
        if not self.folder.is_dir():
            raise Fault(f"{folder} is not a folder")
        self.cut = False
        try:
            self.root = self.ask("rev-parse", "--show-toplevel").strip() or str(self.folder)
        except FileNotFoundError as error:
            raise Fault("git is not installed here") from error
        except Fault as fault:
            if "dubious ownership" in str(fault):
                raise Fault(f"{folder} belongs to another user; git does not read it") from fault
            raise Fault(f"{folder} is not in a git repository") from fault

    def ask(self, *arguments, inside=None):
        """What git answers, as text."""
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "LC_ALL": "C.UTF-8"}
        environment.pop("GIT_EXTERNAL_DIFF", None)
        process = subprocess.Popen(
            ["git", *SAFE, *arguments], cwd=inside or self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            data = process.stdout.read(MOST + 1)
            if len(data) > MOST:
                self.cut, data = True, data[:MOST]
                process.kill()
                process.communicate()
            else:
                _, errors = process.communicate(timeout=PATIENCE)
                if process.returncode:
                    told = errors.decode(errors="replace").strip().split("\n")
                    raise Fault(f"git says: {told[0][:300]}" if told[0] else "git failed")
        finally:
            if process.poll() is None:
                process.kill()
        return data.decode("utf-8", errors="replace")

    def commit(self, name):
        """The full name of a commit."""
        if not name or name.startswith("-") or re.search(r"[\x00-\x20~^:?*\[\\]\s|\.\.", name.replace("^", "").replace("~", "")):
            raise Fault(f"{name!r} is no commit")
        try:
            return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        except Fault as fault:
            known = self.ask("for-each-ref", "--format=%(refname:short)", "--count=15", "--sort=-committerdate", "refs/heads", "refs/remotes").split()
            raise Fault(f"there is no commit {name!r}; branches are: {', '.join(known)}") from fault

    def has_commits(self):
        try:
            self.ask("rev-parse", "--verify", "--quiet", "HEAD")
            return True
        except Fault:
            return False

    def main_branch(self):
        """The branch that work is merged into."""
        for name in ("main", "master", "trunk", "develop", "origin/main", "origin/master"):
            try:
                self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
                return name
            except Fault:
                continue
        return None


class Range:
    """What is looked at: `old` and `new` are commits; no `new` is the work tree, or the index where it is staged."""

    def __init__(self, repository, text=None, staged=False, uncommitted=False):
        self.repository, self.staged, self.base = repository, staged, None
        if not repository.has_commits():
            raise Fault("the repository has no commit yet")
        if staged or uncommitted:
            self.old, self.new = repository.commit("HEAD"), None
            self.title = "what is staged" if staged else "what is not committed"
        elif text and ".." in text:
            self._between(text)
        elif text:
            self.new = repository.commit(text)
            self.old = self._parent(self.new)
            self.title = f"commit {text}"
        else:
            self._branch()

    def _between(self, text):
        dots = "..." if "..." in text else ".."
        first, second = text.split(dots, 1)
        self.old, self.new = self.repository.commit(first or "HEAD"), self.repository.commit(second or "HEAD")
        # Reviewed is what the second did since it left the first.
        self.old = self._base(self.old, self.new)
        self.title = f"{first or 'HEAD'}..{second or 'HEAD'}"

    def _branch(self):
        base = self.repository.main_branch()
        self.new = self.repository.commit("HEAD")
        self.old = self._base(self.repository.commit(base), self.new) if base else self._parent(self.new)
        self.title = f"HEAD since {base}" if base else "the last commit"
        if self.old == self.new:
            self.old, self.title = self._parent(self.new), f"the last commit (HEAD is on {base})"

    def _base(self, first, second):
        try:
            return self.repository.ask("merge-base", first, second).strip() or first
        except Fault:
            return first

    def _parent(self, commit):
        try:
            return self.repository.commit(f"{commit}^")
        except Fault:
            # The first commit is compared with nothing.
            return self.repository.ask("hash-object", "-t", "tree", "/dev/null").strip()

    @property
    def ends(self):
        """As git diff takes it."""
        if self.new:
            return (self.old, self.new)
        return ("--cached", self.old) if self.staged else (self.old,)

    def diff(self, *options, paths=()):
        return self.repository.ask("diff", *DIFF, *options, *self.ends, "--", *(f":(top,literal){path}" for path in paths))

    def commits(self):
        """(short name, date, author, subject) of each commit, the oldest first."""
        if not self.new:
            return []
        told = self.repository.ask("log", "--reverse", "--no-show-signature", "--format=%h%x1f%as%x1f%an%x1f%s%x1e", "-n", "500",
                                   self.new, f"^{self.old}") if self._is_commit(self.old) else self.repository.ask(
            "log", "--reverse", "--no-show-signature", "--format=%h%x1f%as%x1f%an%x1f%s%x1e", "-n", "500", self.new)  # fmt: skip
        return [tuple(entry.strip().split("\x1f")) for entry in told.split("\x1e") if entry.strip()]

    def _is_commit(self, name):
        return self.repository.ask("cat-file", "-t", name).strip() == "commit"

    def content(self, path):
        """A file as it is at the end of the range."""
        try:
            if self.new:
                return self.repository.ask("show", "--no-textconv", f"{self.new}:{path}", inside=self.repository.root)
            if self.staged:
                return self.repository.ask("show", "--no-textconv", f":{path}", inside=self.repository.root)
            from pathlib import Path

            found = Path(self.repository.root, path)
            return found.read_text(encoding="utf-8", errors="replace")[:MOST] if found.is_file() and not found.is_symlink() else ""
        except (Fault, OSError):
            return ""
