"""The functions of formulas: each takes the machine and the trees of its arguments."""

import math
import re
import statistics

from formulas import (
    DIV, NA, NUM, REF, VALUE, Area, Error, Mismatch, Unknown, compare, number, text_of,
)  # fmt: skip

TABLE = {}


def function(*names):
    def keep(work):
        for name in names:
            TABLE[name] = work
        return work

    return keep


def call(machine, name, trees):
    """The value of a function; an error of an argument is the value, where the function does not look at errors."""
    if name not in TABLE:
        raise Unknown(f"the function {name}")
    try:
        return TABLE[name](machine, trees)
    except Mismatch:
        return VALUE
    except Stop as stop:
        return stop.error
    except (IndexError, TypeError):
        return VALUE


class Stop(Exception):
    def __init__(self, error):
        super().__init__()
        self.error = error


def block(machine, tree):
    """An argument as rows."""
    value = machine.compute(tree)
    if isinstance(value, Area):
        return machine.block(value)
    return value if isinstance(value, list) else [[value]]


def one(machine, tree):
    """An argument as a single value that is no error."""
    value = machine.single(machine.compute(tree))
    if isinstance(value, Error):
        raise Stop(value)
    return value


def num(machine, trees, index, default=None):
    if index >= len(trees):
        if default is None:
            raise Mismatch
        return default
    return number(one(machine, trees[index]))


def numbers(machine, trees):
    """The numbers in arguments. Texts and truths count where they are written into the formula, not in cells."""
    for tree in trees:
        value = machine.compute(tree)
        if isinstance(value, Area):
            value = machine.block(value)
        if isinstance(value, list):
            for row in value:
                for cell in row:
                    if isinstance(cell, Error):
                        raise Stop(cell)
                    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
                        yield cell
        elif isinstance(value, Error):
            raise Stop(value)
        elif tree[0] == "area":
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield value
        elif value is not None:
            yield number(value)


def flat(machine, tree):
    return [cell for row in block(machine, tree) for cell in row]


# Sums and statistics.


def over_numbers(*names, least=0, empty=0):
    def keep(work):
        def run(machine, trees):
            found = list(numbers(machine, trees))
            return work(found) if len(found) > least - 1 and found else empty

        function(*names)(run)
        return work

    return keep


over_numbers("SUM")(lambda found: math.fsum(found) if any(isinstance(value, float) for value in found) else sum(found))
over_numbers("AVERAGE", empty=DIV)(statistics.fmean)
over_numbers("MIN")(min)
over_numbers("MAX")(max)
over_numbers("PRODUCT")(math.prod)
over_numbers("MEDIAN", empty=NUM)(statistics.median)
over_numbers("STDEV", "STDEV.S", least=2, empty=DIV)(statistics.stdev)
over_numbers("STDEVP", "STDEV.P", empty=DIV)(statistics.pstdev)
over_numbers("VAR", "VAR.S", least=2, empty=DIV)(statistics.variance)
over_numbers("VARP", "VAR.P", empty=DIV)(statistics.pvariance)
over_numbers("COUNT")(len)


@function("MODE", "MODE.SNGL")
def mode(machine, trees):
    found = list(numbers(machine, trees))
    common = statistics.multimode(found)
    return common[0] if found and found.count(common[0]) > 1 else NA


@function("COUNTA")
def counta(machine, trees):
    return sum(1 for tree in trees for cell in flat(machine, tree) if cell is not None)


@function("COUNTBLANK")
def countblank(machine, trees):
    place = machine.compute(trees[0])
    filled = sum(1 for cell in flat(machine, trees[0]) if cell not in (None, ""))
    return place.rows * place.columns - filled if isinstance(place, Area) else 1 - filled


@function("SUBTOTAL")
def subtotal(machine, trees):
    kinds = {1: "AVERAGE", 2: "COUNT", 3: "COUNTA", 4: "MAX", 5: "MIN", 6: "PRODUCT", 7: "STDEV", 8: "STDEVP", 9: "SUM", 10: "VAR"}
    kind = int(num(machine, trees, 0)) % 100
    if kind not in kinds:
        raise Unknown("this kind of subtotal")
    return TABLE[kinds[kind]](machine, trees[1:])


