"""Markdown, HTML and plain text as one tree of nodes, for the scripts that make documents of it."""

import html
import re
from html.parser import HTMLParser

from cli import Fault, read_text

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


class Node:
    """A tag with attributes and children, which are nodes and texts."""

    __slots__ = ("tag", "attributes", "children")

    def __init__(self, tag, attributes=()):
        self.tag = tag
        self.attributes = {name: value or "" for name, value in attributes}
        self.children = []

    def text(self):
        return "".join(child if isinstance(child, str) else "\n" if child.tag == "br" else child.text() for child in self.children)

    def all(self, *tags):
        """The nodes with these tags, at any depth, in order."""
        for child in self.children:
            if isinstance(child, Node):
                if child.tag in tags:
                    yield child
                yield from child.all(*tags)


def tree_of(path):
    """The tree of a file, and what its front matter says of it (title, author, …)."""
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
