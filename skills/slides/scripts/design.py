"""How slides look: those of a template, or a plain design of our own."""

import re

from cli import Fault
from deck import A, KIND, open_deck
from lxml import etree
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn
from pptx.util import Emu, Inches

WIDTH, HEIGHT = Inches(13.333), Inches(7.5)
LEFT, ROOM = Inches(0.75), Inches(11.833)


def design_of(options):
    """A presentation without slides."""
    if options.template:
        deck = open_deck(options.template)
        for entry in list(deck.slides._sldIdLst):
            deck.part.drop_rel(entry.get(qn("r:id")))
            deck.slides._sldIdLst.remove(entry)
        return deck
    if not re.fullmatch(r"#?[0-9A-Fa-f]{6}", options.colour):
        raise Fault(f"{options.colour!r} is no colour; write 1F4E79")
    return plain(options.colour.lstrip("#").upper(), options.font, options.asian_font)


def plain(colour, font, asian):
    import pptx

    deck = pptx.Presentation()
    deck.slide_width, deck.slide_height = WIDTH, HEIGHT
    master = deck.slide_master
    for shape in master.placeholders:
        kind = shape.placeholder_format.type
        if kind == KIND.TITLE:
            place(shape, LEFT, Inches(0.4), ROOM, Inches(0.95))
        elif kind == KIND.BODY:
            place(shape, LEFT, Inches(1.6), ROOM, Inches(5.1))
        elif kind == KIND.SLIDE_NUMBER:
            place(shape, Inches(11.6), Inches(6.95), Inches(0.98), Inches(0.35))
        elif kind == KIND.FOOTER:
            place(shape, Inches(4.4), Inches(6.95), Inches(4.5), Inches(0.35))
        elif kind == KIND.DATE:
            place(shape, LEFT, Inches(6.95), Inches(2.5), Inches(0.35))
    bar(master, colour)
    styles(master, colour)
    for layout in deck.slide_layouts:
        arrange(layout, colour)
    theme(master, colour, font, asian)
    return deck


def place(shape, left, top, width, height):
    shape.left, shape.top, shape.width, shape.height = Emu(int(left)), Emu(int(top)), Emu(int(width)), Emu(int(height))


def bar(master, colour):
    """A thin line below the title."""
    shapes = master.shapes._spTree
    shapes.insert(2, parse_xml(
        f'<p:sp {nsdecls("p", "a")}><p:nvSpPr><p:cNvPr id="9001" name="Line"/><p:cNvSpPr/><p:nvPr userDrawn="1"/></p:nvSpPr><p:spPr>'
        f'<a:xfrm><a:off x="{LEFT}" y="{Inches(1.38)}"/><a:ext cx="{Inches(0.9)}" cy="{Inches(0.06)}"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        f'<a:solidFill><a:srgbClr val="{colour}"/></a:solidFill><a:ln><a:noFill/></a:ln></p:spPr></p:sp>'
    ))  # fmt: skip


def styles(master, colour):
    """Titles at the left in one colour, bodies in sizes that can be read from afar."""
    sizes = {"p:titleStyle": [3000], "p:bodyStyle": [2000, 1800, 1600, 1400, 1400]}
    for name, wanted in sizes.items():
        style = master._element.find(qn("p:txStyles")).find(qn(name))
        for level, size in enumerate(wanted, 1):
            found = style.find(f"{A}lvl{level}pPr")
            looks = found.find(f"{A}defRPr")
            looks.set("sz", str(size))
            if name == "p:titleStyle":
                found.set("algn", "l")
                looks.set("b", "1")
                fill = looks.find(f"{A}solidFill")
                if fill is not None:
                    looks.remove(fill)
                looks.insert(0, parse_xml(f'<a:solidFill {nsdecls("a")}><a:srgbClr val="{colour}"/></a:solidFill>'))
    for shape in master.placeholders:
        if shape.placeholder_format.type == KIND.TITLE:
            body = shape._element.find(f".//{A}bodyPr")
            body.set("anchor", "b")


