"""Draws the slides of a presentation as pictures (PNG): boxes, words, tables and pictures where they stand.

A sketch, not what a program shows: fonts are those of this machine, charts are boxes with their name, effects are left out.
"""

import io
import os

import measure
from cli import arguments, output_folder, place, ranges, say, start
from deck import BODIES, A, flat, inherited, insets, is_edge, kind_of, measured, open_deck
from PIL import Image, ImageDraw, ImageFont
from pptx.oxml.ns import qn

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/slides/scripts/preview.py outputs/talk.pptx\n"
    "  python skills/slides/scripts/preview.py outputs/talk.pptx --slides 2-4 --out outputs/pictures",
)
parser.add_argument("file", help=".pptx or .pptm")
parser.add_argument("--slides", default=None, help="such as 1-3,7 (the first 20 where absent)")
parser.add_argument("--out", metavar="FOLDER", default="outputs/slides", help="the folder (outputs/slides where absent)")
parser.add_argument("--sheet", action="store_true", help="one picture with all slides, small")

WIDE = 960
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "/Library/Fonts", "/System/Library/Fonts", os.path.expanduser("~/.fonts"))
LATIN = ("dejavusans.", "liberationsans-regular.", "carlito-regular.", "arial.", "notosans-regular.")
ASIAN = ("notosanscjk-regular", "droidsansfallback", "wqy", "sourcehansans", "pingfang", "msyh", "simsun")


