"""Markdown, HTML and plain text as one tree of nodes, and one walk over it for the scripts that make documents of it."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path

from cli import Fault, note, read_text

VOID = {"br", "hr", "img", "col", "input", "meta", "link", "wbr"}
SKIPPED = {"script", "style", "head", "template", "svg", "iframe", "object", "noscript"}
# What a new one of these closes, where the writer did not.
CLOSES = {
    "li": {"li"}, "tr": {"tr", "td", "th"}, "td": {"td", "th"}, "th": {"td", "th"},
    "p": {"p"}, "h1": {"p"}, "h2": {"p"}, "h3": {"p"}, "h4": {"p"}, "ul": {"p"}, "ol": {"p"}, "table": {"p"}, "pre": {"p"},
}  # fmt: skip
# What an open one of these keeps from being closed.
FENCES = {"li": {"ul", "ol"}, "tr": {"table"}, "td": {"table"}, "th": {"table"}}
MAX_DEPTH = 80
MAX_PICTURE = 80_000_000
# Kinds of blocks. The content of containers and marks is part of what is around them.
KINDS = {
    **{f"h{level}": "heading" for level in range(1, 7)}, "p": "paragraph", "ul": "list", "ol": "list", "table": "table", "pre": "code",
    "blockquote": "quote", "hr": "rule", "figcaption": "caption", "dt": "term", "dd": "detail",
}  # fmt: skip
MARKS = {"pagebreak": "page", "column": "column"}
CONTAINERS = {"div", "section", "article", "main", "header", "footer", "figure", "dl", "center", "nav", "aside", "details", "summary"}
BLOCKS = {*KINDS, *MARKS, *CONTAINERS}
LOOKS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "cite": "italic", "s": "strike", "del": "strike", "u": "underline",
    "ins": "underline", "code": "code", "kbd": "code", "samp": "code", "tt": "code", "sub": "sub", "sup": "sup",
}  # fmt: skip


class Node:
    """A tag with attributes and children, which are nodes and texts."""

    __slots__ = ("tag", "attributes", "children")

    def __init__(self, tag, attributes=(), children=()):
        self.tag = tag
        self.attributes = {name: value or "" for name, value in attributes}
        self.children = list(children)

    def text(self):
        return text_of(self.children)

    def all(self, *tags):
        """The nodes with these tags, at any depth, in order."""
        for child in self.children:
            if isinstance(child, Node):
                if child.tag in tags:
                    yield child
                yield from child.all(*tags)


def tree_of(path):
    """The tree of a file that is not empty, and what its front matter says of it (title, author, …)."""
    tree, about = read_tree(path)
    if not tree.text().strip() and not any(tree.all("img")):
        raise Fault(f"{path} has no text")
    return tree, about


def read_tree(path):
    text = read_text(path)
    kind = str(path).lower().rsplit(".", 1)[-1]
    if kind in ("html", "htm"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.S | re.I)
        return parsed(text), {"title": html.unescape(title.group(1)).strip()} if title else {}
    if kind in ("md", "markdown"):
        return tree_of_markdown(text)
    if kind in ("txt", "text"):
        parts = re.split(r"\n\s*\n", text.strip())
        return parsed("".join(f"<p>{html.escape(part)}</p>".replace("\n", "<br>") for part in parts)), {}
    raise Fault(f"{path} must end with .md, .html or .txt")


def tree_of_markdown(text):
    from markdown_it import MarkdownIt

    text, about = front_matter(text.replace("\r\n", "\n"))
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return parsed(reader.render(text)), about


def front_matter(text):
    """The text without its first block between lines of ---, and that block's simple lines."""
    match = re.match(r"---[ \t]*\n(.*?)\n---[ \t]*(\n|$)", text, re.S)
    if not match:
        return text, {}
    about = {}
    for line in match.group(1).split("\n"):
        name, colon, value = line.partition(":")
        if colon and name.strip() and not line.startswith((" ", "#", "-")):
            about[name.strip().lower()] = value.strip().strip("\"'")
    return text[match.end() :], about


