"""What pdfplumber reads of PDFs: the words of their pages, and the tables that PyMuPDF finds there as well.

Of a table counts which cell stands beside which in a row: pairs of neighbours that both libraries have. Where they differ nobody knows
who is right. Only the first pages of a long document are looked at.
"""

import collections
import re
import unicodedata

import pdfplumber
import pymupdf

PAGES = 40
LINE = re.compile(r"^\|(.*)\|\s*$", re.MULTILINE)
RULE = re.compile(r"^[\s|:-]*$")
CELL = re.compile(r"(?<!\\)\|")


def plain(cell):
    """A cell without spaces, breaks and emphasis marks."""
    return re.sub(r"[\s*_`\\\u00ad]|<br>", "", unicodedata.normalize("NFKC", cell or "")).lower()


def pairs(rows):
    """Neighbours in the rows, each as one text; empty cells are passed over."""
    counted = collections.Counter()
    for row in rows:
        cells = [cell for cell in map(plain, row) if cell]
        counted.update(f"{left}\t{right}" for left, right in zip(cells, cells[1:]))
    return counted


def adjacent_pairs(text):
    """The same of tables in Markdown."""
    lines = (match for match in LINE.findall(text) if not RULE.match(match))
    return pairs(CELL.split(line) for line in lines)


def both(page, other):
    """Pairs of a page that both libraries have."""
    found = page.extract_tables()
    if not found:
        return collections.Counter()
    theirs = other.find_tables().tables
    return pairs(row for table in found for row in table) & pairs(row for table in theirs for row in table.extract())


def of_pdf(path):
    """Words and pairs of its pages, by their numbers; nothing of what pdfplumber cannot read."""
    words, tables = {}, {}
    try:
        with pdfplumber.open(path) as made, pymupdf.open(path) as other:
            for number, (page, same) in enumerate(zip(made.pages[:PAGES], other), 1):
                words[str(number)] = "\n".join(word["text"] for word in page.extract_words())
                found = both(page, same)
                if found:
                    tables[str(number)] = dict(found)
                page.close()
    except Exception:  # noqa: BLE001, they raise many kinds
        pass
    return {"words": words, "tables": tables}
