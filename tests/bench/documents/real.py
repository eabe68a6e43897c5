"""Documents that others made, for others: manuals set by LaTeX and by DocBook, in both languages, from Debian's packages,
and office documents from the test suites of Python's libraries. What the registries do not give is left out.
"""

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import pymupdf

# Package, and the files of it.
DEBIAN = [
    ("debian-reference-en", ["debian-reference.en.pdf"]),
    ("debian-reference-zh-cn", ["debian-reference.zh-cn.pdf"]),
    ("debian-edu-doc-zh-cn", ["debian-edu-bookworm-manual.pdf"]),
    ("maint-guide-zh-cn", ["maint-guide.zh-cn.pdf"]),
    ("r-doc-pdf", ["R-FAQ.pdf", "R-admin.pdf", "R-data.pdf", "R-exts.pdf", "R-intro.pdf", "R-ints.pdf", "R-lang.pdf"]),
]
SDISTS = ["python-docx==1.2.0", "python-pptx==1.0.2"]
ENDINGS = (".pdf", ".docx", ".xlsx", ".pptx")
MOST_OF_ONE = 8
SMALLEST = 15_000


def log(text):
    print(text, file=sys.stderr, flush=True)


def run(*command, cwd):
    """Whether it ended well, and in time."""
    try:
        return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def debian(into):
    with tempfile.TemporaryDirectory() as folder:
        for package, names in DEBIAN:
            try:
                if not run("apt-get", "download", package, cwd=folder):
                    raise OSError("apt-get does not give it")
                archive = next(pathlib.Path(folder).glob(f"{package}_*.deb"))
                run("dpkg-deb", "-x", str(archive), "x", cwd=folder)
            except (OSError, StopIteration) as error:
                log(f"without {package}: {error}")
                continue
            for name in names:
                for found in sorted(pathlib.Path(folder, "x").rglob(name))[:1]:
                    (into / f"{package}-{name}".replace(f"{package}-{package}", package)).write_bytes(found.read_bytes())


def sdists(into):
    with tempfile.TemporaryDirectory() as folder:
        for package in SDISTS:
            try:
                pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", package]
                if not run(*pip, cwd=folder):
                    raise OSError("pip does not give it")
            except (OSError, subprocess.TimeoutExpired) as error:
                log(f"without {package}: {error}")
        for archive in sorted(pathlib.Path(folder).glob("*.tar.gz")):
            with tarfile.open(archive) as members:
                files = [member for member in members if member.isfile() and member.name.endswith(ENDINGS)]
                files = [member for member in files if member.size >= SMALLEST]
                for member in sorted(files, key=lambda member: -member.size)[:MOST_OF_ONE]:
                    name = f"{archive.name.split('-')[0]}-{pathlib.PurePath(member.name).name}"
                    (into / name).write_bytes(members.extractfile(member).read())


def bring(into):
    """Puts them into a folder."""
    into.mkdir()
    debian(into)
    sdists(into)


STOP = set("""the a an of and or to in is are be for with that this by on as it its from at which can not you your if will may
when such has have was were but than then there their they these those also any all other more some into only used using use
see""".split())


def questions(dice, document, file, most):
    """Words of a sentence of a page, in another order and without the small ones; in Chinese a stretch of a sentence. The
    pages are read by the library of the stack that is compared, so that none is asked for that it cannot read."""
    asked = []
    with pymupdf.open(file) as pages:
        numbers = list(range(len(pages)))
        dice.shuffle(numbers)
        for number in numbers:
            text = re.sub(r"\s+", " ", pages[number].get_text())
            # Tables of contents and indexes are full of dots.
            if len(text) < 600 or text.count(". . .") or text.count("....") or text.count("…"):
                continue
            query = chinese(dice, text) or english(dice, text)
            if query:
                asked.append({"document": document, "page": number + 1, "query": query})
            if len(asked) == most:
                break
    return asked


def english(dice, text):
    for sentence in dice.sample(re.split(r"(?<=[a-z])\. ", text)[1:-1] or [""], 1):
        words = [word for word in re.findall(r"[A-Za-z]{3,}", sentence) if word.lower() not in STOP]
        if not 6 <= len(words) <= 25:
            return None
        chosen = dice.sample(words, 5)
        return " ".join(chosen)


def chinese(dice, text):
    stretches = [found for found in re.findall(r"[\u4e00-\u9fff]{8,24}", text.replace(" ", ""))]
    if len(stretches) < 5:
        return None
    stretch = dice.choice(stretches)
    start = dice.randrange(len(stretch) - 7)
    return stretch[start : start + 8]
