"""Changes a presentation and keeps its design: texts, titles, notes, tables, pictures, and which slides there are."""

import copy
import re

from cli import Fault, arguments, input_file, output_file, place, read_json, say, start
from deck import TITLES, flat, kind_of, open_deck, slide_at
from pptx.oxml.ns import qn

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/slides/scripts/edit.py uploads/talk.pptx temp/edits.json --out outputs/talk.pptx\n"
    '  python skills/slides/scripts/edit.py uploads/talk.pptx \'[{"replace": {"old": "2023", "new": "2024"}}]\' --out outputs/talk.pptx\n'
    "All edits are told in skills/slides/reference/edit.md.",
)
parser.add_argument("file", help=".pptx or .pptm")
parser.add_argument("edits", help="a JSON file, or JSON itself: a list of edits, done one after the other")
parser.add_argument("--out", required=True, help="the file to write")


def main(options):
    source = input_file(options.file, ".pptx", ".pptm")
    target = output_file(options.out, source.suffix.lower(), inputs=[source])
    deck = open_deck(options.file)
    edits = read_json(options.edits)
    edits = [edits] if isinstance(edits, dict) else edits
    if not isinstance(edits, list) or not edits:
        raise Fault('the edits must be a list: [{"replace": {"old": "2023", "new": "2024"}}, …]')
    # Numbers of slides are those of the presentation as it was: none shifts by an edit before.
    slides = list(deck.slides)
    for number, edit in enumerate(edits, 1):
        if not isinstance(edit, dict) or len(edit) != 1 or next(iter(edit)) not in EDITS:
            raise Fault(f"edit {number} must be an object with one of these keys: {', '.join(EDITS)}")
        name, what = next(iter(edit.items()))
        try:
            say(f"{name}: {EDITS[name](deck, slides, what)}")
        except Fault as fault:
            raise Fault(f"edit {number} ({name}): {fault}") from fault
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Fault(f"edit {number} ({name}) is not of the right form: {error}; see skills/slides/reference/edit.md") from error
    deck.save(str(target))
    say(f"{options.out}: {len(deck.slides)} slides, {target.stat().st_size} bytes")
    say(f"Check it: python skills/slides/scripts/check.py {options.out}")


def slide_of(deck, slides, number):
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(slides):
        raise Fault(f"there is no slide {number!r}; there were {len(slides)}")
    slide = slides[number - 1]
    if slide is None:
        raise Fault(f"slide {number} was deleted before")
    return slide


def shape_of(slide, wanted):
    """A shape by its number or its name."""
    shapes = list(flat(slide.shapes))
    for shape in shapes:
        if shape.shape_id == wanted or shape.name == wanted:
            return shape
    raise Fault(f"there is no shape {wanted!r}; there are: {', '.join(f'{shape.shape_id} {shape.name!r}' for shape in shapes)[:500]}")


def frames(slide, notes=True):
    """Everything on a slide that holds words."""
    for shape in flat(slide.shapes):
        if shape.has_text_frame:
            yield shape.text_frame
        elif getattr(shape, "has_table", False) and shape.has_table:
            for row in shape.table.rows:
                for cell in row.cells:
                    yield cell.text_frame
    if notes and slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        yield slide.notes_slide.notes_text_frame


def replace(deck, slides, what):
    """A text for another, on all slides and in notes, with its looks kept."""
    old, new = what["old"], legal(what["new"])
    if not isinstance(old, str) or not old:
        raise Fault("the old text is empty")
    wanted = [slide_of(deck, slides, what["slide"])] if "slide" in what else [slide for slide in slides if slide is not None]
    count = sum(swap(paragraph, old, new) for slide in wanted for frame in frames(slide) for paragraph in frame.paragraphs)
    if not count:
        raise Fault(f"{old!r} is not in the presentation")
    return f"{count} times"


def swap(paragraph, old, new):
    """In one paragraph, also where the text is put together of runs."""
    count, begin = 0, 0
    while True:
        runs = paragraph.runs
        text = "".join(run.text for run in runs)
        at = text.find(old, begin)
        if at < 0:
            return count
        position = 0
        for run in runs:
            length = len(run.text)
            first, last = max(at - position, 0), min(at + len(old) - position, length)
            if first < last:
                run.text = run.text[:first] + (new if at >= position else "") + run.text[last:]
            position += length
        begin, count = at + len(new), count + 1


def set_lines(frame, lines):
    """Paragraphs with the looks of the first one; two spaces or a tab before a line are a level."""
    first = frame.paragraphs[0]
    looks = copy.deepcopy(first.runs[0]._r.rPr) if first.runs and first.runs[0]._r.rPr is not None else None
    properties = copy.deepcopy(first._p.pPr) if first._p.pPr is not None else None
    for paragraph in frame.paragraphs[1:]:
        paragraph._p.getparent().remove(paragraph._p)
    for index, line in enumerate(lines):
        paragraph = first if index == 0 else frame.add_paragraph()
        for child in list(paragraph._p):
            if child.tag != qn("a:pPr"):
                paragraph._p.remove(child)
        if index and properties is not None:
            if paragraph._p.pPr is not None:
                paragraph._p.remove(paragraph._p.pPr)
            paragraph._p.insert(0, copy.deepcopy(properties))
        indent = len(line) - len(line.lstrip(" \t"))
        run = paragraph.add_run()
        run.text = legal(line.strip())
        if looks is not None:
            if run._r.rPr is not None:
                run._r.remove(run._r.rPr)
            run._r.insert(0, copy.deepcopy(looks))
        if indent or index:
            paragraph.level = min(4, line[:indent].count("\t") + line[:indent].count("  "))


