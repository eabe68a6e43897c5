"""A tree of nodes set as pages: paragraphs, lists, tables, code, pictures."""

import re
from html import escape
from itertools import groupby

from cli import Fault
from fonts import WIDE, Faces
from markup import Node, alignment, picture_file, rows_of, runs, span, text_of, walk
from reportlab.lib import colors, pagesizes
from reportlab.lib.enums import TA_CENTER, TA_RIGHT
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import (
    BaseDocTemplate, CondPageBreak, Frame, HRFlowable, Image, ListFlowable, ListItem, PageBreak, PageTemplate, Paragraph,
    Spacer, Table, XPreformatted,
)  # fmt: skip
from reportlab.platypus.tableofcontents import TableOfContents

INK, GREY, LINE, SHADE, LINK = (colors.HexColor(code) for code in ("#1c1f24", "#667080", "#c5ccd6", "#f1f3f6", "#1558b0"))
ALIGNED = {"center": {"alignment": TA_CENTER}, "right": {"alignment": TA_RIGHT}, "": {}}
SIZES = {"h1": 2.0, "h2": 1.5, "h3": 1.22, "h4": 1.05, "h5": 1.0, "h6": 1.0}
FACES = {"bold": "bold", "italic": "italic", "code": "mono"}
TAGS = {"strike": "strike", "underline": "u", "sub": "sub", "sup": "super"}


def set_document(tree, target, folder, options):
    """Writes the PDF, and gives the number of its pages."""
    page = getattr(pagesizes, options.page.upper() if options.page.startswith("A") else options.page.upper())
    page = pagesizes.landscape(page) if options.landscape else page
    faces = Faces(tree.text() + options.title, options.family, options.font)
    document = _Document(str(target), page, options, faces)
    setter = _Setter(faces, options.size, document.width, document.height, folder)
    flow = setter.blocks(tree.children)
    if options.toc:
        flow = [*setter.contents(), *flow]
    try:
        document.multiBuild(flow)
    except Exception as error:
        # What cannot be placed is named by the library in many lines.
        if "too large" in str(error):
            raise Fault("something is larger than a page; make it smaller, or use --landscape or --size") from error
        raise
    return document.count


class _Document(BaseDocTemplate):
    def __init__(self, path, page, options, faces):
        margin = options.margin * mm
        super().__init__(
            path, pagesize=page, leftMargin=margin, rightMargin=margin, topMargin=margin, bottomMargin=margin,
            title=options.title or "", author=options.author or "", creator="agentd", lang=None,
        )  # fmt: skip
        self.options, self.faces, self.count = options, faces, 0
        frame = Frame(margin, margin, self.width, self.height, 0, 0, 0, 0)
        self.addPageTemplates(PageTemplate("all", [frame], onPage=self._edges))

    def _edges(self, canvas, _):
        """What stands above and below the text of each page."""
        self.count = canvas.getPageNumber()
        canvas.saveState()
        canvas.setFillColor(GREY)
        if self.options.title and self.count > 1:
            canvas.setFont(self.faces.one_for(self.options.title), 8)
            text = self.options.title if len(self.options.title) < 90 else self.options.title[:88] + "…"
            canvas.drawString(self.leftMargin, self.pagesize[1] - self.topMargin * 0.6, text)
        if not self.options.no_numbers:
            canvas.setFont("Helvetica", 8)
            canvas.drawCentredString(self.pagesize[0] / 2, self.bottomMargin * 0.5, str(self.count))
        canvas.restoreState()

    def afterFlowable(self, flowable):  # the library's name
        level = getattr(flowable, "heading", None)
        if level is None:
            return
        key = f"heading-{id(flowable)}"
        self.canv.bookmarkPage(key)
        # A bookmark may be one deeper than the one before, no more.
        level = min(level, getattr(self.canv, "_last_level", -1) + 1)
        self.canv._last_level = level
        self.canv.addOutlineEntry(flowable.words, key, level, closed=level > 0)
        if level < 3:
            self.notify("TOCEntry", (level, flowable.marked, self.page, key))


