"""How much room a text takes, estimated without the font: good enough to see what does not fit."""

import re

# Widths of letters as parts of the size of the font, for a usual sans-serif.
NARROW = set("iljtfrI.,;:'|!()[]{}/\\ -`")
BROAD = set("mwMW@%—…")
LINE = 1.2


def letter(sign):
    code = ord(sign)
    if code >= 0x2E80:
        return 1.0
    if sign in NARROW:
        return 0.3
    if sign in BROAD:
        return 0.85
    if sign.isupper() or sign.isdigit():
        return 0.6 if sign.isupper() else 0.52
    return 0.51


def width(text, size):
    """In points, on one line."""
    return sum(map(letter, text)) * size


def lines(text, size, room):
    """How many lines a text takes in so many points of width."""
    count = 0
    for part in re.split(r"[\n\v]", text):
        count += 1
        used = 0.0
        # Chinese breaks anywhere, other texts at spaces.
        for piece in re.findall(r"[\u2e80-\uffff]|[^\s\u2e80-\uffff]+\s*|\s+", part):
            bare = width(piece.rstrip(), size)
            if used and used + bare > room:
                count += 1
                used = 0.0
            while bare > room > 0 and count < 2000:
                count += 1
                bare -= room
            used += width(piece, size)
    return count


def height(paragraphs, room):
    """The height in points of paragraphs: (text, size, indent, space before)."""
    total = 0.0
    for text, size, indent, before in paragraphs:
        total += lines(text, size, max(room - indent, size)) * size * LINE + before
    return total
