"""Words and numbers put over the pages of a PDF."""

import io
import math

from fonts import Faces
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas


def put(writer, numbers, text, numbered):
    """Writes `text` across these pages, and their numbers at the foot."""
    import pypdf

    count = len(writer.pages)
    runs = Faces(text or "").runs(text or "", bold=True)
    for number in numbers:
        page = writer.pages[number - 1]
        # What is drawn later must lie as the reader sees the page.
        page.transfer_rotation_to_content()
        box = page.mediabox
        layer = drawn(float(box.width), float(box.height), runs, f"{number} / {count}" if numbered else None)
        over = pypdf.PdfReader(io.BytesIO(layer)).pages[0]
        move = pypdf.Transformation().translate(float(box.left), float(box.bottom))
        page.merge_transformed_page(over, move)


def drawn(width, height, runs, foot):
    """A page with nothing but the words and the number."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(width, height))
    if runs:
        room = max(sum(stringWidth(piece, face, 1) for face, piece in runs), 1)
        size = min(0.75 * math.hypot(width, height) / room, height / 6)
        canvas.saveState()
        canvas.translate(width / 2, height / 2)
        canvas.rotate(math.degrees(math.atan2(height, width)))
        canvas.setFillGray(0.5, 0.25)
        line(canvas, runs, -room * size / 2, -size / 3, size)
        canvas.restoreState()
    if foot:
        canvas.setFont("Helvetica", 9)
        canvas.setFillGray(0.3)
        canvas.drawCentredString(width / 2, 20, foot)
    canvas.save()
    return buffer.getvalue()


def line(canvas, runs, x, y, size):
    for face, piece in runs:
        canvas.setFont(face, size)
        canvas.drawString(x, y, piece)
        x += stringWidth(piece, face, size)


def field_look(writer, widget, text):
    """How a field of a form looks with letters that its own font lacks."""
    import pypdf
    from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject, StreamObject

    left, bottom, right, top = (float(corner) for corner in widget["/Rect"])
    width, height = abs(right - left), abs(top - bottom)
    lines = text.split("\n")
    size = max(4, min(12, height * 0.65 / len(lines)))
    faces = Faces(text)
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(width, height), pageCompression=0)
    first = height / 2 - size * 0.35 if len(lines) == 1 else height - size * 1.1
    for index, piece in enumerate(lines):
        line(canvas, faces.runs(piece), 2, first - index * size * 1.2, size)
    canvas.save()
    page = pypdf.PdfReader(buffer).pages[0]
    look = StreamObject()
    look.set_data(b"/Tx BMC q " + page.get_contents().get_data() + b" Q EMC")
    look.update({
        NameObject("/Type"): NameObject("/XObject"),
        NameObject("/Subtype"): NameObject("/Form"),
        NameObject("/BBox"): ArrayObject([FloatObject(corner) for corner in (0, 0, width, height)]),
        NameObject("/Resources"): page["/Resources"].clone(writer),
    })
    widget[NameObject("/AP")] = DictionaryObject({NameObject("/N"): writer._add_object(look)})
