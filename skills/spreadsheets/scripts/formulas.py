"""Formulas as text: their syntax, their references, and rings of them. Values come from `office.py`."""

import re
from bisect import bisect_left, bisect_right

from openpyxl.formula import Tokenizer
from openpyxl.formula.tokenizer import TokenizerError
from openpyxl.utils import column_index_from_string, get_column_letter

MAX_ROW, MAX_COLUMN = 1_048_576, 16_384
# References between formulas, in one workbook.
MAX_LINKS = 5_000_000
CELLS = re.compile(r"\$?([A-Za-z]{1,3})?\$?(\d+)?(?::\$?([A-Za-z]{1,3})?\$?(\d+)?)?")
OPERATORS = ("OPERATOR-PREFIX", "OPERATOR-INFIX")
ENDS = ("OPERATOR-INFIX", "OPERATOR-POSTFIX", "SEP", "CLOSE")
# These ask where a cell is, not what it holds.
PLACES = {"ROW", "ROWS", "COLUMN", "COLUMNS", "SHEET", "SHEETS", "ISFORMULA", "FORMULATEXT"}
# Functions that came after the format of the files: files name them with a mark before them.
FUTURE = (
    "AGGREGATE BYCOL BYROW CEILING.MATH CHOOSECOLS CHOOSEROWS CONCAT COVARIANCE.P COVARIANCE.S DAYS DROP EXPAND FILTER FLOOR.MATH "
    "FORECAST.LINEAR FORMULATEXT HSTACK IFNA IFS ISFORMULA LAMBDA LET MAKEARRAY MAP MAXIFS MINIFS MODE.MULT MODE.SNGL NUMBERVALUE "
    "PERCENTILE.EXC PERCENTILE.INC PERCENTRANK.INC QUARTILE.EXC QUARTILE.INC RANDARRAY RANK.AVG RANK.EQ REDUCE SCAN SEQUENCE SHEET SHEETS "
    "SORT SORTBY STDEV.P STDEV.S SWITCH TAKE TEXTAFTER TEXTBEFORE TEXTJOIN TEXTSPLIT TOCOL TOROW UNICHAR UNICODE UNIQUE VAR.P VAR.S VSTACK "
    "WRAPCOLS WRAPROWS XLOOKUP XMATCH XOR"
).split()
LATER = re.compile(r"(?<![\w.])(" + "|".join(re.escape(name) for name in sorted(FUTURE, key=len, reverse=True)) + r")\(", re.I)


class FormulaError(Exception):
    """A formula that no program can read."""


class Area:
    """A block of cells: sheet, first row, first column, last row, last column."""

    def __init__(self, sheet, top, left, bottom, right):
        self.sheet, self.top, self.left, self.bottom, self.right = sheet, top, left, bottom, right

    @property
    def is_single(self):
        return (self.top, self.left) == (self.bottom, self.right)

    def __str__(self):
        last = "" if self.is_single else f":{get_column_letter(self.right)}{self.bottom}"
        return f"{self.sheet}!{get_column_letter(self.left)}{self.top}{last}"


def is_formula(content):
    return isinstance(content, str) and content.startswith("=") and len(content) > 1


def modern(formula):
    """The formula as files must have it."""
    parts = re.split(r'("[^"]*")', formula)
    return "".join(part if part.startswith('"') else LATER.sub(lambda match: f"_xlfn.{match.group(0).upper()}", part) for part in parts)


def tokens_of(formula):
    """The tokens of a formula, spaces left out."""
    try:
        tokens = Tokenizer(formula).items
    except (TokenizerError, IndexError) as error:
        raise FormulaError(str(error) if isinstance(error, TokenizerError) else "a bracket is closed that is not open") from error
    found, before, depth = [], "OPEN", 0
    for token in tokens:
        kind = token.subtype if token.subtype in ("OPEN", "CLOSE") else token.type
        if kind == "WHITE-SPACE":
            # Between two ranges a space is an operator.
            before = kind if before in ("OPERAND", "CLOSE") else before
            continue
        if kind in ENDS and (before in OPERATORS or before == "OPEN" and kind in ENDS[:2]):
            raise FormulaError(f"something is missing before {token.value!r}")
        if before in ("OPERAND", "CLOSE", "OPERATOR-POSTFIX") and (kind == "OPERAND" or kind == "OPEN" and token.type == "FUNC"):
            raise FormulaError(f"there is something too much: {token.value!r}")
        depth += (kind == "OPEN") - (kind == "CLOSE")
        found.append(token)
        before = kind
    if before in OPERATORS:
        raise FormulaError("it ends too early")
    if depth:
        raise FormulaError("a ')' is missing")
    return found


