"""Changes an XLSX workbook and keeps the rest of it: cells, rows, formulas filled down, sheets, formats."""

import copy
import datetime as dt
import re
import warnings
import zipfile

from book import bounds, typed
from cli import Fault, arguments, check_package, input_file, note, output_file, read_json, say, start
from formulas import is_formula, modern

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/edit.py uploads/a.xlsx temp/edits.json --out outputs/a.xlsx\n"
    '  python skills/spreadsheets/scripts/edit.py uploads/a.xlsx \'[{"set": {"Sales!B2": 14}}]\' --out outputs/a.xlsx\n'
    "All edits are told in skills/spreadsheets/reference/edit.md.",
)
parser.add_argument("file", help=".xlsx or .xlsm")
parser.add_argument("edits", help="a JSON file, or JSON itself: a list of edits, done one after the other")
parser.add_argument("--out", required=True, help="the file to write")
parser.add_argument("--accept-loss", action="store_true", help="write also where parts of the workbook cannot be kept")

MAX_TOUCHED = 500_000


def main(options):
    import openpyxl

    source = input_file(options.file, ".xlsx", ".xlsm")
    target = output_file(options.out, source.suffix.lower(), inputs=[source])
    check_package(source)
    edits = read_json(options.edits)
    edits = [edits] if isinstance(edits, dict) else edits
    if not isinstance(edits, list) or not edits:
        raise Fault('the edits must be a list: [{"set": {"Sheet1!B2": 5}}, …]')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            book = openpyxl.load_workbook(source, keep_vba=source.suffix.lower() == ".xlsm")
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError) as error:
            raise Fault(f"{source.name} is damaged or no workbook: {str(error)[:200]}") from error
    for number, edit in enumerate(edits, 1):
        if not isinstance(edit, dict) or len(edit) != 1 or next(iter(edit)) not in EDITS:
            raise Fault(f"edit {number} must be an object with one of these keys: {', '.join(EDITS)}")
        name, what = next(iter(edit.items()))
        try:
            say(f"{name}: {EDITS[name](book, what)}")
        except Fault as fault:
            raise Fault(f"edit {number} ({name}): {fault}") from fault
        except (KeyError, TypeError, AttributeError) as error:
            raise Fault(f"edit {number} ({name}) is not of the right form: {error}; see skills/spreadsheets/reference/edit.md") from error
    # Programs compute everything anew when they open the file.
    book.calculation.fullCalcOnLoad = True
    draft = target.with_name(f".{target.name}.part")
    book.save(draft)
    gone = lost(source, draft)
    if gone and not options.accept_loss:
        draft.unlink()
        raise Fault(f"this workbook has what cannot be kept: {', '.join(gone)}; ask, and then give --accept-loss")
    draft.replace(target)
    formulas = sum(is_formula(getattr(cell.value, "text", cell.value)) for sheet in book.worksheets for cell in sheet._cells.values())
    say(f"{options.out}: {target.stat().st_size} bytes" + (f"; {formulas} formulas hold no value yet, a spreadsheet program computes them when it opens the file" if formulas else ""))
    if gone:
        note(f"not kept: {', '.join(gone)}")
    say(f"Check it: python skills/spreadsheets/scripts/check.py {options.out}")


def lost(source, made):
    """What the old file has and the new one has not."""
    kinds = {"charts": r"xl/charts/chart", "pictures": r"xl/media/", "pivot tables": r"xl/pivotTables/pivotTable", "macros": r"xl/vbaProject",
             "slicers": r"xl/slicers/", "threaded comments": r"xl/threadedComments/", "form controls": r"xl/ctrlProps/",
             "SmartArt": r"xl/diagrams/data", "a data model": r"xl/model/", "embedded files": r"xl/embeddings/", "ActiveX": r"xl/activeX/"}  # fmt: skip
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(made) as after:
        old, new = before.namelist(), after.namelist()
        shapes = sum(before.read(part).count(b"<xdr:sp ") for part in old if part.startswith("xl/drawings/drawing"))
    found = []
    for what, begin in kinds.items():
        had, has = (sum(bool(re.match(begin, part)) for part in parts) for parts in (old, new))
        if has < had:
            found.append(f"{what} ({had - has})")
    if shapes:
        found.append(f"drawn shapes ({shapes})")
    return found


def sheet_of(book, name):
    if name is None:
        return book.active
    for sheet in book.worksheets:
        if sheet.title.lower() == str(name).lower():
            return sheet
    raise Fault(f"there is no sheet {name!r}; there are: {', '.join(sheet.title for sheet in book.worksheets)}")


