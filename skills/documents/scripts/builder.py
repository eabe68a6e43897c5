"""A tree of Markdown or HTML written into a Word document, with the document's own styles."""

from cli import Fault
from docx.enum.text import WD_ALIGN_PARAGRAPH, WD_BREAK
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Emu, Pt, RGBColor
from markup import BLOCKS, Node, alignment, legal, picture_file, rows_of, runs, span, text_of, walk

ALIGNED = {"center": WD_ALIGN_PARAGRAPH.CENTER, "right": WD_ALIGN_PARAGRAPH.RIGHT}
SHADE = "EEF1F5"


class Builder:
    """Writes blocks at the end of a document, or before an element of it."""

    def __init__(self, document, folder, before=None):
        self.document, self.folder, self.before = document, folder, before
        section = document.sections[-1]
        self.width = section.page_width - section.left_margin - section.right_margin
        self.height = section.page_height - section.top_margin - section.bottom_margin
        self.styles = {style.name.lower(): style for style in document.styles if style.name}

    def blocks(self, children, style=None, depth=0):
        for kind, node, aligned in walk(children):
            if kind == "heading":
                self.paragraph(node.children, f"Heading {node.tag[1]}")
            elif kind == "list":
                self.listed(node, depth)
            elif kind == "quote":
                self.blocks(node.children, "Quote", depth)
            elif kind == "page":
                self.new_paragraph(None).add_run().add_break(WD_BREAK.PAGE)
            elif kind == "paragraph":
                self.paragraph(node.children, style, ALIGNED.get(aligned))
            elif kind == "caption":
                self.paragraph(node.children, "Caption")
            elif kind in ("term", "detail"):
                self.blocks(node.children, style, depth)
            elif kind != "column":
                {"table": self.table, "code": self.code, "rule": self.rule}[kind](node)

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
        made = None
        if text_of(children).strip():
            made = self.new_paragraph(style)
            if aligned is not None:
                made.alignment = aligned
            self.inline(made, children)
            tidy_ends(made)
        for picture in Node("p", children=children).all("img"):
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
            made = self.paragraph(words if text_of(words).strip() or first is None else first.children)
            if made is not None:
                self.mark(made, number, depth)
            for child in item.children:
                if isinstance(child, Node) and child.tag in BLOCKS and child is not first:
                    if child.tag in ("ul", "ol"):
                        self.listed(child, min(depth + 1, 8))
                    else:
                        self.blocks([child], None, depth + 1)

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
        rows, width = rows_of(node, 60)
        if not width:
            return
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
        if alignment(node):
            paragraph.alignment = ALIGNED[alignment(node)]
        children = []
        for child in node.children:
            if isinstance(child, Node) and child.tag in BLOCKS:
                children.extend([*([Node("br")] if children else []), *child.children])
            else:
                children.append(child)
        self.inline(paragraph, children, frozenset({"bold"} if node.tag == "th" else ()))
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

    def rule(self, _):
        paragraph = self.new_paragraph(None)
        border = parse_xml(f'<w:pBdr {nsdecls("w")}><w:bottom w:val="single" w:sz="6" w:space="1" w:color="B0B7C3"/></w:pBdr>')
        paragraph._p.get_or_add_pPr().insert_element_before(border, "w:shd", "w:tabs", "w:spacing", "w:ind", "w:jc", "w:rPr")

    def picture(self, node):
        source, words = node.attributes.get("src", ""), node.attributes.get("alt", "")
        found = picture_file(source, self.folder, "its words are shown instead")
        if found is None:
            self.paragraph([f"[{words or source}]"])
            return
        paragraph = self.new_paragraph(None)
        paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
        try:
            shape = paragraph.add_run().add_picture(str(found[0]))
        except Exception as error:
            raise Fault(f"the picture {source} is of a kind that Word does not take; use PNG or JPEG") from error
        scale = min(1, self.width / shape.width, self.height * 0.8 / shape.height)
        shape.width, shape.height = Emu(int(shape.width * scale)), Emu(int(shape.height * scale))
        shape._inline.docPr.set("descr", legal(words))
        if words:
            self.paragraph([words], "Caption")

    # Words.

    def inline(self, paragraph, children, looks=frozenset()):
        holders = {}
        for text, look, link in runs(children, looks):
            run = paragraph.add_run(legal(text))
            run.bold, run.italic = "bold" in look or None, "italic" in look or None
            if "strike" in look:
                run.font.strike = True
            if "underline" in look or link is not None:
                run.font.underline = True
            if "sub" in look:
                run.font.subscript = True
            if "sup" in look:
                run.font.superscript = True
            if "code" in look:
                typewriter(run)
            if link is not None:
                run.font.color.rgb = RGBColor(0x15, 0x58, 0xB0)
                if link not in holders:
                    holders[link] = self.link(paragraph, link)
                holders[link].append(run._r)

    def link(self, paragraph, node):
        from docx.opc.constants import RELATIONSHIP_TYPE

        relation = self.document.part.relate_to(legal(node.attributes["href"]), RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
        holder = OxmlElement("w:hyperlink")
        holder.set(qn("r:id"), relation)
        paragraph._p.append(holder)
        return holder


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


def wide(text):
    """How wide a text is, in letters: Chinese ones count twice."""
    return sum(2 if ord(letter) > 0x2E80 else 1 for letter in text.strip())