@function("SUMPRODUCT")
def sumproduct(machine, trees):
    blocks = [flat(machine, tree) for tree in trees]
    if len({len(found) for found in blocks}) > 1:
        return VALUE
    total = 0
    for row in zip(*blocks):
        for cell in row:
            if isinstance(cell, Error):
                return cell
        total += math.prod(cell if isinstance(cell, (int, float)) and not isinstance(cell, bool) else 0 for cell in row)
    return total


@function("LARGE")
def large(machine, trees, descending=True):
    found = sorted(numbers(machine, trees[:1]), reverse=descending)
    rank = int(num(machine, trees, 1))
    return found[rank - 1] if 1 <= rank <= len(found) else NUM


@function("SMALL")
def small(machine, trees):
    return large(machine, trees, descending=False)


@function("RANK", "RANK.EQ")
def rank(machine, trees):
    value, found = num(machine, trees, 0), list(numbers(machine, trees[1:2]))
    if value not in found:
        return NA
    upward = num(machine, trees, 2, 0)
    return 1 + sum(1 for other in found if (other < value if upward else other > value))


@function("PERCENTILE", "PERCENTILE.INC")
def percentile(machine, trees, parts=1):
    found, share = sorted(numbers(machine, trees[:1])), num(machine, trees, 1) / parts
    if not found or not 0 <= share <= 1:
        return NUM
    at = share * (len(found) - 1)
    low = int(at)
    return found[low] + (found[min(low + 1, len(found) - 1)] - found[low]) * (at - low)


@function("QUARTILE", "QUARTILE.INC")
def quartile(machine, trees):
    return percentile(machine, trees, parts=4)


# Conditions on cells.


def criterion(wanted):
    """What COUNTIF and its kin mean by ">5", "a*", "<>"."""
    if isinstance(wanted, str):
        match = re.match(r"(<>|<=|>=|<|>|=)(.*)", wanted, re.S)
        sign, rest = match.groups() if match else ("=", wanted)
        try:
            rest = number(rest) if rest.strip() else rest
        except Mismatch:
            pass
    else:
        sign, rest = "=", 0 if wanted is None else wanted
    if isinstance(rest, str) and sign in ("=", "<>"):
        return lambda cell: bool(alike(rest, cell)) == (sign == "=")

    def holds(cell):
        if isinstance(cell, Error) or isinstance(cell, str) != isinstance(rest, str) or isinstance(cell, bool) != isinstance(rest, bool):
            return sign == "<>"
        return compare(sign, cell, rest) if cell is not None else sign == "<>"

    return holds


def alike(pattern, cell):
    if pattern == "":
        return cell in (None, "")
    if not isinstance(cell, str):
        return text_of(cell).casefold() == pattern.casefold() and cell is not None
    parts = re.findall(r"~[*?~]|[*?]|[^*?~]+|~", pattern)
    made = "".join({"*": ".*", "?": "."}.get(part, re.escape(part[-1] if part[0] == "~" else part)) for part in parts)
    return re.fullmatch(made, cell, re.I | re.S)


def kept(machine, trees):
    """Where all conditions hold: trees are range, criterion, range, criterion, …"""
    mask = None
    for index in range(0, len(trees) - 1, 2):
        cells, holds = flat(machine, trees[index]), criterion(one(machine, trees[index + 1]))
        here = [holds(cell) for cell in cells]
        if mask is None:
            mask = here
        else:
            length = max(len(mask), len(here))
            mask, here = (side + [False] * (length - len(side)) for side in (mask, here))
            mask = [first and second for first, second in zip(mask, here)]
    return mask or []


def chosen(machine, tree, mask):
    found = [cell for cell, keep in zip(flat(machine, tree), mask) if keep]
    for cell in found:
        if isinstance(cell, Error):
            raise Stop(cell)
    return [cell for cell in found if isinstance(cell, (int, float)) and not isinstance(cell, bool)]


@function("COUNTIF", "COUNTIFS")
def countif(machine, trees):
    return sum(kept(machine, trees))


@function("SUMIF")
def sumif(machine, trees):
    return sum(chosen(machine, trees[2] if len(trees) > 2 else trees[0], kept(machine, trees[:2])))


@function("AVERAGEIF")
def averageif(machine, trees):
    found = chosen(machine, trees[2] if len(trees) > 2 else trees[0], kept(machine, trees[:2]))
    return statistics.fmean(found) if found else DIV


@function("SUMIFS")
def sumifs(machine, trees):
    return sum(chosen(machine, trees[0], kept(machine, trees[1:])))


