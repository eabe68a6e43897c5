"""Chooses fonts for a text, so that each of its letters is drawn: the viewer's own for Latin, fonts of this machine for others.

What a font of this machine draws is put into the PDF, only the letters that are used. Where the machine has none for
Chinese, Japanese or Korean, a font by name is used that viewers bring along.
"""

import io
import logging
import os
import re
from pathlib import Path

from cli import note

FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/texmf/fonts/opentype",
    "/Library/Fonts",
    "/System/Library/Fonts",
    "~/.fonts",
    "~/.local/share/fonts",
)
# Looked at in this order; others after them.
PREFERRED = (
    "dejavusans", "notosans", "liberationsans", "freesans", "carlito", "arial", "notosanscjk", "sourcehansans", "droidsansfallback",
    "wqy", "pingfang", "msyh", "simsun", "nanum", "unifont",
)  # fmt: skip
UNWANTED = re.compile(r"emoji|symbol|icon|awesome|condensed|mono|serif|extralight|thin|black|light|display", re.I)
MAX_FONTS = 2_000
# Fonts that viewers have for languages whose letters are many. They are named in the PDF, not part of it.
NAMED = (("HeiseiKakuGo-W5", r"[\u3040-\u30ff]"), ("HYSMyeongJo-Medium", r"[\uac00-\ud7af]"), ("STSong-Light", r""))
WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3130-\u318f\u31c0-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")
STYLES = ((False, False), (True, False), (False, True), (True, True))
LATIN = {
    "sans": dict(zip(STYLES, ("Helvetica", "Helvetica-Bold", "Helvetica-Oblique", "Helvetica-BoldOblique"))),
    "serif": dict(zip(STYLES, ("Times-Roman", "Times-Bold", "Times-Italic", "Times-BoldItalic"))),
    "mono": dict(zip(STYLES, ("Courier", "Courier-Bold", "Courier-Oblique", "Courier-BoldOblique"))),
}


class Faces:
    """The fonts for one document, made from all of its text."""

    def __init__(self, text, family="sans", own=None):
        self.family = family
        self.letters = {letter for letter in text if not letter.isspace() and letter.isprintable()}
        self.covered = {}
        missing = {letter for letter in self.letters if not latin(letter)}
        if own:
            missing = self._embed([Path(own)], missing | self.letters, fail=True)
        if missing:
            missing = self._embed(fonts_here(), missing)
        wide = {letter for letter in missing if WIDE.match(letter)}
        if wide:
            self._name(wide)
        self.lost = sorted(missing - wide)
        if self.lost:
            note(f"no font here draws: {' '.join(self.lost[:30])}; give one with --font FILE. They are shown as ?")

    def _embed(self, files, missing, fail=False):
        """Takes from these fonts what they have of the missing letters; gives what is left."""
        for file in files:
            if not missing:
                break
            try:
                found, bold = subset(file, missing)
            except Exception as error:  # fonts of a machine are of all kinds
                if fail:
                    from cli import Fault

                    raise Fault(f"the font {file} cannot be used: {error}") from error
                continue
            for letter in found[1]:
                self.covered[letter] = {False: found[0], True: bold or found[0]}
            missing = missing - found[1]
        return missing

    def _name(self, wide):
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.cidfonts import UnicodeCIDFont

        text = "".join(wide)
        name = next(name for name, letters in NAMED if re.search(letters, text))
        pdfmetrics.registerFont(UnicodeCIDFont(name))
        for letter in wide:
            self.covered[letter] = {False: name, True: name}
        note(f"no font for {''.join(sorted(wide)[:8])} on this machine: {name} is named, and the viewer must have it; "
             "give a font with --font FILE to put it into the PDF")

    def face(self, letter, bold=False, italic=False, mono=False):
        """The name of the font that draws this letter; none where no font does."""
        if letter in self.covered:
            return self.covered[letter][bold]
        if latin(letter) or letter.isspace():
            return LATIN["mono" if mono else self.family][bold, italic]
        return None

    def runs(self, text, bold=False, italic=False, mono=False):
        """The text in pieces of one font each: (name, piece). Letters without a font become question marks."""
        pieces = []
        for letter in text:
            if not letter.isspace() and not letter.isprintable():
                continue
            face = self.face(letter, bold, italic, mono)
            if face is None:
                letter, face = "?", LATIN[self.family][bold, italic]
            # Spaces stay with the piece before, so that pieces are few.
            if pieces and (pieces[-1][0] == face or letter == " "):
                pieces[-1][1].append(letter)
            else:
                pieces.append((face, [letter]))
        return [(face, "".join(letters)) for face, letters in pieces]

    def one_for(self, text, bold=False):
        """One font for all of it, as far as one can be."""
        faces = [self.face(letter, bold) for letter in text if not letter.isspace()]
        odd = [face for face in faces if face and face not in LATIN[self.family].values()]
        return (odd or [LATIN[self.family][bold, False]])[0]


