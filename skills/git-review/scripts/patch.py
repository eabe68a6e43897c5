"""A patch taken apart: files, hunks, lines with their numbers; and which functions the changed lines are in."""

import re

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
KINDS = (
    ("lock", r"(^|/)(Cargo\.lock|package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|Gemfile\.lock|composer\.lock|go\.sum|flake\.lock)$"),
    ("generated", r"(\.min\.(js|css)$|\.pb\.(go|cc|h)$|_pb2(_grpc)?\.pyi?$|\.generated\.|(^|/)(dist|vendor|node_modules|third_party|__snapshots__)/|\.snap$|\.map$)"),
    ("test", r"((^|/)(tests?|specs?|__tests__|testdata|fixtures)/|(^|/)test_[^/]*$|[_.-](test|tests|spec)\.[^/.]+$|Tests?\.(java|kt|cs)$)"),
    ("migration", r"(^|/)migrations?/|\.sql$"),
    ("build", r"(^|/)(Cargo\.toml|package\.json|pyproject\.toml|setup\.(py|cfg)|requirements[^/]*\.txt|go\.mod|pom\.xml|build\.gradle(\.kts)?|Gemfile|CMakeLists\.txt|Makefile|Dockerfile[^/]*|"
              r"[^/]*\.(csproj|nix|cmake))$|(^|/)\.(github|gitlab|circleci|ci)/|(^|/)\.gitlab-ci\.yml$|Jenkinsfile$"),
    ("docs", r"\.(md|rst|adoc|txt)$|(^|/)(docs?|LICENSE|CHANGELOG)"),
    ("config", r"\.(ya?ml|toml|ini|cfg|json|conf|properties|env)$|(^|/)\.[^/]+$"),
    ("source", r"\.(rs|py|js|jsx|mjs|cjs|ts|tsx|vue|svelte|go|java|kt|kts|scala|c|h|cc|cpp|cxx|hpp|hh|m|mm|cs|rb|php|swift|sh|bash|zsh|pl|pm|lua|ex|exs|erl|hs|ml|clj|dart|r|jl|zig|"
               r"proto|graphql|css|scss|html)$"),
)  # fmt: skip
DEFINITIONS = {
    "rs": r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+(?:\"[^\"]*\"\s+)?)*(fn|struct|enum|trait|mod|macro_rules!)\s+(\w+)|^\s*(?:unsafe\s+)?(impl)\b\s*(?:<[^>]*>)?\s*([^{;]+)",
    "py": r"^\s*(?:async\s+)?(def|class)\s+(\w+)",
    "js": r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(function\*?|class|interface|enum)\s+(\w+)|^\s*(?:export\s+)?(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:function|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>)|"
          r"^\s+(?:(?:public|private|protected|static|async|get|set|readonly)\s+)*(?!if|for|while|switch|catch|return|function\b)(\w+)\s*\([^;]*\)\s*(?::\s*[^={]+)?\{\s*$",
    "go": r"^(func|type)\s+(?:\([^)]*\)\s*)?(\w+)",
    "java": r"^\s*(?:(?:public|private|protected|static|final|abstract|override|open|internal|suspend|virtual|async|sealed|data|partial)\s+)*(class|interface|enum|record|object|fun|struct)\s+(\w+)|"
            r"^\s+(?:(?:public|private|protected|static|final|abstract|synchronized|override|virtual|async|internal)\s+)+[\w<>\[\],.? ]+\s+(\w+)\s*\([^;]*$",
    "c": r"^(?:(?:static|inline|extern|const|unsigned|virtual|template<[^>]*>)\s+)*(?:struct|class|enum|namespace)\s+(\w+)|^(?!\s|#|//|return|else|if|for|while|switch)[\w:<>*&,~ ]+?[\s*&]+([\w:~]+)\s*\([^;]*$",
    "rb": r"^\s*(def|class|module)\s+([\w.?!=:]+)",
    "php": r"^\s*(?:(?:public|private|protected|static|abstract|final)\s+)*(function|class|interface|trait)\s+(\w+)",
    "sh": r"^\s*(?:function\s+)?([\w-]+)\s*\(\)",
    "swift": r"^\s*(?:(?:public|private|internal|open|static|final|override|mutating|fileprivate)\s+)*(func|class|struct|enum|protocol|extension|init)\s*(\w*)",
}  # fmt: skip
FAMILY = {"jsx": "js", "mjs": "js", "cjs": "js", "ts": "js", "tsx": "js", "vue": "js", "svelte": "js", "kt": "java", "kts": "java", "scala": "java", "cs": "java",
          "h": "c", "cc": "c", "cpp": "c", "cxx": "c", "hpp": "c", "hh": "c", "m": "c", "bash": "sh", "zsh": "sh", "pyi": "py"}  # fmt: skip


class File:
    """A file of the patch: hunks are (old start, new start, words beside the mark, [(sign, number, text)])."""

    def __init__(self, path):
        self.path, self.old_path, self.status, self.hunks = path, path, "changed", []
        self.binary, self.modes = False, None

    @property
    def added(self):
        return [(number, text) for hunk in self.hunks for sign, number, text in hunk[3] if sign == "+"]

    @property
    def removed(self):
        return [(number, text) for hunk in self.hunks for sign, number, text in hunk[3] if sign == "-"]

    @property
    def kind(self):
        for kind, pattern in KINDS:
            if re.search(pattern, self.path):
                return kind
        return "other"

    @property
    def suffix(self):
        name = self.path.rsplit("/", 1)[-1]
        return name.rsplit(".", 1)[-1].lower() if "." in name else ""


def files_of(text):
    """The files of a patch in git's own form."""
    files, old, new = [], 0, 0
    hunk = None
    for line in text.split("\n"):
        if line.startswith("diff --git "):
            files.append(File(path_of(line)))
            hunk = None
        elif not files:
            continue
        elif hunk is None or line.startswith("@@ "):
            hunk, old, new = header(files[-1], line, hunk, old, new)
        elif line.startswith("+"):
            hunk[3].append(("+", new, line[1:]))
            new += 1
        elif line.startswith("-"):
            hunk[3].append(("-", old, line[1:]))
            old += 1
        elif line.startswith(" "):
            hunk[3].append((" ", new, line[1:]))
            old, new = old + 1, new + 1
    return files


def header(file, line, hunk, old, new):
    match = HUNK.match(line)
    if match:
        old, new = int(match.group(1)), int(match.group(3))
        hunk = (old, new, match.group(5), [])
        file.hunks.append(hunk)
    elif line.startswith("new file mode"):
        file.status = "new"
        file.modes = (None, line.split()[-1])
    elif line.startswith("deleted file"):
        file.status = "deleted"
    elif line.startswith("rename from "):
        file.old_path, file.status = unquoted(line[12:]), "renamed"
    elif line.startswith("rename to "):
        file.path = unquoted(line[10:])
    elif line.startswith("+++ ") and not line.startswith("+++ /dev/null"):
        file.path = unquoted(line[4:].rstrip("\t"))[2:]
    elif line.startswith("old mode"):
        file.modes = (line.split()[-1], None)
    elif line.startswith("new mode"):
        file.modes = (file.modes[0] if file.modes else None, line.split()[-1])
    elif line.startswith(("Binary files", "GIT binary patch")):
        file.binary = True
    return hunk, old, new


def path_of(line):
    """The path in the first line of a file; both names are the same where it says nothing of a rename."""
    rest = line[len("diff --git ") :]
    if rest.startswith('"'):
        return unquoted(rest.split('" ', 1)[0] + '"')[2:]
    half = (len(rest) - 1) // 2
    return rest[2:half] if rest[2:half] == rest[half + 3 :] else rest.split(" b/")[-1]


def unquoted(text):
    if text.startswith('"') and text.endswith('"'):
        plain = text[1:-1].encode("latin-1", "replace").decode("unicode_escape")
        return plain.encode("latin-1", "replace").decode("utf-8", "replace")
    return text


def functions_of(file, content):
    """The functions and types that changed lines are in, with how many lines: [(name, first line, changed lines)]."""
    family = FAMILY.get(file.suffix, file.suffix)
    pattern = DEFINITIONS.get(family)
    if not pattern or not content:
        return []
    heads = []
    for number, line in enumerate(content.split("\n"), 1):
        match = re.match(pattern, line[:300])
        if match:
            names = [group for group in match.groups() if group]
            heads.append((number, len(line) - len(line.lstrip()), " ".join(names)[:70].strip()))
    lines = content.split("\n")
    changed = {number for number, text in file.added if text.strip()}
    changed |= {hunk[1] for hunk in file.hunks if all(sign == "-" for sign, _, _ in hunk[3])}
    touched = {}
    for number in sorted(changed):
        if 1 <= number <= len(lines):
            head = enclosing(heads, number, lines)
            if head:
                touched[head] = touched.get(head, 0) + 1
    return [(name, first, count) for (first, _, name), count in touched.items()]


def enclosing(heads, number, lines):
    """The nearest head above a line that is not deeper than it."""
    text = lines[number - 1]
    depth = len(text) - len(text.lstrip()) if text.strip() else 1 << 20
    for head in reversed(heads):
        if head[0] == number or (head[0] < number and (head[1] < depth or (head[1] == depth and text.strip()[:1] in "})"))):
            return head
    return None