@function("AVERAGEIFS")
def averageifs(machine, trees):
    found = chosen(machine, trees[0], kept(machine, trees[1:]))
    return statistics.fmean(found) if found else DIV


@function("MAXIFS")
def maxifs(machine, trees):
    return max(chosen(machine, trees[0], kept(machine, trees[1:])), default=0)


@function("MINIFS")
def minifs(machine, trees):
    return min(chosen(machine, trees[0], kept(machine, trees[1:])), default=0)


# Logic.


def truth(value):
    if isinstance(value, str):
        if value.upper() in ("TRUE", "FALSE"):
            return value.upper() == "TRUE"
        raise Mismatch
    return bool(value)


@function("IF")
def if_(machine, trees):
    if truth(one(machine, trees[0])):
        return machine.compute(trees[1])
    return machine.compute(trees[2]) if len(trees) > 2 else False


@function("IFS")
def ifs(machine, trees):
    for index in range(0, len(trees) - 1, 2):
        if truth(one(machine, trees[index])):
            return machine.compute(trees[index + 1])
    return NA


@function("SWITCH")
def switch(machine, trees):
    value = one(machine, trees[0])
    for index in range(1, len(trees) - 1, 2):
        if compare("=", value, one(machine, trees[index])):
            return machine.compute(trees[index + 1])
    return machine.compute(trees[-1]) if len(trees) % 2 == 0 else NA


@function("CHOOSE")
def choose(machine, trees):
    index = int(num(machine, trees, 0))
    return machine.compute(trees[index]) if 1 <= index < len(trees) else VALUE


@function("IFERROR")
def iferror(machine, trees):
    value = machine.single(machine.compute(trees[0]))
    return machine.compute(trees[1]) if isinstance(value, Error) else value


@function("IFNA")
def ifna(machine, trees):
    value = machine.single(machine.compute(trees[0]))
    return machine.compute(trees[1]) if value == NA else value


def truths(machine, trees):
    for tree in trees:
        for cell in flat(machine, tree):
            if isinstance(cell, Error):
                raise Stop(cell)
            if cell is not None and not (isinstance(cell, str) and tree[0] == "area"):
                yield truth(cell)


function("AND")(lambda machine, trees: all(list(truths(machine, trees))))
function("OR")(lambda machine, trees: any(list(truths(machine, trees))))
function("XOR")(lambda machine, trees: sum(truths(machine, trees)) % 2 == 1)
function("NOT")(lambda machine, trees: not truth(one(machine, trees[0])))
function("TRUE")(lambda machine, trees: True)
function("FALSE")(lambda machine, trees: False)
function("NA")(lambda machine, trees: NA)


def asks(name, test):
    function(name)(lambda machine, trees: test(machine.single(machine.compute(trees[0]))))


asks("ISBLANK", lambda value: value is None)
asks("ISNUMBER", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool))
asks("ISTEXT", lambda value: isinstance(value, str))
asks("ISERROR", lambda value: isinstance(value, Error))
asks("ISERR", lambda value: isinstance(value, Error) and value != NA)
asks("ISNA", lambda value: value == NA)
asks("ISLOGICAL", lambda value: isinstance(value, bool))
asks("N", lambda value: value if isinstance(value, (int, float)) else 0)
asks("T", lambda value: value if isinstance(value, str) else "")

# Numbers.


def rounded(value, places, how):
    scale = 10.0 ** int(places)
    # A digit below what is shown, 2.675 is meant as it is written.
    exact = round(abs(value) * scale, 9)
    found = {"near": math.floor(exact + 0.5), "up": math.ceil(exact), "down": math.floor(exact)}[how] / scale
    return math.copysign(found, value) if found else 0


