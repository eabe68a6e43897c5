"""Word documents opened, and their parts found: blocks by number, runs, what a paragraph says."""

import re

from cli import Fault, check_package, input_file
from docx.oxml.ns import qn
from markup import legal

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MAX_BLOCKS = 100_000


def open_document(path):
    import docx

    found = input_file(path, ".docx", ".docm", ".dotx")
    check_package(found)
    try:
        if found.suffix.lower() == ".dotx":
            raise Fault(f"{path} is a template; save it as .docx first")
        document = docx.Document(str(found))
        document.element.body.tag  # fails here where the file is damaged
    except Fault:
        raise
    except Exception as error:  # the library raises what its parsers raise
        raise Fault(f"{found.name} is damaged or no Word document: {str(error)[:200]}") from error
    return document


def blocks(document):
    """The paragraphs and tables of the body in order: [element, …]. Their numbers count from 1."""
    found = []

    def walk(parent):
        for child in parent:
            if child.tag in (f"{W}p", f"{W}tbl"):
                found.append(child)
            elif child.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}ins", f"{W}customXml"):
                walk(child)

    walk(document.element.body)
    if len(found) > MAX_BLOCKS:
        raise Fault(f"the document has {len(found)} paragraphs; more than {MAX_BLOCKS} are not worked on")
    return found


def block(document_blocks, number):
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(document_blocks):
        raise Fault(f"there is no block {number!r}; there are 1 to {len(document_blocks)}; see read.py --numbers")
    return document_blocks[number - 1]


def said(element, deleted=False):
    """The text of a paragraph as it reads, changes accepted; with `deleted`, as it read before."""
    texts = []
    for node in element.iter():
        if node.tag == f"{W}t":
            if not (deleted and inside(node, f"{W}ins", element)):
                texts.append(node.text or "")
        elif node.tag == f"{W}delText" and deleted:
            texts.append(node.text or "")
        elif node.tag == f"{W}tab" and node.getparent().tag == f"{W}r":
            texts.append("\t")
        elif node.tag in (f"{W}br", f"{W}cr") and node.getparent().tag == f"{W}r":
            texts.append("\n")
        elif node.tag == f"{W}noBreakHyphen":
            texts.append("-")
    return "".join(texts)


def inside(node, tag, end):
    while node is not None and node is not end:
        if node.tag == tag:
            return True
        node = node.getparent()
    return False


def paragraphs_everywhere(document):
    """All paragraphs: of the body, of tables and text boxes, of headers and footers, of notes."""
    seen = []
    parts = [document.element.body]
    for section in document.sections:
        for edge in (section.header, section.footer, section.first_page_header, section.first_page_footer,
                     section.even_page_header, section.even_page_footer):  # fmt: skip
            if not edge.is_linked_to_previous:
                parts.append(edge._element)
    for part in parts:
        for paragraph in part.iter(f"{W}p"):
            seen.append(paragraph)
    return seen


def style_of(document, element):
    """The name of a paragraph's style."""
    from docx.text.paragraph import Paragraph

    try:
        return Paragraph(element, document._body).style.name or "Normal"
    except Exception:  # a style that the file names and has not
        return "Normal"


def heading_level(document, element):
    """1 to 9 for headings, 0 for others."""
    name = style_of(document, element).lower()
    match = re.match(r"(?:heading|标题|überschrift|titre)\s*(\d)", name)
    if match:
        return int(match.group(1))
    if name == "title":
        return 1
    outline = element.find(f"{W}pPr/{W}outlineLvl")
    level = int(outline.get(qn("w:val"), "9")) if outline is not None else 9
    return level + 1 if level < 9 else 0


# Runs, split so that a stretch of text has runs of its own.


def runs_of(paragraph):
    """The runs that hold visible text, with it: [(run, text)]. Those of deleted text are left out."""
    found = []
    for run in paragraph.iter(f"{W}r"):
        if not inside(run, f"{W}del", paragraph) and owner(run) is paragraph:
            text = "".join(
                node.text or "" if node.tag == f"{W}t" else "\t" if node.tag == f"{W}tab" else "\n" if node.tag in (f"{W}br", f"{W}cr") else ""
                for node in run
            )
            if text:
                found.append((run, text))
    return found


def owner(run):
    node = run.getparent()
    while node is not None and node.tag != f"{W}p":
        node = node.getparent()
    return node


def isolate(paragraph, start, end):
    """The runs of the text from `start` to `end`; runs are split where it begins and ends within one."""
    chosen, at = [], 0
    for run, text in runs_of(paragraph):
        first, last = max(start - at, 0), min(end - at, len(text))
        if first < last:
            middle = run
            if first > 0:
                middle = split(run, first)
            if last < len(text):
                split(middle, last - first)
            chosen.append(middle)
        at += len(text)
    return chosen


def split(run, at):
    """Parts a run after so many letters, and gives the second part."""
    import copy

    second = copy.deepcopy(run)
    run.addnext(second)
    keep(run, 0, at)
    keep(second, at, None)
    return second


def keep(run, start, end):
    """Leaves of a run's text only what lies between."""
    at = 0
    for node in list(run):
        if node.tag == f"{W}t":
            text = node.text or ""
            first, last = max(start - at, 0), len(text) if end is None else min(end - at, len(text))
            at += len(text)
            if first < last:
                set_text(node, text[first:last])
            else:
                run.remove(node)
        elif node.tag in (f"{W}tab", f"{W}br", f"{W}cr"):
            if not (at >= start and (end is None or at < end)):
                run.remove(node)
            at += 1
        elif node.tag != f"{W}rPr" and start > 0:
            run.remove(node)


def set_text(node, text):
    node.text = text
    node.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")


def write_run(run, text):
    """Gives a run this text, with its looks kept."""
    from docx.oxml import OxmlElement

    for node in list(run):
        if node.tag != f"{W}rPr":
            run.remove(node)
    for index, piece in enumerate(re.split(r"(\n|\t)", legal(text))):
        if piece in ("\n", "\t"):
            run.append(OxmlElement("w:br" if piece == "\n" else "w:tab"))
        elif piece:
            node = OxmlElement("w:t")
            set_text(node, piece)
            run.append(node)
