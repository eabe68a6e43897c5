"""Takes the text out of a PDF, page by page."""

from cli import arguments, clean, note, output_file, ranges, say, start
from opened import page_at, pdfium_document, plumber_document

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/text.py uploads/report.pdf --pages 1-3\n"
    "  python skills/pdf/scripts/text.py uploads/report.pdf --out outputs/report.txt\n"
    "  python skills/pdf/scripts/text.py uploads/invoice.pdf --layout    (columns stay beside each other)",
)
parser.add_argument("file")
parser.add_argument("--pages", default="all", help="such as 1-3,7 (all where absent)")
parser.add_argument("--layout", action="store_true", help="keep words where they stand on the page, with spaces")
parser.add_argument("--find", metavar="WORDS", help="only say on which pages and in which lines these words stand")
parser.add_argument("--password", help="what unlocks the file")
parser.add_argument("--out", help="write to this file instead of showing the text")


def main(options):
    taken = list(layout_pages(options) if options.layout else plain_pages(options))
    empty = [number for number, text in taken if not text.strip()]
    if options.find:
        return find(taken, options.find)
    text = "\n".join(f"--- page {number} ---\n{text.rstrip()}\n" for number, text in taken)
    if options.out:
        output_file(options.out, ".txt", ".md").write_text(clean(text), encoding="utf-8")
        say(f"{len(taken)} pages, {len(text)} characters: {options.out}")
    else:
        say(text)
    if empty:
        note(f"no text on page {', '.join(map(str, empty[:20]))}: pictures or scans; use render.py and look at them")


def plain_pages(options):
    document = pdfium_document(options.file, options.password)
    for number in ranges(options.pages, len(document)):
        page = page_at(document, number)
        text = page.get_textpage()
        # Hyphens at the end of a line come as a mark of their own.
        yield number, text.get_text_bounded().replace("\ufffe", "-").replace("\r\n", "\n")
        text.close()
        page.close()


def layout_pages(options):
    document = plumber_document(options.file, options.password)
    for number in ranges(options.pages, len(document.pages)):
        page = document.pages[number - 1]
        lines = (page.extract_text(layout=True) or "").split("\n")
        yield number, "\n".join(line.rstrip() for line in lines).strip("\n")
        page.close()


def find(taken, words):
    wanted = words.casefold()
    hits = 0
    for number, text in taken:
        for line in text.split("\n"):
            if wanted in line.casefold():
                hits += 1
                say(f"page {number}: {line.strip()}")
    say(f"{hits} lines with {words!r}")
    return 0 if hits else 1


if __name__ == "__main__":
    start(main, parser)
