"""Compares two Word documents: a report of what changed, or a document with tracked changes."""

import copy
import datetime as dt
import difflib
import re

from cli import arguments, clean, input_file, note, output_file, say, start
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from word import W, blocks, legal, open_document, runs_of, said, set_text, style_of

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/documents/scripts/compare.py uploads/old.docx uploads/new.docx\n"
    "  python skills/documents/scripts/compare.py uploads/old.docx uploads/new.docx --redline outputs/changes.docx\n"
    "Exit code 0 where nothing differs, 1 where something does.",
)
parser.add_argument("old")
parser.add_argument("new")
parser.add_argument("--out", help="write the report to this .md")
parser.add_argument("--redline", metavar="DOCX", help="write the new document with what changed as tracked changes")
parser.add_argument("--author", default="Comparison", help="whose changes they are in the redline")

ALIKE = 0.45
MAX_SHOWN = 300


def main(options):
    old, new = open_document(options.old), open_document(options.new)
    before, after = units(old), units(new)
    pairs = list(paired(before, after))
    changed = [pair for pair in pairs if pair[0] is None or pair[1] is None or pair[0][1:] != pair[1][1:]]
    lines = report(changed)
    if options.out:
        output_file(options.out, ".md", ".txt").write_text(clean("\n".join(lines)) + "\n", encoding="utf-8")
        say(lines[0], options.out)
    else:
        say(*lines[:MAX_SHOWN])
        if len(lines) > MAX_SHOWN:
            note(f"{len(lines) - MAX_SHOWN} lines more; give --out")
    if options.redline:
        target = output_file(options.redline, ".docx", inputs=[input_file(options.old), input_file(options.new)])
        marked = _Redline(new, options.author).write(pairs)
        new.save(str(target))
        say(f"{options.redline}: {marked} changes marked")
    return 1 if changed else 0


def units(document):
    """(element, text, style) of each paragraph and each row of a table."""
    found = []
    for number, element in enumerate(blocks(document), 1):
        if element.tag == f"{W}p":
            if said(element).strip():
                found.append((element, said(element).strip(), style_of(document, element), number))
        else:
            for row in element.iterchildren(f"{W}tr"):
                cells = [" ".join(said(paragraph) for paragraph in cell.iter(f"{W}p")).strip() for cell in row.iterchildren(f"{W}tc")]
                found.append((row, "| " + " | ".join(cells) + " |", "table", number))
    return [(element, text, style) for element, text, style, _ in found]