def place_of(book, text):
    """The sheet and the range of Sales!B2:C9 or B2."""
    name, mark, area = str(text).rpartition("!")
    sheet = sheet_of(book, name.strip("'").replace("''", "'") if mark else None)
    top, left, bottom, right = bounds(area)
    bottom, right = bottom or sheet.max_row, right or sheet.max_column
    if (bottom - top + 1) * (right - left + 1) > MAX_TOUCHED:
        raise Fault(f"{text} has too many cells; at most {MAX_TOUCHED:,} are changed at once")
    return sheet, top, left, bottom, right


def value_of(value):
    if isinstance(value, (list, dict)):
        raise Fault(f"a cell holds a text, a number, true, false or null, not {value!r}")
    if is_formula(value):
        return modern(value)
    return typed(value) if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value) else value


def put(cell, value):
    from openpyxl.cell.cell import MergedCell

    if isinstance(cell, MergedCell):
        raise Fault(f"{cell.coordinate} is part of merged cells; name the first of them")
    cell.value = value_of(value)
    if isinstance(cell.value, (dt.date, dt.datetime)) and cell.number_format == "General":
        cell.number_format = "yyyy-mm-dd"


def set_cells(book, what):
    for name, value in what.items():
        sheet, top, left, bottom, right = place_of(book, name)
        if (top, left) != (bottom, right):
            raise Fault(f"{name} is more than one cell; use fill")
        put(sheet.cell(top, left), value)
    return f"{len(what)} cells"


def append(book, what):
    """Rows below the last, or above a row of totals. They look like the row above; formulas go on where a row has null."""
    from openpyxl.formula.translate import Translator

    sheet, rows = sheet_of(book, what.get("sheet")), what["rows"]
    last = max((cell.row for cell in list(sheet._cells.values()) if cell.value is not None), default=0)
    totals = lift_totals(sheet, last, len(rows))
    last = last - 1 if totals else last
    width = max(sheet.max_column if last else 0, *map(len, rows), 1)
    for offset, row in enumerate(rows, 1):
        for column in range(1, min(width, 1000) + 1):
            above, cell = sheet.cell(max(last, 1), column), sheet.cell(last + offset, column)
            value = row[column - 1] if column <= len(row) else None
            if last and value is None and is_formula(above.value):
                value = Translator(above.value, origin=above.coordinate).translate_formula(cell.coordinate)
            if last:
                cell._style = copy.copy(above._style)
            put(cell, value)
    for column, (value, style) in (totals or {}).items():
        cell = sheet.cell(last + len(rows) + 1, column)
        cell.value, cell._style = value, style
    for table in [*sheet.tables.values(), sheet.auto_filter]:
        if table.ref and bounds(table.ref)[2] == last:
            top, left, _, right = bounds(table.ref)
            table.ref = f"{sheet.cell(top, left).coordinate}:{sheet.cell(last + len(rows), right).coordinate}"
    grow_charts(book, sheet, last, len(rows))
    return f"{len(rows)} rows {'above the totals' if totals else 'below row ' + str(last)} of {sheet.title}"


def grow_charts(book, sheet, last, count):
    """Charts that showed the rows to the last show the new ones too."""
    name = re.escape(sheet.title.replace("'", "''"))
    ours = re.compile(rf"('?{name}'?!\$?[A-Z]+\$?\d+:\$?[A-Z]+\$?){last}$", re.I)
    for other in book.worksheets:
        for chart in other._charts:
            for reference in chart_references(chart):
                reference.f = ours.sub(rf"\g<1>{last + count}", reference.f)


def lift_totals(sheet, last, count):
    """Takes a row of totals away, and gives it with its ranges grown: {column: (value, style)}."""
    row = {cell.column: cell for cell in sheet[last]} if last > 1 else {}
    end = re.compile(rf"(:\$?[A-Z]{{1,3}}\$?){last - 1}(?=\))", re.I)
    if not any(is_formula(cell.value) and end.search(cell.value) for cell in row.values()):
        return None
    lifted = {}
    for column, cell in row.items():
        value = end.sub(rf"\g<1>{last - 1 + count}", cell.value) if is_formula(cell.value) else cell.value
        lifted[column] = (value, copy.copy(cell._style))
        cell.value = None
    return lifted


def fill(book, what):
    """The first cell's formula or value copied over a range, with references that move along."""
    from openpyxl.formula.translate import Translator

    first_sheet, top, left, _, _ = place_of(book, what["from"])
    source = first_sheet.cell(top, left)
    sheet, top, left, bottom, right = place_of(book, what["to"])
    for row in range(top, bottom + 1):
        for column in range(left, right + 1):
            cell = sheet.cell(row, column)
            moved = is_formula(source.value)
            put(cell, Translator(source.value, origin=source.coordinate).translate_formula(cell.coordinate) if moved else source.value)
            cell._style = copy.copy(source._style)
    return f"{source.coordinate} to {what['to']}"


def clear(book, what):
    sheet, top, left, bottom, right = place_of(book, what)
    for row in sheet.iter_rows(top, bottom, left, right):
        for cell in row:
            put(cell, None)
    return what


