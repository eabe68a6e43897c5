"""A tree of Markdown or HTML written into a Word document, with the document's own styles."""

import re
from pathlib import Path

from cli import Fault, note
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Emu, Pt, RGBColor
from markup import Node
from word import legal

BLOCKS = {"p", "div", "section", "article", "main", "ul", "ol", "table", "pre", "blockquote", "hr", "figure", "h1", "h2", "h3", "h4", "h5",
          "h6", "pagebreak", "center", "header", "footer", "nav", "aside", "figcaption", "dl", "dt", "dd"}  # fmt: skip
INLINE = {"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "s": "strike", "del": "strike", "u": "underline", "code": "code",
          "kbd": "code", "sub": "sub", "sup": "sup"}  # fmt: skip
MAX_PICTURE = 80_000_000
SHADE = "EEF1F5"


class Builder:
    """Writes blocks at the end of a document, or before an element of it."""

    def __init__(self, document, folder, before=None):
        self.document, self.folder, self.before = document, Path(folder), before
        section = document.sections[-1]
        self.width = section.page_width - section.left_margin - section.right_margin
        self.height = section.page_height - section.top_margin - section.bottom_margin
        self.styles = {style.name.lower(): style for style in document.styles if style.name}

    def blocks(self, children, style=None, depth=0):
        loose = []

        def flush():
            if any(not isinstance(child, str) or child.strip() for child in loose):
                self.paragraph(loose, style)
            loose.clear()

        for child in children:
            if isinstance(child, Node) and child.tag in BLOCKS:
                flush()
                self.block(child, style, depth)
            else:
                loose.append(child)
        flush()

    def block(self, node, style, depth):
        if re.fullmatch(r"h[1-6]", node.tag):
            self.paragraph(node.children, f"Heading {node.tag[1]}")
        elif node.tag in ("ul", "ol"):
            self.listed(node, depth)
        elif node.tag == "table":
            self.table(node)
        elif node.tag == "pre":
            self.code(node)
        elif node.tag == "blockquote":
            self.blocks(node.children, "Quote", depth)
        elif node.tag == "hr":
            self.rule()
        elif node.tag == "pagebreak":
            self.new_paragraph(None).add_run().add_break(page_break())
            self.blocks(node.children, style, depth)
        elif node.tag == "p":
            self.paragraph(node.children, style, alignment(node))
        elif node.tag == "figcaption":
            self.paragraph(node.children, "Caption")
        else:
            self.blocks(node.children, style, depth)

    def new_paragraph(self, style):
        paragraph = self.document.add_paragraph()
        if style and style.lower() in self.styles:
            paragraph.style = self.styles[style.lower()]
        self.move(paragraph._p)
        return paragraph

    def move(self, element):
        if self.before is not None:
            self.before.addprevious(element)

    def paragraph(self, children, style=None, aligned=None):
        pictures = [child for child in children if isinstance(child, Node) and child.tag == "img"]
        pictures += [img for child in children if isinstance(child, Node) for img in child.all("img")]
        text = "".join(child if isinstance(child, str) else child.text() for child in children)
        made = None
        if text.strip():
            made = self.new_paragraph(style)
            if aligned is not None:
                made.alignment = aligned
            self.inline(made, children, {})
            tidy_ends(made)
        for picture in pictures:
            self.picture(picture)
        return made

    # Lists.

    def listed(self, node, depth, number=None):
        """A list; each has a numbering of its own, so that it begins with 1."""
        number = self.numbering(node)
        for item in node.children:
            if not isinstance(item, Node) or item.tag != "li":
                continue
            words = [child for child in item.children if not (isinstance(child, Node) and child.tag in BLOCKS)]
            first = next((child for child in item.children if isinstance(child, Node) and child.tag == "p"), None)
            made = self.paragraph(words if "".join(map(plain, words)).strip() or first is None else first.children)
            if made is not None:
                self.mark(made, number, depth)
            for child in item.children:
                if isinstance(child, Node) and child.tag in BLOCKS and child is not first:
                    if child.tag in ("ul", "ol"):
                        self.listed(child, min(depth + 1, 8))
                    else:
                        self.block(child, None, depth + 1)

    def mark(self, paragraph, number, depth):
        style = self.styles.get("list paragraph")
        if style is not None:
            paragraph.style = style
        properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
        properties.get_or_add_ilvl().val = depth
        properties.get_or_add_numId().val = number
        paragraph.paragraph_format.space_after = Pt(3)

    def numbering(self, node):
        """A new numbering of the kind that this list has."""
        part = self.document.part.numbering_part.element
        known = [int(value) for value in part.xpath("./w:abstractNum/@w:abstractNumId")]
        abstract = max(known, default=-1) + 1
        begin = node.attributes.get("start", "1")
        levels = []
        for level in range(9):
            indent = 360 * (level + 1)
            if node.tag == "ol":
                kind, text = (("decimal", "lowerLetter", "lowerRoman")[level % 3], f"%{level + 1}.")
                look = ""
            else:
                kind, text = "bullet", "\u2022\u25e6\u25aa"[level % 3]
                look = '<w:rPr><w:rFonts w:ascii="Arial" w:hAnsi="Arial" w:cs="Arial" w:hint="default"/></w:rPr>'
            first = begin if node.tag == "ol" and level == 0 and begin.isdigit() and len(begin) < 6 else "1"
            levels.append(
                f'<w:lvl w:ilvl="{level}"><w:start w:val="{first}"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{text}"/><w:lvlJc w:val="left"/>'
                f'<w:pPr><w:ind w:left="{indent}" w:hanging="360"/></w:pPr>{look}</w:lvl>'
            )
        made = parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{abstract}"><w:multiLevelType w:val="multilevel"/>{"".join(levels)}</w:abstractNum>')
        numbers = part.xpath("./w:num")
        if numbers:
            numbers[0].addprevious(made)
        else:
            part.append(made)
        return part.add_num(abstract).numId

    # Tables, code, pictures.

    def table(self, node):
        rows = [[cell for cell in row.children if isinstance(cell, Node) and cell.tag in ("td", "th")] for row in node.all("tr")]
        rows = [row for row in rows if row]
        width = max((sum(span(cell) for cell in row) for row in rows), default=0)
        if not width:
            return
        if width > 60:
            raise Fault(f"a table has {width} columns; at most 60 fit")
        table = self.document.add_table(len(rows), width)
        style = self.styles.get("table grid")
        if style is not None:
            table.style = style
        else:
            borders(table)
        self.move(table._tbl)
        weights = [2.0] * width
        for index, row in enumerate(rows):
            at, cells = 0, table.rows[index].cells
            for cell in row:
                target = cells[at]
                if span(cell) > 1:
                    target = target.merge(cells[at + span(cell) - 1])
                else:
                    weights[at] = max(weights[at], min(40, wide(cell.text())) + 2)
                self.cell(target, cell)
                at += span(cell)
        if all(cell.tag == "th" for cell in rows[0]) and len(rows) > 1:
            head(table.rows[0])
        self.widths(table, weights)
        self.new_paragraph(None).paragraph_format.space_after = Pt(4)

    def widths(self, table, weights):
        """Columns by what they hold."""
        table.autofit = False
        least = self.width * 0.06
        room = max(self.width - least * len(weights), 0)
        sizes = [int(least + room * weight / sum(weights)) if least * len(weights) < self.width else int(self.width / len(weights)) for weight in weights]
        for column, size in zip(table.columns, sizes):
            column.width = Emu(size)
        for row in table.rows:
            for cell, size in zip(row.cells, sizes):
                cell.width = Emu(size)

    def cell(self, target, node):
        paragraph = target.paragraphs[0]
        paragraph.paragraph_format.space_after = Pt(2)
        aligned = alignment(node)
        if aligned is not None:
            paragraph.alignment = aligned
        children = []
        for child in node.children:
            if isinstance(child, Node) and child.tag in BLOCKS:
                children.extend([*([Node("br")] if children else []), *child.children])
            else:
                children.append(child)
        self.inline(paragraph, children, {"bold": True} if node.tag == "th" else {})
        tidy_ends(paragraph)

    def code(self, node):
        lines = node.text().rstrip("\n").expandtabs(4).split("\n")
        paragraph = self.new_paragraph(None)
        paragraph.paragraph_format.left_indent = Pt(6)
        for index, line in enumerate(lines):
            run = paragraph.add_run(legal(line))
            typewriter(run, 9)
            if index < len(lines) - 1:
                run.add_break()
        shade = OxmlElement("w:shd")
        shade.set(qn("w:val"), "clear")
        shade.set(qn("w:fill"), SHADE)
        paragraph._p.get_or_add_pPr().insert_element_before(shade, "w:tabs", "w:suppressAutoHyphens", "w:spacing", "w:ind", "w:jc", "w:rPr")

    def rule(self):
        paragraph = self.new_paragraph(None)
        border = parse_xml(f'<w:pBdr {nsdecls("w")}><w:bottom w:val="single" w:sz="6" w:space="1" w:color="B0B7C3"/></w:pBdr>')
        paragraph._p.get_or_add_pPr().insert_element_before(border, "w:shd", "w:tabs", "w:spacing", "w:ind", "w:jc", "w:rPr")

    def picture(self, node):
        from PIL import Image

        source, words = node.attributes.get("src", ""), node.attributes.get("alt", "")
        if re.match(r"[a-z][a-z0-9+.-]+:", source, re.I):
            note(f"the picture {source[:80]} is not in a file; its words are shown instead")
            self.paragraph([f"[{words or source}]"])
            return
        path = next((path for path in (self.folder / source, Path(source)) if path.is_file()), None)
        if path is None:
            raise Fault(f"the picture {source} does not exist; paths count from the folder of the text")
        try:
            with Image.open(path) as image:
                size = image.size
                if size[0] * size[1] > MAX_PICTURE:
                    raise Fault(f"the picture {source} has {size[0]}x{size[1]} dots; make it smaller")
                image.verify()
            paragraph = self.new_paragraph(None)
            paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
            shape = paragraph.add_run().add_picture(str(path))
        except (OSError, ValueError, SyntaxError) as error:
            raise Fault(f"the picture {source} cannot be read: {error}") from error
        except Exception as error:
            raise Fault(f"the picture {source} is of a kind that Word does not take; use PNG or JPEG") from error
        scale = min(1, self.width / shape.width, self.height * 0.8 / shape.height)
        shape.width, shape.height = Emu(int(shape.width * scale)), Emu(int(shape.height * scale))
        shape._inline.docPr.set("descr", legal(words))
        if words:
            self.paragraph([words], "Caption")

    # Words.

    def inline(self, paragraph, children, marks, holder=None):
        for child in children:
            if isinstance(child, str):
                text = legal(re.sub(r"\s+", " ", child))
                if text:
                    self.dress(paragraph.add_run(text), marks, holder)
            elif child.tag == "br":
                self.dress(paragraph.add_run(), marks, holder).add_break()
            elif child.tag == "input":
                self.dress(paragraph.add_run("\u2611 " if "checked" in child.attributes else "\u2610 "), marks, holder)
            elif child.tag == "a" and re.match(r"(https?|mailto):", child.attributes.get("href", ""), re.I):
                self.link(paragraph, child, marks)
            elif child.tag != "img":
                more = {INLINE[child.tag]: True} if child.tag in INLINE else {}
                self.inline(paragraph, child.children, {**marks, **more}, holder)

    def dress(self, run, marks, holder):
        run.bold = True if marks.get("bold") else None
        run.italic = True if marks.get("italic") else None
        if marks.get("strike"):
            run.font.strike = True
        if marks.get("underline"):
            run.font.underline = True
        if marks.get("sub"):
            run.font.subscript = True
        if marks.get("sup"):
            run.font.superscript = True
        if marks.get("code"):
            typewriter(run)
        if holder is not None:
            run.font.color.rgb = RGBColor(0x15, 0x58, 0xB0)
            run.font.underline = True
            holder.append(run._r)
        return run

    def link(self, paragraph, node, marks):
        from docx.opc.constants import RELATIONSHIP_TYPE

        relation = self.document.part.relate_to(legal(node.attributes["href"]), RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
        holder = OxmlElement("w:hyperlink")
        holder.set(qn("r:id"), relation)
        paragraph._p.append(holder)
        self.inline(paragraph, node.children, marks, holder)


def typewriter(run, size=None):
    run.font.name = "Consolas"
    if size:
        run.font.size = Pt(size)


def tidy_ends(paragraph):
    """No spaces where a paragraph begins and ends."""
    for runs, strip in ((paragraph.runs, str.lstrip), (paragraph.runs[::-1], str.rstrip)):
        for run in runs:
            text = run.text
            if "\n" in text or "\t" in text or len(run._r.findall(qn("w:t"))) > 1:
                break
            if strip(text) != text:
                run.text = strip(text)
            if text.strip():
                break


def borders(table):
    """Lines around the cells, where the document has no style that draws them."""
    sides = "".join(f'<w:{side} w:val="single" w:sz="4" w:space="0" w:color="8A94A3"/>' for side in ("top", "left", "bottom", "right", "insideH", "insideV"))
    table._tbl.tblPr.append(parse_xml(f'<w:tblBorders {nsdecls("w")}>{sides}</w:tblBorders>'))


def head(row):
    """The row of heads: shaded, and again on each page."""
    properties = row._tr.get_or_add_trPr()
    properties.append(OxmlElement("w:tblHeader"))
    for cell in row.cells:
        cell._tc.get_or_add_tcPr().append(parse_xml(f'<w:shd {nsdecls("w")} w:val="clear" w:color="auto" w:fill="E3E8EF"/>'))


def alignment(node):
    said = node.attributes.get("align", "") + node.attributes.get("style", "").replace(" ", "")
    for word, where in (("center", WD_ALIGN_PARAGRAPH.CENTER), ("right", WD_ALIGN_PARAGRAPH.RIGHT)):
        if said == word or f"text-align:{word}" in said:
            return where
    return None


def span(cell):
    told = cell.attributes.get("colspan", "1")
    return max(1, min(60, int(told))) if told.isdigit() else 1


def plain(child):
    return child if isinstance(child, str) else child.text()


def wide(text):
    """How wide a text is, in letters: Chinese ones count twice."""
    return sum(2 if ord(letter) > 0x2E80 else 1 for letter in text.strip())


def page_break():
    from docx.enum.text import WD_BREAK

    return WD_BREAK.PAGE


