"""Shows a Word document as Markdown: headings, lists, tables, links, pictures, comments, tracked changes."""

from cli import arguments, clean, note, output_file, output_folder, say, start
from docx.oxml.ns import qn
from word import W, blocks, heading_level, open_document, said, style_of

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/documents/scripts/read.py uploads/letter.docx\n"
    "  python skills/documents/scripts/read.py uploads/letter.docx --numbers      (for edits)\n"
    "  python skills/documents/scripts/read.py uploads/letter.docx --blocks 10-40\n"
    "  python skills/documents/scripts/read.py uploads/letter.docx --pictures outputs/pictures\n"
    "Tracked changes show as {+added+} and {-removed-}.",
)
parser.add_argument("file", help=".docx or .docm")
parser.add_argument("--numbers", action="store_true", help="show the number of each paragraph and table, and its style")
parser.add_argument("--outline", action="store_true", help="only headings")
parser.add_argument("--blocks", help="only these, such as 10-40")
parser.add_argument("--pictures", metavar="FOLDER", help="write the pictures to this folder")
parser.add_argument("--out", help="write to this .md instead of showing it")

KINDS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/bmp": "bmp", "image/tiff": "tif", "image/svg+xml": "svg",
         "image/x-emf": "emf", "image/x-wmf": "wmf", "image/webp": "webp"}  # fmt: skip


def main(options):
    from cli import ranges

    document = open_document(options.file)
    reader = _Reader(document)
    found = blocks(document)
    wanted = set(ranges(options.blocks, len(found))) if options.blocks else None
    lines = []
    for number, element in enumerate(found, 1):
        level = heading_level(document, element) if element.tag == f"{W}p" else 0
        if (wanted and number not in wanted) or (options.outline and not level):
            continue
        text = reader.block(element)
        if not text and not options.numbers:
            continue
        if options.numbers:
            kind = "table" if element.tag == f"{W}tbl" else style_of(document, element)
            text = f"[{number} {kind}] {text}"
        lines.append(text)
    if not options.blocks and not options.outline:
        lines.extend(reader.edges())
    text = "\n\n".join(lines)
    if options.out:
        output_file(options.out, ".md", ".txt").write_text(clean(text) + "\n", encoding="utf-8")
        say(f"{options.out}: {len(found)} blocks, {len(text)} characters")
    else:
        say(text or "the document has no text")
    if options.pictures:
        save_pictures(reader, options.pictures)
    elif reader.pictures:
        note(f"{len(reader.pictures)} pictures; write them out with --pictures FOLDER")
    if reader.changes:
        note(f"{reader.changes} tracked changes")


