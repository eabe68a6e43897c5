"""Workbooks and CSV files as sheets of cells: only cells that hold something, however large a sheet claims to be."""

import csv
import datetime as dt
import io
import re
import tempfile
import warnings
import zipfile

from cli import Fault, check_package, input_file, note
from formulas import MAX_COLUMN, is_formula, links_of, users_of
from office import NotComputed, compute
from openpyxl.utils import column_index_from_string, get_column_letter, range_boundaries

KINDS = (".xlsx", ".xlsm", ".xltx", ".csv", ".tsv", ".txt")
# Cells that are held at once.
MAX_CELLS = 3_000_000
ERRORS = {"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!"}


class Sheet:
    """Cells by (row, column), counted from 1: values, formulas, and number formats that are not the usual."""

    def __init__(self, name, state="visible"):
        self.name, self.state = name, state
        self.values, self.formulas, self.formats = {}, {}, {}

    @property
    def bottom(self):
        return max((row for row, _ in self.values), default=0)

    @property
    def right(self):
        return max((column for _, column in self.values), default=0)

    def rows(self, top=1, left=1, bottom=None, right=None, most=None):
        """(number, cells) of the rows that hold something."""
        bottom, right = bottom or self.bottom, right or self.right
        found = {}
        for row, column in self.values:
            if top <= row <= bottom and left <= column <= right:
                found.setdefault(row, []).append(column)
        for row in sorted(found)[:most]:
            yield row, [self.values.get((row, column)) for column in range(left, min(right, max(found[row])) + 1)]


class Book:
    def __init__(self, path, sheets, names=None, parts=()):
        self.path, self.sheets, self.names, self.parts = path, sheets, names or {}, list(parts)

    def sheet(self, name=None):
        """A sheet by its name or number; the first that shows where nothing is said."""
        if name is None:
            return next((sheet for sheet in self.sheets if sheet.state == "visible"), self.sheets[0])
        for sheet in self.sheets:
            if sheet.name.lower() == str(name).lower():
                return sheet
        if str(name).isdigit() and 1 <= int(name) <= len(self.sheets):
            return self.sheets[int(name) - 1]
        raise Fault(f"there is no sheet {name!r}; there are: {', '.join(sheet.name for sheet in self.sheets)}")

    def compute(self):
        """Fills in missing values of formulas, from LibreOffice. Returns the number of values that it gave."""
        missing = [(sheet, key) for sheet in self.sheets for key in sheet.formulas if sheet.values.get(key) is None]
        if not missing:
            return 0
        values, unknown = {}, {}
        try:
            values, unknown = computed(self)
        except NotComputed as why:
            note(f"{len(missing)} formulas have no value: {why}")
        for sheet, key in missing:
            sheet.values[key] = values.get((sheet.name, *key))
        note_unknown(unknown)
        return sum(1 for sheet, key in missing if sheet.values[key] is not None)


def computed(book):
    """Values of formulas from LibreOffice, {(sheet, row, column): value}, and the formulas that it cannot compute, because they or
    formulas that they use call a function that it does not know: {(sheet, row, column): name of the function or ""}."""
    with tempfile.TemporaryDirectory() as folder:
        copy = compute(book.path, folder)
        try:
            made = open_book(copy)
        except Fault as fault:
            raise NotComputed(f"what LibreOffice wrote cannot be read: {fault}") from fault
    values, strange = {}, {}
    for sheet in made.sheets:
        for key, formula in sheet.formulas.items():
            value = sheet.values.get(key)
            values[sheet.name, *key] = "" if value is None else value
            # Unknown functions are written back in small letters.
            name = re.search(r"(?<![\w.])((?:_xl\w+\.)*[a-z][a-z0-9_.]*)\(", re.sub(r'"[^"]*"|\'[^\']*\'', "", formula))
            if name:
                strange[sheet.name, *key] = name.group(1).rpartition("_xlfn.")[2].upper()
    links = links_of(book) if strange else {}
    if links is None:
        raise NotComputed(f"LibreOffice does not know {', '.join(sorted(set(strange.values())))}, and too many formulas may depend on it")
    unknown = {key: strange.get(key, "") for key in users_of(strange, links)}
    return {key: value for key, value in values.items() if key not in unknown}, unknown


