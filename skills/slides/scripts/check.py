"""Checks a presentation: texts that run over their boxes, shapes beyond the slide, empty places, small letters, missing titles.

Sizes are estimated without the fonts. Exit code 1 where something is wrong.
"""

import re

import measure
from cli import arguments, say, say_json, start
from deck import BODIES, TITLES, flat, insets, is_edge, kind_of, measured, open_deck
from pptx.util import Emu

parser = arguments(__doc__, "example:\n  python skills/slides/scripts/check.py outputs/talk.pptx")
parser.add_argument("file", help=".pptx or .pptm")
parser.add_argument("--json", action="store_true", help="print JSON")

# Estimates may be off by so much before a text counts as too long.
SLACK = 1.12
SMALL = 11
MANY_WORDS = 130
LEFT_OVER = re.compile(r"lorem ipsum|click to (add|edit)|\bxxx+\b|\btodo\b|\btbd\b|单击此处|your (title|text) here", re.I)


def main(options):
    deck = open_deck(options.file)
    findings = []
    titles = {}
    for number, slide in enumerate(deck.slides, 1):
        for level, text in checked(deck, slide):
            findings.append({"level": level, "slide": number, "text": text})
        title = slide.shapes.title.text_frame.text.strip() if slide.shapes.title is not None else ""
        if title and title in titles:
            findings.append({"level": "warning", "slide": number, "text": f"has the same title as slide {titles[title]}"})
        titles.setdefault(title, number)
    wrong = [finding for finding in findings if finding["level"] == "error"]
    if options.json:
        say_json(findings)
    else:
        for finding in findings[:200]:
            say(f"{finding['level']}: slide {finding['slide']}: {finding['text']}")
        say(f"{len(deck.slides)} slides, {len(wrong)} errors, {len(findings) - len(wrong)} warnings")
    return 1 if wrong else 0


def checked(deck, slide):
    shapes = list(flat(slide.shapes))
    words = 0
    title = slide.shapes.title
    if title is None or not title.text_frame.text.strip():
        yield "warning", "has no title"
    boxes = []
    for shape in shapes:
        name = f"{shape.name!r}"
        if is_edge(shape):
            continue
        if shape.width is not None and shape.left is not None:
            yield from beyond(deck, shape, name)
        if getattr(shape, "has_table", False) and shape.has_table:
            yield from table(deck, shape, name)
        if shape.has_text_frame:
            text = shape.text_frame.text.strip()
            words += len(re.findall(r"[\u2e80-\uffff]{2}|\w+", text))
            if not text and shape.is_placeholder and kind_of(shape) in (*TITLES, *BODIES):
                yield "error", f"{name} is an empty place; fill it in or delete it"
            if LEFT_OVER.search(text):
                yield "error", f"{name} says {LEFT_OVER.search(text).group(0)!r}, which looks left over"
            if text and shape.width:
                yield from overflow(shape, name)
                boxes.append(shape)
        if shape.shape_type == 13 and not shape._element._nvXxPr.cNvPr.get("descr"):
            yield "warning", f"{name} is a picture without a description"
    yield from overlaps(boxes)
    if words > MANY_WORDS:
        yield "warning", f"has about {words} words; part it into several"


def beyond(deck, shape, name):
    edge = Emu(20_000)
    over = [side for side, is_over in (
        ("left", shape.left < -edge), ("top", shape.top < -edge), ("right", shape.left + shape.width > deck.slide_width + edge),
        ("bottom", shape.top + shape.height > deck.slide_height + edge)) if is_over]  # fmt: skip
    if over and (shape.has_text_frame and shape.text_frame.text.strip() or not shape.has_text_frame):
        yield "error", f"{name} reaches beyond the slide: {', '.join(over)}"


def overflow(shape, name):
    frame = shape.text_frame
    left, top, right, bottom = insets(frame)
    paragraphs = measured(shape)
    room, high = Emu(shape.width).pt - left - right, Emu(shape.height).pt - top - bottom
    if frame.word_wrap is False:
        widest = max((measure.width(line, size) for text, size, _, _ in paragraphs for line in re.split(r"[\n\v]", text)), default=0)
        if widest > room * SLACK and widest > Emu(shape.width).pt * SLACK:
            yield "warning", f"{name}: a line is wider than its box"
        return
    # The space before the first line is not drawn.
    needs = measure.height(paragraphs, room) - (paragraphs[0][3] if paragraphs else 0)
    grows = shape._element.find(".//{http://schemas.openxmlformats.org/drawingml/2006/main}spAutoFit") is not None
    if needs > high * SLACK + 4 and not grows:
        yield "error", f"{name}: the text needs about {needs:.0f} points of height and has {high:.0f}; shorten it, part it, or make letters smaller"
    sizes = [size for text, size, _, _ in paragraphs if text.strip()]
    if sizes and min(sizes) < SMALL:
        yield "warning", f"{name}: letters of {min(sizes):.0f} points are hard to read"


def table(deck, shape, name):
    """How high the rows become when their texts are set."""
    total = 0.0
    for row in shape.table.rows:
        highest = Emu(row.height).pt
        for cell, column in zip(row.cells, shape.table.columns):
            sizes = [run.font.size.pt for paragraph in cell.text_frame.paragraphs for run in paragraph.runs if run.font.size]
            sizes += [paragraph.font.size.pt for paragraph in cell.text_frame.paragraphs if paragraph.font.size]
            size = max(sizes, default=18)
            if cell.is_spanned or not cell.text_frame.text:
                continue
            highest = max(highest, measure.lines(cell.text_frame.text, size, Emu(column.width).pt - 14) * size * measure.LINE + 7)
        total += highest
    if Emu(shape.top).pt + total > Emu(deck.slide_height).pt * 1.02:
        yield "error", f"{name}: the table needs about {total:.0f} points of height and runs off the slide"


def overlaps(boxes):
    """Texts that lie upon each other."""
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            wide = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
            high = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
            smaller = min(one.width * one.height, other.width * other.height)
            if wide > 0 and high > 0 and wide * high > 0.25 * smaller:
                yield "warning", f"{one.name!r} and {other.name!r} lie upon each other"


if __name__ == "__main__":
    start(main, parser)
