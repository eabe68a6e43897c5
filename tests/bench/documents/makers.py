"""One function a format. Each writes pages (slides, sheets) whose numbers are those that are asked for."""

import random
import xml.sax.saxutils
import zipfile

import docx
import openpyxl
import pptx
import pymupdf
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

PAPER = pymupdf.Rect(0, 0, 595, 842)
INNER = pymupdf.Rect(60, 60, 535, 790)
pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))


class Page:
    """A heading, paragraphs, and perhaps a small table."""

    def __init__(self, heading, paragraphs, table=None):
        self.heading, self.paragraphs, self.table = heading, paragraphs, table

    def lines(self):
        return [self.heading, *self.paragraphs]


def pdf_of_boxes(path, title, pages, language):
    """Text in fonts that are named and not embedded."""
    made = pymupdf.open()
    plain, bold = ("china-s", "china-s") if language == "zh" else ("helv", "hebo")
    for page in pages:
        sheet = made.new_page(width=PAPER.width, height=PAPER.height)
        sheet.insert_text((60, 52), page.heading, fontsize=15, fontname=bold)
        text = "\n\n".join(page.paragraphs)
        left = sheet.insert_textbox(INNER, text, fontsize=10, fontname=plain)
        assert left >= 0, "the text does not fit on its page"
    made.set_metadata({"title": title})
    made.save(path, garbage=3, deflate=True)


def pdf_of_story(path, title, pages, _language):
    """What a browser makes: embedded fonts whose glyphs have numbers of their own, and tables."""
    writer = pymupdf.DocumentWriter(str(path))
    escape = xml.sax.saxutils.escape
    for page in pages:
        html = f"<h2>{escape(page.heading)}</h2>" + "".join(f"<p>{escape(text)}</p>" for text in page.paragraphs)
        if page.table:
            rows = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in page.table)
            html += f"<table>{rows}</table>"
        story = pymupdf.Story(html, user_css="body { font-size: 9px } h2 { font-size: 14px }")
        device = writer.begin_page(PAPER)
        more, _ = story.place(INNER)
        assert not more, "the text does not fit on its page"
        story.draw(device)
        writer.end_page()
    writer.close()
    made = pymupdf.open(str(path))
    made.subset_fonts()
    made.set_metadata({"title": title})
    content = made.tobytes(garbage=3, deflate=True)
    made.close()
    path.write_bytes(content)


def pdf_of_reports(path, title, pages, language):
    """What a reporting library makes: justified paragraphs and ruled tables."""
    font, wrap = ("STSong-Light", "CJK") if language == "zh" else ("Times-Roman", None)
    body = ParagraphStyle("body", fontName=font, fontSize=9.5, leading=12.5, spaceAfter=6, alignment=TA_JUSTIFY, wordWrap=wrap)
    head = ParagraphStyle("head", parent=body, fontSize=15, leading=20)
    flow = []
    for page in pages:
        flow += [Paragraph(page.heading, head), *(Paragraph(text, body) for text in page.paragraphs)]
        if page.table:
            flow.append(Table(page.table, style=[("GRID", (0, 0), (-1, -1), 0.5, "black"), ("FONT", (0, 0), (-1, -1), font, 8)]))
        flow.append(PageBreak())
    SimpleDocTemplate(str(path), pagesize=A4, title=title, invariant=1, topMargin=40, bottomMargin=40).build(flow)


def word(path, title, pages, _language):
    made = docx.Document()
    made.core_properties.title = title
    for number, page in enumerate(pages):
        if number:
            made.add_page_break()
        made.add_heading(page.heading, 1)
        for text in page.paragraphs:
            made.add_paragraph(text)
        if page.table:
            table = made.add_table(0, len(page.table[0]))
            for row in page.table:
                for cell, value in zip(table.add_row().cells, row):
                    cell.text = str(value)
    made.save(path)


def slides(path, title, pages, _language):
    made = pptx.Presentation()
    made.core_properties.title = title
    for page in pages:
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = page.heading
        slide.placeholders[1].text = "\n".join(page.paragraphs[:-1])
        slide.notes_slide.notes_text_frame.text = page.paragraphs[-1]
    made.save(path)


def workbook(path, title, sheets, _language):
    """`sheets` are names with rows."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    made.properties.title = title
    for name, rows in sheets:
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)


TYPES = """<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"""
RELATIONS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>"""
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def plain_word(path, paragraphs):
    """A Word document of nothing but paragraphs, written by hand because there are many of them."""
    escape = xml.sax.saxutils.escape
    text = "".join(f"<w:p><w:r><w:t>{escape(paragraph)}</w:t></w:r></w:p>" for paragraph in paragraphs)
    body = f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body>{text}</w:body></w:document>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [("[Content_Types].xml", TYPES), ("_rels/.rels", RELATIONS), ("word/document.xml", body)]:
            archive.writestr(name, content)


def sometimes(dice: random.Random, language):
    """A small table on one page of four."""
    if dice.random() > 0.25:
        return None
    cell = lambda: language.heading()
    return [[cell(), cell(), dice.randrange(1000)] for _ in range(4)]
