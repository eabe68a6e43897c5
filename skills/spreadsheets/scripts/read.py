"""Shows cells of a workbook or CSV file: values or formulas, as Markdown, CSV or JSON."""

import csv
import io

from book import address, bounds, open_book, shown
from cli import arguments, clean, note, output_file, say, say_json, start
from openpyxl.utils import get_column_letter

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/read.py uploads/sales.xlsx --rows 20\n"
    "  python skills/spreadsheets/scripts/read.py uploads/sales.xlsx --sheet Costs --range B2:F40\n"
    "  python skills/spreadsheets/scripts/read.py uploads/sales.xlsx --formulas",
)
parser.add_argument("file")
parser.add_argument("--sheet", help="name or number; the first where absent")
parser.add_argument("--range", help="such as A1:D20")
parser.add_argument("--rows", type=int, default=50, help="at most so many rows (50 where absent)")
parser.add_argument("--formulas", action="store_true", help="show only formulas, with what they give")
parser.add_argument("--format", choices=("md", "csv", "json"), default="md")
parser.add_argument("--out", help="write to this file instead of showing it")
parser.add_argument("--encoding", help="of a CSV file, where the guess is wrong")
parser.add_argument("--delimiter", help="of a CSV file, where the guess is wrong")

MAX_SHOWN = 400


def main(options):
    book = open_book(options.file, encoding=options.encoding, delimiter=options.delimiter)
    book.compute()
    sheet = book.sheet(options.sheet)
    top, left, bottom, right = bounds(options.range) if options.range else (1, 1, None, None)
    if options.formulas:
        return tell_formulas(sheet, top, left, bottom, right)
    every = list(sheet.rows(top, left, bottom, right))
    rows = [(row, [shown(value, sheet.formats.get((row, left + at), "General")) for at, value in enumerate(cells)])
            for row, cells in every[: options.rows]]  # fmt: skip
    text = {"md": markdown, "csv": commas, "json": None}[options.format]
    if text is None:
        found = [{"row": row, "cells": cells} for row, cells in rows]
        say_json(found) if not options.out else output_file(options.out, ".json").write_text(str(found), encoding="utf-8")
    elif options.out:
        output_file(options.out).write_text(clean(text(rows, left)), encoding="utf-8")
        say(f"{options.out}: {len(rows)} rows")
    else:
        say(f"sheet {sheet.name}", "" if rows else "nothing here", text(rows, left))
    if len(every) > len(rows):
        note(f"{len(every) - len(rows)} rows more; give --rows or --range")


def tell_formulas(sheet, top, left, bottom, right):
    inside = [key for key in sorted(sheet.formulas) if top <= key[0] <= (bottom or key[0]) and left <= key[1] <= (right or key[1])]
    for key in inside[:MAX_SHOWN]:
        value = sheet.values.get(key)
        say(f"{address(*key)} {sheet.formulas[key]} -> {'no value' if value is None else shown(value, sheet.formats.get(key, 'General'))}")
    say(f"{len(inside)} formulas in {sheet.name}")


def markdown(rows, left):
    """A table whose first column is the number of the row, and whose head is the letters of the columns."""
    if not rows:
        return ""
    width = max(len(cells) for _, cells in rows)
    lines = ["| | " + " | ".join(get_column_letter(left + at) for at in range(width)) + " |", "|" + " --- |" * (width + 1)]
    for row, cells in rows:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells] + [""] * (width - len(cells))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def commas(rows, _):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(cells for _, cells in rows)
    return buffer.getvalue()


if __name__ == "__main__":
    start(main, parser)