class _Setter:
    def __init__(self, faces, size, width, height, folder):
        self.faces, self.size, self.width, self.height, self.folder = faces, size, width, height, folder

    def style(self, **other):
        size = other.pop("fontSize", self.size)
        given = {"fontName": self.faces.face("a"), "fontSize": size, "leading": size * 1.42, "textColor": INK,
                 "spaceAfter": self.size * 0.6, "splitLongWords": 1, **other}  # fmt: skip
        return ParagraphStyle("text", **given)

    def contents(self):
        table = TableOfContents()
        table.dotsMinLevel = 0
        table.levelStyles = [self.style(leftIndent=14 * level, spaceAfter=2, rightIndent=10) for level in range(3)]
        return [table, PageBreak()]

    # Blocks.

    def blocks(self, children, **style):
        """Flowables of these blocks."""
        flow = []
        for kind, node, aligned in walk(children):
            flow.extend(self.block(kind, node, {**style, **ALIGNED[aligned]}))
        return flow

    def block(self, kind, node, style):
        if kind == "heading":
            return self.heading(node)
        if kind == "list":
            return [self.listed(node, style), Spacer(1, self.size * 0.5)]
        if kind == "table":
            return self.table(node)
        if kind == "code":
            return [self.code(node)]
        if kind == "quote":
            return self.quote(node)
        if kind == "rule":
            return [Spacer(1, 4), HRFlowable(width="100%", color=LINE, thickness=0.7), Spacer(1, 8)]
        if kind == "page":
            return [PageBreak()]
        if kind == "detail":
            return self.blocks(node.children, leftIndent=18)
        if kind == "caption":
            return self.paragraph(node.children, fontSize=self.size * 0.85, textColor=GREY, alignment=TA_CENTER)
        children = [Node("b", children=node.children)] if kind == "term" else node.children
        return [] if kind == "column" else self.paragraph(children, **style)

    def paragraph(self, children, **style):
        """A paragraph, and after it the pictures that stand in it."""
        text = self.inline(children).strip()
        flow = []
        if re.sub(r"<br/>", "", text).strip():
            flow.append(Paragraph(text, self.style(**self.wrapped(children, style))))
        for picture in Node("p", children=children).all("img"):
            flow.extend(self.picture(picture))
        return flow

    def wrapped(self, children, style):
        text = text_of(children)
        wide = len(WIDE.findall(text))
        # Lines of Chinese break between any two letters.
        return {**style, "wordWrap": "CJK"} if wide > 0.2 * len(text.replace(" ", "")) else style

    def heading(self, node):
        level = int(node.tag[1])
        size = self.size * SIZES[node.tag]
        text = self.inline(node.children, frozenset({"bold"})).strip()
        if not text:
            return []
        style = self.style(fontSize=size, leading=size * 1.25, spaceBefore=size * 0.7, spaceAfter=size * 0.4, keepWithNext=1,
                           fontName=self.faces.face("a", bold=True))  # fmt: skip
        if self.wrapped(node.children, {}):
            style.wordWrap = "CJK"
        made = Paragraph(text, style)
        made.heading, made.words, made.marked = level - 1, node.text().strip(), text
        return [CondPageBreak(size * 4), made]

    def listed(self, node, style):
        items = []
        for item in node.children:
            if isinstance(item, Node) and item.tag == "li":
                flow = self.blocks(item.children, **{**style, "spaceAfter": self.size * 0.2})
                if flow:
                    items.append(ListItem(flow))
        numbered = node.tag == "ol"
        begin = node.attributes.get("start", "1")
        return ListFlowable(
            items, bulletType="1" if numbered else "bullet", leftIndent=18, bulletColor=INK,
            bulletFontName="Helvetica", bulletFontSize=self.size if numbered else self.size * 0.9,
            bulletFormat="%s." if numbered else None, bulletOffsetY=0,
            start=(int(begin) if begin.isdigit() else 1) if numbered else "circle" if style.get("nested") else "\u2022",
        )  # fmt: skip

    def code(self, node):
        text = node.text().rstrip("\n").expandtabs(4)
        size = self.size * 0.85
        width = max(20, int((self.width - 24) / (size * 0.6)))
        lines = [piece for line in text.split("\n") for piece in chunks(line, width)]
        marked = "\n".join(self.marked(line, mono=True) for line in lines)
        style = self.style(fontName="Courier", fontSize=size, leading=size * 1.3, backColor=SHADE, borderPadding=6, leftIndent=8,
                           rightIndent=8, spaceBefore=8, spaceAfter=12)  # fmt: skip
        return XPreformatted(marked, style)

    def quote(self, node):
        width, self.width = self.width, self.width - 16
        inner = self.blocks(node.children, textColor=GREY) or [Spacer(1, 1)]
        self.width = width
        rows = Table([[flowable] for flowable in inner], colWidths=[width - 6], hAlign="LEFT")
        rows.setStyle([("LINEBEFORE", (0, 0), (0, -1), 2.5, LINE), ("LEFTPADDING", (0, 0), (-1, -1), 10),
                       ("TOPPADDING", (0, 0), (-1, -1), 1), ("BOTTOMPADDING", (0, 0), (-1, -1), 1)])  # fmt: skip
        return [rows, Spacer(1, self.size * 0.8)]

    def table(self, node):
        rows, columns = rows_of(node, 40)
        if not columns:
            return []
        size = self.size * (0.92 if columns <= 6 else 0.8 if columns <= 10 else 0.62)
        heads = 0
        while heads < len(rows) - 1 and all(cell.tag == "th" for cell in rows[heads]):
            heads += 1
        cells, spans, weights = [], [], [1.0] * columns
        for index, row in enumerate(rows):
            line = []
            for cell in row:
                if span(cell) > 1:
                    spans.append(("SPAN", (len(line), index), (len(line) + span(cell) - 1, index)))
                else:
                    weights[len(line)] = max(weights[len(line)], weight(cell.text()))
                style = {"fontSize": size, "leading": size * 1.3, "spaceAfter": 0, **ALIGNED[alignment(cell)]}
                children = [Node("b", children=cell.children)] if cell.tag == "th" else cell.children
                line.append(self.blocks(children, **style) or "")
                line.extend([""] * (span(cell) - 1))
            cells.append((line + [""] * columns)[:columns])
        made = Table(cells, colWidths=widths(weights, self.width, size), repeatRows=heads, splitInRow=1, hAlign="LEFT")
        made.setStyle([
            ("LINEBELOW", (0, 0), (-1, -1), 0.5, LINE), ("LINEABOVE", (0, 0), (-1, 0), 0.8, GREY), ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LEFTPADDING", (0, 0), (-1, -1), 5), ("RIGHTPADDING", (0, 0), (-1, -1), 5), ("TOPPADDING", (0, 0), (-1, -1), 3.5),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 4.5), *spans,
            *([("BACKGROUND", (0, 0), (-1, heads - 1), SHADE), ("LINEBELOW", (0, heads - 1), (-1, heads - 1), 0.8, GREY)] if heads else []),
        ])  # fmt: skip
        return [Spacer(1, self.size * 0.3), made, Spacer(1, self.size)]

    def picture(self, node):
        source, words = node.attributes.get("src", ""), node.attributes.get("alt", "")
        found = picture_file(source, self.folder, "its words are shown instead")
        if found is None:
            return self.paragraph([f"[{words or source}]"], textColor=GREY)
        path, width, height = found
        wide = node.attributes.get("width", "")
        # 96 dots make an inch, as in browsers.
        scale = float(wide) / width if wide.isdigit() and int(wide) else 1
        scale = min(0.75 * scale, self.width / width, self.height * 0.8 / height)
        made = Image(str(path), width * scale, height * scale, hAlign="CENTER")
        made.spaceAfter = self.size * 0.5
        return [made, *(self.paragraph([words], fontSize=self.size * 0.85, textColor=GREY, alignment=TA_CENTER) if words else [])]

    # Words.

    def inline(self, children, looks=frozenset()):
        """The library's own marks for what stands in a line."""
        made = ""
        for link, group in groupby(runs(children, looks), lambda run: run[2]):
            inner = "".join(self.run(text, look) for text, look, _ in group)
            made += f'<a href="{escape(link.attributes["href"])}" color="{LINK.hexval().replace("0x", "#")}">{inner}</a>' if link else inner
        return made

    def run(self, text, looks):
        if text == "\n":
            return "<br/>"
        if "box" in looks:
            text = "[x] " if text == "\u2611 " else "[ ] "
        made = self.marked(text, **{FACES[look]: True for look in looks if look in FACES})
        for tag in (TAGS[look] for look in sorted(looks) if look in TAGS):
            made = f"<{tag}>{made}</{tag}>"
        return made

    def marked(self, text, **marks):
        base = self.faces.face("a")
        pieces = self.faces.runs(text, **marks)
        return "".join(escape(piece) if face == base else f'<font name="{face}">{escape(piece)}</font>' for face, piece in pieces)


def chunks(line, width):
    """A line of code in pieces that are no wider than so many letters; Chinese ones count twice."""
    pieces, taken = [""], 0
    for letter in line:
        room = 2 if WIDE.match(letter) else 1
        if taken + room > width:
            pieces, taken = [*pieces, ""], 0
        pieces[-1] += letter
        taken += room
    return pieces


def weight(text):
    """How much room a cell asks for, in letters: its longest word at least."""
    letters = len(text) + len(WIDE.findall(text))
    longest = max((len(word) + len(WIDE.findall(word)) for word in text.split()), default=1)
    return max(min(letters, 60), min(longest, 25)) + 1


def widths(weights, width, size):
    """Columns by what they hold; all of the width where that is much, less where it is little."""
    wanted = [letters * size * 0.56 + 12 for letters in weights]
    if sum(wanted) <= width:
        return [room * min(1.35, width / sum(wanted)) for room in wanted]
    least = min(width / len(weights), 60)
    free = width - least * len(weights)
    more = [max(0.0, room - least) for room in wanted]
    return [least + free * room / (sum(more) or 1) for room in more]
