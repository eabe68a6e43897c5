"""Makes a PDF from Markdown, HTML or plain text: headings, lists, tables, code, pictures, links, page numbers."""

from cli import Fault, arguments, input_file, output_file, place, say, start
from markup import tree_of

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/make.py outputs/report.md --out outputs/report.pdf\n"
    "  python skills/pdf/scripts/make.py outputs/report.md --toc --family serif --out outputs/report.pdf\n"
    "  python skills/pdf/scripts/make.py temp/table.html --landscape --out outputs/table.pdf\n"
    "A line with <pagebreak> alone begins a new page. Lines `title:` and `author:` between --- at the top are taken over.",
)
parser.add_argument("file", help=".md, .html or .txt")
parser.add_argument("--out", required=True, help="the PDF to write")
parser.add_argument("--page", choices=("A4", "A5", "Letter", "Legal"), default="A4")
parser.add_argument("--landscape", action="store_true", help="wide instead of high")
parser.add_argument("--size", type=float, default=10.5, help="letters in points, 6 to 20 (10.5 where absent)")
parser.add_argument("--margin", type=float, default=22, help="in millimetres, 5 to 60 (22 where absent)")
parser.add_argument("--family", choices=("sans", "serif"), default="sans")
parser.add_argument("--font", help="a font file (.ttf, .otf, .ttc) for all letters")
parser.add_argument("--title", help="the title in the file's properties and at the head of each page")
parser.add_argument("--author", help="the author in the file's properties")
parser.add_argument("--toc", action="store_true", help="a table of contents at the beginning")
parser.add_argument("--no-numbers", action="store_true", help="no page numbers")


def main(options):
    from setter import set_document

    source = input_file(options.file, ".md", ".markdown", ".html", ".htm", ".txt")
    target = output_file(options.out, ".pdf")
    if not 6 <= options.size <= 20:
        raise Fault("--size must be from 6 to 20")
    if not 5 <= options.margin <= 60:
        raise Fault("--margin must be from 5 to 60")
    if options.font:
        options.font = input_file(options.font, ".ttf", ".otf", ".ttc")
    tree, about = tree_of(source)
    options.title = options.title or about.get("title", "")
    options.author = options.author or about.get("author", "")
    pages = set_document(tree, target, source.parent, options)
    say(f"{options.out}: {pages} pages, {target.stat().st_size} bytes")
    say(f"Look at it: python skills/pdf/scripts/render.py {place(options.out)} --sheet")


if __name__ == "__main__":
    start(main, parser)