function("ROUND")(lambda m, t: rounded(num(m, t, 0), num(m, t, 1, 0), "near"))
function("ROUNDUP")(lambda m, t: rounded(num(m, t, 0), num(m, t, 1, 0), "up"))
function("ROUNDDOWN", "TRUNC")(lambda m, t: rounded(num(m, t, 0), num(m, t, 1, 0), "down"))
function("INT")(lambda m, t: math.floor(num(m, t, 0)))
function("ABS")(lambda m, t: abs(num(m, t, 0)))
function("SIGN")(lambda m, t: (num(m, t, 0) > 0) - (num(m, t, 0) < 0))
function("SQRT")(lambda m, t: math.sqrt(num(m, t, 0)))
function("EXP")(lambda m, t: math.exp(num(m, t, 0)))
function("LN")(lambda m, t: math.log(num(m, t, 0)))
function("LOG10")(lambda m, t: math.log10(num(m, t, 0)))
function("LOG")(lambda m, t: math.log(num(m, t, 0), num(m, t, 1, 10)))
function("POWER")(lambda m, t: num(m, t, 0) ** num(m, t, 1))
function("PI")(lambda m, t: math.pi)
function("MOD")(lambda m, t: num(m, t, 0) % num(m, t, 1))
function("QUOTIENT")(lambda m, t: int(num(m, t, 0) / num(m, t, 1)))
function("CEILING", "CEILING.MATH")(lambda m, t: math.ceil(round(num(m, t, 0) / num(m, t, 1, 1), 9)) * num(m, t, 1, 1))
function("FLOOR", "FLOOR.MATH")(lambda m, t: math.floor(round(num(m, t, 0) / num(m, t, 1, 1), 9)) * num(m, t, 1, 1))

# Looking up.


def found_at(value, cells, mode):
    """Where a value stands among cells, counted from 0: exactly (0), or the last that is not above it (1) or below it (-1)."""
    if mode == 0:
        test = (lambda cell: alike(value, cell)) if isinstance(value, str) and value else (lambda cell: cell is not None and compare("=", cell, value))
        return next((index for index, cell in enumerate(cells) if not isinstance(cell, Error) and test(cell)), None)
    best = None
    for index, cell in enumerate(cells):
        if cell is None or isinstance(cell, Error) or isinstance(cell, str) != isinstance(value, str):
            continue
        if compare("<=" if mode > 0 else ">=", cell, value):
            best = index
        else:
            break
    return best


@function("VLOOKUP")
def vlookup(machine, trees, turned=False):
    value, rows = one(machine, trees[0]), block(machine, trees[1])
    rows = [list(column) for column in zip(*rows)] if turned else rows
    column = int(num(machine, trees, 2))
    near = truth(one(machine, trees[3])) if len(trees) > 3 and trees[3] != ("value", None) else len(trees) <= 3
    index = found_at(value, [row[0] for row in rows], 1 if near else 0)
    if column < 1 or column > len(rows[0]):
        return REF
    return NA if index is None else rows[index][column - 1]


@function("HLOOKUP")
def hlookup(machine, trees):
    return vlookup(machine, trees, turned=True)


@function("MATCH")
def match(machine, trees):
    index = found_at(one(machine, trees[0]), flat(machine, trees[1]), int(num(machine, trees, 2, 1)))
    return NA if index is None else index + 1


@function("XLOOKUP")
def xlookup(machine, trees):
    if len(trees) > 4:
        raise Unknown("XLOOKUP with a mode")
    index = found_at(one(machine, trees[0]), flat(machine, trees[1]), 0)
    if index is None:
        return machine.compute(trees[3]) if len(trees) > 3 else NA
    rows = block(machine, trees[2])
    return pick_in(rows, index, 0) if len(rows) > 1 else pick_in(rows, 0, index)


@function("LOOKUP")
def lookup(machine, trees):
    cells = flat(machine, trees[1])
    index = found_at(one(machine, trees[0]), cells, 1)
    return NA if index is None else (flat(machine, trees[2]) if len(trees) > 2 else cells)[index]


@function("INDEX")
def index_(machine, trees):
    rows = block(machine, trees[0])
    row, column = int(num(machine, trees, 1)), int(num(machine, trees, 2, 0))
    if len(rows) == 1 and len(trees) == 2:
        row, column = 1, row
    if row < 0 or column < 0:
        return VALUE
    place = machine.compute(trees[0])
    if isinstance(place, Area) and (row > place.rows or column > place.columns):
        return REF
    if row == 0 or (column == 0 and len(rows[0]) > 1):
        raise Unknown("INDEX of a whole row or column")
    return pick_in(rows, row - 1, max(column - 1, 0))


def pick_in(rows, row, column):
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else None


def where(machine, trees):
    if not trees:
        return Area(machine.here[0], machine.here[1], machine.here[2], machine.here[1], machine.here[2])
    if trees[0][0] != "area":
        raise Unknown("the place of something computed")
    return trees[0][1]


function("ROW")(lambda m, t: where(m, t).top)
function("COLUMN")(lambda m, t: where(m, t).left)
function("ROWS")(lambda m, t: where(m, t).rows)
function("COLUMNS")(lambda m, t: where(m, t).columns)
