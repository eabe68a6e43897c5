"""Makes an XLSX workbook from a description in JSON: columns, rows or CSV, formulas, totals, formats, charts."""

import datetime as dt
import json
import re
import tempfile
from pathlib import Path

from book import ERRORS, address, computed, csv_book, open_book, note_unknown, typed
from cli import Fault, arguments, input_file, output_file, read_json, say, start
from formulas import is_formula
from office import NotComputed
from openpyxl.utils import column_index_from_string, get_column_letter
from openpyxl.utils.datetime import to_excel

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/write.py --example > temp/book.json\n"
    "  python skills/spreadsheets/scripts/write.py temp/book.json --out outputs/book.xlsx\n"
    "All keys are told in skills/spreadsheets/reference/write.md.",
)
parser.add_argument("description", nargs="?", help="a JSON file, or JSON itself")
parser.add_argument("--out", help="the .xlsx to write")
parser.add_argument("--example", action="store_true", help="print an example of a description")

EXAMPLE = {
    "sheets": [
        {
            "name": "Sales",
            "title": "Sales of the first quarter",
            "columns": [
                {"head": "Month"},
                {"head": "Ships", "format": "#,##0"},
                {"head": "Cargo", "format": "#,##0.0"},
                {"head": "Cargo a ship", "formula": "=[Cargo]/[Ships]", "format": "0.00"},
            ],
            "rows": [["January", 12, 3400.5], ["February", 9, 2100], ["March", 15, 4800]],
            "totals": {"Ships": "sum", "Cargo": "sum", "Cargo a ship": "average"},
            "highlight": [{"column": "Ships", "rule": ">", "value": 10, "colour": "green"}],
            "charts": [{"type": "column", "title": "Cargo", "x": "Month", "y": ["Cargo"]}],
        }
    ]
}
CHARTS = {"column", "bar", "line", "area", "pie", "doughnut", "scatter", "stacked column", "stacked bar"}
TOTALS = {"sum": 109, "average": 101, "count": 103, "min": 105, "max": 104}
COLOURS = {"green": ("#C6EFCE", "#006100"), "red": ("#FFC7CE", "#9C0006"), "yellow": ("#FFEB9C", "#7F6000"), "blue": ("#DDEBF7", "#1F4E78")}
KEYS = {"name", "title", "columns", "rows", "csv", "totals", "highlight", "charts", "choices", "cells", "freeze", "filter", "landscape"}
MAX_ROWS = 1_000_000


def main(options):
    if options.example:
        print(json.dumps(EXAMPLE, ensure_ascii=False, indent=1))
        return
    if not options.description or not options.out:
        raise Fault("give a description and --out; see --example")
    described = read_json(options.description)
    sheets = described.get("sheets") if isinstance(described, dict) else None
    if not isinstance(sheets, list) or not sheets:
        raise Fault('the description needs "sheets": [ … ]; see --example')
    target = output_file(options.out, ".xlsx")
    plans = [Plan(sheet, number) for number, sheet in enumerate(sheets, 1)]
    names = [plan.name.lower() for plan in plans]
    if len(set(names)) < len(names):
        raise Fault("two sheets have the same name")
    formulas = sum(1 for plan in plans for value in plan.cells.values() if is_formula(value) and not isinstance(value, Text))
    values, missing = values_of(plans) if formulas else ({}, "")
    put_down(plans, values, target)
    say(f"{options.out}: {len(plans)} sheets, {sum(len(plan.cells) for plan in plans)} cells, {formulas} formulas")
    if len(values) < formulas:
        say(f"{formulas - len(values)} formulas hold no value yet, a spreadsheet program computes them when it opens the file{missing}")
    wrong = [f"{sheet}!{address(row, column)}: {value}" for (sheet, row, column), value in values.items() if value in ERRORS]
    if wrong:
        say(f"errors: {', '.join(wrong[:20])}; see check.py")
        return 1


