"""Makes the corpus: documents of many formats, half of them Chinese, and questions with the page that answers each.

    python make.py FOLDER

The same documents come of it every time, but for the real ones of `real.py`, which are left out where the registries do
not give them. `corpus.json` in the folder says what there is:

- `documents`: what is indexed on time. `pages` are pages of PDFs and Word documents, slides, and forty rows of a sheet.
- `filler`: more text, so that the index has as many chunks as the questions are to be asked among.
- `questions`: a document, the number of its page (the name of its sheet; nothing in a Word document, which has no pages of
  its own) and what is asked. Four of five are asked for facts that were planted, one sentence a page between the others;
  the rest for sentences of the real documents.
- `kinds`: more of them, by what is asked: `phrase` (in quotes), `keywords`, `number` (of a permit), `question`, and `slide` (anything
  that stands on a slide).
- `long`: a PDF of 300 pages that is searched from cold, and what is asked.
"""

import collections
import json
import pathlib
import random
import re
import shutil
import sys

import docx
import pptx
import pymupdf

import facts
import makers
import real
import words

SEED = 20240501
# Of each language.
PDFS, LONGEST, WORDS, DECKS, WORKBOOKS, FILLERS = 60, 300, 20, 15, 10, 20
QUESTIONS, REAL_QUESTIONS = 100, 50
# Of each kind, in each language.
OF_A_KIND = 25
ROWS_A_PAGE = 40


