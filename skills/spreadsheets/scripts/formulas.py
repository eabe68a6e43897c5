"""Formulas of spreadsheets, computed: what a program would show once it opens the file.

A part of the language is known, the part that most workbooks use. What is not known gives `Unknown`, never a guess.
"""

import datetime as dt
import re
import sys
import threading

from openpyxl.utils import column_index_from_string, get_column_letter

TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)(?![A-Za-z_(!:])
  | (?P<text>"(?:[^"]|"")*")
  | (?P<error>\#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!))
  | (?P<sheet>'(?:[^']|'')+'!|[A-Za-z0-9_.\u0080-\uffff\[\]]+!)
  | (?P<range>\$?[A-Za-z]{1,3}\$?\d+:\$?[A-Za-z]{1,3}\$?\d+|\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![A-Za-z0-9_(])|\$?\d+:\$?\d+)
  | (?P<function>[A-Za-z_\\][A-Za-z0-9_.]*\()
  | (?P<cell>\$?[A-Za-z]{1,3}\$?\d+)(?![A-Za-z0-9_.(])
  | (?P<name>[A-Za-z_\\\u0080-\uffff][A-Za-z0-9_.\u0080-\uffff]*(?:\[[^\]]*\])?)
  | (?P<sign><>|<=|>=|[-+*/^&=<>%(),;{}:])
    )""",
    re.X,
)
BINARY = {"=": 1, "<>": 1, "<": 1, ">": 1, "<=": 1, ">=": 1, "&": 2, "+": 3, "-": 3, "*": 4, "/": 4, "^": 6}
EPOCH = dt.datetime(1899, 12, 30)
# How many cells may be read for one workbook before it counts as too much to compute here.
MAX_READS = 30_000_000
MAX_ROW, MAX_COLUMN = 1_048_576, 16_384


class FormulaError(Exception):
    """A formula that cannot be read."""


class Unknown(Exception):
    """Something that is right but not known here. Its text says what."""


class Error:
    """A value such as #DIV/0!."""

    def __init__(self, code):
        self.code = code

    def __repr__(self):
        return self.code

    __str__ = __repr__

    def __eq__(self, other):
        return isinstance(other, Error) and other.code == self.code

    def __hash__(self):
        return hash(self.code)


DIV, NA, NAME, NUM, REF, VALUE, CYCLE = (Error(code) for code in ("#DIV/0!", "#N/A", "#NAME?", "#NUM!", "#REF!", "#VALUE!", "#CYCLE!"))


class Area:
    """A block of cells: sheet, first row, first column, last row, last column."""

    def __init__(self, sheet, top, left, bottom, right):
        self.sheet, self.top, self.left, self.bottom, self.right = sheet, top, left, bottom, right

    @property
    def rows(self):
        return self.bottom - self.top + 1

    @property
    def columns(self):
        return self.right - self.left + 1

    def __str__(self):
        first = f"{get_column_letter(self.left)}{self.top}"
        last = f"{get_column_letter(self.right)}{self.bottom}"
        return f"{self.sheet}!{first}" + ("" if first == last else f":{last}")


# Parsing: a formula becomes nested tuples, ("number", 1.0), ("area", Area), ("call", "SUM", [...]), …


def parse(formula, sheet, names=None):
    """The tree of a formula that stands in this sheet."""
    tokens = []
    text = formula[1:] if formula.startswith("=") else formula
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            if not text[at:].strip():
                break
            raise FormulaError(f"it cannot be read from {text[at : at + 20]!r} on")
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    if not tokens:
        raise FormulaError("it is empty")
    reader = _Parser(tokens, sheet, names or {})
    tree = reader.expression(0)
    if reader.at < len(tokens):
        raise FormulaError(f"there is something too much: {tokens[reader.at][1]!r}")
    return tree


