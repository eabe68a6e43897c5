"""Makes pictures (PNG) of the pages of a PDF, to look at them."""

from cli import Fault, arguments, output_folder, place, ranges, say, start
from opened import page_at, pdfium_document

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/render.py uploads/report.pdf --pages 1-3\n"
    "  python skills/pdf/scripts/render.py outputs/report.pdf --sheet    (all pages small, in one picture)",
)
parser.add_argument("file")
parser.add_argument("--pages", default=None, help="such as 1-3,7 (the first 10 where absent)")
parser.add_argument("--dpi", type=int, default=100, help="dots in an inch, 20 to 400 (100 where absent)")
parser.add_argument("--sheet", action="store_true", help="one picture with all pages, small")
parser.add_argument("--password", help="what unlocks the file")
parser.add_argument("--out", metavar="FOLDER", default="outputs/pages", help="the folder (outputs/pages where absent)")

# Pictures are for looking at: pages as large as a wall are made smaller.
MAX_PIXELS = 40_000_000
MAX_PAGES = 100


def main(options):
    if not 20 <= options.dpi <= 400:
        raise Fault("--dpi must be from 20 to 400")
    document = pdfium_document(options.file, options.password)
    # Fields that were filled in show only where the form is drawn too.
    document.init_forms()
    pages = ranges(options.pages or f"1-{min(10, len(document))}", len(document))
    if len(pages) > MAX_PAGES:
        raise Fault(f"{len(pages)} pages at once; at most {MAX_PAGES} are drawn")
    folder = output_folder(options.out)
    stem = place(options.file).stem
    if options.sheet:
        path = folder / f"{stem}-sheet.png"
        sheet([picture(document, number, 200, wide=True) for number in pages]).save(path)
        say(f"{path}: pages {pages[0]} to {pages[-1]} of {len(document)}")
        return
    for number in pages:
        path = folder / f"{stem}-{number}.png"
        image = picture(document, number, options.dpi)
        image.save(path)
        say(f"{path}: page {number} of {len(document)}, {image.width}x{image.height}")


def picture(document, number, size, wide=False):
    """A page at `size` dots an inch, or `size` dots wide."""
    page = page_at(document, number)
    width, height = page.get_size()
    if width <= 0 or height <= 0:
        raise Fault(f"page {number} has no area")
    scale = size / width if wide else size / 72
    scale = min(scale, (MAX_PIXELS / (width * height)) ** 0.5)
    image = page.render(scale=scale).to_pil().convert("RGB")
    page.close()
    return image


def sheet(images):
    from PIL import Image

    across = min(5, len(images))
    cell = (max(image.width for image in images) + 10, max(image.height for image in images) + 10)
    down = -(-len(images) // across)
    whole = Image.new("RGB", (cell[0] * across + 10, cell[1] * down + 10), (140, 140, 140))
    for index, image in enumerate(images):
        whole.paste(image, (10 + cell[0] * (index % across), 10 + cell[1] * (index // across)))
    return whole


if __name__ == "__main__":
    start(main, parser)