class Writer:
    """Writes the documents of one language."""

    def __init__(self, folder, language, fact):
        self.folder, self.language, self.fact = folder, language, fact
        self.dice = language.dice
        self.places = sorted({language.place() for _ in range(400)})
        self.documents, self.questions = [], []

    def planted(self, document, page):
        says, question, keywords = self.fact(self.dice, self.language, self.places)
        query = facts.asked(self.dice, says, question, keywords)
        self.questions.append({"document": document, "page": page, "query": query, "question": question, "says": says})
        return says

    def sentences(self, count):
        made = [self.language.sentence() for _ in range(count)]
        # Names are not in facts only.
        if self.dice.random() < 0.5:
            made[-1] = f"{self.dice.choice(self.places)}{' ' if self.language.name == 'en' else ''}{made[-1]}"
        return made

    def paragraphs(self, count, sentences, extra):
        """Paragraphs, with one sentence more in one of them."""
        made = [self.sentences(sentences) for _ in range(count)]
        made[self.dice.randrange(count)].insert(self.dice.randrange(sentences), extra)
        return [self.language.join(sentences) for sentences in made]

    def pages(self, document, count, paragraphs, sentences):
        pages = []
        for number in range(1, count + 1):
            text = self.paragraphs(paragraphs, sentences, self.planted(document, number))
            pages.append(makers.Page(self.language.heading(), text, makers.sometimes(self.dice, self.language)))
        return pages

    def write(self, kind, number, ending, make, count, paragraphs, sentences):
        name = f"{self.language.name}-{kind}-{number}.{ending}"
        pages = self.pages(name, count, paragraphs, sentences)
        make(self.folder / name, self.language.heading(), pages, self.language.name)
        self.documents.append({"name": name, "pages": count})

    def workbook(self, number):
        name = f"{self.language.name}-table-{number}.xlsx"
        sheets, rows = [], 120
        for index in range(3):
            sheet = f"{self.language.heading()[:20]} {index + 1}"
            table = [["#", self.language.heading(), self.language.heading(), self.language.heading()]]
            table += [[row, self.language.heading(), self.language.sentence(), self.dice.randrange(10**6)] for row in range(rows)]
            table[self.dice.randrange(1, rows)][2] = self.planted(name, sheet)
            sheets.append((sheet, table))
        makers.workbook(self.folder / name, self.language.heading(), sheets, self.language.name)
        self.documents.append({"name": name, "pages": 3 * rows // ROWS_A_PAGE})

    def filler(self, number):
        name = f"{self.language.name}-filler-{number}.docx"
        # As many chunks in both languages: a Chinese sentence has half of the letters.
        count, sentences = (850, 7) if self.language.name == "en" else (850, 13)
        texts = [self.language.join(self.sentences(sentences)) for _ in range(count)]
        makers.plain_word(self.folder / name, texts)
        return {"name": name, "pages": 1}

    def all(self):
        dense = (5, 5) if self.language.name == "en" else (6, 6)
        makes = [makers.pdf_of_boxes, makers.pdf_of_story, makers.pdf_of_reports]
        for number in range(PDFS):
            count = LONGEST if number == 1 else self.dice.randrange(15, 36)
            self.write("report", number, "pdf", makes[number % 3], count, *dense)
        for number in range(WORDS):
            self.write("text", number, "docx", makers.word, 12, *dense)
        for number in range(DECKS):
            self.write("deck", number, "pptx", makers.slides, 20, 5, 1)
        for number in range(WORKBOOKS):
            self.workbook(number)


def pages_of(path):
    if path.suffix == ".pdf":
        with pymupdf.open(path) as made:
            return len(made)
    return len(pptx.Presentation(path).slides) if path.suffix == ".pptx" else 1


def opens(path):
    """Whether the stack that is compared can read it: what one of both cannot read measures nothing."""
    try:
        pages_of(path)
        if path.suffix == ".docx":
            docx.Document(path)
        return True
    except Exception as error:
        real.log(f"without {path.name}: {error}")
        return False


def bring_real(folder, into, dice):
    real.bring(into)
    documents, questions = [], []
    for path in sorted(into.iterdir()):
        if not opens(path):
            path.unlink()
            continue
        path = path.rename(folder / path.name)
        documents.append({"name": path.name, "pages": pages_of(path)})
        if path.suffix == ".pdf" and documents[-1]["pages"] > 30:
            questions += real.questions(dice, path.name, path, 12)
    into.rmdir()
    return documents, dice.sample(questions, min(REAL_QUESTIONS, len(questions)))


def pairs(dice, questions):
    """As many of each language, of documents of all formats, and no question that two pages answer."""
    return [{key: one[key] for key in ("document", "page", "query")} for one in dice.sample(alone(questions), QUESTIONS)]


def alone(questions):
    """Those that one page answers."""
    times = collections.Counter(one["question"] for one in questions)
    return [one for one in questions if times[one["question"]] == 1]


def is_of(kind, one):
    query, is_number = one["query"], re.fullmatch("[A-Z]{3}-[0-9]{4}-[0-9]{2}", one["query"])
    if kind == "slide":
        return one["document"].endswith(".pptx")
    if kind == "phrase":
        return query.startswith('"')
    if kind == "number":
        return is_number
    return (query == one["question"]) == (kind == "question") and not query.startswith('"') and not is_number


def kinds(questions):
    """As many of each kind."""
    asked, dice = [], random.Random(SEED)
    times = collections.Counter(one["query"] for one in questions)
    says = "\n".join(one["says"] for one in questions)
    for kind in ("phrase", "keywords", "number", "question", "slide"):
        # Keywords of one fact may be those of another, and a phrase may stand in both.
        of_kind = [one for one in alone(questions) if is_of(kind, one) and times[one["query"]] == 1]
        of_kind = [one for one in of_kind if one["query"][0] != '"' or says.count(one["query"].strip('"')) == 1]
        for one in dice.sample(of_kind, min(OF_A_KIND, len(of_kind))):
            page = None if one["document"].endswith(".docx") else one["page"]
            asked.append({"document": one["document"], "page": page, "query": one["query"], "form": kind})
    return asked


def make(folder):
    documents, questions, filler, of_kinds = [], [], [], []
    for language, fact in [(words.English, facts.english), (words.Chinese, facts.chinese)]:
        dice = random.Random(f"{SEED}{language.name}")
        writer = Writer(folder, language(dice), fact)
        writer.all()
        documents += writer.documents
        chosen = pairs(dice, writer.questions)
        for question in chosen:
            if question["document"].endswith(".docx"):
                question["page"] = None
        questions += chosen
        of_kinds += kinds(writer.questions)
        filler += [writer.filler(number) for number in range(FILLERS)]
        real.log(f"{len(documents)} documents")
    more, asked = bring_real(folder, folder / "real", random.Random(SEED))
    long = next(document["name"] for document in documents if document["pages"] == LONGEST)
    query = next(one["query"] for one in questions if one["document"] == long)
    return {
        "documents": documents + more,
        "filler": filler,
        "questions": questions + asked,
        "kinds": of_kinds,
        "long": {"document": long, "query": query},
        "real": len(more),
    }


def main():
    target = pathlib.Path(sys.argv[1])
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    made = make(part)
    (part / "corpus.json").write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


if __name__ == "__main__":
    main()