def parsed(text):
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Node("body")
        self.open = [self.root]
        self.skipping = 0

    def handle_starttag(self, tag, attributes):
        if tag in SKIPPED:
            self.skipping += 1
        if self.skipping or tag in ("html", "body"):
            return
        for open_tag in CLOSES.get(tag, ()):
            self._close(open_tag, FENCES.get(tag, ()))
        node = Node(tag, attributes)
        self.open[-1].children.append(node)
        if tag not in VOID and len(self.open) < MAX_DEPTH:
            self.open.append(node)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag in SKIPPED:
            self.skipping = max(0, self.skipping - 1)
        elif not self.skipping:
            self._close(tag)

    def _close(self, tag, fences=()):
        for index in range(len(self.open) - 1, 0, -1):
            if self.open[index].tag == tag:
                del self.open[index:]
                return
            if self.open[index].tag in fences:
                return

    def handle_data(self, text):
        if not self.skipping:
            self.open[-1].children.append(text)


# The walk.


def walk(children, aligned=""):
    """Yields the blocks in order: (kind, node, "center" | "right" | ""). Text between blocks becomes paragraphs."""
    loose = []
    for child in [*children, None]:
        if isinstance(child, str) or child is not None and child.tag not in BLOCKS:
            loose.append(child)
            continue
        if any(not isinstance(part, str) or part.strip() for part in loose):
            yield "paragraph", Node("p", children=loose), aligned
        if child is None:
            return
        loose = []
        here = alignment(child) or aligned
        if child.tag in KINDS:
            yield KINDS[child.tag], child, here
            continue
        if child.tag in MARKS:
            yield MARKS[child.tag], child, here
        yield from walk(child.children, here)


def runs(children, looks=frozenset(), link=None):
    """Yields the text of a line: (text, looks, node of the link or None). A break is a line feed; a box to tick has the look "box"."""
    for child in children:
        if isinstance(child, str):
            text = re.sub(r"\s+", " ", child)
            if text:
                yield text, looks, link
        elif child.tag == "br":
            yield "\n", looks, link
        elif child.tag == "input":
            yield "\u2611 " if "checked" in child.attributes else "\u2610 ", looks | {"box"}, link
        elif child.tag != "img":
            leads = child.tag == "a" and re.match(r"(https?|mailto):", child.attributes.get("href", ""), re.I)
            more = looks | {LOOKS[child.tag]} if child.tag in LOOKS else looks
            yield from runs(child.children, more, child if leads else link)


def text_of(children):
    return "".join(child if isinstance(child, str) else "\n" if child.tag == "br" else child.text() for child in children)


def alignment(node):
    said = node.attributes.get("align", "") + node.attributes.get("style", "").replace(" ", "")
    return next((word for word in ("center", "right") if said == word or f"text-align:{word}" in said), "")


def span(cell):
    said = cell.attributes.get("colspan", "1")
    return max(1, min(60, int(said))) if said.isdigit() else 1


def rows_of(table, most=None):
    """The rows of a table as lists of cells, and the number of its columns."""
    rows = [[cell for cell in row.children if isinstance(cell, Node) and cell.tag in ("td", "th")] for row in table.all("tr")]
    rows = [row for row in rows if row]
    columns = max((sum(map(span, row)) for row in rows), default=0)
    if most and columns > most:
        raise Fault(f"a table has {columns} columns; at most {most} fit")
    return rows, columns


def picture_file(source, folder, otherwise):
    """Path of a picture and its size in dots; None if it is not in a file."""
    from PIL import Image

    if re.match(r"[a-z][a-z0-9+.-]+:", source, re.I):
        note(f"the picture {source[:80]} is not in a file; {otherwise}")
        return None
    path = next((path for path in (Path(folder, source), Path(source)) if path.is_file()), None)
    if path is None:
        raise Fault(f"the picture {source} does not exist; paths count from the folder of the text")
    try:
        with Image.open(path) as image:
            width, height = image.size
            if width * height > MAX_PICTURE:
                raise Fault(f"the picture {source} has {width}x{height} dots; make it smaller")
            image.verify()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Fault(f"the picture {source} cannot be read: {error}") from error
    return path, width, height


def legal(text):
    """Text without what XML cannot hold."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "", str(text))