def parts_of(formula, sheet):
    """Functions, names and cells of a formula on this sheet: ("call", name), ("name", name), ("area", Area), ("place", Area)."""
    calls = []
    for token in tokens_of(formula):
        if token.subtype == "OPEN":
            calls.append(token.value[:-1].rpartition(":")[2].upper().lstrip("@"))
            if token.type == "FUNC":
                yield "call", calls[-1]
        elif token.subtype == "CLOSE":
            calls.pop()
        elif token.subtype == "RANGE":
            text = token.value.lstrip("@")
            on, mark, cells = text.rpartition("!")
            on = on[1:-1].replace("''", "'") if on.startswith("'") else on
            place = area(cells, on if mark else sheet)
            if place:
                yield "place" if calls and calls[-1].rpartition("_XLFN.")[2] in PLACES else "area", place
            elif cells != "#REF!":
                yield "name", text if "[" in text else cells


def area(text, sheet):
    match = CELLS.fullmatch(text)
    if not match or not text:
        return None
    left, top, right, bottom = match.groups()
    is_range = ":" in text
    # Of a single cell both parts are needed, of a range the same part on both sides.
    if not (left and top) if not is_range else (bool(left), bool(top)) != (bool(right), bool(bottom)) or not (left or top):
        return None
    rows = sorted((int(top or 1), int(bottom or (MAX_ROW if is_range else top))))
    columns = sorted(column_index_from_string(part) if part else default for part, default in
                     ((left, 1), (right, MAX_COLUMN if is_range else column_index_from_string(left or "A"))))  # fmt: skip
    if rows[1] > MAX_ROW or columns[1] > MAX_COLUMN or not rows[0]:
        return None
    return Area(sheet, rows[0], columns[0], rows[1], columns[1])


def links_of(book):
    """Formulas that each formula uses: {(sheet, row, column): [(sheet, row, column), …]}; None if there are too many."""
    there = {}
    for sheet in book.sheets:
        for row, column in sorted(sheet.formulas):
            there.setdefault(sheet.name.lower(), (sheet.name, {}))[1].setdefault(column, []).append(row)
    links, count = {}, 0
    for sheet in book.sheets:
        for key, formula in sheet.formulas.items():
            used = links[sheet.name, *key] = []
            try:
                areas = [what for kind, what in parts_of(formula, sheet.name) if kind == "area"]
            except FormulaError:
                continue
            for place in areas:
                name, columns = there.get(place.sheet.lower(), ("", {}))
                for column in [column for column in columns if place.left <= column <= place.right]:
                    rows = columns[column]
                    used.extend((name, row, column) for row in rows[bisect_left(rows, place.top) : bisect_right(rows, place.bottom)])
            count += len(used)
            if count > MAX_LINKS:
                return None
    return links


def rings(links):
    """The formulas that use themselves, directly or through others."""
    left = without_ends(links)
    inside = {key: [used for used in links[key] if used in left] for key in left}
    return without_ends(turned(inside))


def without_ends(links):
    """Removes formulas that use no other, until each of the rest uses one."""
    users, count = turned(links), {key: len(used) for key, used in links.items()}
    ready = [key for key, number in count.items() if not number]
    while ready:
        for user in users[ready.pop()]:
            count[user] -= 1
            if not count[user]:
                ready.append(user)
    return {key for key, number in count.items() if number}


def turned(links):
    """Formulas that use each formula."""
    users = {key: [] for key in links}
    for key, used in links.items():
        for other in used:
            users.setdefault(other, []).append(key)
    return users


def users_of(keys, links):
    """These formulas and all that use them, directly or through others."""
    users, found, ready = turned(links), set(keys), list(keys)
    while ready:
        for user in users.get(ready.pop(), ()):
            if user not in found:
                found.add(user)
                ready.append(user)
    return found
