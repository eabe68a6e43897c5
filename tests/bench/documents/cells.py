"""The cells of workbooks, as openpyxl reads them, beside those of another reader.

A number is equal where it is as far as it is shown, a date where its day and its time are, a text where its words are.
"""

import datetime
import re

import openpyxl


def of_book(path):
    """Values by sheet, row and column, and comments; none of what openpyxl cannot read."""
    try:
        return read(path)
    except Exception:  # noqa: BLE001, it raises many kinds
        return {}


def read(path):
    book = openpyxl.load_workbook(path, data_only=True)
    values = {}
    for sheet in book.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                place = f"{sheet.title}\t{cell.row}\t{cell.column}"
                if cell.value is not None and str(cell.value).strip():
                    values[place] = cell.value
                if cell.comment is not None and cell.comment.text.strip():
                    values[place + "\tcomment"] = cell.comment.text
    return values


def number_of(text):
    """The number that is shown, and half of its last place; none where it is no number."""
    plain = text.strip().replace(",", "").replace("\u2212", "-")
    shown = re.fullmatch(r"[^\d.(-]*\(?(-?)[^\d.-]*(\d*\.?\d*(?:[eE][+-]?\d+)?)\)?[^\d]*", plain)
    if not shown or not re.search(r"\d", shown[2]):
        return None
    scale = 0.01 if "%" in plain else 1.0
    mantissa, _, power = shown[2].lower().partition("e")
    step = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    sign = -1.0 if shown[1] or "(" in plain else 1.0
    return sign * float(shown[2]) * scale, 0.5 * step * scale


def is_same(value, text):
    plain = " ".join(text.split())
    if isinstance(value, bool):
        return plain.upper() == str(value).upper()
    if isinstance(value, (int, float)):
        shown = number_of(plain)
        return shown is not None and abs(shown[0] - value) <= shown[1] + 1e-9 * abs(value)
    if isinstance(value, datetime.datetime):
        return plain in (str(value.replace(microsecond=0)), f"{value:%Y-%m-%d}" if value.time() == datetime.time() else "", f"{value:%Y-%m-%d %H:%M}" if not value.second else "")
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return plain == str(value) or plain == str(value)[:-3]
    return plain == " ".join(str(value).split())


def judge(values, texts):
    """Cells, those that are equal, comments, those that are there, and the first that differ."""
    cells = [place for place in values if not place.endswith("\tcomment")]
    wrong = [place for place in cells if not is_same(values[place], texts.get(place, "").partition("[Comment")[0])]
    comments = [place for place in values if place.endswith("\tcomment")]
    # The name of who wrote it may stand in it once more.
    said = lambda place: all(word.strip(":") in texts.get(place[: -len("\tcomment")], "") for word in values[place].split())
    return len(cells), len(cells) - len(wrong), len(comments), sum(map(said, comments)), wrong
