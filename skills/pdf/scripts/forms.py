"""Lists the fields of a PDF form, and fills them in."""

import difflib
import io

from cli import Fault, arguments, note, output_file, place, read_json, say, say_json, start
from opened import pypdf_reader

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/forms.py list uploads/form.pdf\n"
    '  python skills/pdf/scripts/forms.py fill uploads/form.pdf \'{"name": "Ada", "agree": true}\' --out outputs/form.pdf\n'
    "  python skills/pdf/scripts/forms.py fill uploads/form.pdf temp/values.json --flatten --out outputs/form.pdf",
)
works = parser.add_subparsers(dest="work", required=True, metavar="WORK")
listing = works.add_parser("list", help="names, kinds, values and choices of the fields")
listing.add_argument("file")
listing.add_argument("--password")
listing.add_argument("--json", action="store_true", help="print JSON")
filling = works.add_parser("fill", help="fill fields in")
filling.add_argument("file")
filling.add_argument("values", help="a JSON file, or JSON itself: names of fields and their values")
filling.add_argument("--flatten", action="store_true", help="make what was filled in part of the page")
filling.add_argument("--password")
filling.add_argument("--out", required=True, help="the file to write")

READ_ONLY, RADIO, PUSH = 1, 1 << 15, 1 << 16


def main(options):
    reader = pypdf_reader(options.file, options.password)
    fields = described(reader)
    if not fields:
        raise Fault("this PDF has no form fields; write over its pages with pages.py stamp, or make a new one with make.py")
    if options.work == "fill":
        return fill(options, reader, fields)
    if options.json:
        return say_json(list(fields.values()))
    for field in fields.values():
        choices = f"; one of: {', '.join(field['choices'])}" if field["choices"] else ""
        fixed = "; cannot be changed" if field["fixed"] else ""
        say(f"page {field['page'] or '?'}: {field['name']} ({field['kind']}) = {field['value']!r}{choices}{fixed}")


def described(reader):
    """The fields by name: kind, value, choices, page."""
    pages = where(reader)
    fields = {}
    for name, field in (reader.get_fields() or {}).items():
        flags = int(field.get("/Ff", 0) or 0)
        kind = {"/Tx": "text", "/Ch": "choice", "/Sig": "signature"}.get(field.get("/FT"))
        if field.get("/FT") == "/Btn":
            kind = "button" if flags & PUSH else "radio" if flags & RADIO else "checkbox"
        if kind is None or kind == "button":
            continue
        choices = []
        if kind == "choice":
            choices = [str(option[0]) if isinstance(option, list) else str(option) for option in field.get("/Opt", [])]
        elif kind in ("radio", "checkbox"):
            choices = [str(state).lstrip("/") for state in field.get("/_States_", [])]
        value = field.get("/V", "")
        fields[name] = {
            "name": name,
            "kind": kind,
            "value": str(value).lstrip("/") if kind in ("radio", "checkbox") else str(value),
            "choices": choices,
            "page": pages.get(name),
            "fixed": bool(flags & READ_ONLY),
        }
    return fields


def where(reader):
    """On which page a field stands."""
    pages = {}
    for number, page in enumerate(reader.pages, 1):
        for entry in page.get("/Annots") or []:
            name = full_name(entry.get_object())
            if name:
                pages.setdefault(name, number)
    return pages


def full_name(widget):
    """A field's name is made of those that it lies in: person.name."""
    names = []
    while widget is not None and len(names) < 32:
        if "/T" in widget:
            names.append(str(widget["/T"]))
        widget = widget["/Parent"].get_object() if "/Parent" in widget else None
    return ".".join(reversed(names))


def fill(options, reader, fields):
    import pypdf

    given = read_json(options.values)
    if not isinstance(given, dict):
        raise Fault('the values must be an object: {"name of a field": "value"}')
    values = {name: checked(name, value, fields) for name, value in given.items()}
    target = output_file(options.out, ".pdf", inputs=[place(options.file)])
    writer = pypdf.PdfWriter(clone_from=reader)
    strange = {name: value for name, value in values.items() if not latin(value)}
    # A viewer that draws the fields anew would do it without the letters that the form lacks.
    writer.set_need_appearances_writer(not strange)
    for page in writer.pages:
        if "/Annots" in page:
            writer.update_page_form_field_values(page, values, auto_regenerate=False)
            draw_strange(writer, page, strange)
    filled = io.BytesIO()
    writer.write(filled)
    target.write_bytes(flat(filled.getvalue()) if options.flatten else filled.getvalue())
    say(f"{options.out}: {len(values)} of {len(fields)} fields filled")
    empty = [name for name, field in fields.items() if name not in values and not field["value"]]
    if empty:
        note(f"still empty: {', '.join(empty[:20])}")


def latin(value):
    return all(ord(letter) < 256 for letter in value)


def draw_strange(writer, page, strange):
    """Draws the values whose letters the form's own font lacks."""
    for entry in page["/Annots"]:
        widget = entry.get_object()
        value = strange.get(full_name(widget))
        if value is not None:
            from stamps import field_look

            field_look(writer, widget, value)


def flat(data):
    """The same pages with the fields drawn into them. Pdfium knows all kinds of fields."""
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    document.init_forms()
    for page in document:
        pypdfium2.raw.FPDFPage_Flatten(page, pypdfium2.raw.FLAT_NORMALDISPLAY)
        page.close()
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def checked(name, value, fields):
    """The value as the form wants it."""
    if name not in fields:
        near = difflib.get_close_matches(name, fields, n=3, cutoff=0.4)
        raise Fault(f"there is no field {name!r}; " + (f"near: {', '.join(near)}" if near else "see forms.py list"))
    field = fields[name]
    if field["kind"] == "signature":
        raise Fault(f"{name} is for a signature; scripts cannot sign")
    if field["fixed"]:
        raise Fault(f"{name} cannot be changed: the form says so")
    if field["kind"] == "checkbox":
        return box(name, value, field)
    if field["kind"] == "radio" or field["choices"]:
        if str(value) not in field["choices"]:
            raise Fault(f"{name} must be one of: {', '.join(field['choices'])}")
        return f"/{value}" if field["kind"] == "radio" else str(value)
    if isinstance(value, (dict, list, bool)) or value is None:
        raise Fault(f"{name} takes a text or a number")
    return str(value)


def box(name, value, field):
    on = next((state for state in field["choices"] if state != "Off"), "Yes")
    if isinstance(value, str):
        value = {"true": True, "yes": True, "on": True, on.lower(): True, "false": False, "no": False, "off": False}.get(
            value.lower()
        )
    if not isinstance(value, bool):
        raise Fault(f"{name} is a checkbox; give true or false")
    return f"/{on}" if value else "/Off"


if __name__ == "__main__":
    start(main, parser)