class _Parser:
    def __init__(self, tokens, sheet, names):
        self.tokens, self.at, self.sheet, self.names, self.depth = tokens, 0, sheet, names, 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, "")

    def take(self, sign):
        if self.peek() != ("sign", sign):
            raise FormulaError(f"a {sign!r} is missing" if sign == ")" else f"{sign!r} is expected before {self.peek()[1]!r}")
        self.at += 1

    def expression(self, least):
        self.depth += 1
        if self.depth > 200:
            raise FormulaError("it is nested too deep")
        left = self.operand()
        while True:
            kind, sign = self.peek()
            if kind == "sign" and sign == "%":
                self.at += 1
                left = ("percent", left)
            elif kind == "sign" and BINARY.get(sign, 0) > least:
                self.at += 1
                left = ("binary", sign, left, self.expression(BINARY[sign]))
            else:
                self.depth -= 1
                return left

    def operand(self):
        kind, text = self.peek()
        self.at += 1
        if kind == "number":
            return ("value", float(text) if re.search(r"[.eE]", text) else int(text))
        if kind == "text":
            return ("value", text[1:-1].replace('""', '"'))
        if kind == "error":
            return ("value", Error(text.upper()))
        if kind == "sheet":
            return self.on_sheet(text[:-1])
        if kind in ("cell", "range"):
            return ("area", area(text, self.sheet))
        if kind == "function":
            return ("call", text[:-1].upper().replace("_XLFN.", "").replace("_XLWS.", ""), self.list(")"))
        if kind == "name":
            if text.upper() in ("TRUE", "FALSE"):
                return ("value", text.upper() == "TRUE")
            return ("name", text)
        if text in ("-", "+"):
            # The minus of a number binds tighter than its power: -2^2 is 4.
            return ("sign", text, self.expression(6))
        if text == "(":
            inner = self.expression(0)
            self.take(")")
            return inner
        if text == "{":
            return ("array", self.array())
        raise FormulaError(f"something is missing before {text!r}" if text else "it ends too early")

    def on_sheet(self, name):
        kind, text = self.peek()
        sheet = name[1:-1].replace("''", "'") if name.startswith("'") else name
        self.at += 1
        if kind in ("cell", "range"):
            return ("area", area(text, sheet))
        if kind == "error":
            return ("value", REF)
        return ("name", text)

    def list(self, end):
        parts = []
        if self.peek() == ("sign", end):
            self.at += 1
            return parts
        while True:
            if self.peek() in (("sign", ","), ("sign", end)):
                parts.append(("value", None))
            else:
                parts.append(self.expression(0))
            if self.peek() == ("sign", end):
                self.at += 1
                return parts
            if self.peek()[0] is None:
                raise FormulaError(f"a {end!r} is missing")
            self.take(",")

    def array(self):
        rows, row = [], []
        while True:
            row.append(self.expression(0))
            kind, text = self.peek()
            self.at += 1
            if text == ",":
                continue
            rows.append(row)
            row = []
            if text == "}":
                return rows
            if text != ";":
                raise FormulaError("a '}' is missing")


def area(text, sheet):
    first, _, last = text.replace("$", "").partition(":")
    corners = [corner(part) for part in (first, last or first)]
    if not last:
        corners[1] = corners[0]
    rows = sorted((corners[0][0] or 1, corners[1][0] or MAX_ROW))
    columns = sorted((corners[0][1] or 1, corners[1][1] or MAX_COLUMN))
    if rows[1] > MAX_ROW or columns[1] > MAX_COLUMN:
        raise FormulaError(f"{text} is outside of every sheet")
    return Area(sheet, rows[0], columns[0], rows[1], columns[1])


def corner(text):
    match = re.fullmatch(r"([A-Za-z]*)(\d*)", text)
    return int(match.group(2) or 0), column_index_from_string(match.group(1)) if match.group(1) else 0


