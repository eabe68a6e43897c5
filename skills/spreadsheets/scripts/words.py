"""The functions of formulas that are about texts, dates and money."""

import datetime as dt
import re

from formulas import VALUE, Error, Unknown, date_of_number, number, number_of_date, text_of
from functions import flat, function, num, numbers, one, rounded, truth

# Texts.


def txt(machine, trees, index):
    return text_of(one(machine, trees[index]))


function("LEN")(lambda m, t: len(txt(m, t, 0)))
function("LEFT")(lambda m, t: txt(m, t, 0)[: max(0, int(num(m, t, 1, 1)))])
function("RIGHT")(lambda m, t: txt(m, t, 0)[-int(num(m, t, 1, 1)) :] if num(m, t, 1, 1) >= 1 else "")
function("MID")(lambda m, t: txt(m, t, 0)[int(num(m, t, 1)) - 1 : int(num(m, t, 1)) - 1 + int(num(m, t, 2))] if num(m, t, 1) >= 1 else VALUE)
function("UPPER")(lambda m, t: txt(m, t, 0).upper())
function("LOWER")(lambda m, t: txt(m, t, 0).lower())
function("PROPER")(lambda m, t: txt(m, t, 0).title())
function("TRIM")(lambda m, t: re.sub(" +", " ", txt(m, t, 0)).strip(" "))
function("EXACT")(lambda m, t: txt(m, t, 0) == txt(m, t, 1))
function("VALUE")(lambda m, t: number(one(m, t[0])))
function("CHAR")(lambda m, t: chr(int(num(m, t, 0))))
function("CODE")(lambda m, t: ord(txt(m, t, 0)[0]))


@function("REPT")
def rept(machine, trees):
    text, times = txt(machine, trees, 0), int(num(machine, trees, 1))
    return text * times if len(text) * times <= 32_767 else VALUE


@function("CONCAT", "CONCATENATE")
def concat(machine, trees):
    return joined("", [cell for tree in trees for cell in flat(machine, tree)])


@function("TEXTJOIN")
def textjoin(machine, trees):
    cells = [cell for tree in trees[2:] for cell in flat(machine, tree)]
    if truth(one(machine, trees[1])):
        cells = [cell for cell in cells if cell not in (None, "")]
    return joined(txt(machine, trees, 0), cells)


def joined(between, cells):
    for cell in cells:
        if isinstance(cell, Error):
            return cell
    return between.join(map(text_of, cells))


@function("SUBSTITUTE")
def substitute(machine, trees):
    text, old, new = (txt(machine, trees, index) for index in range(3))
    if len(trees) < 4 or not old:
        return text.replace(old, new) if old else text
    parts, which = text.split(old), int(num(machine, trees, 3))
    return text if which >= len(parts) else old.join(parts[:which]) + new + old.join(parts[which:])


@function("REPLACE")
def replace(machine, trees):
    text, at, count = txt(machine, trees, 0), int(num(machine, trees, 1)) - 1, int(num(machine, trees, 2))
    return text[:at] + txt(machine, trees, 3) + text[at + count :]


@function("FIND")
def find(machine, trees, fold=str):
    at = fold(txt(machine, trees, 1)).find(fold(txt(machine, trees, 0)), int(num(machine, trees, 2, 1)) - 1)
    return VALUE if at < 0 else at + 1


@function("SEARCH")
def search(machine, trees):
    return find(machine, trees, str.lower)


@function("TEXT")
def text(machine, trees):
    value, form = one(machine, trees[0]), txt(machine, trees, 1)
    if re.fullmatch(r"[#,]*0?0*(\.0+)?%?", form) and not isinstance(value, str):
        percent, places = form.endswith("%"), len(form.partition(".")[2].rstrip("%"))
        shown = rounded(number(value) * (100 if percent else 1), places, "near")
        return f"{shown:{',' if ',' in form else ''}.{places}f}" + ("%" if percent else "")
    if re.fullmatch(r"(yyyy|mm|dd|[-/. ])+", form, re.I):
        date = date_of_number(value)
        return re.sub("yyyy|mm|dd", lambda part: f"{ {'y': date.year, 'm': date.month, 'd': date.day}[part[0][0].lower()]:02d}", form, flags=re.I)
    raise Unknown(f"the format {form}")


# Dates.

function("TODAY")(lambda m, t: number_of_date(dt.date.today()))
function("NOW")(lambda m, t: number_of_date(dt.datetime.now()))
function("YEAR")(lambda m, t: date_of_number(one(m, t[0])).year)
function("MONTH")(lambda m, t: date_of_number(one(m, t[0])).month)
function("DAY")(lambda m, t: date_of_number(one(m, t[0])).day)
function("HOUR")(lambda m, t: date_of_number(one(m, t[0])).hour)
function("MINUTE")(lambda m, t: date_of_number(one(m, t[0])).minute)
function("DAYS")(lambda m, t: int(num(m, t, 0)) - int(num(m, t, 1)))


def month_of(year, month, day=1):
    year, month = int(year) + (int(month) - 1) // 12, (int(month) - 1) % 12 + 1
    return dt.datetime(year, month, 1) + dt.timedelta(days=int(day) - 1)


@function("DATE")
def date(machine, trees):
    return number_of_date(month_of(num(machine, trees, 0), num(machine, trees, 1), num(machine, trees, 2)))


@function("EDATE")
def edate(machine, trees):
    begin = date_of_number(one(machine, trees[0]))
    first = month_of(begin.year, begin.month + int(num(machine, trees, 1)))
    last = (month_of(first.year, first.month + 1) - dt.timedelta(days=1)).day
    return number_of_date(first.replace(day=min(begin.day, last)))


@function("EOMONTH")
def eomonth(machine, trees):
    begin = date_of_number(one(machine, trees[0]))
    return number_of_date(month_of(begin.year, begin.month + int(num(machine, trees, 1)) + 1) - dt.timedelta(days=1))


@function("WEEKDAY")
def weekday(machine, trees):
    day, kind = date_of_number(one(machine, trees[0])).isoweekday(), int(num(machine, trees, 1, 1))
    if kind not in (1, 2, 3):
        raise Unknown("this kind of weekday")
    return {1: day % 7 + 1, 2: day, 3: day - 1}[kind]


# Money.


@function("PMT")
def pmt(machine, trees):
    rate, periods, present = (num(machine, trees, index) for index in range(3))
    future, begin = num(machine, trees, 3, 0), num(machine, trees, 4, 0)
    if not rate:
        return -(present + future) / periods
    grown = (1 + rate) ** periods
    return -(present * grown + future) * rate / ((grown - 1) * (1 + rate * begin))


@function("NPV")
def npv(machine, trees):
    rate = num(machine, trees, 0)
    return sum(value / (1 + rate) ** period for period, value in enumerate(numbers(machine, trees[1:]), 1))
