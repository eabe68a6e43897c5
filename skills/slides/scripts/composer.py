"""Puts the slides of an outline into a presentation. What does not fit gets smaller letters, then another slide."""

import re

import measure
from cli import Fault, note
from deck import BODIES, KIND, A, inherited, kind_of, layout_for
from markup import legal, picture_file
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Emu, Pt

CHARTS = {"column": XL_CHART_TYPE.COLUMN_CLUSTERED, "bar": XL_CHART_TYPE.BAR_CLUSTERED, "line": XL_CHART_TYPE.LINE_MARKERS,
          "pie": XL_CHART_TYPE.PIE, "doughnut": XL_CHART_TYPE.DOUGHNUT, "area": XL_CHART_TYPE.AREA, "stacked column": XL_CHART_TYPE.COLUMN_STACKED,
          "stacked bar": XL_CHART_TYPE.BAR_STACKED}  # fmt: skip
# Letters of a body, from the largest; below the last one the text goes on on another slide.
SIZES = (20, 18, 16, 14)
TABLE_SIZES = (16, 14, 12, 11)
GAP = Emu(150_000)


class Composer:
    def __init__(self, deck, folder, numbers=True):
        self.deck, self.folder, self.numbers = deck, folder, numbers

    def add(self, plan):
        """One slide of an outline, and more where it does not fit on one."""
        if plan.kind in ("title", "section"):
            slide = self.begin(plan.kind, plan.title)
            for shape in list(slide.placeholders):
                if kind_of(shape) in (KIND.SUBTITLE, *BODIES):
                    shape.text_frame.text = plan.subtitle if plan.subtitle else ""
                    if not plan.subtitle:
                        shape._element.getparent().remove(shape._element)
            self.notes(slide, plan.notes)
            if plan.blocks:
                plan.kind = "content"
                self.add(plan)
            return
        columns = [column for column in plan.columns if column] or [[]]
        if len(columns) > 2:
            raise Fault(f"the slide {plan.title!r} has {len(columns)} columns; at most 2 fit")
        columns = beside(columns)
        rest, part = columns, 1
        while rest is not None:
            slide = self.begin("two" if len(columns) == 2 else "content", plan.title if part == 1 else f"{plan.title} ({part})")
            rest = self.body(slide, rest)
            self.notes(slide, plan.notes if part == 1 else [])
            part += 1
            if part > 30:
                raise Fault(f"the slide {plan.title!r} does not fit; make its parts smaller")

    def begin(self, kind, title):
        layout = layout_for(self.deck, kind)
        slide = self.deck.slides.add_slide(layout)
        settle(slide, layout)
        if slide.shapes.title is not None:
            slide.shapes.title.text_frame.text = title
        if self.numbers and kind not in ("title", "section"):
            self.number(slide)
        return slide

    def number(self, slide):
        """The number of the slide, where its layout has a place for it."""
        import copy

        for shape in slide.slide_layout.placeholders:
            if kind_of(shape) == KIND.SLIDE_NUMBER:
                slide.shapes._spTree.append(copy.deepcopy(shape._element))

    def notes(self, slide, texts):
        if texts:
            slide.notes_slide.notes_text_frame.text = "\n".join(texts)

    # The body: a list of blocks for each column, from top to bottom.

    def body(self, slide, columns):
        """Puts blocks down; gives those that are left for another slide, or none."""
        places = [shape for shape in slide.placeholders if kind_of(shape) in BODIES]
        left = []
        for index, blocks in enumerate(columns):
            area = self.area(slide, places, index, len(columns))
            left.append(self.column(slide, blocks, area, places[index] if index < len(places) else None))
        for shape in places[len(columns) :]:
            shape._element.getparent().remove(shape._element)
        return left if any(left) else None

    def area(self, slide, places, index, count):
        if index < len(places):
            shape = places[index]
            return shape.left, shape.top, shape.width, shape.height
        width, height = self.deck.slide_width, self.deck.slide_height
        room = (width - Emu(1_200_000)) // count
        return Emu(600_000) + index * room, int(height * 0.22), room - GAP, int(height * 0.68)

    def column(self, slide, blocks, area, placeholder):
        left, top, width, height = area
        bottom, used, rest = top + height, False, []
        blocks = merged(blocks)
        # Texts and tables take what they need; pictures and charts share what is left.
        free = sum(1 for kind, _ in blocks if kind in ("picture", "chart"))
        for index, (kind, content) in enumerate(blocks):
            room = bottom - top
            later = [block for block in blocks[index + 1 :]]
            reserve = int(height * 0.42) if free and any(one in ("picture", "chart") for one, _ in later) else 0
            if kind == "text":
                shape = placeholder if placeholder is not None and not used else slide.shapes.add_textbox(left, top, width, room)
                used = used or shape is placeholder
                taken, over = self.text(shape, content, (left, top, width, room - reserve), shape is placeholder, bool(later))
            elif kind == "code":
                taken, over = self.code(slide, content, (left, top, width, room - reserve))
            elif kind == "table":
                taken, over = self.table(slide, content, (left, top, width, room - reserve))
            else:
                share = (room - GAP * (free - 1)) // max(free, 1)
                free -= 1
                put = self.picture if kind == "picture" else self.chart
                taken, over = put(slide, content, (left, top, width, share)), None
            top += taken + GAP
            if over:
                rest = [(kind, over), *later]
                break
            if later and bottom - top < Pt(60):
                rest = later
                break
        if placeholder is not None and not used:
            placeholder._element.getparent().remove(placeholder._element)
        return rest

    def text(self, shape, items, area, is_placeholder, shared):
        """Words in the largest size that fits; gives the height and the items that did not fit."""
        left, top, width, height = area
        room, high = Emu(width).pt - 16, Emu(height).pt - 8
        size = next((size for size in SIZES if needed(items, size, room) <= high), None)
        over = []
        if size is None:
            size = SIZES[-1]
            kept = len(items)
            while kept > 1 and needed(items[:kept], size, room) > high:
                kept -= 1
            items, over = items[:kept], items[kept:]
            if not over and needed(items, size, room) > high:
                note(f"a text is too long for a slide: {plain(items)[:60]!r}")
        frame = shape.text_frame
        frame.word_wrap = True
        for index, (level, pieces, how) in enumerate(items):
            paragraph = frame.paragraphs[0] if index == 0 else frame.add_paragraph()
            paragraph.level = level
            self.line(paragraph, pieces, how, size - 2 * level, is_placeholder and has_bullets(shape, level))
        taken = Pt(needed(items, size, room) + 10)
        shape.left, shape.top, shape.width = Emu(left), Emu(top), Emu(width)
        shape.height = Emu(int(taken if shared else height))
        return int(taken), over

    def line(self, paragraph, pieces, how, size, bulleted):
        for text, look in pieces:
            if text == "\v":
                paragraph.add_line_break()
                continue
            run = paragraph.add_run()
            run.text = legal(text)
            run.font.size = Pt(max(size, 11))
            run.font.bold = True if "b" in look or how == "head" else None
            run.font.italic = True if "i" in look or how == "quote" else None
            if "c" in look:
                run.font.name = "Consolas"
        properties = paragraph._p.get_or_add_pPr()
        if how in ("plain", "head", "quote", False):
            properties.set("marL", "0")
            properties.set("indent", "0")
            properties.insert(0, parse_xml(f"<a:buNone {nsdecls('a')}/>"))
        elif str(how).startswith("number"):
            step = Pt(size * 1.3)
            properties.set("marL", str(int(step * (paragraph.level + 1))))
            properties.set("indent", str(-int(step)))
            properties.insert(0, parse_xml(f'<a:buFont {nsdecls("a")} typeface="+mj-lt"/>'))
            properties.insert(1, parse_xml(f'<a:buAutoNum {nsdecls("a")} type="arabicPeriod"/>'))
        elif not bulleted:
            step = Pt(size)
            properties.set("marL", str(int(step * (paragraph.level + 1))))
            properties.set("indent", str(-int(step)))
            properties.insert(0, parse_xml(f'<a:buChar {nsdecls("a")} char="\u2022"/>'))
        paragraph.space_before = Pt(size * 0.35 if paragraph.level == 0 else size * 0.15)

    def code(self, slide, text, area):
        left, top, width, height = area
        lines = text.split("\n")
        longest = max(map(len, lines), default=1)
        size = max(8, min(14, (Emu(width).pt - 16) / max(longest * 0.6, 1), (Emu(height).pt - 12) / (len(lines) * 1.2)))
        shape = slide.shapes.add_textbox(left, top, width, Pt(size * 1.2 * len(lines) + 14))
        shape.fill.solid()
        shape.fill.fore_color.rgb = RGBColor(0xEE, 0xF1, 0xF5)
        shape.text_frame.word_wrap = True
        for index, line in enumerate(lines):
            paragraph = shape.text_frame.paragraphs[0] if index == 0 else shape.text_frame.add_paragraph()
            run = paragraph.add_run()
            run.text = legal(line) or " "
            run.font.size, run.font.name = Pt(size), "Consolas"
        return shape.height, None

    def table(self, slide, rows, area):
        left, top, width, height = area
        columns = max(map(len, rows))
        if columns > 15:
            raise Fault(f"a table has {columns} columns; at most 15 fit on a slide")
        rows = [row + [""] * (columns - len(row)) for row in rows]
        weights = [max(min(max(measure.width(row[index], 1) for row in rows), 25), 3) for index in range(columns)]
        widths = [int(width * weight / sum(weights)) for weight in weights]
        size, heights = fitted(rows, widths, height)
        kept = len(rows)
        while kept > 2 and sum(heights[:kept]) > height:
            kept -= 1
        over = [rows[0], *rows[kept:]] if kept < len(rows) else None
        shown = rows[:kept]
        frame = slide.shapes.add_table(len(shown), columns, left, top, width, sum(heights[:kept]))
        for column, one in zip(frame.table.columns, widths):
            column.width = one
        for index, (row, texts) in enumerate(zip(frame.table.rows, shown)):
            row.height = heights[index]
            for cell, text in zip(row.cells, texts):
                cell.text_frame.text = legal(text)
                for paragraph in cell.text_frame.paragraphs:
                    paragraph.font.size = Pt(size)
                    if index and re.fullmatch(r"[-+]?[\d.,\s]+[%€$¥]?", text or "x"):
                        paragraph.alignment = 3
        return sum(heights[:kept]), over

    def chart(self, slide, told, area):
        left, top, width, height = area
        kind = told.get("type", "column")
        if kind not in CHARTS:
            raise Fault(f"a chart is one of {', '.join(CHARTS)}, not {kind!r}")
        data = CategoryChartData()
        data.categories = [legal(label) for label in told["labels"]]
        for name, values in told["series"].items():
            data.add_series(legal(name), values)
        made = slide.shapes.add_chart(CHARTS[kind], left, top, width, height, data).chart
        made.font.size = Pt(14)
        made.has_title = bool(told.get("title"))
        if told.get("title"):
            made.chart_title.text_frame.text = legal(told["title"])
            made.chart_title.text_frame.paragraphs[0].runs[0].font.size = Pt(16)
        made.has_legend = len(told["series"]) > 1 or kind in ("pie", "doughnut")
        if made.has_legend:
            made.legend.position, made.legend.include_in_layout = XL_LEGEND_POSITION.BOTTOM, False
        if kind in ("pie", "doughnut"):
            made.plots[0].has_data_labels = True
            made.plots[0].data_labels.show_percentage = True
            made.plots[0].data_labels.show_value = False
        elif len(told["labels"]) * len(told["series"]) <= 12:
            made.plots[0].has_data_labels = True
            made.plots[0].data_labels.font.size = Pt(12)
        return height

    def picture(self, slide, what, area):
        source, words = what
        left, top, width, height = area
        found = picture_file(source, self.folder, "it is left out")
        if found is None:
            return 0
        path, wide, high = found
        scale = min(width / wide, height / high)
        size = int(wide * scale), int(high * scale)
        try:
            shape = slide.shapes.add_picture(str(path), left + (width - size[0]) // 2, top + (height - size[1]) // 2, *size)
        except (OSError, ValueError) as error:
            raise Fault(f"the picture {source} cannot be read: {error}") from error
        shape._element._nvXxPr.cNvPr.set("descr", legal(words))
        return height


def settle(slide, layout):
    """Places as the layout has them. Some programs give all of a layout's places one number, and nothing is inherited then."""
    bases = list(layout.iter_cloneable_placeholders())
    numbers = [base.placeholder_format.idx for base in bases]
    if len(set(numbers)) == len(numbers):
        return
    for shape, base in zip([shape for shape in slide.shapes if shape.is_placeholder], bases):
        shape.left, shape.top, shape.width, shape.height = base.left, base.top, base.width, base.height


def has_bullets(shape, level):
    """Whether the design gives this place bullets."""
    for styles in inherited(shape):
        found = styles.find(f"{A}lvl{level + 1}pPr")
        if found is not None and found.find(f"{A}buNone") is not None:
            return False
        if found is not None and found.find(f"{A}buChar") is not None:
            return True
    return False


def beside(columns):
    """Words and one picture or chart stand side by side where nothing else is said."""
    if len(columns) == 2:
        return columns
    shows = [block for block in columns[0] if block[0] in ("picture", "chart")]
    others = [block for block in columns[0] if block[0] not in ("picture", "chart")]
    if len(shows) == 1 and others and all(kind == "text" for kind, _ in others):
        return [others, shows]
    return columns


def merged(blocks):
    """Texts that follow each other are one."""
    found = []
    for kind, content in blocks:
        if kind == "text" and found and found[-1][0] == "text":
            found[-1] = ("text", found[-1][1] + content)
        else:
            found.append((kind, content))
    return found


def needed(items, size, room):
    return measure.height(
        [("".join(text for text, _ in pieces), size - 2 * level, (level + 1) * size, size * (0.35 if level == 0 else 0.15)) for level, pieces, _ in items],
        room,
    )


def fitted(rows, widths, height):
    """The largest size of letters at which a table fits, and the heights of its rows."""
    for size in TABLE_SIZES:
        heights = []
        for row in rows:
            lines = max(measure.lines(text, size, Emu(width).pt - 16) for text, width in zip(row, widths))
            heights.append(int(Pt(lines * size * 1.2 + 9)))
        if sum(heights) <= height:
            break
    return size, heights


def plain(items):
    return " ".join("".join(text for text, _ in pieces) for _, pieces, _ in items)
