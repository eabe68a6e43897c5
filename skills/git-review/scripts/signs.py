"""What is worth a look in changed lines: patterns with a reason. A sign is a question, not a fault."""

import re

ANY = None
# (which suffixes, what is looked for in added lines, why, whether tests count)
ADDED = (
    (ANY, r"^(<{7}|>{7}|={7})( |$)", "a mark of a merge conflict", True),
    (ANY, r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bxox[baprs]-[\w-]{10,}|\bsk-[A-Za-z0-9_-]{24,}", "looks like a secret", True),
    (ANY, r"(?i)\b(password|passwd|secret|api_?key|access_?token)\b\s*[:=]\s*[\"'][^\"'\s$<{]{6,}[\"']", "may be a secret in the text", False),
    (ANY, r"\b(TODO|FIX" r"ME|XXX|HACK)\b", "something is left to do", True),
    (ANY, r"https?://(\d{1,3}\.){3}\d{1,3}|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])", "a fixed address", False),
    (("py",), r"^\s*(print|breakpoint)\(|\bpdb\.set_trace", "output or a stop for debugging", False),
    (("js", "jsx", "ts", "tsx", "mjs", "vue", "svelte"), r"\bconsole\.(log|debug)\(|\bdebugger\b", "output or a stop for debugging", False),
    (("rs",), r"\bdbg!\(|\btodo!\(|\bunimplemented!\(", "something for debugging or left to do", True),
    (("rs",), r"\.unwrap\(\)|\.expect\(|\bpanic!\(", "ends the program where it fails", False),
    (("rs",), r"\bunsafe\b", "unsafe: is the reason beside it right?", False),
    (("rs", "go", "java", "kt", "cs", "c", "cpp", "cc"), r"\bas (u8|u16|u32|i8|i16|i32|usize)\b|\((int|short|byte|uint8|int32|uint32)\)\s*\w", "a number may be cut", False),
    (("py",), r"except\s*(Exception|BaseException)?\s*:\s*(pass)?\s*$|^\s*except:\s*", "catches everything", False),
    (("js", "jsx", "ts", "tsx", "java", "kt", "cs", "cpp", "php"), r"catch\s*(\([^)]*\))?\s*\{\s*\}", "an error is swallowed", False),
    (("go",), r"\b_\s*(,\s*_)?\s*:?=\s*\w+[.(]", "an answer, perhaps an error, is thrown away", False),
    (("py",), r"\beval\(|\bexec\(|shell\s*=\s*True|os\.system\(|pickle\.loads?\(|yaml\.load\((?!.*Safe)|verify\s*=\s*False", "runs or trusts what comes from outside?", True),
    (("js", "jsx", "ts", "tsx", "mjs", "vue", "svelte", "html", "php"), r"\beval\(|innerHTML\s*=|dangerouslySetInnerHTML|document\.write\(|child_process", "runs or shows what comes from outside?", False),
    (("sh", "bash"), r"\beval\b|curl[^|]*\|\s*(ba)?sh|rm -rf? \"?\$|chmod 777", "dangerous where a variable is empty or strange", True),
    (("c", "h", "cpp", "cc", "cxx", "hpp"), r"\b(strcpy|strcat|sprintf|gets|alloca|memcpy)\s*\(", "does the target hold it?", False),
    (ANY, r"(?i)[\"'`f](select|insert into|update|delete from)\b.*([\"'`]\s*(\+|%|\.format)|\$\{|\{\w)", "SQL put together from pieces", False),
    (ANY, r"(?i)\b(md5|sha1|des|ecb)\b\s*[(.]|\bMath\.random\(\)|\brandom\.random\(\)", "is it for something that must be secure?", False),
    (ANY, r"@(pytest\.mark\.)?(skip|ignore|disabled)\b|#\[ignore|\b(it|test|describe)\.(skip|only)\(|\bxit\(|@Disabled|@Ignore|t\.Skip\(", "a test is left out, or all others are", True),
    (ANY, r"\b(sleep|Thread\.sleep|time\.sleep|setTimeout)\s*\(", "waits for a time instead of for something?", True),
    (ANY, r"(?i)#\s*noqa|eslint-disable|#\[allow\(|@SuppressWarnings|type:\s*ignore|nolint|@ts-(ignore|nocheck)", "a warning is silenced", True),
    (("sql",), r"(?i)\b(drop|truncate)\s+(table|column|index|database)|\bdelete\s+from\s+\w+\s*;|\balter\s+table\b", "changes or destroys stored data", True),
)
# In removed lines.
REMOVED = (
    (ANY, r"\bassert\w*\b[!(. ]|\b(expect|should|require)\b[.(]", "a check is gone", True),
    (ANY, r"(?i)\b(authori[sz]e|authenticate|permission|is_admin|csrf|sanitize|escape|validate)\w*", "a guard is gone?", False),
    (ANY, r"#\[test\]|^\s*(async )?def test_|\b(it|test)\(", "a test is gone", True),
    (ANY, r"\b(lock|mutex|synchronized|transaction|rollback)\b", "a lock or transaction is gone?", False),
)
MOST_OF_ONE = 6


def signs_of(file):
    """(line, reason, text) of a file; lines of what was removed are numbers of the old file, marked with a minus."""
    if file.kind in ("lock", "generated") or file.binary:
        return
    is_test = file.kind == "test"
    yield from file_signs(file)
    moved = {text.strip() for _, text in file.added}
    for patterns, lines, mark in ((ADDED, file.added, ""), (REMOVED, file.removed, "-")):
        counts = {}
        for number, text in lines:
            if mark and text.strip() in moved:
                continue
            for suffixes, pattern, reason, in_tests in patterns:
                if (suffixes and file.suffix not in suffixes) or (is_test and not in_tests) or (file.kind == "docs" and "secret" not in reason and "conflict" not in reason):
                    continue
                if re.search(pattern, text[:2000]):
                    counts[reason] = counts.get(reason, 0) + 1
                    if counts[reason] <= MOST_OF_ONE:
                        yield f"{mark}{number}", reason, text.strip()[:110]
        for reason, count in counts.items():
            if count > MOST_OF_ONE:
                yield "", f"{reason}: {count - MOST_OF_ONE} more", ""


def file_signs(file):
    if file.modes and file.modes[1] == "100755" and file.modes[0] in (None, "100644"):
        yield "", "can be executed now", ""
    if file.modes and file.modes[1] == "120000":
        yield "", "is a link", ""
    if file.kind == "build":
        yield "", "changes how things are built, or what is depended on", ""
    if file.kind == "migration":
        yield "", "changes stored data: can it be undone, does it lock for long?", ""
    longest = max((len(text) for _, text in file.added), default=0)
    if longest > 1000:
        yield "", f"a line of {longest} letters", ""
    hidden = [number for number, text in file.added if re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", text)]
    if hidden:
        yield str(hidden[0]), "letters that cannot be seen or turn the direction of a text", ""
