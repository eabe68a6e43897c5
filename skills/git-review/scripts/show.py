"""Shows the change of one file, with the line numbers of the new file, to name them in a review."""

from cli import Fault, arguments, note, say, start
from gitrun import Range, Repository
from patch import files_of

parser = arguments(
    __doc__,
    "examples:\n"
    '  python skills/git-review/scripts/show.py --repo "$PROJECT" src/main.rs\n'
    '  python skills/git-review/scripts/show.py --repo "$PROJECT" src/main.rs --range main..feature --context 10\n'
    "Lines with + are new, with - are gone (their numbers are those of the old file), others are as they were.",
)
parser.add_argument("path", help="the file, as overview.py names it")
parser.add_argument("--range", help="as for overview.py")
parser.add_argument("--repo", default=".", help="the repository (this folder where absent)")
parser.add_argument("--uncommitted", action="store_true")
parser.add_argument("--staged", action="store_true")
parser.add_argument("--context", type=int, default=5, help="lines around each change, 0 to 200 (5 where absent)")
parser.add_argument("--lines", type=int, default=400, help="at most so many lines (400 where absent)")
parser.add_argument("--skip", type=int, default=0, help="leave out so many lines first")


def main(options):
    if not 0 <= options.context <= 200:
        raise Fault("--context must be from 0 to 200")
    repository = Repository(options.repo)
    chosen = Range(repository, options.range, options.staged, options.uncommitted)
    names = [file for file in files_of(chosen.diff("-U0")) if options.path in (file.path, file.old_path)]
    if not names:
        raise Fault(f"{options.path} is not changed in {chosen.title}; overview.py names the files that are")
    paths = {names[0].path, names[0].old_path}
    file = next(one for one in files_of(chosen.diff(f"-U{options.context}", paths=paths)) if one.path == names[0].path)
    say(f"{file.path}: {file.status}, +{len(file.added)} -{len(file.removed)}" + (f", was {file.old_path}" if file.status == "renamed" else ""))
    if file.binary:
        say("it is binary")
        return
    lines = []
    for _, _, words, parts in file.hunks:
        lines.append(f"@@ {words}".rstrip())
        lines.extend(f"{sign} {number:>5} {text[:500]}" for sign, number, text in parts)
    say(*lines[options.skip : options.skip + options.lines])
    left = len(lines) - options.skip - options.lines
    if left > 0:
        note(f"{left} lines more; give --skip {options.skip + options.lines}")


if __name__ == "__main__":
    start(main, parser)
