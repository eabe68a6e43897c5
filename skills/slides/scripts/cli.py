"""What all scripts of this skill share: arguments, files, limits, and how a fault is told.

Exit codes: 0 done, 1 a check found something, 2 the arguments or a file are wrong, 3 something unexpected.
"""

import argparse
import json
import os
import re
import sys
import traceback
import zipfile
from pathlib import Path

# A file above this is refused: nothing here is made for it.
MAX_FILE = 200 << 20
# What the parts of a package (xlsx, docx, pptx) may come to when they are unpacked.
MAX_UNPACKED = 400 << 20
MAX_PART = 200 << 20
MAX_PARTS = 20_000
# A part that shrinks so far is no text that somebody wrote.
MAX_RATIO = 300
# Address space, so that a hostile file ends the script and not the machine.
MAX_MEMORY = 4 << 30

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Fault(Exception):
    """Something that whoever called the script can mend. Its text is all that is shown."""


def arguments(text, examples=""):
    """A parser whose help ends with examples."""
    return argparse.ArgumentParser(
        description=text, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def start(main, parser):
    """Runs `main` with the parsed arguments and leaves with its exit code. Faults are told in one line."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    options = parser.parse_args()
    _bound_memory()
    try:
        code = main(options) or 0
        sys.stdout.flush()
    except Fault as fault:
        code = _fail(2, str(fault))
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
    except MemoryError:
        code = _fail(2, "the file needs more memory than there is; work on a part of it")
    except RecursionError:
        code = _fail(2, "the file is nested too deep; it is damaged or hostile")
    except Exception as error:  # libraries raise all kinds of errors at damaged files
        if os.environ.get("SKILL_TRACE"):
            traceback.print_exc()
        cause = clean(str(error)).strip() or "no more is known"
        code = _fail(3, f"this did not work: {type(error).__name__}: {cause[:400]}; the file may be damaged")
    sys.exit(code)


def _fail(code, text):
    print(f"error: {clean(text)}", file=sys.stderr)
    return code


def _bound_memory():
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
        if soft == resource.RLIM_INFINITY or soft > most:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (ImportError, OSError, ValueError):
        pass  # A system without such limits.


def clean(text):
    """Text without what could steer a terminal or turn its direction round."""
    return _CONTROL.sub("", str(text).replace("\r\n", "\n").replace("\r", "\n"))


def say(*lines):
    for line in lines:
        print(clean(line))


def note(line):
    """Something to know that is no result: to standard error."""
    print(f"note: {clean(line)}", file=sys.stderr)


def say_json(value):
    print(json.dumps(value, ensure_ascii=False, indent=1, default=str))


def place(path):
    """A path as the file tools write it (/project/a, /outputs/b), as it is on the disk."""
    text = str(path)
    for name, variable in (("project", "PROJECT"), ("memories", "MEMORIES")):
        base = os.environ.get(variable)
        if base and (text == f"/{name}" or text.startswith(f"/{name}/")) and not os.path.exists(f"/{name}"):
            return Path(base, text[len(name) + 2 :])
    first = text.split("/")[1] if text.startswith("/") else ""
    if first in ("uploads", "outputs", "temp", "skills") and not os.path.exists(f"/{first}"):
        return Path(os.environ.get("WORKSPACE", "."), text[1:])
    return Path(text)


def input_file(path, *kinds):
    """An existing file of one of these kinds (".pdf", …), not empty and not too large."""
    found = place(path)
    if not found.exists():
        raise FileNotFound(path, found)
    if not found.is_file():
        raise Fault(f"{path} is not a file")
    if kinds and found.suffix.lower() not in kinds:
        raise Fault(f"{path} ends with {found.suffix or 'nothing'}; this script reads {', '.join(kinds)}")
    try:
        size = found.stat().st_size
        with open(found, "rb"):
            pass
    except OSError as error:
        raise Fault(f"{path} cannot be read: {error.strerror}") from error
    if size == 0:
        raise Fault(f"{path} is empty")
    if size > MAX_FILE:
        raise Fault(f"{path} has {size >> 20} MB; more than {MAX_FILE >> 20} MB are not read")
    return found


class FileNotFound(Fault):
    def __init__(self, path, found):
        there = []
        if found.parent.is_dir():
            there = sorted(entry.name for entry in found.parent.iterdir() if not entry.name.startswith("."))[:10]
        hint = f"; in {found.parent} there are: {', '.join(there)}" if there else ""
        super().__init__(f"{path} does not exist{hint}")


def output_file(path, *kinds, inputs=()):
    """A path to write to. Its folder is made; an input is never written over."""
    wanted = place(path)
    if kinds and wanted.suffix.lower() not in kinds:
        raise Fault(f"{path}: the result's name must end with {' or '.join(kinds)}")
    for source in inputs:
        if wanted.exists() and os.path.samefile(wanted, source):
            raise Fault(f"{path} is the input; give the result another name, such as outputs/{wanted.stem}-new{wanted.suffix}")
    if wanted.is_dir():
        raise Fault(f"{path} is a folder; name a file in it")
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Fault(f"the folder of {path} cannot be made: {error.strerror}; results go to outputs/") from error
    if not os.access(wanted.parent, os.W_OK):
        raise Fault(f"{path} cannot be written; results go to outputs/")
    return wanted


def output_folder(path):
    """A folder to write to; it is made."""
    wanted = place(path)
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Fault(f"the folder {path} cannot be made: {error.strerror}; results go to outputs/") from error
    return wanted


def read_text(path, most=20 << 20):
    """A text file in UTF-8, or in the encoding that its bytes suggest."""
    found = input_file(path)
    if found.stat().st_size > most:
        raise Fault(f"{path} is too large for a text: {found.stat().st_size >> 20} MB")
    data = found.read_bytes()
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("cp1252", errors="replace")


def read_json(path):
    """JSON from a file, or from the argument itself where it begins with a bracket."""
    text = path if str(path).lstrip()[:1] in ("{", "[") else read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise Fault(f"this is not valid JSON: {error}") from error


def check_package(path):
    """Refuses a package (xlsx, docx, pptx) that is broken, locked, a bomb, or carries a document type."""
    with open(path, "rb") as file:
        begin = file.read(8)
    if begin.startswith(b"\xd0\xcf\x11\xe0"):
        raise Fault(f"{path.name} is locked with a password or is of the format before 2007; "
                    "ask for a copy without a password, saved in the new format")
    try:
        with zipfile.ZipFile(path) as package:
            _check_parts(path, package)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise Fault(f"{path.name} is damaged or not what its name says: {error}") from error
    except RuntimeError as error:
        raise Fault(f"{path.name} is locked with a password") from error


def _check_parts(path, package):
    parts = package.infolist()
    if len(parts) > MAX_PARTS:
        raise Fault(f"{path.name} has {len(parts)} parts; it is damaged or hostile")
    if sum(part.file_size for part in parts) > MAX_UNPACKED:
        raise Fault(f"{path.name} unpacks to more than {MAX_UNPACKED >> 20} MB; it is refused")
    for part in parts:
        shrunk = part.file_size / max(part.compress_size, 1)
        if part.file_size > MAX_PART or (part.file_size > 20 << 20 and shrunk > MAX_RATIO):
            raise Fault(f"{path.name} holds a part that unpacks to {part.file_size >> 20} MB; it is refused")
        if part.filename.lower().endswith((".xml", ".rels")):
            with package.open(part) as stream:
                if b"<!doctype" in stream.read(4096).replace(b"\0", b"").lower():
                    raise Fault(f"{path.name} declares a document type in {part.filename}; it is refused")


def ranges(text, count):
    """Numbers from "1-3,7,10-": counted from 1, in the order given. `count` is how many there are."""
    if not text or text == "all":
        return list(range(1, count + 1))
    numbers = []
    for piece in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d*)(-?)(\d*)", piece)
        if not match or piece in ("", "-"):
            raise Fault(f"{piece!r} is no range; write 1-3,7 or 5-")
        low, dash, high = match.groups()
        first = int(low or 1)
        last = int(high or (count if dash else first))
        if not 1 <= first <= count or not 1 <= last <= count:
            raise Fault(f"{piece} is out of range: there are {count}")
        numbers.extend(range(first, last + 1) if first <= last else range(first, last - 1, -1))
    return numbers
