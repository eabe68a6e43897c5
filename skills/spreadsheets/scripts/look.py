"""Tells what is in a workbook or CSV file: sheets, sizes, columns, formulas, charts. The first thing to call."""

from book import ERRORS, address, open_book, shown
from cli import arguments, say, start

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/spreadsheets/scripts/look.py uploads/sales.xlsx\n"
    "  python skills/spreadsheets/scripts/look.py uploads/sales.csv",
)
parser.add_argument("file", help=".xlsx, .xlsm, .csv or .tsv")
parser.add_argument("--encoding", help="of a CSV file, where the guess is wrong, such as gb18030 or cp1252")
parser.add_argument("--delimiter", help="of a CSV file, where the guess is wrong")

# What else a workbook may hold, by the names of its parts.
OTHER = {
    "charts": "xl/charts/chart", "pictures": "xl/media/", "pivot tables": "xl/pivotTables/", "macros": "xl/vbaProject",
    "links to other workbooks": "xl/externalLinks/externalLink", "tables": "xl/tables/", "comments": "xl/comments",
    "slicers": "xl/slicers/",
}  # fmt: skip


def main(options):
    book = open_book(options.file, encoding=options.encoding, delimiter=options.delimiter)
    computed = book.compute()
    for number, sheet in enumerate(book.sheets, 1):
        hidden = "" if sheet.state == "visible" else f", {sheet.state}"
        say(f"sheet {number}: {sheet.name}{hidden}")
        if not sheet.values:
            say("  empty")
            continue
        tell(sheet)
    if book.names:
        say("names: " + ", ".join(f"{name} {text}" for name, text in list(book.names.items())[:20]))
    for what, begin in OTHER.items():
        count = sum(1 for part in book.parts if part.startswith(begin) and "_rels" not in part)
        if count:
            say(f"{what}: {count}")
    if computed:
        say(f"{computed} formulas had no value in the file; LibreOffice computed them")


def tell(sheet):
    top = min(row for row, _ in sheet.values)
    left = min(column for _, column in sheet.values)
    say(f"  cells {address(top, left)} to {address(sheet.bottom, sheet.right)}, {len(sheet.values)} filled, {len(sheet.formulas)} formulas")
    if hasattr(sheet, "delimiter"):
        say(f"  parted by {sheet.delimiter!r}")
    errors = [address(*key) for key, value in sheet.values.items() if isinstance(value, str) and value in ERRORS]
    if errors:
        say(f"  errors in {', '.join(errors[:20])}; see check.py")
    head = head_row(sheet, top)
    columns = {}
    for (row, column), value in sheet.values.items():
        if row > head:
            columns.setdefault(column, []).append((row, value))
    for column in sorted(columns)[:40]:
        cells = sorted(columns[column])
        title = shown(sheet.values.get((head, column)))
        say(f"  {address(head, column)} {title!r}: {kinds(sheet, column, cells)}")
    if len(columns) > 40:
        say(f"  and {len(columns) - 40} columns more")


def head_row(sheet, top):
    """The first row that has texts only and is about as wide as the rows below it."""
    width = {}
    for row, _ in sheet.values:
        width[row] = width.get(row, 0) + 1
    usual = sorted(width.values())[len(width) // 2]
    for row in sorted(width)[:10]:
        texts = all(isinstance(value, str) for (at, _), value in sheet.values.items() if at == row)
        if texts and width[row] >= min(usual, 2) and width[row] >= usual * 0.6:
            return row
    return top


def kinds(sheet, column, cells):
    values = [value for _, value in cells if value is not None]
    formulas = sum(1 for row, _ in cells if (row, column) in sheet.formulas)
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    texts = [value for value in values if isinstance(value, str)]
    dated = [value for value in values if hasattr(value, "year")]
    told = []
    if numbers:
        told.append(f"{len(numbers)} numbers from {shown(min(numbers))} to {shown(max(numbers))}")
    if dated:
        told.append(f"{len(dated)} dates, first {shown(dated[0])}, last {shown(dated[-1])}")
    if texts:
        different = list(dict.fromkeys(texts))
        some = ", ".join(repr(text[:30]) for text in different[:3])
        told.append(f"{len(texts)} texts, {len(different)} different, such as {some}")
    others = len(values) - len(numbers) - len(dated) - len(texts)
    if others:
        told.append(f"{others} times or truths")
    if formulas:
        first = next(sheet.formulas[row, column] for row, _ in cells if (row, column) in sheet.formulas)
        told.append(f"{formulas} formulas, first {first[:80]}")
    return "; ".join(told) or "nothing"


if __name__ == "__main__":
    start(main, parser)