def latin(letter):
    """Whether the fonts that every viewer has draw it."""
    try:
        letter.encode("cp1252")
        return True
    except UnicodeEncodeError:
        return False


def fonts_here():
    """The font files of this machine, the likeliest first."""
    files = []
    for folder in FOLDERS:
        for base, _, names in os.walk(os.path.expanduser(folder)):
            files.extend(Path(base, name) for name in names if name.lower().endswith((".ttf", ".otf", ".ttc")))
            if len(files) > MAX_FONTS:
                break

    def rank(file):
        name = re.sub(r"[^a-z0-9]", "", file.stem.lower())
        order = next((index for index, part in enumerate(PREFERRED) if name.startswith(part)), len(PREFERRED))
        return order, bool(UNWANTED.search(file.stem)), bool(re.search("bold|italic|oblique", file.stem, re.I)), file.stem

    return sorted(files, key=rank)


def subset(file, letters):
    """((name of the font, the letters it draws), name of its bold brother or none), both known to reportlab."""
    regular = registered(file, letters)
    bold = None
    for stem in (file.stem.replace("Regular", "Bold"), file.stem + "-Bold", file.stem + "Bd"):
        brother = file.with_name(stem + file.suffix)
        if brother != file and brother.is_file():
            name, drawn = registered(brother, regular[1])
            bold = name if drawn == regular[1] else None
            break
    return regular, bold


def registered(file, letters):
    from fontTools import subset as subsetting
    from fontTools.ttLib import TTFont as Source
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    logging.getLogger("fontTools").setLevel(logging.ERROR)
    source = Source(file, fontNumber=0, lazy=True)
    known = source.getBestCmap() or {}
    drawn = {letter for letter in letters if ord(letter) in known}
    if not drawn:
        return file.stem, set()
    if "fvar" in source:
        from fontTools.varLib import instancer

        source = instancer.instantiateVariableFont(source, {axis.axisTag: None for axis in source["fvar"].axes})
    options = subsetting.Options(layout_features=[], name_IDs=["*"], notdef_outline=True, hinting=False, ignore_missing_glyphs=True)
    cutter = subsetting.Subsetter(options)
    cutter.populate(unicodes=[ord(letter) for letter in drawn | {" "}])
    cutter.subset(source)
    if "glyf" not in source:
        to_quadratic(source)
    buffer = io.BytesIO()
    source.save(buffer)
    buffer.seek(0)
    name = f"{re.sub(r'[^A-Za-z0-9-]', '', file.stem)}-{len(pdfmetrics.getRegisteredFontNames())}"
    pdfmetrics.registerFont(TTFont(name, buffer))
    return name, drawn


def to_quadratic(font):
    """Outlines of PostScript kind as those of TrueType, which is what can be put into the PDF."""
    from fontTools.pens.cu2quPen import Cu2QuPen
    from fontTools.pens.ttGlyphPen import TTGlyphPen
    from fontTools.ttLib import newTable

    order, outlines, drawn = font.getGlyphOrder(), font.getGlyphSet(), {}
    for name in order:
        pen = TTGlyphPen(None)
        outlines[name].draw(Cu2QuPen(pen, font["head"].unitsPerEm / 1000, reverse_direction=True))
        drawn[name] = pen.glyph()
    font["loca"] = newTable("loca")
    font["glyf"] = newTable("glyf")
    font["glyf"].glyphOrder = order
    font["glyf"].glyphs = drawn
    for tag in ("CFF ", "CFF2", "VORG"):
        if tag in font:
            del font[tag]
    most = font["maxp"]
    most.tableVersion = 0x00010000
    for field in ("maxTwilightPoints", "maxStorage", "maxFunctionDefs", "maxInstructionDefs", "maxStackElements"):
        setattr(most, field, 0)
    most.maxZones, most.maxSizeOfInstructions, most.maxComponentElements, most.maxComponentDepth = 1, 0, 0, 0
    font["post"].formatType = 3.0
    font.sfntVersion = "\000\001\000\000"