def areas_of(tree):
    """All blocks of cells that a tree names, and all names and functions: ("area" | "name" | "call", it)."""
    if isinstance(tree, list):
        for part in tree:
            yield from areas_of(part)
    elif isinstance(tree, tuple):
        if tree[0] in ("area", "name"):
            yield tree[:2]
        elif tree[0] == "call":
            yield ("call", tree[1])
            yield from areas_of(tree[2])
        elif tree[0] != "value":
            for part in tree[1:]:
                yield from areas_of(part)


class Machine:
    """Computes cells. `cells` is {sheet: {(row, column): value or formula}}, `names` {name: formula}."""

    def __init__(self, cells, names=None):
        self.cells, self.names = cells, {name.lower(): text for name, text in (names or {}).items()}
        self.known, self.running, self.reads = {}, set(), 0
        self.sheets = {name.lower(): name for name in cells}
        self.order = {name: sorted(found) for name, found in cells.items()}
        self.here = None

    def value(self, sheet, row, column):
        """What this cell shows: a value, an Error, or Unknown as a value."""
        content = self.cells[sheet].get((row, column))
        if not is_formula(content):
            return number_of_date(content)
        key = (sheet, row, column)
        if key in self.known:
            return self.known[key]
        if key in self.running:
            return CYCLE
        self.running.add(key)
        outer, self.here = self.here, key
        try:
            found = self.single(self.compute(parse(content, sheet)))
            found = 0 if found is None else found
        except FormulaError:
            found = NAME
        except Unknown as unknown:
            found = unknown
        except (OverflowError, ValueError):
            found = NUM
        except ZeroDivisionError:
            found = DIV
        self.here = outer
        self.running.discard(key)
        self.known[key] = found
        return found

    def single(self, value):
        if isinstance(value, Area):
            value = self.block(value)
        if isinstance(value, list):
            value = value[0][0] if value and value[0] else None
        return value

    def sheet(self, name):
        return self.sheets.get(name.lower())

    def block(self, place):
        """The values of an area as rows, as far down and right as there is anything."""
        sheet = self.sheet(place.sheet)
        if sheet is None:
            return [[REF]]
        bottom, right = place.bottom, place.right
        if place.rows * place.columns > 1000:
            keys = [key for key in self.order[sheet] if place.top <= key[0] <= bottom and place.left <= key[1] <= right]
            bottom = max((key[0] for key in keys), default=place.top)
            right = max((key[1] for key in keys), default=place.left) if right == MAX_COLUMN else right
        self.count((bottom - place.top + 1) * (right - place.left + 1))
        return [[self.checked(sheet, row, column) for column in range(place.left, right + 1)] for row in range(place.top, bottom + 1)]

    def checked(self, sheet, row, column):
        found = self.value(sheet, row, column)
        if isinstance(found, Unknown):
            raise found
        return found

    def count(self, cells):
        self.reads += cells
        if self.reads > MAX_READS:
            raise Unknown("too much to compute here")

    def compute(self, tree):
        kind = tree[0]
        if kind == "value":
            return tree[1]
        if kind == "area":
            place = tree[1]
            if self.sheet(place.sheet) is None:
                return REF
            if place.rows == place.columns == 1:
                return self.checked(self.sheet(place.sheet), place.top, place.left)
            return place
        if kind == "name":
            return self.named(tree[1])
        if kind == "array":
            return [[self.single(self.compute(part)) for part in row] for row in tree[1]]
        if kind == "percent":
            return self.each(lambda value: number(value) / 100, self.compute(tree[1]))
        if kind == "sign":
            return self.each(lambda value: -number(value) if tree[1] == "-" else value, self.compute(tree[2]))
        if kind == "binary":
            return self.pairs(tree[1], self.compute(tree[2]), self.compute(tree[3]))
        from library import call

        return call(self, tree[1], tree[2])

    def named(self, name):
        text = self.names.get(name.lower())
        if text is None:
            if "[" in name:
                raise Unknown("a reference into a table")
            return NAME
        self.count(1)
        return self.compute(parse(text, self.here[0]))

    def each(self, work, value):
        if isinstance(value, Area):
            value = self.block(value)
        if isinstance(value, list):
            return [[self.each(work, part) for part in row] for row in value]
        if isinstance(value, Error):
            return value
        try:
            return work(value)
        except Mismatch:
            return VALUE

    def pairs(self, sign, left, right):
        left = self.block(left) if isinstance(left, Area) else left
        right = self.block(right) if isinstance(right, Area) else right
        if isinstance(left, list) or isinstance(right, list):
            rows = max(len(side) if isinstance(side, list) else 1 for side in (left, right))
            columns = max(len(side[0]) if isinstance(side, list) and side else 1 for side in (left, right))
            return [[self.pairs(sign, pick(left, row, column), pick(right, row, column)) for column in range(columns)] for row in range(rows)]
        for side in (left, right):
            if isinstance(side, Error):
                return side
        try:
            return binary(sign, left, right)
        except Mismatch:
            return VALUE


