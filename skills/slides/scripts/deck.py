"""Presentations opened, and what stands in them: shapes, sizes of letters that are inherited, layouts by what they hold."""

from cli import Fault, check_package, input_file
from pptx.enum.shapes import PP_PLACEHOLDER as KIND
from pptx.oxml.ns import qn

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
TITLES = (KIND.TITLE, KIND.CENTER_TITLE)
BODIES = (KIND.OBJECT, KIND.BODY)
EDGES = (KIND.DATE, KIND.FOOTER, KIND.SLIDE_NUMBER, KIND.HEADER)
MAX_SLIDES = 2_000


def open_deck(path):
    import pptx

    found = input_file(path, ".pptx", ".pptm")
    check_package(found)
    try:
        deck = pptx.Presentation(str(found))
        count = len(deck.slides)
        if count:
            deck.slides[0].shapes.title  # fails here where the file is damaged
    except Exception as error:  # the library raises what its parsers raise
        raise Fault(f"{found.name} is damaged or no presentation: {str(error)[:200]}") from error
    if count > MAX_SLIDES:
        raise Fault(f"the presentation has {count} slides; more than {MAX_SLIDES} are not worked on")
    return deck


def slide_at(deck, number):
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(deck.slides):
        raise Fault(f"there is no slide {number!r}; there are {len(deck.slides)}")
    return deck.slides[number - 1]


def flat(shapes):
    """All shapes, those in groups too."""
    for shape in shapes:
        if shape.shape_type == 6 and hasattr(shape, "shapes"):
            yield from flat(shape.shapes)
        else:
            yield shape


def kind_of(shape):
    return shape.placeholder_format.type if shape.is_placeholder else None


def is_edge(shape):
    return kind_of(shape) in EDGES


def layout_for(deck, kind):
    """A layout by what it holds: "title", "content", "two", "only", "section"."""
    names = {"title": ("title slide",), "content": ("title and content",), "two": ("two content",), "only": ("title only",), "section": ("section header",)}
    wanted = {"title": (1, "subtitle"), "content": (1, 1), "two": (1, 2), "only": (1, 0), "section": (1, 1)}[kind]
    layouts = list(deck.slide_layouts)
    for layout in layouts:
        if layout.name.lower() in names[kind]:
            return layout
    for layout in layouts:
        kinds = [kind_of(shape) for shape in layout.placeholders]
        titles, bodies = sum(one in TITLES for one in kinds), sum(one in BODIES for one in kinds)
        if titles and ((wanted[1] == "subtitle" and KIND.SUBTITLE in kinds) or bodies == wanted[1]):
            return layout
    if kind != "content":
        return layout_for(deck, "content")
    raise Fault("this presentation has no layout with a title and a body; use another template")


# Sizes of letters: said by the run, or inherited from the shape, the layout, the master.


def size_of(run, paragraph, shape):
    """In points."""
    if run is not None and run.font.size:
        return run.font.size.pt
    if paragraph.font.size:
        return paragraph.font.size.pt
    level = paragraph.level
    for place in inherited(shape):
        for found in place.iter(f"{A}lvl{level + 1}pPr"):
            looks = found.find(f"{A}defRPr")
            if looks is not None and looks.get("sz"):
                return int(looks.get("sz")) / 100
    return 18.0


def inherited(shape):
    """Where a shape's looks may come from, the nearest first."""
    own = shape._element.find(f".//{A}lstStyle")
    if own is not None:
        yield own
    master = None
    if shape.is_placeholder:
        base = getattr(shape, "_base_placeholder", None)
        while base is not None:
            found = base._element.find(f".//{A}lstStyle")
            if found is not None:
                yield found
            base = getattr(base, "_base_placeholder", None)
    try:
        master = shape.part.slide_layout.slide_master
    except AttributeError:
        pass
    if master is not None:
        styles = master._element.find(qn("p:txStyles"))
        if styles is not None:
            kind = kind_of(shape)
            name = "p:titleStyle" if kind in TITLES else "p:bodyStyle" if shape.is_placeholder else "p:otherStyle"
            found = styles.find(qn(name))
            if found is not None:
                yield found


def insets(frame):
    """Left, top, right, bottom, in points."""
    return tuple(side.pt if side is not None else fallback for side, fallback in
                 ((frame.margin_left, 7.2), (frame.margin_top, 3.6), (frame.margin_right, 7.2), (frame.margin_bottom, 3.6)))  # fmt: skip


def measured(shape):
    """The paragraphs of a shape as `measure.height` takes them, and how far letters are shrunk by the file itself."""
    found = []
    shrink = 1.0
    for fit in shape._element.iter(f"{A}normAutofit"):
        shrink = int(fit.get("fontScale", "100000")) / 100000
    for paragraph in shape.text_frame.paragraphs:
        runs = paragraph.runs
        size = max((size_of(run, paragraph, shape) for run in runs), default=size_of(None, paragraph, shape)) * shrink
        before = paragraph.space_before.pt if hasattr(paragraph.space_before, "pt") else size * 0.2 if paragraph.level == 0 and shape.is_placeholder else 0
        # A bullet and its indent take room from the line.
        bullet = kind_of(shape) in BODIES
        indent = (paragraph.level + 1) * size if bullet else paragraph.level * size
        found.append(("".join(run.text for run in runs) or paragraph.text, size, indent, before))
    return found
