"""Makes documents that are meant to do harm, and damages documents that others made.

    python hostile.py FOLDER
    python hostile.py judge FOLDER TEXTS

What unpacks, nests, repeats or counts without end stands in `bombs`, five hundred damaged files in `mutants`; each is small on the
disk. `corpus.json` in the folder names them, `secret.txt` beside them is what `external.docx` and its like try to read.
The second compares the words of damaged PDFs, as `TEXTS` has them by document and page, with those that PyMuPDF still reads.
"""

import io
import json
import pathlib
import random
import shutil
import struct
import sys
import tarfile
import zipfile
import zlib

import docx
import openpyxl
import pptx
import pymupdf

import foreign

GIB = 1 << 30
MIB = 1 << 20
MUTANTS = 500
SECRET = "quintessential marmalade of the keeper"
# Form of a question that has to stay without an answer.
SECRET_FORM = "secret"
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
)


def blanks(letter, size):
    """So many of one letter, a piece at a time."""
    piece = letter * MIB
    for _ in range(size // MIB):
        yield piece


def saved(made):
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def with_part(archive, name, pieces):
    """The archive with other content of one part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for entry in old.infolist():
            if entry.filename != name:
                new.writestr(entry, old.read(entry))
        with new.open(name, "w", force_zip64=True) as part:
            for piece in pieces:
                part.write(piece)
    return out.getvalue()


def archive(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for name, pieces in parts:
            with made.open(name, "w", force_zip64=True) as part:
                for piece in pieces:
                    part.write(piece)
    return out.getvalue()


def odf(kind, pieces):
    return archive([("mimetype", [f"application/vnd.oasis.opendocument.{kind}".encode()]), ("content.xml", pieces)])


def a_docx():
    made = docx.Document()
    made.add_paragraph("The first line.")
    return saved(made)


def an_xlsx():
    made = openpyxl.Workbook()
    made.active["A1"] = "The first cell."
    return saved(made)


def a_pptx():
    made = pptx.Presentation()
    made.slides.add_slide(made.slide_layouts[0]).shapes.title.text = "The first slide."
    return saved(made)


def docx_of(body, before=""):
    text = f'<?xml version="1.0"?>{before}<w:document {WORD}><w:body><w:p><w:r><w:t>{body}</w:t></w:r></w:p></w:body></w:document>'
    return with_part(a_docx(), "word/document.xml", [text.encode()])


def laughs():
    levels = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 30))
    return f'<!DOCTYPE x [<!ENTITY e0 "ha">{levels}]>'


def sheet_of(rows, dimension=""):
    before, after = f'<?xml version="1.0"?><worksheet {SHEET}>{dimension}<sheetData>', "</sheetData></worksheet>"
    return with_part(an_xlsx(), "xl/worksheets/sheet1.xml", [before.encode(), *rows, after.encode()])


def million_rows():
    for first in range(1, 1_000_001, 1000):
        yield "".join(
            f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>row {row}</t></is></c><c r="B{row}"><v>{row * 7}</v></c></row>'
            for row in range(first, first + 1000)
        ).encode()


def pdf_of(objects, trailer=""):
    """A PDF with these objects, and the places of all of them."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + (content if isinstance(content, bytes) else content.encode()) + b"\nendobj\n"
    begin = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += f"trailer << /Root 1 0 R /Size {len(places) + 1} {trailer} >>\nstartxref\n{begin}\n%%EOF\n".encode()
    return bytes(out)


def stream_of(content, more=""):
    return f"<< /Length {len(content)} {more} >>\nstream\n".encode() + content + b"\nendstream"


def page_with(content, *objects, resources=""):
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << {resources} >> >>"
    return pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page, content, *objects])


def packed_blanks(letter, size):
    packer = zlib.compressobj(1)
    return b"".join([*(packer.compress(piece) for piece in blanks(letter, size)), packer.flush()])


def many_pages(count):
    pages = range(count)
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    objects.append(f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + 2 * page} 0 R' for page in pages)}] >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for page in pages:
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * page} 0 R /Resources << /Font << /F 3 0 R >> >> >>"
        )
        objects.append(stream_of(f"BT /F 12 Tf 72 700 Td (Line of page {page + 1} with lantern{page + 1}) Tj ET".encode()))
    return pdf_of(objects)


def form(does, more=""):
    return stream_of(does, f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] {more}")