def title(deck, slides, what):
    slide = slide_of(deck, slides, what["slide"])
    if slide.shapes.title is None:
        raise Fault(f"slide {what['slide']} has no place for a title")
    set_lines(slide.shapes.title.text_frame, [str(what["text"])])
    return f"slide {what['slide']}"


def text(deck, slides, what):
    """All words of a shape: a text, or a list of lines."""
    shape = shape_of(slide_of(deck, slides, what["slide"]), what["shape"])
    if not shape.has_text_frame:
        raise Fault(f"{shape.name!r} holds no words")
    told = what["text"]
    set_lines(shape.text_frame, [str(line) for line in told] if isinstance(told, list) else str(told).split("\n"))
    return f"{shape.name!r} of slide {what['slide']}"


def notes(deck, slides, what):
    slide_of(deck, slides, what["slide"]).notes_slide.notes_text_frame.text = legal(what["text"])
    return f"slide {what['slide']}"


def cell(deck, slides, what):
    slide = slide_of(deck, slides, what["slide"])
    tables = [shape.table for shape in flat(slide.shapes) if getattr(shape, "has_table", False) and shape.has_table]
    number = what.get("table", 1)
    if not 1 <= number <= len(tables):
        raise Fault(f"slide {what['slide']} has {len(tables)} tables")
    table, row, column = tables[number - 1], what["row"], what["column"]
    if not 1 <= row <= len(table.rows) or not 1 <= column <= len(table.columns):
        raise Fault(f"the table has {len(table.rows)} rows and {len(table.columns)} columns")
    set_lines(table.cell(row - 1, column - 1).text_frame, [str(what["text"])])
    return f"row {row}, column {column}"


def picture(deck, slides, what):
    """Another picture in the place of one, as large as it fits there."""
    from PIL import Image

    slide = slide_of(deck, slides, what["slide"])
    shape = shape_of(slide, what["shape"])
    if shape.shape_type not in (13, 14) or shape._element.find(".//" + qn("a:blip")) is None:
        raise Fault(f"{shape.name!r} is no picture")
    path = input_file(what["file"], ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff")
    try:
        with Image.open(path) as image:
            wide, high = image.size
            image.verify()
        _, relation = slide.part.get_or_add_image_part(str(path))
    except (OSError, ValueError, SyntaxError) as error:
        raise Fault(f"the picture {what['file']} cannot be read: {error}") from error
    scale = min(shape.width / wide, shape.height / high)
    middle = shape.left + shape.width // 2, shape.top + shape.height // 2
    shape.width, shape.height = int(wide * scale), int(high * scale)
    shape.left, shape.top = middle[0] - shape.width // 2, middle[1] - shape.height // 2
    shape._element.find(".//" + qn("a:blip")).set(qn("r:embed"), relation)
    cut = shape._element.find(".//" + qn("a:srcRect"))
    if cut is not None:
        cut.getparent().remove(cut)
    if "words" in what:
        shape._element._nvXxPr.cNvPr.set("descr", legal(what["words"]))
    return f"{shape.name!r} of slide {what['slide']}"


def delete(deck, slides, what):
    numbers = what if isinstance(what, list) else [what]
    for number in numbers:
        slide = slide_of(deck, slides, number)
        if sum(other is not None for other in slides) == 1:
            raise Fault("one slide must stay")
        entry = entry_of(deck, slide)
        deck.part.drop_rel(entry.get(qn("r:id")))
        deck.slides._sldIdLst.remove(entry)
        slides[number - 1] = None
    return ", ".join(map(str, numbers))


def entry_of(deck, slide):
    return next(entry for entry in deck.slides._sldIdLst if int(entry.get("id")) == slide.slide_id)


def move(deck, slides, what):
    """A slide to where another stands now, counted in the presentation as it is."""
    slide = slide_of(deck, slides, what["slide"])
    slide_at(deck, what["to"])
    entry, entries = entry_of(deck, slide), deck.slides._sldIdLst
    entries.remove(entry)
    entries.insert(what["to"] - 1, entry)
    return f"slide {what['slide']} to {what['to']}"


def add(deck, slides, what):
    """Slides from an outline, in the design of the presentation, at the end or before a slide."""
    from composer import Composer
    from markup import tree_of_markdown
    from outline import slides_of_tree

    tree, _ = tree_of_markdown(str(what["markdown"]))
    before = slide_of(deck, slides, what["before"]) if "before" in what else None
    count = len(deck.slides)
    composer = Composer(deck, place("."))
    for plan in slides_of_tree(tree):
        plan.kind = "content" if plan.kind == "title" and len(deck.slides) else plan.kind
        composer.add(plan)
    entries = list(deck.slides._sldIdLst)[count:]
    if before is not None:
        anchor = entry_of(deck, before)
        for entry in entries:
            anchor.addprevious(entry)
    return f"{len(entries)} slides"


def legal(text):
    return re.sub(r"[\x00-\x08\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "", str(text))


def remove(deck, slides, what):
    """A shape, such as an empty place."""
    shape = shape_of(slide_of(deck, slides, what["slide"]), what["shape"])
    if kind_of(shape) in TITLES and shape.text_frame.text.strip():
        raise Fault("it is the title; slides are found by their titles")
    shape._element.getparent().remove(shape._element)
    return f"{shape.name!r} of slide {what['slide']}"


EDITS = {
    "replace": replace, "title": title, "text": text, "notes": notes, "cell": cell, "picture": picture, "remove": remove, "delete": delete,
    "move": move, "add": add,
}  # fmt: skip


if __name__ == "__main__":
    start(main, parser)
