"""Puts PDFs together, takes them apart, turns and picks pages, locks and unlocks."""

from cli import Fault, arguments, output_file, output_folder, place, ranges, say, start
from opened import pypdf_reader

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/pages.py merge uploads/a.pdf uploads/b.pdf --out outputs/both.pdf\n"
    "  python skills/pdf/scripts/pages.py pick uploads/a.pdf 3,1-2,5- --out outputs/picked.pdf\n"
    "  python skills/pdf/scripts/pages.py drop uploads/a.pdf 2 --out outputs/shorter.pdf\n"
    "  python skills/pdf/scripts/pages.py split uploads/a.pdf --every 10 --out outputs/parts\n"
    "  python skills/pdf/scripts/pages.py split uploads/a.pdf --at 4,9 --out outputs/parts\n"
    "  python skills/pdf/scripts/pages.py rotate uploads/a.pdf 90 --pages 2-3 --out outputs/turned.pdf\n"
    "  python skills/pdf/scripts/pages.py stamp uploads/a.pdf --text 'Draft' --numbers --out outputs/stamped.pdf\n"
    "  python skills/pdf/scripts/pages.py lock uploads/a.pdf --new-password SECRET --out outputs/locked.pdf\n"
    "  python skills/pdf/scripts/pages.py unlock uploads/a.pdf --password SECRET --out outputs/open.pdf",
)
works = parser.add_subparsers(dest="work", required=True, metavar="WORK")


def work(name, text, several=False):
    made = works.add_parser(name, help=text, description=text)
    made.add_argument("files" if several else "file", nargs="+" if several else None)
    made.add_argument("--password", help="what unlocks the input")
    made.add_argument("--out", required=True, help="the file to write (a folder for split)")
    return made


work("merge", "one PDF of several, in this order", several=True)
work("pick", "these pages, in this order").add_argument("pages", help="such as 3,1-2,5-")
work("drop", "all pages but these").add_argument("pages", help="such as 2,5-7")
split = work("split", "several PDFs of one")
split.add_argument("--every", type=int, help="so many pages in each part")
split.add_argument("--at", help="pages that begin a new part, such as 4,9")
turn = work("rotate", "turn pages clockwise")
turn.add_argument("angle", type=int, choices=(90, 180, 270))
turn.add_argument("--pages", default="all")
stamp = work("stamp", "write words across each page, or numbers at its foot")
stamp.add_argument("--text", help="words such as Draft, large and grey across the page")
stamp.add_argument("--numbers", action="store_true", help="page numbers at the foot")
stamp.add_argument("--pages", default="all")
lock = work("lock", "lock with a password (AES-256)")
lock.add_argument("--new-password", required=True)
work("unlock", "a copy without a password")


def main(options):
    if options.work == "merge":
        return merge(options)
    reader = pypdf_reader(options.file, options.password)
    count = len(reader.pages)
    if options.work == "split":
        return split_up(options, reader, count)
    target = output_file(options.out, ".pdf", inputs=[place(options.file)])
    if options.work in ("pick", "drop"):
        writer = chosen(options, reader, count)
    else:
        writer = whole(reader)
    if options.work == "rotate":
        for number in ranges(options.pages, count):
            writer.pages[number - 1].rotate(options.angle)
    if options.work == "stamp":
        from stamps import put

        if not options.text and not options.numbers:
            raise Fault("give --text WORDS or --numbers")
        put(writer, ranges(options.pages, count), options.text, options.numbers)
    if options.work == "lock":
        if not options.new_password:
            raise Fault("the new password is empty")
        writer.encrypt(options.new_password, algorithm="AES-256")
    save(writer, target, options.out)


def merge(options):
    import pypdf

    target = output_file(options.out, ".pdf", inputs=[place(file) for file in options.files])
    writer = pypdf.PdfWriter()
    for file in options.files:
        reader = pypdf_reader(file, options.password)
        writer.append(reader, outline_item=place(file).stem)
    save(writer, target, options.out)


def whole(reader):
    """All of it: pages, bookmarks, forms."""
    import pypdf

    return pypdf.PdfWriter(clone_from=reader)


def chosen(options, reader, count):
    import pypdf

    pages = ranges(options.pages, count)
    if options.work == "drop":
        gone = set(pages)
        pages = [number for number in range(1, count + 1) if number not in gone]
        if not pages:
            raise Fault("no page would be left")
    writer = pypdf.PdfWriter()
    writer.append(reader, pages=[number - 1 for number in pages], import_outline=False)
    return writer


def split_up(options, reader, count):
    import pypdf

    if bool(options.every) == bool(options.at):
        raise Fault("say either --every N or --at PAGES")
    if options.every is not None and options.every < 1:
        raise Fault("--every must be 1 or more")
    if options.every:
        starts = list(range(1, count + 1, options.every))
    else:
        starts = sorted({1, *ranges(options.at, count)})
    folder = output_folder(options.out)
    stem = place(options.file).stem
    for index, (first, after) in enumerate(zip(starts, [*starts[1:], count + 1]), 1):
        writer = pypdf.PdfWriter()
        writer.append(reader, pages=list(range(first - 1, after - 1)), import_outline=False)
        save(writer, folder / f"{stem}-{index:03d}.pdf", f"{options.out}/{stem}-{index:03d}.pdf")


def save(writer, target, shown):
    with open(target, "wb") as file:
        writer.write(file)
    say(f"{shown}: {len(writer.pages)} pages, {target.stat().st_size} bytes")


if __name__ == "__main__":
    start(main, parser)