def nested_forms():
    """Ten forms, each of which draws the next ten times."""
    forms = [form(b"/F Do " * 10, f"/Resources << /XObject << /F {number + 1} 0 R >> >>") for number in range(5, 15)]
    return page_with(stream_of(b"/F Do " * 10), *forms, form(b"0 0 9 9 re f"), resources="/XObject << /F 5 0 R >>")


def picture_page(wide):
    picture = stream_of(
        zlib.compress(bytes(MIB)),
        f"/Type /XObject /Subtype /Image /Width {wide} /Height {wide} /BitsPerComponent 8 /ColorSpace /DeviceRGB /Filter /FlateDecode",
    )
    return page_with(stream_of(b"600 0 0 800 0 0 cm /F Do"), picture, resources="/XObject << /F 5 0 R >>")


def png_of(wide):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", wide, wide, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed_blanks(b"\0", 64 * MIB)) + chunk(b"IEND", b"")


def nested_zip(levels):
    inner = ("blanks.txt", list(blanks(b" ", 256 * MIB)))
    for _ in range(levels):
        content = archive([inner] + [(f"{copy}-{inner[0]}", inner[1]) for copy in range(3)])
        inner = ("more.zip", [content])
    return inner[1][0]


def tar_bomb():
    out = io.BytesIO()
    entry = tarfile.TarInfo("notes.txt")
    entry.size = 2 * GIB
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    out.write(packer.compress(entry.tobuf()))
    for piece in blanks(b" ", 2 * GIB):
        out.write(packer.compress(piece))
    out.write(packer.compress(bytes(1024)) + packer.flush())
    return out.getvalue()


def nested_mail(levels):
    lines = ["From: a@example.org", "Subject: Nested"]
    for level in range(levels):
        lines += [f'Content-Type: multipart/mixed; boundary="b{level}"', "", f"--b{level}"]
    return "\r\n".join([*lines, "Content-Type: text/plain", "", "The end."]).encode()


def epub_bomb():
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
        '</manifest><spine><itemref idref="a"/></spine></package>'
    )
    return archive(
        [
            ("mimetype", [b"application/epub+zip"]),
            ("META-INF/container.xml", [container.encode()]),
            ("book.opf", [book.encode()]),
            ("a.xhtml", blanks(b" ", 2 * GIB)),
        ]
    )


def prev_loop():
    made = pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>"])
    begin = made.rindex(b"xref\n0")
    return made.replace(b"/Size 3", f"/Size 3 /Prev {begin}".encode())