class Plan:
    """A sheet as it will be: cells by place, with their formats."""

    def __init__(self, sheet, number):
        if not isinstance(sheet, dict):
            raise Fault(f"sheet {number} must be an object")
        unknown = set(sheet) - KEYS
        if unknown:
            raise Fault(f"sheet {number} has unknown keys: {', '.join(sorted(unknown))}; known are: {', '.join(sorted(KEYS))}")
        self.spec, self.name = sheet, str(sheet.get("name") or f"Sheet{number}")
        if len(self.name) > 31 or re.search(r"[\[\]:*?/\\]", self.name) or self.name.startswith("'"):
            raise Fault(f"the sheet's name {self.name!r} must have at most 31 letters and none of []:*?/\\")
        self.cells, self.formats = {}, {}
        self.head = 3 if sheet.get("title") else 1
        rows = self.rows()
        columns = sheet.get("columns") or [{"head": f"Column {at + 1}"} for at in range(max(map(len, rows), default=0))]
        self.columns = [column if isinstance(column, dict) else {"head": str(column)} for column in columns]
        self.heads = [str(column.get("head", "")) for column in self.columns]
        self.first, self.last = self.head + 1, self.head + len(rows)
        self.fill(rows)
        self.total()
        for place, value in (sheet.get("cells") or {}).items():
            self.single(place, value)

    def rows(self):
        if self.spec.get("csv"):
            book = csv_book(input_file(self.spec["csv"], ".csv", ".tsv", ".txt"))
            sheet = book.sheets[0]
            rows = [cells for _, cells in sheet.rows()]
            if not self.spec.get("columns"):
                self.spec["columns"] = [{"head": str(head)} for head in rows[0]]
            # What a CSV file holds is never a formula, whatever it looks like.
            return [[Text(cell) if is_formula(cell) else cell for cell in row] for row in rows[1:]]
        rows = self.spec.get("rows") or []
        if not isinstance(rows, list) or not all(isinstance(row, (list, dict)) for row in rows):
            raise Fault(f'the "rows" of {self.name} must be lists: [["January", 12], …]')
        if len(rows) > MAX_ROWS:
            raise Fault(f"at most {MAX_ROWS:,} rows fit on a sheet")
        return rows

    def fill(self, rows):
        for at, head in enumerate(self.heads, 1):
            self.cells[self.head, at] = Text(head)
        for number, row in enumerate(rows, self.first):
            if isinstance(row, dict):
                strange = set(row) - set(self.heads)
                if strange:
                    raise Fault(f"row {number - self.head} of {self.name} names unknown columns: {', '.join(sorted(strange))}")
                row = [row.get(head) for head in self.heads]
            if len(row) > len(self.columns):
                raise Fault(f"row {number - self.head} of {self.name} has {len(row)} cells for {len(self.columns)} columns")
            for at, value in enumerate(row, 1):
                self.put(number, at, value)
            for at, column in enumerate(self.columns, 1):
                if column.get("formula") and (number, at) not in self.cells:
                    self.cells[number, at] = self.formula(column["formula"], number)

    def put(self, row, column, value):
        if value is None or value == "":
            return
        if isinstance(value, (list, dict)):
            raise Fault(f"{self.name}: a cell of row {row - self.head} holds a list; cells hold texts, numbers, true or false")
        if isinstance(value, str) and not isinstance(value, Text):
            value = self.formula(value, row) if is_formula(value) else dated(value)
        self.cells[row, column] = value

    def formula(self, text, row):
        """[Cargo] becomes the cell of that column in this row, [Cargo:] all of the column."""
        def place(match):
            name, whole = match.group(1), match.group(2)
            lower = [head.lower() for head in self.heads]
            if name.lower() not in lower:
                raise Fault(f"{self.name}: {text} names [{name}]; the columns are: {', '.join(self.heads)}")
            letter = get_column_letter(lower.index(name.lower()) + 1)
            return f"{letter}${self.first}:{letter}${self.last}" if whole else f"{letter}{row}"

        text = text if text.startswith("=") else f"={text}"
        return re.sub(r"\[([^\[\]:]+)(:?)\]", place, text).replace("{row}", str(row))

    def total(self):
        totals = self.spec.get("totals")
        if not totals or self.last < self.first:
            return
        row = self.last + 1
        for head, how in totals.items():
            column = self.column(head)
            if how not in TOTALS and not is_formula(how):
                raise Fault(f"{self.name}: a total is one of {', '.join(TOTALS)} or a formula, not {how!r}")
            letter = get_column_letter(column)
            made = self.formula(how, row) if is_formula(how) else f"=SUBTOTAL({TOTALS[how]},{letter}{self.first}:{letter}{self.last})"
            self.cells[row, column] = made
        if (row, 1) not in self.cells:
            self.cells[row, 1] = Text("Total")
        self.totalled = row

    def single(self, place, value):
        match = re.fullmatch(r"\$?([A-Za-z]{1,3})\$?([1-9]\d{0,6})", place)
        if not match:
            raise Fault(f"{self.name}: {place!r} is no cell; write B7")
        key = (int(match.group(2)), column_index_from_string(match.group(1)))
        if isinstance(value, dict):
            self.formats[key] = {name: value[name] for name in ("format", "bold", "colour") if name in value}
            value = value.get("value")
        self.put(*key, value)

    def column(self, head):
        lower = [name.lower() for name in self.heads]
        if str(head).lower() not in lower:
            raise Fault(f"{self.name}: there is no column {head!r}; there are: {', '.join(self.heads)}")
        return lower.index(str(head).lower()) + 1


