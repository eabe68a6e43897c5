"""Brings manuals that others wrote, in many languages, and asks for sentences of them as people ask.

    python manuals.py FOLDER

They come from Debian's packages; one that is not to be had is left out. `corpus.json` in the folder names the `documents`, the
`questions` that are reported, and those on which the ranking was `tuned`; `forms.py` says how they are made.
"""

import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pymupdf

import forms
import real

PACKAGES = [
    "asymptote-doc", "bash-doc", "debian-reference-de", "debian-reference-en", "debian-reference-fr", "debian-reference-it",
    "debian-reference-ja", "debian-reference-zh-cn", "gnuplot-doc", "installation-guide-amd64", "lilypond-doc-pdf-de",
    "maint-guide-de", "maint-guide-es", "maint-guide-fr", "maint-guide-ru", "maxima-doc", "octave-doc", "r-doc-pdf", "valgrind",
]
FROM_RIGHT_PACKAGE = "texlive-lang-arabic"
SMALLEST = 150_000
# Pictures of music, and what stands in another one as well.
WITHOUT = {"refman.pdf", "snippets.de.pdf", "essay.de.pdf", "web.de.pdf", "changes.de.pdf", "liboctave.pdf"}


def files_of(package, pattern):
    """The names and contents of files in a package of Debian."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not real.run("apt-get", "download", package, cwd=folder):
                raise OSError("apt-get does not give it")
            archive = next(pathlib.Path(folder).glob(f"{package}_*.deb"))
            real.run("dpkg-deb", "-x", str(archive), "x", cwd=folder)
        except (OSError, StopIteration, subprocess.TimeoutExpired) as error:
            real.log(f"without {package}: {error}")
            return
        for path in sorted(pathlib.Path(folder, "x").rglob(pattern)):
            if path.is_file() and not path.is_symlink():
                yield path.name, path.read_bytes()


def bring(package, into):
    for name, content in files_of(package, "*.pdf*"):
        if name not in WITHOUT and len(content) >= SMALLEST:
            plain = gzip.decompress(content) if name.endswith(".gz") else content
            (into / name.removesuffix(".gz")).write_bytes(plain)


def bring_from_right(into):
    """Manuals in Arabic and Persian, each with its language before its name."""
    languages = {name: language for language, names in forms.FROM_RIGHT.items() for name in names}
    for name, content in files_of(FROM_RIGHT_PACKAGE, "*.pdf"):
        if name in languages:
            (into / f"{languages[name]}.{name}").write_bytes(content)


def pages_of(path):
    with pymupdf.open(path) as made:
        return len(made)


def main():
    target = pathlib.Path(sys.argv[1])
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for package in PACKAGES:
        bring(package, part)
    paths = sorted(part.glob("*.pdf"))
    asked = forms.questions(paths)
    bring_from_right(part)
    from_right = sorted(set(part.glob("*.pdf")) - set(paths))
    made = {
        "documents": [{"name": path.name, "pages": pages_of(path)} for path in [*paths, *from_right]],
        "questions": [one for one in asked if not one["tuned"]] + forms.stretches(paths) + forms.from_right(from_right),
        "tuned": [one for one in asked if one["tuned"]],
    }
    (part / "corpus.json").write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


if __name__ == "__main__":
    main()