def bombs(secret):
    external = f'<!DOCTYPE x [<!ENTITY secret SYSTEM "{secret.as_uri()}">]>'
    claims = [
        b'<row r="1"><c r="A1" t="inlineStr"><is><t>first</t></is></c></row>',
        b'<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>',
    ]
    repeated = (
        f'<office:document-content {ODF}><office:body><office:spreadsheet><table:table table:name="S">'
        '<table:table-row table:number-rows-repeated="1048576"><table:table-cell office:value-type="float" office:value="1" '
        'table:number-columns-repeated="16384"><text:p>1</text:p></table:table-cell></table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    tree = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 99 /Parent 2 0 R >>"]
    itself = form(b"/F Do /F Do", "/Resources << /XObject << /F 5 0 R >> >>")
    yield "blanks.docx", with_part(a_docx(), "word/document.xml", blanks(b" ", 2 * GIB))
    yield "blanks.xlsx", with_part(an_xlsx(), "xl/sharedStrings.xml", blanks(b" ", 2 * GIB))
    yield "blanks.pptx", with_part(a_pptx(), "ppt/slides/slide1.xml", blanks(b" ", 2 * GIB))
    yield "blanks.odt", odf("text", blanks(b" ", 2 * GIB))
    yield "blanks.epub", epub_bomb()
    yield "blanks.tar.gz", tar_bomb()
    yield "blanks.pdf", page_with(stream_of(packed_blanks(b" ", 2 * GIB), "/Filter /FlateDecode"))
    yield "nested.zip", nested_zip(6)
    yield "laughs.docx", docx_of("&e29;", laughs())
    yield "repeats.docx", docx_of("&long;" * 100_000, f'<!DOCTYPE x [<!ENTITY long "{"a" * 100_000}">]>')
    yield "external.docx", docx_of("&secret;", external)
    yield "external.odt", odf("text", [f'<?xml version="1.0"?>{external}<office:document-content {ODF}><office:body><office:text><text:p>&secret;</text:p></office:text></office:body></office:document-content>'.encode()])
    yield "entries.docx", archive([*((f"word/media/{number}.bin", [b""]) for number in range(60_000)), ("word/document.xml", [b"<w:document/>"])])
    yield "cells.xlsx", sheet_of(claims, '<dimension ref="A1:XFD1048576"/>')
    yield "cells.ods", odf("spreadsheet", [repeated.encode()])
    yield "rows.xlsx", sheet_of(million_rows())
    yield "rows.csv", b"".join(b"%d,name %d,%d\n" % (row, row, row * 7) for row in range(2_000_000))
    yield "itself.pdf", page_with(stream_of(b"/F Do"), itself, resources="/XObject << /F 5 0 R >>")
    yield "forms.pdf", nested_forms()
    yield "tree.pdf", pdf_of(tree)
    yield "prev.pdf", prev_loop()
    yield "arrays.pdf", pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", "[" * 200_000])
    yield "pages.pdf", many_pages(20_500)
    yield "picture.pdf", picture_page(100_000)
    yield "picture.png", png_of(60_000)
    yield "nested.html", b"<html><body>" + b"<div><ul><li>" * 70_000 + b"x"
    yield "nested.rtf", b"{\\rtf1 " + b"{\\b " * 1_000_000 + b"x"
    yield "nested.eml", nested_mail(5_000)
    yield "nested.ipynb", b'{"cells": ' + b"[" * 200_000


def mutant(chance, content):
    """The file with some damage: other bytes, a piece twice, without, at another place, or cut off."""
    made = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at = chance.randrange(len(made))
        length = min(chance.choice([1, 8, 100, 2000]), len(made) - at)
        what = chance.randrange(6)
        if what == 0:
            made[at : at + length] = chance.randbytes(length)
        elif what == 1:
            made[at : at + length] = made[at : at + length] * 2
        elif what == 2:
            del made[at : at + length]
        elif what == 3:
            made[at : at + length] = bytes(length)
        elif what == 4:
            made[at] ^= 1 << chance.randrange(8)
        else:
            to = chance.randrange(len(made))
            made[to : to + length] = made[at : at + length]
        if len(made) < 100:
            break
    return bytes(made[: chance.randrange(len(made))] if chance.random() < 0.1 else made)


def mutants(folder):
    chance = random.Random(24)
    sound = sorted(path for path in folder.iterdir() if path.suffix in foreign.ENDINGS and path.stat().st_size < 4 * MIB)
    for number in range(MUTANTS):
        path = sound[number % len(sound)]
        yield f"{number:03}-{path.name}", mutant(chance, path.read_bytes())


def make(target):
    others = target.with_name("bench-foreign")
    if not (others / "corpus.json").exists():
        foreign.bring(others)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "bombs").mkdir(parents=True)
    (part / "mutants").mkdir()
    # Where the documents look for it once they are in their place.
    (part / "secret.txt").write_text(SECRET, encoding="utf-8")
    documents = {"documents": [], "filler": []}
    for which, folder, made in [("documents", "bombs", bombs((target / "secret.txt").absolute())), ("filler", "mutants", mutants(others))]:
        for name, content in made:
            (part / folder / name).write_bytes(content)
            documents[which].append({"name": f"{folder}/{name}", "pages": 1})
    questions = [
        {"document": "pages.pdf", "page": 20_000, "query": "lantern20000"},
        {"document": "rows.xlsx", "page": "Sheet", "query": '"row 999999"'},
        {"document": "rows.csv", "page": None, "query": '"name 1500000"'},
        {"document": "external.docx", "page": None, "query": SECRET, "form": SECRET_FORM},
        {"document": "external.odt", "page": None, "query": SECRET, "form": SECRET_FORM},
    ]
    (part / "corpus.json").write_text(json.dumps({**documents, "questions": questions}, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def judge(folder, texts):
    verdict, missing = {"documents": 0, "words": 0, "found": 0}, []
    for name, pages in sorted(texts.items()):
        known = found = 0
        for place, text in foreign.pages_of(folder / name).items():
            theirs, ours = foreign.said_of(foreign.words(text), foreign.words(foreign.without_marks(pages.get(place, ""))))
            known += len(theirs)
            found += len(ours)
        verdict["documents"] += 1
        verdict["words"] += known
        verdict["found"] += found
        missing.append((known - found, name))
    verdict["worst"] = [f"{name} {count}" for count, name in sorted(missing, reverse=True)[:6] if count]
    json.dump(verdict, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        pymupdf.TOOLS.mupdf_display_errors(False)
        pymupdf.TOOLS.mupdf_display_warnings(False)
        judge(pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")))
    else:
        make(pathlib.Path(sys.argv[1]))
