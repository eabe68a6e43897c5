"""Takes the tables out of a PDF: shows them as Markdown, or writes one CSV file for each."""

import csv
import json

from cli import arguments, clean, note, output_folder, ranges, say, start
from opened import plumber_document

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/pdf/scripts/tables.py uploads/report.pdf --pages 2\n"
    "  python skills/pdf/scripts/tables.py uploads/report.pdf --out outputs/tables\n"
    "  python skills/pdf/scripts/tables.py uploads/report.pdf --by text    (tables without lines)",
)
parser.add_argument("file")
parser.add_argument("--pages", default="all", help="such as 1-3,7 (all where absent)")
parser.add_argument(
    "--by",
    choices=("auto", "lines", "text"),
    default="auto",
    help="what parts the cells: drawn lines, or how the words stand; auto tries lines first",
)
parser.add_argument("--password", help="what unlocks the file")
parser.add_argument("--out", metavar="FOLDER", help="write CSV files (UTF-8 with mark, as Excel likes it) to this folder")
parser.add_argument("--json", action="store_true", help="print JSON")

# Between two words, so much of a letter's height parts cells.
GAP = 1.1
# Cells of a table are short; longer ones are columns of prose.
MAX_CELL_WORDS = 6


def main(options):
    document = plumber_document(options.file, options.password)
    found = []
    for number in ranges(options.pages, len(document.pages)):
        page = document.pages[number - 1]
        for rows in tables_of(page, options.by):
            found.append({"page": number, "rows": rows})
        page.close()
    if options.out:
        write(found, options.out)
    elif options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for index, table in enumerate(found, 1):
            say(f"table {index}, page {table['page']}, {len(table['rows'])} rows", "", *markdown(table["rows"]), "")
    if not found:
        note("no tables; try --by text, or text.py --layout, or look at the page with render.py")
        return 1


def tables_of(page, by):
    rows = [] if by == "text" else [tidy(table) for table in page.extract_tables()]
    rows = [table for table in rows if worth(table)]
    return rows or ([] if by == "lines" else [tidy(table) for table in loose_tables(page)])


def loose_tables(page):
    """Tables without lines: runs of text lines that wide gaps part into cells, one below the other."""
    run, tables, above = [], [], []
    for words in [*text_lines(page), []]:
        line = cells_of(words)
        if len(line) >= 2:
            run.append(line)
            continue
        if len(run) >= 3 and short(run):
            tables.append(aligned(run, above))
        run, above = [], words
    return [table for table in tables if worth(table)]


def text_lines(page):
    """The lines of the page from top to bottom, each as its words."""
    lines = []
    for word in sorted(page.extract_words(), key=lambda word: (word["top"] + word["bottom"], word["x0"])):
        middle = (word["top"] + word["bottom"]) / 2
        if lines and abs(lines[-1][0] - middle) < (word["bottom"] - word["top"]) * 0.5:
            lines[-1][1].append(word)
        else:
            lines.append((middle, [word]))
    return [sorted(words, key=lambda word: word["x0"]) for _, words in lines]


def cells_of(words):
    """A line as its cells: (left, right, text)."""
    cells = []
    for word in words:
        height = word["bottom"] - word["top"]
        if cells and word["x0"] - cells[-1][1] < GAP * height:
            left, right, text = cells[-1]
            cells[-1] = (left, max(right, word["x1"]), f"{text} {word['text']}")
        else:
            cells.append((word["x0"], word["x1"], word["text"]))
    return cells


def short(run):
    cells = [cell for line in run for cell in line]
    return sum(len(text.split()) for _, _, text in cells) <= MAX_CELL_WORDS * len(cells) * 0.7


def aligned(run, above):
    """Cells that lie below each other share a column. Words of the line above may be its heads, one or two to a column."""
    columns = []
    for left, right, _ in sorted((cell for line in run for cell in line), key=lambda cell: cell[0]):
        if columns and left < columns[-1][1]:
            columns[-1][1] = max(columns[-1][1], right)
        else:
            columns.append([left, right])
    table = [[""] * len(columns) for _ in run]
    for row, line in zip(table, run):
        for left, right, text in line:
            index = next(index for index, column in enumerate(columns) if left <= column[1])
            row[index] = f"{row[index]} {text}".strip()
    heads = heads_of(columns, above)
    return [heads, *table] if heads else table


def heads_of(columns, words):
    heads = [""] * len(columns)
    for word in words:
        index = min(range(len(columns)), key=lambda index: apart(columns[index], word))
        if apart(columns[index], word) > 3 * (word["bottom"] - word["top"]):
            return None
        heads[index] = f"{heads[index]} {word['text']}".strip()
    return heads if all(heads) and len(words) <= 2 * len(columns) else None


def apart(column, word):
    return max(column[0] - word["x1"], word["x0"] - column[1], 0)


def tidy(table):
    """Cells as lines of text; rows and columns that hold nothing are left out."""
    cells = [[" ".join(clean(cell or "").split()) for cell in row] for row in table]
    cells = [row for row in cells if any(row)]
    used = [index for index in range(max(map(len, cells), default=0)) if any(row[index] for row in cells if index < len(row))]
    return [[row[index] if index < len(row) else "" for index in used] for row in cells]


def worth(table):
    return len(table) >= 2 and len(table[0]) >= 2


def markdown(rows):
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]


def write(found, folder):
    target = output_folder(folder)
    for index, table in enumerate(found, 1):
        name = f"page-{table['page']}-table-{index}.csv"
        with open(target / name, "w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows(table["rows"])
        say(f"{folder}/{name}: {len(table['rows'])} rows, {len(table['rows'][0])} columns")


if __name__ == "__main__":
    start(main, parser)