def note_unknown(unknown):
    if unknown:
        names = ", ".join(sorted(set(unknown.values()) - {""}))
        places = ", ".join(f"{sheet}!{address(row, column)}" for sheet, row, column in sorted(unknown)[:10])
        note(f"{len(unknown)} formulas are not computed: LibreOffice does not know {names}; they are {places}{' …' if len(unknown) > 10 else ''}")


def open_book(path, formulas=True, encoding=None, delimiter=None):
    found = input_file(path, *KINDS)
    if found.suffix.lower() in (".csv", ".tsv", ".txt"):
        return csv_book(found, encoding, delimiter)
    check_package(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return package_book(found, formulas)


def package_book(found, formulas):
    import openpyxl

    try:
        with zipfile.ZipFile(found) as package:
            parts = package.namelist()
        shown = openpyxl.load_workbook(found, read_only=True, data_only=True)
        raw = openpyxl.load_workbook(found, read_only=True) if formulas else None
    except (KeyError, ValueError, TypeError, AttributeError, OSError, IndexError, SyntaxError) as error:
        raise Fault(f"{found.name} is damaged or no workbook: {str(error)[:200]}") from error
    names = {}
    for name, defined in (raw.defined_names.items() if raw else ()):
        names[name] = f"={defined.value}"
    sheets, held = [], 0
    for page in shown.worksheets:
        sheet = Sheet(page.title, page.sheet_state)
        held = take(page, sheet, held, is_value=True)
        if raw and has_formulas(found, page):
            held = take(raw[page.title], sheet, held, is_value=False)
        sheets.append(sheet)
    if not sheets:
        raise Fault(f"{found.name} has no sheet with cells")
    return Book(found, sheets, names, parts)


def has_formulas(found, page):
    """Whether the text of a sheet has formulas at all: long sheets of numbers are not read twice."""
    part = str(getattr(page, "_worksheet_path", "")).lstrip("/")
    try:
        with zipfile.ZipFile(found) as package, package.open(part) as stream:
            end = b""
            while True:
                piece = stream.read(1 << 20)
                # Prefixes of names are allowed: <f>, <f t="shared">, <x:f>.
                if re.search(rb"<(\w+:)?f[\s/>]", end + piece):
                    return True
                if not piece:
                    return False
                end = piece[-40:]
    except (KeyError, zipfile.BadZipFile, OSError, ValueError):
        return True


def take(page, sheet, held, is_value):
    """Copies the cells of a page; what the page claims of its size is not believed."""
    formats = {}
    if hasattr(page, "reset_dimensions"):
        page.reset_dimensions()
    try:
        for row in page.iter_rows():
            for cell in row:
                value = cell.value
                if value is None and is_value and cell.data_type == "str":
                    value = ""  # The result of a formula, not a missing one.
                if value is None:
                    continue
                key = (cell.row, cell.column)
                if is_value:
                    sheet.values[key] = value
                    style = getattr(cell, "_style_id", None)
                    if style not in formats:
                        formats[style] = cell.number_format
                    if formats[style] != "General":
                        sheet.formats[key] = formats[style]
                elif cell.data_type == "f":
                    text = getattr(value, "text", value)
                    if isinstance(text, str) and is_formula(text if text.startswith("=") else f"={text}"):
                        sheet.formulas[key] = text if text.startswith("=") else f"={text}"
                        sheet.values.setdefault(key, None)
                held += 1
                if held > MAX_CELLS * 2:
                    raise Fault(f"there are more than {MAX_CELLS:,} cells; make a smaller file of it first")
    except (ValueError, KeyError, TypeError, IndexError, SyntaxError) as error:
        note(f"the sheet {sheet.name} is damaged; what was read until there is used: {str(error)[:120]}")
    return held


# CSV.


def csv_book(found, encoding=None, delimiter=None):
    text = decoded(found.read_bytes(), encoding)
    mark = delimiter or delimiter_of(text)
    csv.field_size_limit(10 << 20)
    sheet = Sheet(found.stem)
    sheet.delimiter = mark
    try:
        for row, cells in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=mark), 1):
            if len(cells) > MAX_COLUMN:
                raise Fault(f"row {row} has {len(cells)} cells; a sheet has {MAX_COLUMN} columns. Is {mark!r} the right --delimiter?")
            for column, cell in enumerate(cells, 1):
                if cell != "":
                    sheet.values[row, column] = typed(cell)
            if len(sheet.values) > MAX_CELLS:
                raise Fault(f"there are more than {MAX_CELLS:,} cells; make a smaller file of it first")
    except csv.Error as error:
        raise Fault(f"{found.name} is no CSV: {error}") from error
    if not sheet.values:
        raise Fault(f"{found.name} holds nothing")
    return Book(found, [sheet])