class Text(str):
    """A text that stays one, though it may begin like a formula."""


def dated(text):
    value = typed(text) if re.match(r"\d{4}-\d\d-\d\d", text) else text
    return value


def values_of(plans):
    """What the formulas give, so that programs that do not compute show it too, and why it is not known."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "draft.xlsx")
        put_down(plans, {}, draft)
        try:
            values, unknown = computed(open_book(draft))
        except NotComputed as why:
            return {}, f"; {why}"
    note_unknown(unknown)
    return {key: to_excel(value) if hasattr(value, "year") else value for key, value in values.items()}, ""


def put_down(plans, values, target):
    import xlsxwriter

    # Nothing becomes a formula or a link that was not said to be one.
    book = xlsxwriter.Workbook(str(target), {"strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True, "use_future_functions": True})
    formats = {}

    def format_of(**wanted):
        key = json.dumps(wanted, sort_keys=True)
        if key not in formats:
            formats[key] = book.add_format(wanted)
        return formats[key]

    pages = [book.add_worksheet(plan.name) for plan in plans]
    for plan, page in zip(plans, pages):
        for (row, column), value in sorted(plan.cells.items()):
            cell(page, plan, row, column, value, values, format_of)
        dress(book, page, plan, format_of)
    book.close()


def cell(page, plan, row, column, value, values, format_of):
    looks = look(plan, row, column, value)
    form = format_of(**looks) if looks else None
    at = (row - 1, column - 1)
    if isinstance(value, Text):
        page.write_string(*at, value, form)
    elif is_formula(value):
        page.write_formula(*at, value, form, values.get((plan.name, row, column), ""))
    elif isinstance(value, bool):
        page.write_boolean(*at, value, form)
    elif isinstance(value, (dt.date, dt.datetime)):
        page.write_datetime(*at, value, form)
    elif isinstance(value, (int, float)):
        # More than 15 digits are kept by texts only.
        page.write_number(*at, value, form) if abs(value) < 1e15 else page.write_string(*at, str(value), form)
    else:
        page.write_string(*at, str(value), form)


def look(plan, row, column, value):
    looks = {}
    own = plan.formats.get((row, column), {})
    if plan.first <= row <= getattr(plan, "totalled", plan.last) and column <= len(plan.columns):
        form = plan.columns[column - 1].get("format")
        if form:
            looks["num_format"] = form
    if isinstance(value, (dt.date, dt.datetime)) and "num_format" not in looks:
        looks["num_format"] = "yyyy-mm-dd hh:mm" if isinstance(value, dt.datetime) else "yyyy-mm-dd"
    if row == plan.head and column <= len(plan.columns):
        looks.update(bold=True, font_color="#FFFFFF", bg_color="#1F4E78", text_wrap=True, valign="vcenter", border=1, border_color="#D0D7E0")
    elif row == getattr(plan, "totalled", None):
        looks.update(bold=True, top=1, bg_color="#F2F5F9")
    elif plan.first <= row <= plan.last and isinstance(value, str) and len(value) > 50 and not is_formula(value):
        looks.update(text_wrap=True, valign="top")
    if own.get("format"):
        looks["num_format"] = own["format"]
    if own.get("bold"):
        looks["bold"] = True
    if own.get("colour"):
        back, front = colour(own["colour"])
        looks.update(bg_color=back, font_color=front)
    return looks


def colour(name):
    if name not in COLOURS:
        raise Fault(f"the colour {name!r} is not known; there are: {', '.join(COLOURS)}")
    return COLOURS[name]


def dress(book, page, plan, format_of):
    """Everything about a sheet that is no cell."""
    spec, width = plan.spec, len(plan.columns)
    if spec.get("title"):
        page.write_string(0, 0, str(spec["title"]), format_of(bold=True, font_size=15, font_color="#1F4E78"))
    for at, column in enumerate(plan.columns):
        page.set_column(at, at, column.get("width") or fitting(plan, at + 1))
    if width and spec.get("freeze", True):
        page.freeze_panes(plan.head, 0)
    if width and plan.last >= plan.first and spec.get("filter", True):
        page.autofilter(plan.head - 1, 0, plan.last - 1, width - 1)
    for head, choices in (spec.get("choices") or {}).items():
        column = plan.column(head) - 1
        page.data_validation(plan.first - 1, column, max(plan.last - 1, plan.first + 98), column, {"validate": "list", "source": choices})
    for rule in spec.get("highlight") or []:
        highlight(page, plan, rule, format_of)
    for number, chart in enumerate(spec.get("charts") or []):
        page.insert_chart(*corner(plan, chart, number), drawn(book, plan, chart))
    page.fit_to_pages(1, 0)
    page.repeat_rows(plan.head - 1)
    if spec.get("landscape", width > 6):
        page.set_landscape()


def fitting(plan, column):
    """As wide as what the column holds; Chinese letters count twice."""
    longest = 8
    for (row, at), value in plan.cells.items():
        if at == column and not is_formula(value):
            text = f"{value:,.2f}" if isinstance(value, float) else str(value)
            longest = max(longest, min(50, sum(2 if ord(letter) > 0x2E80 else 1 for letter in text) + 2))
    return longest


def highlight(page, plan, rule, format_of):
    column = plan.column(rule.get("column")) - 1
    area = (plan.first - 1, column, max(plan.last - 1, plan.first - 1), column)
    kind = rule.get("rule", ">")
    if kind == "scale":
        page.conditional_format(*area, {"type": "3_color_scale"})
    elif kind == "bars":
        page.conditional_format(*area, {"type": "data_bar", "bar_solid": True})
    elif kind in (">", "<", ">=", "<=", "=", "!="):
        back, front = colour(rule.get("colour", "yellow"))
        value = rule.get("value", 0)
        value = f'"{value}"' if isinstance(value, str) and not is_formula(value) else value
        page.conditional_format(*area, {"type": "cell", "criteria": kind.replace("=", "==") if kind == "=" else kind, "value": value,
                                        "format": format_of(bg_color=back, font_color=front)})  # fmt: skip
    else:
        raise Fault(f'{plan.name}: a rule of "highlight" is >, <, >=, <=, =, !=, scale or bars')


def corner(plan, chart, number):
    if chart.get("at"):
        match = re.fullmatch(r"([A-Za-z]{1,3})([1-9]\d{0,6})", str(chart["at"]))
        if not match:
            raise Fault(f'{plan.name}: "at" of a chart is a cell, such as G2')
        return int(match.group(2)) - 1, column_index_from_string(match.group(1)) - 1
    return plan.head - 1 + 17 * number, len(plan.columns) + 1


def drawn(book, plan, spec):
    kind = spec.get("type", "column")
    if kind not in CHARTS:
        raise Fault(f"{plan.name}: a chart is one of {', '.join(sorted(CHARTS))}, not {kind!r}")
    if plan.last < plan.first:
        raise Fault(f"{plan.name}: a chart needs rows")
    plain = kind.replace("stacked ", "")
    made = book.add_chart({"type": plain, **({"subtype": "stacked"} if kind != plain else {})})
    series = spec.get("y")
    series = series if isinstance(series, list) else [series]
    for head in series:
        column = plan.column(head) - 1
        one = {"name": [plan.name, plan.head - 1, column], "values": [plan.name, plan.first - 1, column, plan.last - 1, column]}
        if spec.get("x"):
            across = plan.column(spec["x"]) - 1
            one["categories"] = [plan.name, plan.first - 1, across, plan.last - 1, across]
        if plain in ("pie", "doughnut"):
            one["data_labels"] = {"percentage": True}
        made.add_series(one)
    made.set_title({"name": str(spec["title"])} if spec.get("title") else {"none": True})
    if plain not in ("pie", "doughnut"):
        made.set_x_axis({"name": spec.get("x_title") or (spec.get("x") or "")})
        made.set_y_axis({"name": spec.get("y_title") or (series[0] if len(series) == 1 else ""), "major_gridlines": {"visible": True, "line": {"color": "#D9D9D9"}}})
        made.set_legend({"none": True} if len(series) == 1 else {"position": "bottom"})
    made.set_size({"width": spec.get("width", 560), "height": spec.get("height", 320)})
    return made


if __name__ == "__main__":
    start(main, parser)