def paired(before, after):
    """Old and new side by side; none where one has no match."""
    matcher = difflib.SequenceMatcher(None, [unit[1] for unit in before], [unit[1] for unit in after], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(before[a:b], after[c:d])
        else:
            yield from likely(before[a:b], after[c:d])


def likely(before, after):
    """Pairs within a stretch that differs: those that are alike, in order."""
    at = 0
    for unit in after:
        best, found = ALIKE, None
        for index in range(at, min(len(before), at + 40)):
            if (before[index][2] == "table") == (unit[2] == "table"):
                ratio = difflib.SequenceMatcher(None, before[index][1][:2000], unit[1][:2000], autojunk=False).ratio()
                if ratio > best:
                    best, found = ratio, index
        if found is None:
            yield None, unit
        else:
            for gone in before[at:found]:
                yield gone, None
            yield before[found], unit
            at = found + 1
    for gone in before[at:]:
        yield gone, None


def report(changed):
    added = sum(1 for old, _ in changed if old is None)
    removed = sum(1 for _, new in changed if new is None)
    lines = [f"{len(changed)} differences: {added} added, {removed} removed, {len(changed) - added - removed} changed"]
    for old, new in changed:
        if old is None:
            lines.append(f"added: {new[1]}")
        elif new is None:
            lines.append(f"removed: {old[1]}")
        else:
            text = "".join({"equal": old_, "delete": f"[-{old_}-]", "insert": f"{{+{new_}+}}", "replace": f"[-{old_}-]{{+{new_}+}}"}[kind]
                           for kind, old_, new_ in pieces(old[1], new[1]))  # fmt: skip
            style = f" (style {old[2]}, now {new[2]})" if old[2] != new[2] else ""
            lines.append(f"changed{style}: {text}")
    return lines


def pieces(old, new):
    """("equal" | "delete" | "insert" | "replace", old text, new text) by words; Chinese by letters."""
    first, second = (re.findall(r"\s+|[\u2e80-\uffff]|\w+|[^\w\s]", text) for text in (old, new))
    for kind, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        yield kind, "".join(first[a:b]), "".join(second[c:d])


class _Redline:
    """Marks in the new document. Paragraphs that changed lose looks within them; tables stay as they are."""

    def __init__(self, document, author):
        self.document, self.author, self.number, self.tables = document, legal(author), 9000, 0
        self.when = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def write(self, pairs):
        marked, last, waiting = 0, None, []
        for old, new in pairs:
            element = new[0] if new else old[0]
            if element.tag != f"{W}p":
                differs = old is None or new is None or old[1] != new[1]
                self.tables += differs
                last = new[0].getparent() if new else last
                continue
            if new is None:
                gone = self.removed(old[0])
                if last is None:
                    waiting.append(gone)
                else:
                    last.addnext(gone)
                    last = gone
                marked += 1
                continue
            for gone in waiting:
                element.addprevious(gone)
            waiting = []
            if old is None:
                self.added(element)
                marked += 1
            elif old[1] != new[1]:
                self.changed(element, old[1], new[1])
                marked += 1
            last = element
        for gone in waiting:
            self.document.element.body.insert(0, gone)
        if self.tables:
            note(f"{self.tables} rows of tables differ; they are in the report, not in the redline")
        return marked

    def mark(self, tag):
        self.number += 1
        made = OxmlElement(tag)
        made.set(qn("w:id"), str(self.number))
        made.set(qn("w:author"), self.author)
        made.set(qn("w:date"), self.when)
        return made

    def added(self, paragraph):
        for run, _ in runs_of(paragraph):
            holder = self.mark("w:ins")
            run.addprevious(holder)
            holder.append(run)
        self.end(paragraph, "w:ins")

    def end(self, paragraph, tag):
        """The end of the paragraph came or went too."""
        properties = paragraph.get_or_add_pPr()
        looks = properties.find(f"{W}rPr")
        if looks is None:
            looks = OxmlElement("w:rPr")
            properties.insert_element_before(looks, "w:sectPr", "w:pPrChange")
        looks.insert(0, self.mark(tag))

    def removed(self, old):
        """A paragraph that is no more, as one whose words are struck out."""
        made = OxmlElement("w:p")
        style = old.find(f"{W}pPr/{W}pStyle")
        known = {entry.style_id for entry in self.document.styles}
        if style is not None and style.get(qn("w:val")) in known:
            made.get_or_add_pPr().append(copy.deepcopy(style))
        made.append(self.struck(said(old).strip(), None))
        self.end(made, "w:del")
        return made

    def struck(self, text, looks):
        holder = self.mark("w:del")
        holder.append(run_of(text, looks, "w:delText"))
        return holder

    def changed(self, paragraph, old, new):
        runs = runs_of(paragraph)
        looks = runs[0][0].find(f"{W}rPr") if runs else None
        if looks is not None:
            looks = copy.deepcopy(looks)
        first = runs[0][0]
        while first.getparent() is not paragraph:
            first = first.getparent()
        for kind, gone, come in pieces(old, new):
            if kind == "equal":
                first.addprevious(run_of(come, looks, "w:t"))
            if kind in ("delete", "replace"):
                first.addprevious(self.struck(gone, looks))
            if kind in ("insert", "replace"):
                holder = self.mark("w:ins")
                holder.append(run_of(come, looks, "w:t"))
                first.addprevious(holder)
        for run, _ in runs:
            if run.getparent() is not None:
                run.getparent().remove(run)


def run_of(text, looks, tag):
    run = OxmlElement("w:r")
    if looks is not None:
        run.append(copy.deepcopy(looks))
    node = OxmlElement(tag)
    set_text(node, legal(text))
    run.append(node)
    return run


if __name__ == "__main__":
    start(main, parser)