def decoded(data, encoding=None):
    if encoding:
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise Fault(f"the file is not in {encoding}: {error}") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:4096]:
        raise Fault("this is no text; its name does not say what it is")
    for guess in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(guess)
        except UnicodeDecodeError:
            continue
    return data.decode("cp1252", errors="replace")


def delimiter_of(text):
    """The mark that gives the same number of cells in most of the first lines."""
    best, most = ",", 0
    lines = text[:100_000].split("\n")[:50]
    for mark in (",", ";", "\t", "|"):
        widths = [len(row) for row in csv.reader(lines, delimiter=mark) if row]
        if not widths:
            continue
        common = max(set(widths), key=widths.count)
        score = widths.count(common) / len(widths) * (common > 1) * (1 + common / 1000)
        if score > most:
            best, most = mark, score
    return best


NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")


def typed(text):
    """Numbers and dates where they are plainly meant. 007 stays text, as do numbers too long to be kept exactly."""
    text_ = text.strip()
    if NUMBER.fullmatch(text_) and sum(map(str.isdigit, text_)) <= 15:
        return int(text_) if re.fullmatch(r"[+-]?\d+", text_) else float(text_)
    if DATE.fullmatch(text_):
        try:
            return dt.date.fromisoformat(text_) if len(text_) == 10 else dt.datetime.fromisoformat(text_)
        except ValueError:
            return text
    return {"TRUE": True, "FALSE": False}.get(text_.upper(), text) if len(text_) < 6 else text


# Places and shown values.


def address(row, column):
    return f"{get_column_letter(column)}{row}"


def bounds(text):
    """(top, left, bottom, right) of A1:D20, A:C or B3; nothing where a side is open."""
    try:
        left, top, right, bottom = range_boundaries(text.replace("$", "").upper())
    except (ValueError, TypeError) as error:
        raise Fault(f"{text!r} is no range; write A1:D20") from error
    return top or 1, left or 1, bottom, right


def shown(value, form="General"):
    """A value as text: dates plainly, numbers without noise."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ", "seconds")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and is_date_format(form):
        try:
            return shown(dt.datetime(1899, 12, 30) + dt.timedelta(days=value))
        except OverflowError:
            return str(value)
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def is_date_format(form):
    plain = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", form)
    return bool(re.search(r"[ymd]", plain, re.I)) and not re.search(r"[0#]", plain)


def column_of(text, heads):
    """A column by its head or its letter; the number of it."""
    for index, head in enumerate(heads, 1):
        if shown(head).strip().lower() == str(text).strip().lower():
            return index
    if re.fullmatch(r"[A-Za-z]{1,3}", str(text)) and column_index_from_string(text) <= max(len(heads), 1):
        return column_index_from_string(text)
    raise Fault(f"there is no column {text!r}; there are: {', '.join(shown(head) for head in heads if head is not None)}")