def main(options):
    deck = open_deck(options.file)
    pen = _Pen(deck)
    numbers = ranges(options.slides or f"1-{min(20, max(1, len(deck.slides)))}", len(deck.slides))
    folder, stem = output_folder(options.out), place(options.file).stem
    drawn = []
    for number in numbers:
        image = pen.slide(deck.slides[number - 1])
        if options.sheet:
            drawn.append(image.resize((480, int(480 * image.height / image.width))))
            continue
        path = folder / f"{stem}-{number}.png"
        image.save(path)
        say(f"{path}: slide {number}")
    if options.sheet:
        across = min(3, len(drawn))
        whole = Image.new("RGB", (across * 490, -(-len(drawn) // across) * (drawn[0].height + 10)), (130, 130, 130))
        for index, image in enumerate(drawn):
            whole.paste(image, (490 * (index % across), (drawn[0].height + 10) * (index // across)))
        whole.save(folder / f"{stem}-sheet.png")
        say(f"{folder}/{stem}-sheet.png: slides {numbers[0]} to {numbers[-1]}")


class _Pen:
    def __init__(self, deck):
        self.scale = WIDE / deck.slide_width
        self.size = (WIDE, max(1, int(deck.slide_height * self.scale)))
        self.files = (font_file(LATIN), font_file(ASIAN))
        self.fonts = {}

    def slide(self, slide):
        self.image = Image.new("RGB", self.size, background(slide))
        self.draw = ImageDraw.Draw(self.image)
        if slide.slide_layout._element.get("showMasterSp") != "0":
            self.ground(slide.slide_layout.slide_master)
        self.ground(slide.slide_layout)
        for shape in flat(slide.shapes):
            if not is_edge(shape):
                self.shape(shape)
        return self.image

    def ground(self, base):
        """What a layout or master draws behind the slide."""
        for shape in base.shapes:
            if not shape.is_placeholder:
                self.shape(shape)

    def box(self, shape):
        left, top = shape.left * self.scale, shape.top * self.scale
        return left, top, left + shape.width * self.scale, top + shape.height * self.scale

    def shape(self, shape):
        if shape.left is None or shape.width is None or shape.height is None:
            return
        box = self.box(shape)
        fill = colour(shape._element.find(qn("p:spPr")))
        if fill:
            self.draw.rectangle(box, fill=fill)
        if getattr(shape, "has_table", False) and shape.has_table:
            self.table(shape, box)
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            self.draw.rectangle(box, outline=(150, 160, 175), fill=(240, 243, 247))
            self.words("[chart]", box[0] + 10, box[1] + 8, 14 * 12700 * self.scale, (110, 120, 135))
        elif shape.shape_type == 13:
            self.picture(shape, box)
        elif shape.has_text_frame and shape.text_frame.text.strip():
            self.text(shape, box)

    def picture(self, shape, box):
        try:
            with Image.open(io.BytesIO(shape.image.blob)) as image:
                image.draft("RGB", (WIDE, WIDE))
                size = max(1, int(box[2] - box[0])), max(1, int(box[3] - box[1]))
                self.image.paste(image.convert("RGB").resize(size), (int(box[0]), int(box[1])))
        except Exception:  # kinds of pictures that cannot be drawn
            self.draw.rectangle(box, outline=(150, 160, 175), fill=(225, 230, 236))

    def text(self, shape, box):
        point = 12700 * self.scale
        left, top, right, _ = (side * point for side in insets(shape.text_frame))
        paragraphs = measured(shape)
        x, y, room = box[0] + left, box[1] + top, (box[2] - box[0] - left - right) / point
        high = measure.height(paragraphs, room) * point
        anchor = anchor_of(shape)
        if anchor in ("b", "ctr"):
            y = box[3] - high - top if anchor == "b" else (box[1] + box[3] - high) / 2
        ink = ink_of(shape)
        for (text, size, indent, before), paragraph in zip(paragraphs, shape.text_frame.paragraphs):
            y += before * point
            own = colour(paragraph.runs[0]._r.find(qn("a:rPr"))) if paragraph.runs else None
            bullet = indent and text.strip() and kind_of(shape) in BODIES and has_bullet(shape, paragraph)
            indent = indent if bullet or paragraph.level else 0
            if bullet:
                self.words("•", x + (indent - size) * point, y, size * point, own or ink)
            for line in broken(text, size, room - indent):
                self.words(line, x + indent * point, y, size * point, own or ink)
                y += size * measure.LINE * point

    def table(self, shape, box):
        point, y = 12700 * self.scale, box[1]
        for index, row in enumerate(shape.table.rows):
            x, high = box[0], row.height * self.scale
            for cell, column in zip(row.cells, shape.table.columns):
                wide = column.width * self.scale
                self.draw.rectangle((x, y, x + wide, y + high), outline=(190, 198, 210), fill=(222, 230, 240) if index == 0 else None)
                sizes = [paragraph.font.size.pt for paragraph in cell.text_frame.paragraphs if paragraph.font.size]
                size = max(sizes, default=14)
                for offset, line in enumerate(broken(cell.text_frame.text, size, wide / point - 12)):
                    self.words(line, x + 6 * point, y + 3 * point + offset * size * 1.2 * point, size * point, (20, 24, 30))
                x += wide
            y += high

    def words(self, text, x, y, size, ink):
        """A line, letter by letter: Chinese ones have a font of their own."""
        for letter in text:
            asian = ord(letter) >= 0x2E80
            font = self.font(asian, max(5, int(size)))
            self.draw.text((x, y), letter, font=font, fill=ink)
            x += font.getlength(letter) if self.files[asian] else measure.letter(letter) * size

    def font(self, asian, size):
        if (asian, size) not in self.fonts:
            file = self.files[asian]
            self.fonts[asian, size] = ImageFont.truetype(file, size) if file else ImageFont.load_default(size)
        return self.fonts[asian, size]


def broken(text, size, room):
    """A text in lines, as `measure` counts them."""
    lines = []
    for part in text.replace("\v", "\n").split("\n"):
        line = ""
        for letter in part:
            if line and measure.lines(line + letter, size, room) > 1:
                cut = line.rfind(" ")
                head, line = (line[:cut], line[cut + 1 :]) if cut > 0 and ord(letter) < 0x2E80 else (line, "")
                lines.append(head)
            line += letter
        lines.append(line)
    return lines


def has_bullet(shape, paragraph):
    properties = paragraph._p.pPr
    if properties is not None and properties.find(qn("a:buNone")) is not None:
        return False
    for place_ in inherited(shape):
        found = place_.find(f"{A}lvl{paragraph.level + 1}pPr")
        if found is not None:
            return found.find(qn("a:buNone")) is None
    return True


def colour(element):
    """A plain colour that is said here, as (red, green, blue)."""
    fill = element.find(qn("a:solidFill")) if element is not None else None
    value = fill.find(qn("a:srgbClr")) if fill is not None else None
    text = value.get("val", "") if value is not None else ""
    try:
        return tuple(int(text[at : at + 2], 16) for at in (0, 2, 4)) if len(text) == 6 else None
    except ValueError:
        return None


def background(slide):
    for part in (slide, slide.slide_layout, slide.slide_layout.slide_master):
        found = part._element.find(f"{qn('p:cSld')}/{qn('p:bg')}/{qn('p:bgPr')}")
        if colour(found):
            return colour(found)
    return (255, 255, 255)


def ink_of(shape):
    for place_ in inherited(shape):
        for looks in place_.iter(f"{A}defRPr"):
            if colour(looks):
                return colour(looks)
            break
    return (20, 24, 30)


def anchor_of(shape):
    found = shape
    while found is not None:
        body = found._element.find(f".//{A}bodyPr")
        if body is not None and body.get("anchor"):
            return body.get("anchor")
        found = getattr(found, "_base_placeholder", None)
    return "t"


def font_file(wanted):
    found = []
    for folder in FOLDERS:
        for base, _, names in os.walk(folder):
            found.extend(os.path.join(base, name) for name in names if name.lower().endswith((".ttf", ".otf", ".ttc")))
            if len(found) > 3000:
                break
    for begin in wanted:
        for path in sorted(found):
            if os.path.basename(path).lower().startswith(begin):
                return path
    return None


if __name__ == "__main__":
    start(main, parser)
