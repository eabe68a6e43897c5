"""Checks the formulas of a workbook: errors, wrong references, rings, gaps in sums, formulas that differ from their neighbours.

LibreOffice computes them, where it is installed; elsewhere the values are those that the file holds. Exit code 1 where something is wrong.
"""

import re

from book import ERRORS, address, computed, open_book, shown, note_unknown
from cli import arguments, note, say, say_json, start
from formulas import FUTURE, FormulaError, links_of, parts_of, rings
from office import NotComputed
from openpyxl.utils import FORMULAE, column_index_from_string
from openpyxl.utils.datetime import to_excel

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/check.py outputs/report.xlsx\n"
    "  python skills/spreadsheets/scripts/check.py uploads/model.xlsx --json",
)
parser.add_argument("file", help=".xlsx or .xlsm")
parser.add_argument("--json", action="store_true", help="print JSON")

MAX_TOLD = 200


def main(options):
    book = open_book(options.file)
    values, unknown, count = {}, {}, sum(len(sheet.formulas) for sheet in book.sheets)
    try:
        values, unknown = computed(book) if count else ({}, {})
    except NotComputed as why:
        note(f"{count} formulas are not computed: {why}")
    links = links_of(book)
    if links is None:
        note("there are too many references between formulas to look for rings")
    ring = rings(links or {})
    findings = []
    for sheet in book.sheets:
        findings.extend(errors(sheet, values, ring))
        findings.extend(references(book, sheet))
        findings.extend(strangers(sheet))
        findings.extend(short_sums(sheet))
        findings.extend(texts(sheet))
    findings = list(dict.fromkeys(findings))
    wrong = [finding for finding in findings if finding[0] == "error"]
    if options.json:
        say_json([dict(zip(("level", "cell", "text"), finding)) for finding in findings])
    else:
        for level, cell, text in findings[:MAX_TOLD]:
            say(f"{level}: {cell}: {text}")
        if len(findings) > MAX_TOLD:
            say(f"and {len(findings) - MAX_TOLD} more")
        say(f"{count} formulas, {len(values)} computed, {len(wrong)} errors, {len(findings) - len(wrong)} warnings")
    note_unknown(unknown)
    return 1 if wrong else 0


def errors(sheet, values, ring):
    for key, formula in sorted(sheet.formulas.items()):
        value, kept = values.get((sheet.name, *key)), sheet.values.get(key)
        place = f"{sheet.name}!{address(*key)}"
        if (sheet.name, *key) in ring:
            yield "error", place, f"{formula[:120]} refers to itself, directly or in a ring"
        elif is_error(value):
            yield "error", place, f"{formula[:120]} gives {value}"
        elif value is None and is_error(kept):
            yield "error", place, f"{formula[:120]} gave {kept} when it was saved"
        elif is_stale(value, kept) and not re.search(r"\b(TODAY|NOW|RAND)", formula):
            yield "warning", place, f"the file says {shown(kept)}, computed here it is {shown(value)}; the file was not computed after a change"
    for key, value in sorted(sheet.values.items()):
        if key not in sheet.formulas and is_error(value):
            yield "error", f"{sheet.name}!{address(*key)}", f"holds {value} as a value"


def is_error(value):
    return isinstance(value, str) and value in ERRORS


def is_stale(value, kept):
    value, kept = (to_excel(one) if hasattr(one, "year") else one for one in (value, kept))
    numbers = all(isinstance(one, (int, float)) for one in (value, kept))
    return numbers and abs(value - kept) > 1e-6 * max(abs(value), 1)


