"""Brings documents that are known to be hard: those of the test suites of other libraries, and manuals in many languages.

    python foreign.py FOLDER
    python foreign.py judge FOLDER TEXTS

The first brings them; `corpus.json` in the folder names the `documents`. The second compares the text of their pages, as `TEXTS`
has it by document and page, with that of PyMuPDF, python-docx and python-pptx: the share of the words of each page that are
there, and the share of them that stand in the same order. Words and tables are compared with pdfplumber, too (`tables.py`), and
workbooks with openpyxl cell by cell (`cells.py`).

A word counts once a page, since some programs print it several times to make it bold. Chinese and Korean count letter by letter. Words
of one letter do not count, and of Arabic and Hebrew ones not the order of their letters, which PyMuPDF changes. Of longer ones
spaces do not count, which it does not see in Korean and Vietnamese.
"""

import bisect
import collections
import json
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile
import unicodedata
import warnings

import docx
import pptx
import pymupdf
from pptx.enum.shapes import MSO_SHAPE_TYPE

import cells
import manuals
import real
import tables

SDISTS = [
    "pypdf==6.1.1", "ocrmypdf==16.11.0", "python-docx==1.2.0", "python-pptx==1.0.2", "agate-excel==0.4.2", "csvkit==2.2.0",
    "frictionless==5.21.0", "pyexcel-xlsx==0.6.1", "tablib==3.10.0", "xlsx2csv==0.8.6",
]
BOOK = ".xlsx"
ENDINGS = (".pdf", ".docx", ".pptx", BOOK)
PACKAGES = ["debian-reference-en", "debian-reference-ja", "debian-reference-zh-cn", "installation-guide-amd64", "maint-guide-ru", "octave-doc"]
WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
WORD = re.compile(f"[{WIDE}]|[^\\W{WIDE}]{{2,}}")
FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
BOOK_PACKAGES = ["r-cran-gdata", "r-cran-openxlsx", "r-cran-readxl"]
# What pdfplumber reads, which takes it minutes.
PLUMBER = "pdfplumber.json"
LEAST_WORDS = 20
LEAST_JOINED = 4


def of_pdf(path):
    with pymupdf.open(path) as made:
        if made.needs_pass and not made.authenticate(""):
            return {}
        return {str(number): page.get_text() for number, page in enumerate(made, 1)}


def of_docx(path):
    made = docx.Document(str(path))
    around = [part for section in made.sections for part in (section.header, section.footer)]
    texts = []
    for part in [made, *around, *made.comments]:
        texts += [paragraph.text for paragraph in part.paragraphs]
        texts += [cell.text for table in part.tables for row in table.rows for cell in row.cells]
    return {"": "\n".join(texts)}


def chart_texts(chart):
    try:
        plots = [(plot.series, plot.categories) for plot in chart.plots]
        return [str(series.name) for all_series, _ in plots for series in all_series] + [str(one) for _, categories in plots for one in categories]
    except NotImplementedError:
        # Some kinds of charts the library does not know.
        return []


def shape_texts(shapes):
    for shape in shapes:
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            yield from shape_texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif shape.has_table:
            yield from (cell.text for row in shape.table.rows for cell in row.cells)
        elif shape.has_chart:
            yield from chart_texts(shape.chart)


def of_pptx(path):
    slides = enumerate(pptx.Presentation(str(path)).slides, 1)
    notes = lambda slide: [slide.notes_slide.notes_text_frame.text] if slide.has_notes_slide and slide.notes_slide.notes_text_frame else []
    return {str(number): "\n".join([*shape_texts(slide.shapes), *notes(slide)]) for number, slide in slides}


READERS = {".pdf": of_pdf, ".docx": of_docx, ".pptx": of_pptx}


def pages_of(path):
    """The text of the pages, slides, or of the whole, as the library for its format has it; none if it cannot be read."""
    try:
        return READERS[path.suffix](path)
    except Exception:  # noqa: BLE001, they raise many kinds
        return {}


def parts_of(path):
    """Its pages, slides or sheets."""
    if path.suffix == BOOK:
        return {place.partition("\t")[0] for place in cells.of_book(path)}
    return pages_of(path)


def bring_sdist(package, into):
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", package]
        if not real.run(*pip, cwd=folder):
            real.log(f"without {package}: pip does not give it")
            return
        for archive in pathlib.Path(folder).glob("*.tar.gz"):
            with tarfile.open(archive) as packed:
                for member in packed.getmembers():
                    name = pathlib.PurePosixPath(member.name).name
                    if member.isfile() and name.endswith(ENDINGS) and not name.startswith("."):
                        (into / f"{package.split('=')[0]}-{name}".replace(" ", "_")).write_bytes(packed.extractfile(member).read())


