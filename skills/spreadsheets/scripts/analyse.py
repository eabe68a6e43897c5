"""Counts, sums and compares the rows of a table: statistics of columns, groups, pivots, filters, the largest."""

import csv
import io
import re
import statistics

from book import bounds, column_of, open_book, shown
from cli import Fault, arguments, clean, note, output_file, say, start
from look import head_row

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/analyse.py uploads/sales.csv\n"
    "  python skills/spreadsheets/scripts/analyse.py uploads/sales.xlsx --group Region --sum Cargo --mean Cargo\n"
    "  python skills/spreadsheets/scripts/analyse.py uploads/sales.xlsx --group Region --across Month --sum Cargo\n"
    '  python skills/spreadsheets/scripts/analyse.py uploads/sales.xlsx --where "Cargo > 100" --top Cargo --rows 10',
)
parser.add_argument("file")
parser.add_argument("--sheet", help="name or number; the first where absent")
parser.add_argument("--range", help="the table, with its heads, where it is not the whole sheet")
parser.add_argument("--where", action="append", default=[], metavar="RULE", help='such as "Ships >= 10" or "Port = Kiel"; may be given again')
parser.add_argument("--group", help="columns to group by, parted by commas")
parser.add_argument("--across", help="a column whose values become columns (a pivot)")
for how in ("sum", "mean", "median", "min", "max"):
    parser.add_argument(f"--{how}", action="append", default=[], metavar="COLUMN", help=f"the {how} of this column; may be given again")
parser.add_argument("--top", metavar="COLUMN", help="the rows with the largest values in this column")
parser.add_argument("--rows", type=int, default=50, help="at most so many rows are shown (50 where absent)")
parser.add_argument("--out", help="write the whole result to this .csv")
parser.add_argument("--encoding", help="of a CSV file, where the guess is wrong")
parser.add_argument("--delimiter", help="of a CSV file, where the guess is wrong")

HOW = {"sum": sum, "mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}


def main(options):
    book = open_book(options.file, encoding=options.encoding, delimiter=options.delimiter)
    book.compute()
    heads, rows = table(book.sheet(options.sheet), options.range)
    for rule in options.where:
        rows = kept(rule, heads, rows)
    asked = [(how, column) for how in HOW for column in getattr(options, how)]
    if options.group:
        result = grouped(options, heads, rows, asked)
    elif asked:
        result = [[f"{how} of {column}" for how, column in asked], [of(how, numbers(rows, column_of(column, heads))) for how, column in asked]]
    elif options.top:
        at = column_of(options.top, heads) - 1
        found = sorted((row for row in rows if is_number(row[at])), key=lambda row: row[at], reverse=True)
        result = [heads, *found]
    elif options.where:
        result = [heads, *rows]
    else:
        result = described(heads, rows)
    say(f"{len(rows)} rows")
    show(result, options)


def table(sheet, area):
    top, left, bottom, right = bounds(area) if area else (1, 1, None, None)
    right = right or sheet.right
    found = list(sheet.rows(top, left, bottom, right))
    if not found:
        raise Fault("there are no cells")
    first = found[0][0] if area else head_row(sheet, found[0][0])
    rows = [(cells + [None] * (right - left + 1))[: right - left + 1] for row, cells in found if row >= first]
    if len(rows) < 2:
        raise Fault("there are no rows below the heads")
    return rows[0], rows[1:]


def kept(rule, heads, rows):
    match = re.fullmatch(r"\s*(.+?)\s*(<=|>=|!=|<>|=|<|>|contains\b)\s*(.*?)\s*", rule)
    if not match:
        raise Fault(f'{rule!r} is no rule; write "Column > 5", "Column = word" or "Column contains word"')
    name, sign, wanted = match.groups()
    at, wanted = column_of(name, heads) - 1, wanted.strip("'\"")
    number = float(wanted) if re.fullmatch(r"[-+]?\d+(\.\d+)?", wanted) else None

    def holds(row):
        value = row[at]
        if sign == "contains":
            return wanted.lower() in shown(value).lower()
        if number is not None and is_number(value):
            first, second = value, number
        elif number is not None and sign not in ("=", "!=", "<>"):
            return False
        else:
            first, second = shown(value).lower(), wanted.lower()
        return {"=": first == second, "!=": first != second, "<>": first != second, "<": first < second, ">": first > second,
                "<=": first <= second, ">=": first >= second}[sign]  # fmt: skip

    return [row for row in rows if holds(row)]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numbers(rows, column):
    return [row[column - 1] for row in rows if is_number(row[column - 1])]


def of(how, values):
    return HOW[how](values) if values else (0 if how == "sum" else None)


def grouped(options, heads, rows, asked):
    keys = [column_of(name, heads) for name in options.group.split(",")]
    groups = {}
    for row in rows:
        groups.setdefault(tuple(shown(row[key - 1]) for key in keys), []).append(row)
    titles = [shown(heads[key - 1]) for key in keys]
    if options.across:
        if len(asked) > 1:
            raise Fault("with --across, ask for one --sum or --mean")
        return pivot(options, heads, groups, titles, asked[0] if asked else None)
    result = [[*titles, "rows", *(f"{how} of {column}" for how, column in asked)]]
    for key, inside in sorted(groups.items()):
        result.append([*key, len(inside), *(of(how, numbers(inside, column_of(column, heads))) for how, column in asked)])
    return result


def pivot(options, heads, groups, titles, asked):
    across = column_of(options.across, heads) - 1
    wide = list(dict.fromkeys(shown(row[across]) for inside in groups.values() for row in inside))
    if len(wide) > 200:
        raise Fault(f"{options.across} has {len(wide)} different values; at most 200 become columns")
    result = [[*titles, *wide]]
    for key, inside in sorted(groups.items()):
        line = list(key)
        for value in wide:
            cell = [row for row in inside if shown(row[across]) == value]
            line.append(of(asked[0], numbers(cell, column_of(asked[1], heads))) if asked else len(cell))
        result.append(line)
    return result


def described(heads, rows):
    result = [["column", "filled", "different", "numbers", "min", "mean", "median", "max", "sum", "most frequent"]]
    for at, head in enumerate(heads):
        values = [row[at] for row in rows if row[at] is not None]
        found = [value for value in values if is_number(value)]
        texts = [shown(value) for value in values]
        counts = {}
        for text in texts:
            counts[text] = counts.get(text, 0) + 1
        most = max(counts, key=counts.get) if counts else ""
        figures = [min(found), statistics.fmean(found), statistics.median(found), max(found), sum(found)] if found else [""] * 5
        frequent = f"{most[:30]} ({counts[most]})" if counts and counts[most] > 1 else ""
        result.append([shown(head), len(values), len(counts), len(found), *figures, frequent])
    return result


def show(result, options):
    lines = [[clean(shown(round(cell, 6) if isinstance(cell, float) else cell)) for cell in row] for row in result]
    if options.out:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        output_file(options.out, ".csv").write_text(buffer.getvalue(), encoding="utf-8-sig")
        say(f"{options.out}: {len(lines) - 1} lines")
        return
    say("| " + " | ".join(lines[0]) + " |", "|" + " --- |" * len(lines[0]))
    for line in lines[1 : options.rows + 1]:
        say("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |")
    if len(lines) - 1 > options.rows:
        note(f"{len(lines) - 1 - options.rows} lines more; give --rows or --out")


if __name__ == "__main__":
    start(main, parser)
