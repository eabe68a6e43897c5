"""Tells what a PDF is: pages, sizes, whether there is text, form fields, fonts, locks."""

from cli import arguments, ranges, say, say_json, start
from opened import page_at, pdfium_document, pypdf_reader

parser = arguments(__doc__, "example:\n  python skills/pdf/scripts/info.py uploads/report.pdf")
parser.add_argument("file")
parser.add_argument("--password", help="what unlocks the file")
parser.add_argument("--json", action="store_true", help="print JSON")

# Of longer files, the first so many pages are looked into.
LOOKED_INTO = 200


def main(options):
    reader = pypdf_reader(options.file, options.password)
    document = pdfium_document(options.file, options.password)
    pages = [page_of(document, number) for number in ranges("all", min(len(document), LOOKED_INTO))]
    empty = [page["page"] for page in pages if page["characters"] < 10]
    told = {
        "file": options.file,
        "pages": len(document),
        "looked into": len(pages),
        "sizes in points": sorted({page["size"] for page in pages}),
        "locked": "yes" if reader.is_encrypted else "no",
        "title": metadata(reader).get("/Title", ""),
        "author": metadata(reader).get("/Author", ""),
        "made by": metadata(reader).get("/Producer", ""),
        "characters of text": sum(page["characters"] for page in pages),
        "pages without text": compact(empty),
        "form fields": len(fields(reader)),
        "bookmarks": bookmarks(reader),
        "fonts not in the file": sorted(missing_fonts(reader, len(pages))),
    }
    if options.json:
        say_json(told)
    else:
        for name, value in told.items():
            say(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    if empty and not options.json:
        say("Pages without text are pictures, such as scans: make pictures of them with render.py and look at those.")


def page_of(document, number):
    page = page_at(document, number)
    width, height = page.get_size()
    text = page.get_textpage()
    count = text.count_chars()
    text.close()
    page.close()
    return {"page": number, "size": f"{width:.0f}x{height:.0f}", "characters": max(count, 0)}


def metadata(reader):
    try:
        return {key: str(value) for key, value in (reader.metadata or {}).items()}
    except Exception:  # what a damaged file says of itself is not needed
        return {}


def fields(reader):
    try:
        return reader.get_fields() or {}
    except Exception:
        return {}


def bookmarks(reader):
    def flat(entries):
        for entry in entries:
            if isinstance(entry, list):
                yield from flat(entry)
            else:
                yield str(entry.get("/Title", ""))

    try:
        return list(flat(reader.outline))[:40]
    except Exception:
        return []


def missing_fonts(reader, count):
    """Fonts that a page uses and the file does not carry. Pictures of it depend on the machine then."""
    names = set()
    for page in reader.pages[:count]:
        try:
            fonts = page["/Resources"].get_object().get("/Font", {}).get_object()
            for font in fonts.values():
                font = font.get_object()
                inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
                described = inner.get("/FontDescriptor", {}).get_object() if "/FontDescriptor" in inner else {}
                if not any(key in described for key in ("/FontFile", "/FontFile2", "/FontFile3")):
                    if inner.get("/Subtype") != "/Type3":
                        names.add(str(inner.get("/BaseFont", "?")).lstrip("/"))
        except Exception:
            continue
    return names


def compact(numbers):
    """[1, 2, 3, 7] as "1-3, 7"."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs) or "none"


if __name__ == "__main__":
    start(main, parser)
