"""Shows a presentation as Markdown: titles, texts, tables, charts, pictures, notes."""

from cli import arguments, clean, note, output_file, output_folder, ranges, say, start
from deck import TITLES, is_edge, kind_of, open_deck

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/slides/scripts/read.py uploads/talk.pptx\n"
    "  python skills/slides/scripts/read.py uploads/talk.pptx --slides 3-5 --shapes    (for edits)\n"
    "  python skills/slides/scripts/read.py uploads/talk.pptx --pictures outputs/pictures",
)
parser.add_argument("file", help=".pptx or .pptm")
parser.add_argument("--slides", default="all", help="such as 1-3,7")
parser.add_argument("--shapes", action="store_true", help="show the number, kind and place of each shape")
parser.add_argument("--titles", action="store_true", help="only titles")
parser.add_argument("--pictures", metavar="FOLDER", help="write the pictures to this folder")
parser.add_argument("--out", help="write to this .md instead of showing it")

KINDS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/bmp": "bmp", "image/tiff": "tif", "image/x-emf": "emf", "image/x-wmf": "wmf"}


def main(options):
    deck = open_deck(options.file)
    lines, pictures = [], []
    if not len(deck.slides):
        say("the presentation has no slides")
        return
    for number in ranges(options.slides, len(deck.slides)):
        slide = deck.slides[number - 1]
        hidden = " (hidden)" if slide._element.get("show") == "0" else ""
        lines.append(f"## {number}. {title_of(slide) or '(no title)'}{hidden}")
        if options.titles:
            continue
        for shape in slide.shapes:
            text = told(shape, options, pictures, number)
            if text:
                lines.append(text)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            if notes:
                lines.append("Notes: " + notes)
    text = ("\n" if options.titles else "\n\n").join(lines)
    if options.out:
        output_file(options.out, ".md", ".txt").write_text(clean(text) + "\n", encoding="utf-8")
        say(f"{options.out}: {len(lines)} blocks")
    else:
        say(text)
    if options.pictures:
        folder = output_folder(options.pictures)
        for index, (number, image) in enumerate(pictures, 1):
            # The name is ours; what the file calls it is not used.
            name = f"slide-{number}-picture-{index}.{KINDS.get(image.content_type, 'bin')}"
            (folder / name).write_bytes(image.blob)
            say(f"{options.pictures}/{name}: {len(image.blob)} bytes")
    elif pictures:
        note(f"{len(pictures)} pictures; write them out with --pictures FOLDER")


def title_of(slide):
    title = slide.shapes.title
    return " ".join(title.text_frame.text.split()) if title is not None else ""


def told(shape, options, pictures, number):
    """A shape as Markdown, or nothing."""
    if is_edge(shape) or (kind_of(shape) in TITLES and not options.shapes):
        return ""
    text = content(shape, pictures, number)
    if not options.shapes:
        return text
    place = f"at {shape.left / 914400:.1f},{shape.top / 914400:.1f} in, {shape.width / 914400:.1f}x{shape.height / 914400:.1f} in" if shape.width is not None else ""
    return f"[shape {shape.shape_id} {shape.name!r} {place}]\n{text}"


def content(shape, pictures, number):
    if shape.shape_type == 6 and hasattr(shape, "shapes"):
        return "\n".join(filter(None, (content(inner, pictures, number) for inner in shape.shapes)))
    if getattr(shape, "has_table", False) and shape.has_table:
        return table(shape.table)
    if getattr(shape, "has_chart", False) and shape.has_chart:
        return chart(shape.chart)
    image = picture_of(shape)
    if image is not None:
        pictures.append((number, image))
        return f"![{shape._element._nvXxPr.cNvPr.get('descr') or shape.name}](slide-{number}-picture-{len(pictures)})"
    if shape.has_text_frame:
        return "\n".join(filter(None, (item(shape, paragraph) for paragraph in shape.text_frame.paragraphs)))
    return ""


def picture_of(shape):
    try:
        return shape.image
    except Exception:  # no picture, or one that is linked and not in the file
        return None


def item(shape, paragraph):
    text = "".join(marked(run) for run in paragraph.runs).strip() or paragraph.text.strip()
    if not text:
        return ""
    properties = paragraph._p.pPr
    plain = properties is not None and properties.find("{http://schemas.openxmlformats.org/drawingml/2006/main}buNone") is not None
    bullet = shape.is_placeholder and kind_of(shape) not in TITLES and not plain and str(kind_of(shape)).find("SUBTITLE") < 0
    return ("  " * paragraph.level + "- " if bullet else "") + text.replace("\v", " ")


def marked(run):
    text = run.text
    if run.font.bold and text.strip():
        return text.replace(text.strip(), f"**{text.strip()}**", 1)
    address = run.hyperlink.address if run._r.rPr is not None else None
    return f"[{text}]({address})" if address else text


def table(found):
    rows = [[" ".join(cell.text_frame.text.split()).replace("|", "\\|") for cell in row.cells] for row in found.rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) if rows else ""


def chart(found):
    """A chart as a table of its numbers."""
    try:
        labels = [str(label) for label in found.plots[0].categories]
        rows = [["chart", *labels]] + [[series.name, *map(str, series.values)] for plot in found.plots for series in plot.series]
    except Exception:  # kinds of charts that the library does not know
        return "(a chart whose numbers cannot be read)"
    title = found.chart_title.text_frame.text if found.has_title and found.chart_title.has_text_frame else ""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"chart {title}".strip(), lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


if __name__ == "__main__":
    start(main, parser)