def bring(target):
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for package in SDISTS:
        bring_sdist(package, part)
    for package in PACKAGES:
        manuals.bring(package, part)
    for package in BOOK_PACKAGES:
        for name, content in manuals.files_of(package, "*" + BOOK):
            (part / f"{package}-{name}".replace(" ", "_")).write_bytes(content)
    documents = [{"name": path.name, "pages": len(parts_of(path))} for path in sorted(part.iterdir())]
    made = {"documents": [document for document in documents if document["pages"]], "questions": []}
    plumber = {document["name"]: tables.of_pdf(part / document["name"]) for document in made["documents"] if document["name"].endswith(".pdf")}
    (part / PLUMBER).write_text(json.dumps(plumber, ensure_ascii=False), encoding="utf-8")
    (part / "corpus.json").write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def words(text):
    text = unicodedata.normalize("NFKC", re.sub("(\\w)[-\u2010\u00ad]\n(\\w)", "\\1\\2", text)).lower()
    return ["".join(sorted(word)) if FROM_RIGHT.search(word) else word for word in WORD.findall(text)]


def longest_rise(numbers):
    ends = []
    for number in numbers:
        at = bisect.bisect_left(ends, number)
        ends[at : at + 1] = [number]
    return len(ends)


def without_marks(text):
    """Markdown without its marks."""
    return re.sub(r"[|*#>\\]", " ", text)


def said_of(theirs, ours):
    """The different words, and those of them that are there."""
    said, joined = set(ours), "".join(ours)
    known = set(theirs)
    return known, {word for word in known if word in said or len(word) >= LEAST_JOINED and word in joined}


def judge(folder, texts):
    verdicts, read = {}, {}
    for name, pages in sorted(texts.items()):
        path = folder / name
        if path.suffix == BOOK:
            continue
        verdict = verdicts.setdefault(path.suffix[1:], {"documents": 0, "words": 0, "found": 0, "ordered": 0, "compared": 0, "worst": []})
        own_known = own_found = 0
        read[name] = pages_of(path)
        for place, text in read[name].items():
            theirs, ours = words(text), words(without_marks(pages.get(place, "")))
            counts = collections.Counter(theirs)
            once = {word: place for place, word in enumerate(theirs) if counts[word] == 1}
            places = [once[word] for word in dict.fromkeys(ours) if word in once]
            verdict["ordered"] += longest_rise(places)
            verdict["compared"] += len(places)
            known, found = said_of(theirs, ours)
            own_known += len(known)
            own_found += len(found)
        verdict["documents"] += 1
        verdict["words"] += own_known
        verdict["found"] += own_found
        if own_known >= LEAST_WORDS and own_found < 0.9 * own_known:
            verdict["worst"].append(f"{name} {100 * own_found / own_known:.0f} %")
    json.dump({"texts": verdicts, "books": judge_books(folder, texts), "plumber": judge_plumber(folder, texts, read)}, sys.stdout)


def judge_plumber(folder, texts, read_by_other):
    """Words and tables that pdfplumber and PyMuPDF both have: the first often takes several words for one."""
    verdict = {"documents": 0, "words": 0, "found": 0, "pages": 0, "pairs": 0, "beside": 0, "apart": []}
    for name, read in json.loads((folder / PLUMBER).read_text(encoding="utf-8")).items():
        pages = texts.get(name, {})
        verdict["documents"] += 1
        for place, text in read["words"].items():
            _, known = said_of(words(text), words(read_by_other.get(name, {}).get(place, "")))
            _, found = said_of(known, words(without_marks(pages.get(place, ""))))
            verdict["words"] += len(known)
            verdict["found"] += len(found)
        for place, known in read["tables"].items():
            known = collections.Counter(known)
            beside = known & tables.adjacent_pairs(pages.get(place, ""))
            verdict["pages"] += 1
            verdict["pairs"] += known.total()
            verdict["beside"] += beside.total()
            verdict["apart"] += [[known.total() - beside.total(), f"{name} p. {place}"]]
    # The worst of them, by the pairs that are not there.
    verdict["apart"] = [f"{missing} of {where}" for missing, where in sorted(verdict["apart"], reverse=True) if missing][:6]
    return verdict


def judge_books(folder, texts):
    verdict = {"books": 0, "cells": 0, "equal": 0, "comments": 0, "said": 0, "wrong": []}
    for name, extracted in sorted(texts.items()):
        if not name.endswith(BOOK):
            continue
        known, equal, comments, said, wrong = cells.judge(cells.of_book(folder / name), extracted)
        verdict["books"] += 1
        verdict["cells"] += known
        verdict["equal"] += equal
        verdict["comments"] += comments
        verdict["said"] += said
        verdict["wrong"] += [f"{len(wrong)} of {name}"] if wrong else []
    return verdict


if __name__ == "__main__":
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    warnings.simplefilter("ignore")
    if sys.argv[1] == "judge":
        judge(pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")))
    else:
        bring(pathlib.Path(sys.argv[1]))
