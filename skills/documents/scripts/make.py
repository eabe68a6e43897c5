"""Makes a Word document (DOCX) from Markdown, HTML or text, with real styles, lists, tables and pictures."""

import datetime as dt

from builder import Builder
from cli import arguments, input_file, output_file, say, start
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Mm, Pt, RGBColor
from markup import tree_of
from word import legal, open_document

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/documents/scripts/make.py outputs/report.md --out outputs/report.docx\n"
    "  python skills/documents/scripts/make.py outputs/report.md --toc --title Report --out outputs/report.docx\n"
    "  python skills/documents/scripts/make.py outputs/report.md --template uploads/company.docx --out outputs/report.docx\n"
    "Lines `title:` and `author:` between --- at the top are taken over. <pagebreak> alone in a line begins a new page.",
)
parser.add_argument("file", help=".md, .html or .txt")
parser.add_argument("--out", required=True, help="the .docx to write")
parser.add_argument("--template", help="a .docx whose styles, header, footer and page are used; its text is not")
parser.add_argument("--title", help="the title, above the text and in the properties")
parser.add_argument("--author", help="the author in the properties")
parser.add_argument("--toc", action="store_true", help="a table of contents")
parser.add_argument("--page", choices=("A4", "Letter"), default="A4")
parser.add_argument("--landscape", action="store_true")
parser.add_argument("--font", default="Calibri", help="the font of the text (Calibri where absent)")
parser.add_argument("--asian-font", default="Microsoft YaHei", help="the font of Chinese, Japanese and Korean letters")

SIZES = {"A4": (Mm(210), Mm(297)), "Letter": (Mm(215.9), Mm(279.4))}
BLUE = RGBColor(0x1F, 0x3A, 0x5F)


def main(options):
    source = input_file(options.file, ".md", ".markdown", ".html", ".htm", ".txt")
    target = output_file(options.out, ".docx", inputs=[options.template] if options.template else [])
    tree, about = tree_of(source)
    title, author = options.title or about.get("title", ""), options.author or about.get("author", "")
    document = from_template(options.template) if options.template else fresh(options)
    if title:
        document.add_paragraph(legal(title), style="Title" if "Title" in [style.name for style in document.styles] else None)
    if options.toc:
        contents(document, tree)
    Builder(document, source.parent).blocks(tree.children)
    properties = document.core_properties
    properties.title, properties.author = legal(title)[:255], legal(author)[:255]
    properties.created = properties.modified = dt.datetime.now(dt.timezone.utc).replace(tzinfo=None)
    properties.comments = ""
    document.save(str(target))
    say(f"{options.out}: {len(document.paragraphs)} paragraphs, {len(document.tables)} tables, {target.stat().st_size} bytes")


def from_template(path):
    document = open_document(path)
    body = document.element.body
    for child in list(body):
        if child.tag != qn("w:sectPr"):
            body.remove(child)
    return document


def fresh(options):
    """A plain document: page, fonts, colours of headings, numbers of pages."""
    import docx

    document = docx.Document()
    section = document.sections[0]
    width, height = SIZES[options.page]
    section.page_width, section.page_height = (height, width) if options.landscape else (width, height)
    section.left_margin = section.right_margin = Mm(24)
    section.top_margin = section.bottom_margin = Mm(22)
    if options.landscape:
        from docx.enum.section import WD_ORIENT

        section.orientation = WD_ORIENT.LANDSCAPE
    for name in ("Normal", "Title", "Quote", "Caption", *(f"Heading {level}" for level in range(1, 7))):
        font_of(document.styles[name], options)
    normal = document.styles["Normal"]
    normal.font.size = Pt(11)
    normal.paragraph_format.space_after, normal.paragraph_format.line_spacing = Pt(7), 1.15
    for level, size in zip(range(1, 7), (18, 14, 12, 11, 11, 11)):
        heading = document.styles[f"Heading {level}"]
        heading.font.size, heading.font.color.rgb, heading.font.bold = Pt(size), BLUE, True
        heading.paragraph_format.space_before, heading.paragraph_format.space_after = Pt(size), Pt(4)
    document.styles["Title"].font.size, document.styles["Title"].font.color.rgb = Pt(26), BLUE
    caption = document.styles["Caption"]
    caption.font.size, caption.font.bold, caption.font.color.rgb = Pt(9), False, RGBColor(0x66, 0x70, 0x80)
    caption.paragraph_format.alignment = 1
    document.styles["Quote"].paragraph_format.left_indent = Mm(8)
    footer(section)
    return document


def font_of(style, options):
    style.font.name = options.font
    fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
    # Fonts of the theme would win over those that are named.
    for name in list(fonts.attrib):
        if name.endswith("Theme"):
            del fonts.attrib[name]
    for name in ("w:ascii", "w:hAnsi", "w:cs"):
        fonts.set(qn(name), options.font)
    fonts.set(qn("w:eastAsia"), options.asian_font)


def footer(section):
    paragraph = section.footer.paragraphs[0]
    paragraph.alignment = 1
    for piece in ("PAGE", " / ", "NUMPAGES"):
        run = paragraph.add_run()
        run.font.size, run.font.color.rgb = Pt(9), RGBColor(0x66, 0x70, 0x80)
        if piece == " / ":
            run.text = piece
        else:
            for part in field(piece):
                run._r.append(part)


def field(code):
    """Something that the program fills in."""
    for inner in ('<w:fldChar {n} w:fldCharType="begin"/>', f'<w:instrText {{n}} xml:space="preserve"> {code} </w:instrText>',
                  '<w:fldChar {n} w:fldCharType="separate"/>', "<w:t {n}>1</w:t>", '<w:fldChar {n} w:fldCharType="end"/>'):  # fmt: skip
        yield parse_xml(inner.format(n=nsdecls("w")))


def contents(document, tree):
    """A table of contents that shows the headings, and that programs fill with numbers of pages."""
    headings = [(int(node.tag[1]), " ".join(node.text().split())) for node in tree.all("h1", "h2", "h3")]
    if not headings:
        return
    known = {style.name.lower() for style in document.styles}
    for index, (level, text) in enumerate(headings):
        paragraph = document.add_paragraph(style=f"TOC {level}" if f"toc {level}" in known else None)
        paragraph.paragraph_format.left_indent, paragraph.paragraph_format.space_after = Mm(6 * (level - 1)), Pt(2)
        if index == 0:
            run = paragraph.add_run()
            for inner in ('<w:fldChar {n} w:fldCharType="begin" w:dirty="true"/>', '<w:instrText {n} xml:space="preserve"> TOC \\o "1-3" \\h \\z \\u </w:instrText>',
                          '<w:fldChar {n} w:fldCharType="separate"/>'):  # fmt: skip
                run._r.append(parse_xml(inner.format(n=nsdecls("w"))))
        paragraph.add_run(legal(text))
        if index == len(headings) - 1:
            paragraph.add_run()._r.append(parse_xml(f'<w:fldChar {nsdecls("w")} w:fldCharType="end"/>'))
    document.add_page_break()


if __name__ == "__main__":
    start(main, parser)