class Mismatch(Exception):
    """A text where a number is needed."""


def pick(side, row, column):
    if not isinstance(side, list):
        return side
    row = row if len(side) > 1 else 0
    column = column if len(side[0]) > 1 else 0
    return side[row][column] if row < len(side) and column < len(side[row]) else NA


def binary(sign, left, right):
    if sign == "&":
        return text_of(left) + text_of(right)
    if BINARY[sign] == 1:
        return compare(sign, left, right)
    first, second = number(left), number(right)
    if sign == "+":
        return first + second
    if sign == "-":
        return first - second
    if sign == "*":
        return first * second
    if sign == "/":
        return first / second if second else DIV
    if first == 0 and second < 0:
        return DIV
    found = first**second if abs(second) < 1000 else float(first) ** float(second)
    return NUM if isinstance(found, complex) else found


def compare(sign, left, right):
    first, second = rank(left, right), rank(right, left)
    return {"=": first == second, "<>": first != second, "<": first < second, ">": first > second,
            "<=": first <= second, ">=": first >= second}[sign]  # fmt: skip


def rank(value, other):
    """Numbers come before texts, texts before truth. An empty cell is like the other side's nothing."""
    if value is None:
        value = "" if isinstance(other, str) else False if isinstance(other, bool) else 0
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, str):
        return (1, value.casefold())
    return (0, value)


def number(value):
    """A value where a number is needed."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip().replace(",", "")
        try:
            return float(text[:-1]) / 100 if text.endswith("%") else float(text) if re.search(r"[.eE]", text) else int(text)
        except ValueError:
            pass
        try:
            return number_of_date(dt.datetime.fromisoformat(value.strip()))
        except ValueError:
            pass
    raise Mismatch


def text_of(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def number_of_date(value):
    """Dates and times as the numbers that they are in a spreadsheet."""
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=None)
        days = value - EPOCH
        return days.days + days.seconds / 86400 if days.seconds else days.days
    if isinstance(value, dt.date):
        return (dt.datetime(value.year, value.month, value.day) - EPOCH).days
    if isinstance(value, dt.time):
        return (value.hour * 3600 + value.minute * 60 + value.second) / 86400
    if isinstance(value, dt.timedelta):
        return value.total_seconds() / 86400
    return value


def date_of_number(value):
    return EPOCH + dt.timedelta(days=number(value))


def is_formula(content):
    return isinstance(content, str) and content.startswith("=") and len(content) > 1


def deeply(work):
    """Runs `work` where long chains of cells may call each other, and gives what it gives."""
    box = {}

    def run():
        try:
            box["value"] = work()
        except BaseException as error:  # handed over to the caller's thread
            box["error"] = error

    before, size = sys.getrecursionlimit(), threading.stack_size(512 << 20)
    sys.setrecursionlimit(400_000)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(size)
    sys.setrecursionlimit(before)
    if "error" in box:
        raise box["error"]
    return box["value"]
