"""A compact overview of a change in git: commits, files in the order to read them, functions touched, hot spots, what to look at."""

import re

from cli import arguments, note, say, say_json, start
from gitrun import Range, Repository
from patch import files_of, functions_of
from signs import signs_of

parser = arguments(
    __doc__,
    "examples:\n"
    '  python skills/git-review/scripts/overview.py --repo "$PROJECT"                 (this branch since main)\n'
    '  python skills/git-review/scripts/overview.py --repo "$PROJECT" main..feature\n'
    '  python skills/git-review/scripts/overview.py --repo "$PROJECT" HEAD~1          (one commit)\n'
    '  python skills/git-review/scripts/overview.py --repo "$PROJECT" --uncommitted',
)
parser.add_argument("range", nargs="?", help="A..B (what B did since it left A), or one commit; this branch since main where absent")
parser.add_argument("--repo", default=".", help="the repository (this folder where absent)")
parser.add_argument("--uncommitted", action="store_true", help="what is changed and not committed")
parser.add_argument("--staged", action="store_true", help="what is staged")
parser.add_argument("--files", type=int, default=40, help="at most so many files (40 where absent)")
parser.add_argument("--json", action="store_true", help="print JSON")

# What is read first. Tests come after the code that they are about.
ORDER = {"migration": 0, "source": 1, "build": 2, "config": 3, "other": 4, "test": 5, "docs": 6, "generated": 8, "lock": 9}
MAX_SIGNS = 60
# How far back hot spots are counted.
SINCE = "1 year ago"


def main(options):
    repository = Repository(options.repo)
    chosen = Range(repository, options.range, options.staged, options.uncommitted)
    files = files_of(chosen.diff("-U0"))
    told = {
        "range": chosen.title,
        "from": chosen.old[:10],
        "to": (chosen.new or "work tree")[:10],
        "commits": chosen.commits(),
        "files": [described(file, chosen) for file in files],
    }
    heat(repository, told["files"])
    told["files"].sort(key=lambda file: (ORDER.get(file["kind"], 4), -file["weight"], file["path"]))
    told["signs"] = [{"file": file.path, "line": line, "reason": reason, "text": text} for file in files for line, reason, text in signs_of(file)]
    told["untested"] = untested(files)
    if options.json:
        return say_json(told)
    show(told, options)
    if repository.cut:
        note("the change is larger than what is read at once; give a smaller range")
    if not options.uncommitted and not options.staged and repository.ask("status", "--porcelain", "--untracked-files=no").strip():
        note("there are changes that are not committed; see --uncommitted")
    if options.uncommitted:
        new = repository.ask("ls-files", "--others", "--exclude-standard", "--full-name").split("\n")
        if any(new):
            note(f"files that git does not know yet are not shown: {', '.join(filter(None, new[:20]))}")


def described(file, chosen):
    added, removed = len(file.added), len(file.removed)
    touched = [] if file.kind in ("lock", "generated") or file.binary else functions_of(file, chosen.content(file.path) if file.status != "deleted" else "")
    return {
        "path": file.path, "from": file.old_path if file.status == "renamed" else None, "status": file.status, "kind": file.kind, "added": added,
        "removed": removed, "binary": file.binary, "functions": touched, "weight": added + removed, "commits_in_a_year": 0,
    }  # fmt: skip


def heat(repository, files):
    """How often each file changed in the last year: where changes are frequent, faults are too."""
    counts = {}
    told = repository.ask("log", "--no-show-signature", f"--since={SINCE}", "-n", "3000", "--format=", "--name-only", "--no-renames", "--no-ext-diff")
    for path in told.split("\n"):
        counts[path] = counts.get(path, 0) + 1
    for file in files:
        file["commits_in_a_year"] = counts.get(file["path"], 0) or counts.get(file["from"], 0)
        if file["kind"] == "source":
            file["weight"] = (file["added"] + file["removed"]) * (1 + min(file["commits_in_a_year"], 50) / 10)


def untested(files):
    """Source files that grew while no test beside them was touched."""
    tests = " ".join(file.path.lower() for file in files if file.kind == "test")
    found = []
    for file in files:
        if file.kind == "source" and len(file.added) > 5 and file.status != "deleted":
            name = re.sub(r"\.[^.]*$", "", file.path.rsplit("/", 1)[-1]).lower()
            own = any(re.search(r"#\[test\]|#\[cfg\(test\)\]|\bdef test_|assert", text) for _, text in file.added)
            if name not in tests and not own:
                found.append(file.path)
    return found


def show(told, options):
    files = told["files"]
    added, removed = sum(file["added"] for file in files), sum(file["removed"] for file in files)
    say(f"{told['range']} ({told['from']} to {told['to']}): {len(told['commits'])} commits, {len(files)} files, +{added} -{removed}")
    for name, date, author, subject in told["commits"][-25:]:
        say(f"  {name} {date} {author}: {subject[:100]}")
    if len(told["commits"]) > 25:
        say(f"  (the last 25 of {len(told['commits'])})")
    if not files:
        say("nothing differs")
        return
    say("", "files, in the order to read them:")
    for number, file in enumerate(files[: options.files], 1):
        moved = f" (was {file['from']})" if file["from"] else ""
        size = "binary" if file["binary"] else f"+{file['added']} -{file['removed']}"
        hot = f", changed {file['commits_in_a_year']} times in a year" if file["commits_in_a_year"] >= 8 else ""
        status = f", {file['status']}" if file["status"] != "changed" else ""
        say(f"  {number}. {file['path']}{moved}  {size}  {file['kind']}{status}{hot}")
        names = [f"{name} (line {first}, {count})" for name, first, count in sorted(file["functions"], key=lambda one: -one[2])]
        if names:
            say(f"     in: {', '.join(names[:6])}" + (f", and {len(names) - 6} more" if len(names) > 6 else ""))
    if len(files) > options.files:
        say(f"  and {len(files) - options.files} more; give --files")
    if told["signs"]:
        say("", "look at (questions, not faults; -12 is a line of the old file):")
        for sign in told["signs"][:MAX_SIGNS]:
            place = f"{sign['file']}:{sign['line']}" if sign["line"] else sign["file"]
            say(f"  {place}: {sign['reason']}" + (f": {sign['text']}" if sign["text"] else ""))
        if len(told["signs"]) > MAX_SIGNS:
            say(f"  and {len(told['signs']) - MAX_SIGNS} more; see --json")
    if told["untested"]:
        say("", "grew, and no test with their name was touched:")
        say(*(f"  {path}" for path in told["untested"][:20]))


if __name__ == "__main__":
    start(main, parser)