class _Reader:
    def __init__(self, document):
        self.document, self.pictures, self.changes = document, [], 0
        try:
            self.comments = {str(comment.comment_id): comment for comment in document.comments}
        except Exception:  # a damaged part of comments
            self.comments = {}

    def block(self, element):
        if element.tag == f"{W}tbl":
            return self.table(element)
        text = self.words(element).strip("\n")
        if not text.strip():
            return ""
        level = heading_level(self.document, element)
        if level:
            return "#" * min(level, 6) + " " + text.strip().strip("*").replace("\n", " ")
        return self.item(element) + text

    def item(self, element):
        """The mark of a list item: of the paragraph itself, or of its style."""
        numbering = element.find(f"{W}pPr/{W}numPr")
        style = style_of(self.document, element).lower()
        level, number = 0, None
        if numbering is not None:
            found, number = numbering.find(f"{W}ilvl"), numbering.find(f"{W}numId")
            level = int(found.get(qn("w:val"), "0")) if found is not None else 0
            number = number.get(qn("w:val")) if number is not None else None
            if number == "0":
                return ""
        elif not style.startswith("list"):
            return ""
        elif style[-1:].isdigit():
            level = int(style[-1]) - 1
        mark = "1. " if self.numbered(number, level) or (number is None and "number" in style) else "- "
        return "  " * level + mark

    def numbered(self, number, level):
        try:
            numbering = self.document.part.numbering_part.element
            found = numbering.xpath(f'./w:num[@w:numId="{int(number)}"]/w:abstractNumId/@w:val')
            kinds = numbering.xpath(f'./w:abstractNum[@w:abstractNumId="{int(found[0])}"]/w:lvl[@w:ilvl="{level}"]/w:numFmt/@w:val')
            return bool(kinds) and kinds[0] not in ("bullet", "none")
        except Exception:  # no numbering, or a damaged one
            return False

    def words(self, element, change=""):
        """What stands in a paragraph, with marks."""
        texts = []
        for child in element:
            if child.tag == f"{W}r":
                texts.append(self.run(child))
            elif child.tag == f"{W}hyperlink":
                texts.append(self.link(child))
            elif child.tag in (f"{W}ins", f"{W}moveTo"):
                self.changes += 1
                texts.append("{+" + self.words(child) + "+}")
            elif child.tag in (f"{W}del", f"{W}moveFrom"):
                self.changes += 1
                removed = "".join(node.text or "" for node in child.iter(f"{W}delText", f"{W}t"))
                texts.append("{-" + removed + "-}")
            elif child.tag in (f"{W}smartTag", f"{W}sdt", f"{W}sdtContent", f"{W}fldSimple", f"{W}dir"):
                texts.append(self.words(child))
            elif child.tag.endswith("}oMath") or child.tag.endswith("}oMathPara"):
                texts.append("$" + "".join(node.text or "" for node in child.iter() if node.tag.endswith("}t")) + "$")
        return "".join(texts).replace("****", "")

    def run(self, run):
        texts = []
        for node in run:
            if node.tag == f"{W}t":
                texts.append(node.text or "")
            elif node.tag in (f"{W}tab", f"{W}ptab"):
                texts.append("\t")
            elif node.tag in (f"{W}br", f"{W}cr"):
                texts.append("\n")
            elif node.tag == f"{W}noBreakHyphen":
                texts.append("-")
            elif node.tag in (f"{W}drawing", f"{W}pict", f"{W}object"):
                texts.append(self.drawing(node))
            elif node.tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
                texts.append(f"[^{node.get(qn('w:id'))}]")
            elif node.tag == f"{W}commentReference":
                texts.append(self.comment(node.get(qn("w:id"))))
        text = "".join(texts)
        looks = run.find(f"{W}rPr")
        if looks is None or not text.strip() or text.startswith(("![", "[comment")):
            return text
        for tag, mark in ((f"{W}b", "**"), (f"{W}i", "*"), (f"{W}strike", "~~")):
            found = looks.find(tag)
            if found is not None and found.get(qn("w:val"), "true") not in ("0", "false", "none"):
                bare = text.strip()
                text = text.replace(bare, f"{mark}{bare}{mark}", 1)
        return text

    def link(self, element):
        text = "".join(self.run(run) for run in element.iter(f"{W}r"))
        relation = element.get(qn("r:id"))
        try:
            return f"[{text}]({self.document.part.rels[relation].target_ref})" if relation else text
        except KeyError:
            return text

    def comment(self, number):
        found = self.comments.get(str(number))
        return f"[comment {number} by {found.author or '?'}: {' '.join(found.text.split())}]" if found is not None else ""

    def drawing(self, node):
        """A picture by its number and words; the text of a text box."""
        boxes = [said(paragraph) for box in node.iter(f"{W}txbxContent") for paragraph in box.iter(f"{W}p")]
        texts = []
        for kept in node.iter():
            relation = kept.get(qn("r:embed")) if kept.tag.endswith("}blip") else kept.get(qn("r:id")) if kept.tag.endswith("}imagedata") else None
            if relation:
                words = next((part.get("descr") or part.get("name") or "" for part in node.iter() if part.tag.endswith("}docPr")), "")
                self.pictures.append(relation)
                texts.append(f"![{words}](picture-{len(self.pictures)})")
        if boxes:
            texts.append("[text box: " + " ".join(dict.fromkeys(box for box in boxes if box)) + "]")
        return "".join(texts)

    def table(self, element):
        rows = []
        for row in element.iterchildren(f"{W}tr"):
            cells = []
            for cell in row.iter(f"{W}tc"):
                if next(cell.iterancestors(f"{W}tr")) is not row:
                    continue
                text = "<br>".join(part for part in (self.words(paragraph).strip() for paragraph in cell.iter(f"{W}p")) if part)
                span = cell.find(f"{W}tcPr/{W}gridSpan")
                cells.append(text.replace("|", "\\|").replace("\n", " "))
                cells.extend([""] * (min(int(span.get(qn("w:val"), "1")), 60) - 1 if span is not None else 0))
            rows.append(cells)
        if not rows:
            return ""
        width = max(map(len, rows))
        lines = ["| " + " | ".join(cells + [""] * (width - len(cells))) + " |" for cells in rows]
        return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])

    def edges(self):
        """Headers, footers and notes, each once."""
        lines = []
        for section in self.document.sections:
            for name, edge in (("header", section.header), ("footer", section.footer)):
                text = " ".join(said(paragraph) for paragraph in edge._element.iter(f"{W}p")).strip() if not edge.is_linked_to_previous else ""
                if text and f"[{name}] {text}" not in lines:
                    lines.append(f"[{name}] {text}")
        for relation in self.document.part.rels.values():
            if not relation.is_external and relation.reltype.endswith(("/footnotes", "/endnotes")):
                lines.extend(notes(relation.target_part.blob))
        return lines


def notes(blob):
    from lxml import etree

    root = etree.fromstring(blob, etree.XMLParser(resolve_entities=False))
    for entry in root:
        text = said(entry).strip()
        if text and entry.get(f"{W}type") in (None, "normal"):
            yield f"[^{entry.get(f'{W}id')}]: {text}"


def save_pictures(reader, folder):
    target = output_folder(folder)
    for number, relation in enumerate(reader.pictures, 1):
        try:
            part = reader.document.part.related_parts[relation]
        except KeyError:
            note(f"picture {number} is not in the file")
            continue
        # The name is ours; what the file calls it is not used.
        name = f"picture-{number}.{KINDS.get(part.content_type, 'bin')}"
        (target / name).write_bytes(part.blob)
        say(f"{folder}/{name}: {len(part.blob)} bytes")


if __name__ == "__main__":
    start(main, parser)