def references(book, sheet):
    """Sheets, names and functions that do not exist; cells that are empty."""
    there = {other.name.lower(): other for other in book.sheets}
    names = {name.lower() for name in book.names}
    for key, formula in sorted(sheet.formulas.items()):
        place = f"{sheet.name}!{address(*key)}"
        try:
            parts = list(parts_of(formula, sheet.name))
        except FormulaError as error:
            yield "error", place, f"{formula[:120]}: {error}"
            continue
        for kind, what in parts:
            if kind == "call" and what not in FORMULAE and what not in FUTURE and not what.startswith("_XL") and what.lower() not in names:
                yield "error", place, f"there is no function {what}"
            elif kind == "name" and what.lower() not in names and "[" not in what and not what.startswith("_xl"):
                yield "error", place, f"there is no name {what}; texts need quotes"
            elif kind == "area" and "[" not in what.sheet and ":" not in what.sheet:
                other = there.get(what.sheet.lower())
                if other is None:
                    yield "error", place, f"there is no sheet {what.sheet}"
                elif what.is_single and (what.top, what.left) not in other.values:
                    yield "warning", place, f"{formula[:80]} uses {what}, which is empty"


def relative(formula, row, column):
    """A formula whose references are told from where it stands, so that a copied one is the same."""
    def place(match):
        if match.group(0).endswith("("):
            return match.group(0)
        fixed_column, letters, fixed_row, digits = match.groups()
        across = letters if fixed_column else f"C[{column_index_from_string(letters) - column}]"
        down = digits if fixed_row else f"R[{int(digits) - row}]"
        return f"{down}{across}"

    parts = re.split(r'("[^"]*")', formula.upper())
    return "".join(part if part.startswith('"') else re.sub(r"(\$?)\b([A-Z]{1,3})(\$?)(\d+)\b(?!\()", place, part) for part in parts)


def strangers(sheet):
    """Cells in a column of equal formulas that differ: another formula, or a number written over it."""
    columns = {}
    for row, column in sheet.formulas:
        columns.setdefault(column, []).append(row)
    for column, rows in columns.items():
        rows.sort()
        forms = {row: relative(sheet.formulas[row, column], row, column) for row in rows}
        for row in range(rows[0], rows[-1] + 1):
            above, below = forms.get(row - 1), forms.get(row + 1)
            if above is None or above != below or forms.get(row) == above:
                continue
            place = f"{sheet.name}!{address(row, column)}"
            if row in forms:
                yield "warning", place, f"{sheet.formulas[row, column][:80]} differs from the formulas above and below it"
            elif (row, column) in sheet.values:
                yield "warning", place, f"holds {shown(sheet.values[row, column])!r} between equal formulas"


def short_sums(sheet):
    """Sums that end or begin one row off the numbers that they seem to mean."""
    for (row, column), formula in sorted(sheet.formulas.items()):
        for letters, first, last in re.findall(r"\b(?:SUM|AVERAGE|COUNT|MAX|MIN)\(\$?([A-Z]{1,3})\$?(\d+):\$?\1\$?(\d+)\)", formula.upper()):
            at, first, last = column_index_from_string(letters), int(first), int(last)
            if at != column or last >= row:
                continue
            left_out = [other for other in range(last + 1, row) if is_number(sheet, other, at)]
            if left_out and left_out[0] == last + 1:
                yield "warning", f"{sheet.name}!{address(row, column)}", f"{formula[:80]} leaves out {address(left_out[0], at)}"
            if first > 1 and is_number(sheet, first - 1, at) and (first - 1, at) not in sheet.formulas:
                yield "warning", f"{sheet.name}!{address(row, column)}", f"{formula[:80]} leaves out {address(first - 1, at)}"


def is_number(sheet, row, column):
    value = sheet.values.get((row, column))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def texts(sheet):
    """Texts that look like numbers in a column of numbers: they are not counted."""
    columns = {}
    for (row, column), value in sheet.values.items():
        columns.setdefault(column, []).append((row, value))
    for column, cells in columns.items():
        numbers = sum(1 for row, value in cells if is_number(sheet, row, column))
        odd = [row for row, value in cells if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[\d,]*\.?\d+%?\s*", value)]
        if odd and numbers >= len(odd):
            for row in sorted(odd)[:10]:
                yield "warning", f"{sheet.name}!{address(row, column)}", f"{sheet.values[row, column]!r} is a text among numbers; sums leave it out"


if __name__ == "__main__":
    start(main, parser)
