"""Turns CSV into XLSX and XLSX into CSV. Values stay what they are: 007 stays a text, dates stay dates, nothing becomes a formula."""

import csv
import datetime as dt

from book import column_of, open_book, shown
from cli import Fault, arguments, input_file, note, output_file, say, start

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/convert.py uploads/sales.csv outputs/sales.xlsx\n"
    "  python skills/spreadsheets/scripts/convert.py uploads/a.csv uploads/b.csv outputs/both.xlsx    (a sheet for each)\n"
    "  python skills/spreadsheets/scripts/convert.py uploads/sales.xlsx outputs/sales.csv --sheet Costs\n"
    "  python skills/spreadsheets/scripts/convert.py uploads/gbk.csv outputs/utf8.csv --encoding gb18030",
)
parser.add_argument("files", nargs="+", help="the input or inputs, and last the result")
parser.add_argument("--sheet", help="which sheet becomes the CSV; the first where absent")
parser.add_argument("--text", metavar="COLUMNS", help="columns of a CSV file to keep as texts, parted by commas")
parser.add_argument("--encoding", help="of a CSV file that is read, where the guess is wrong")
parser.add_argument("--delimiter", help="of a CSV file that is read, where the guess is wrong")
parser.add_argument("--write-delimiter", default=",", help="of the CSV that is written (a comma where absent)")

DANGEROUS = ("=", "+", "-", "@", "\t")


def main(options):
    if len(options.files) < 2:
        raise Fault("name the input, and last the result")
    *sources, last = options.files
    target = output_file(last, ".xlsx", ".csv", ".tsv", inputs=[input_file(source) for source in sources])
    books = [open_book(source, encoding=options.encoding, delimiter=options.delimiter) for source in sources]
    if target.suffix.lower() == ".xlsx":
        to_xlsx(books, target, options)
    else:
        if len(books) > 1:
            raise Fault("several files become one .xlsx, not one CSV")
        to_csv(books[0], target, options)


def to_xlsx(books, target, options):
    import xlsxwriter

    made = xlsxwriter.Workbook(str(target), {"strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True})
    day, time = made.add_format({"num_format": "yyyy-mm-dd"}), made.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    bold = made.add_format({"bold": True})
    used, cells = set(), 0
    for book in books:
        book.compute()
        for sheet in book.sheets:
            page = made.add_worksheet(free_name(sheet.name, used))
            as_text = {column_of(name, heads(sheet)) for name in options.text.split(",")} if options.text else set()
            widths = {}
            for (row, column), value in sorted(sheet.values.items()):
                value = shown(value) if column in as_text else value
                put(page, row - 1, column - 1, value, day, time, bold if row == 1 and isinstance(value, str) else None)
                widths[column] = max(widths.get(column, 8), min(45, len(shown(value)) + 2))
                cells += 1
            for column, width in widths.items():
                page.set_column(column - 1, column - 1, width)
            page.freeze_panes(1, 0)
    made.close()
    say(f"{options.files[-1]}: {len(used)} sheets, {cells} cells")


def heads(sheet):
    return [sheet.values.get((1, column)) for column in range(1, sheet.right + 1)]


def put(page, row, column, value, day, time, bold):
    if isinstance(value, bool):
        page.write_boolean(row, column, value)
    elif isinstance(value, dt.datetime):
        page.write_datetime(row, column, value.replace(tzinfo=None), time)
    elif isinstance(value, dt.date):
        page.write_datetime(row, column, value, day)
    elif isinstance(value, (int, float)):
        page.write_number(row, column, value)
    elif value is not None:
        text = shown(value)
        page.write_string(row, column, text[:32_767], bold)
        if len(text) > 32_767:
            note(f"the text in row {row + 1} is cut to 32,767 letters, the most that a cell holds")


def free_name(name, used):
    """A name that a sheet may have and no other has."""
    plain = "".join(" " if letter in "[]:*?/\\'" else letter for letter in name).strip()[:31] or "Sheet"
    made, number = plain, 1
    while made.lower() in used:
        number += 1
        made = f"{plain[:27]} {number}"
    used.add(made.lower())
    return made


def to_csv(book, target, options):
    book.compute()
    sheet = book.sheet(options.sheet)
    if len(options.write_delimiter) != 1:
        raise Fault("--write-delimiter is one letter")
    mark = "\t" if target.suffix.lower() == ".tsv" else options.write_delimiter
    width, written, risky = sheet.right, 0, 0
    # With a mark at the beginning, so that Excel reads it as UTF-8.
    with open(target, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=mark, lineterminator="\n")
        for row, cells in sheet.rows():
            while written < row - 1 and written < 1_000_000 and row - written < 1000:
                writer.writerow([""] * width)
                written += 1
            texts = [shown(value, sheet.formats.get((row, column), "General")) for column, value in enumerate(cells, 1)]
            risky += sum(1 for value, text in zip(cells, texts) if isinstance(value, str) and text.startswith(DANGEROUS) and len(text) > 1)
            writer.writerow(texts + [""] * (width - len(texts)))
            written = max(written + 1, row)
    others = [other.name for other in book.sheets if other is not sheet]
    say(f"{options.files[-1]}: {written} rows of {sheet.name}")
    if others and not options.sheet:
        note(f"other sheets are left out: {', '.join(others)}; choose with --sheet")
    if risky:
        note(f"{risky} texts begin with = + - or @; programs may take them for formulas when they open the CSV")


if __name__ == "__main__":
    start(main, parser)