def arrange(layout, colour):
    """The places of a layout's parts on a wide slide."""
    name = layout.name.lower()
    bodies = []
    for shape in layout.placeholders:
        kind = shape.placeholder_format.type
        if kind == KIND.SLIDE_NUMBER:
            place(shape, Inches(11.6), Inches(6.95), Inches(0.98), Inches(0.35))
        elif kind == KIND.FOOTER:
            place(shape, Inches(4.4), Inches(6.95), Inches(4.5), Inches(0.35))
        elif kind == KIND.DATE:
            place(shape, LEFT, Inches(6.95), Inches(2.5), Inches(0.35))
        elif name in ("title slide", "section header"):
            head = kind in (KIND.CENTER_TITLE, KIND.TITLE)
            place(shape, LEFT, Inches(2.1 if head else 4.15), ROOM, Inches(1.9 if head else 1.4))
            big(shape, 44 if name == "title slide" else 36, "b") if head else big(shape, 20, "t", grey=True)
        elif kind == KIND.TITLE:
            place(shape, LEFT, Inches(0.4), ROOM, Inches(0.95))
        elif kind in (KIND.OBJECT, KIND.BODY):
            bodies.append(shape)
    if name in ("title slide", "section header"):
        layout._element.set("showMasterSp", "0")
        background(layout, colour) if name == "section header" else bar_left(layout, colour)
    if name == "two content":
        for index, shape in enumerate(bodies[:2]):
            place(shape, LEFT + index * Inches(6.1), Inches(1.6), Inches(5.73), Inches(5.1))
            lift_sizes(shape)
    elif name == "title and content":
        place(bodies[0], LEFT, Inches(1.6), ROOM, Inches(5.1))


def lift_sizes(shape):
    """Sizes of this layout's own give way to those of the master."""
    found = shape._element.find(f".//{A}lstStyle")
    for child in list(found if found is not None else ()):
        found.remove(child)


def big(shape, size, anchor, grey=False):
    shape.text_frame._txBody.find(f"{A}bodyPr").set("anchor", anchor)
    found = shape._element.find(f".//{A}lstStyle")
    for child in list(found):
        found.remove(child)
    fill = '<a:solidFill><a:srgbClr val="5B6673"/></a:solidFill>' if grey else ""
    found.append(parse_xml(f'<a:lvl1pPr {nsdecls("a")} marL="0" indent="0" algn="l"><a:buNone/><a:defRPr sz="{size * 100}" b="{0 if grey else 1}">{fill}</a:defRPr></a:lvl1pPr>'))


def background(layout, colour):
    """A section begins on a coloured ground, with white letters."""
    data = layout._element.find(qn("p:cSld"))
    data.insert(0, parse_xml(f'<p:bg {nsdecls("p", "a")}><p:bgPr><a:solidFill><a:srgbClr val="{colour}"/></a:solidFill><a:effectLst/></p:bgPr></p:bg>'))
    for shape in layout.placeholders:
        for looks in shape._element.iter(f"{A}defRPr"):
            for fill in looks.findall(f"{A}solidFill"):
                looks.remove(fill)
            looks.insert(0, parse_xml(f'<a:solidFill {nsdecls("a")}><a:srgbClr val="FFFFFF"/></a:solidFill>'))


def bar_left(layout, colour):
    layout.shapes._spTree.insert(2, parse_xml(
        f'<p:sp {nsdecls("p", "a")}><p:nvSpPr><p:cNvPr id="9002" name="Bar"/><p:cNvSpPr/><p:nvPr userDrawn="1"/></p:nvSpPr><p:spPr>'
        f'<a:xfrm><a:off x="0" y="0"/><a:ext cx="{Inches(0.28)}" cy="{HEIGHT}"/></a:xfrm><a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
        f'<a:solidFill><a:srgbClr val="{colour}"/></a:solidFill><a:ln><a:noFill/></a:ln></p:spPr></p:sp>'
    ))  # fmt: skip


def theme(master, colour, font, asian):
    """Fonts and colours, so that charts and tables have them too."""
    from pptx.opc.constants import RELATIONSHIP_TYPE as RT

    part = master.part.part_related_by(RT.THEME)
    root = etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False))
    for kind in ("majorFont", "minorFont"):
        found = next(root.iter(f"{A}{kind}"))
        found.find(f"{A}latin").set("typeface", font)
        found.find(f"{A}ea").set("typeface", asian)
    accents = (colour, "E07B39", "4C9F70", "8E6BB0", "C8A227", "6C7A89")
    for index, accent in enumerate(accents, 1):
        found = next(root.iter(f"{A}accent{index}"))
        for child in list(found):
            found.remove(child)
        etree.SubElement(found, f"{A}srgbClr").set("val", accent)
    part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)

