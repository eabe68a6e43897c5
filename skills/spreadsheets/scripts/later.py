"""Functions that came later than the format of the files: files name them with a mark before them."""

import re

FUTURE = (
    "AGGREGATE BYCOL BYROW CEILING.MATH CHOOSECOLS CHOOSEROWS CONCAT COVARIANCE.P COVARIANCE.S DAYS DROP EXPAND FILTER FLOOR.MATH "
    "FORECAST.LINEAR FORMULATEXT HSTACK IFNA IFS ISFORMULA LAMBDA LET MAKEARRAY MAP MAXIFS MINIFS MODE.MULT MODE.SNGL NUMBERVALUE "
    "PERCENTILE.EXC PERCENTILE.INC PERCENTRANK.INC QUARTILE.EXC QUARTILE.INC RANDARRAY RANK.AVG RANK.EQ REDUCE SCAN SEQUENCE SHEET SHEETS "
    "SORT SORTBY STDEV.P STDEV.S SWITCH TAKE TEXTAFTER TEXTBEFORE TEXTJOIN TEXTSPLIT TOCOL TOROW UNICHAR UNICODE UNIQUE VAR.P VAR.S VSTACK "
    "WRAPCOLS WRAPROWS XLOOKUP XMATCH XOR"
).split()
LATER = re.compile(r"(?<![\w.])(" + "|".join(re.escape(name) for name in sorted(FUTURE, key=len, reverse=True)) + r")\(", re.I)


def modern(formula):
    """The formula as files must have it."""
    parts = re.split(r'("[^"]*")', formula)
    return "".join(part if part.startswith('"') else LATER.sub(lambda match: f"_xlfn.{match.group(0).upper()}", part) for part in parts)