def replace(book, what):
    """A text in cells for another; formulas are left as they are."""
    sheets = [sheet_of(book, what["sheet"])] if what.get("sheet") else book.worksheets
    count = 0
    if not what["old"]:
        raise Fault("the old text is empty")
    for sheet in sheets:
        for cell in list(sheet._cells.values()):
            if isinstance(cell.value, str) and not is_formula(cell.value) and what["old"] in cell.value:
                cell.value = cell.value.replace(what["old"], str(what["new"]))
                count += 1
    return f"{count} cells"


def look(book, what):
    """How cells look: format, bold, colour of letters and ground, width of columns."""
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    sheet, top, left, bottom, right = place_of(book, what["cells"])
    for row in sheet.iter_rows(top, bottom, left, right):
        for cell in row:
            if "format" in what:
                cell.number_format = str(what["format"])
            if "bold" in what or "colour" in what:
                font = copy.copy(cell.font)
                ink = hexadecimal(what["colour"]) if "colour" in what else font.color
                cell.font = Font(name=font.name, size=font.size, italic=font.italic, bold=what.get("bold", font.bold), color=ink)
            if "ground" in what:
                cell.fill = PatternFill("solid", fgColor=hexadecimal(what["ground"]))
    for column in range(left, right + 1) if "width" in what else ():
        sheet.column_dimensions[get_column_letter(column)].width = float(what["width"])
    return what["cells"]


def hexadecimal(colour):
    match = re.fullmatch(r"#?([0-9A-Fa-f]{6})", str(colour))
    if not match:
        raise Fault(f"{colour!r} is no colour; write 1F4E78")
    return match.group(1).upper()


def add_sheet(book, what):
    name = str(what["name"])
    if len(name) > 31 or re.search(r"[\[\]:*?/\\]", name) or not name:
        raise Fault(f"{name!r} must have 1 to 31 letters and none of []:*?/\\")
    if name.lower() in (sheet.title.lower() for sheet in book.worksheets):
        raise Fault(f"there is a sheet {name!r} already")
    sheet = book.create_sheet(name)
    for number, row in enumerate(what.get("rows") or [], 1):
        for column, value in enumerate(row, 1):
            put(sheet.cell(number, column), value)
    return name


def rename_sheet(book, what):
    """The name, and every formula and name that uses it."""
    sheet, new = sheet_of(book, what["from"]), str(what["to"])
    if len(new) > 31 or re.search(r"[\[\]:*?/\\']", new) or not new:
        raise Fault(f"{new!r} must have 1 to 31 letters and none of []:*?/\\'")
    if any(other.title.lower() == new.lower() and other is not sheet for other in book.worksheets):
        raise Fault(f"there is a sheet {new!r} already")
    old = re.escape(sheet.title)
    pattern = re.compile(rf"'{old.replace(chr(39), chr(39) * 2)}'!|(?<![\w.']){old}!", re.I)
    named = f"'{new}'!"
    count = 0
    for other in book.worksheets:
        for cell in list(other._cells.values()):
            if is_formula(cell.value) and pattern.search(cell.value):
                cell.value = pattern.sub(lambda _: named, cell.value)
                count += 1
    for defined in book.defined_names.values():
        defined.value = pattern.sub(lambda _: named, defined.value)
    for other in book.worksheets:
        for chart in other._charts:
            for reference in chart_references(chart):
                reference.f = pattern.sub(lambda _: named, reference.f)
    sheet.title = new
    return f"{new}, {count} formulas follow"


def chart_references(chart):
    """Where the series of a chart take their numbers and words from."""
    for series in chart.series:
        for part in ("tx", "val", "cat", "xVal", "yVal", "bubbleSize"):
            source = getattr(series, part, None)
            for kind in ("numRef", "strRef", "multiLvlStrRef"):
                reference = getattr(source, kind, None)
                if reference is not None and reference.f:
                    yield reference


def delete_sheet(book, what):
    sheet = sheet_of(book, what)
    if len(book.worksheets) == 1:
        raise Fault("it is the only sheet")
    used = [f"{other.title}!{cell.coordinate}" for other in book.worksheets if other is not sheet for cell in list(other._cells.values())
            if is_formula(cell.value) and re.search(rf"(?<![\w.]){re.escape(sheet.title)}'?!", cell.value, re.I)]  # fmt: skip
    if used:
        raise Fault(f"formulas use it: {', '.join(used[:10])}; change them first")
    book.remove(sheet)
    return sheet.title


EDITS = {
    "set": set_cells, "append": append, "fill": fill, "clear": clear, "replace": replace, "look": look, "add_sheet": add_sheet,
    "rename_sheet": rename_sheet, "delete_sheet": delete_sheet,
}  # fmt: skip


if __name__ == "__main__":
    start(main, parser)
