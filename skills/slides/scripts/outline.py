"""A Markdown outline as slides: each a title, columns of blocks, and notes."""

import json
import re

from cli import Fault, read_text
from markup import Node, tree_of_markdown


class Slide:
    def __init__(self, kind, title):
        self.kind, self.title, self.subtitle, self.columns, self.notes = kind, title, "", [[]], []

    def add(self, block):
        self.columns[-1].append(block)

    @property
    def blocks(self):
        return [block for column in self.columns for block in column]


def slides_of(path):
    """The slides of an outline, and what its front matter says."""
    tree, about = tree_of_markdown(read_text(path))
    return slides_of_tree(tree, about), about


def slides_of_tree(tree, about=None):
    slides = []
    if about and about.get("title"):
        slides.append(Slide("title", about["title"]))
        slides[0].subtitle = "\n".join(about[key] for key in ("subtitle", "author", "date") if about.get(key))
    for node in top(tree):
        if isinstance(node, str):
            if node.strip():
                current(slides).add(("text", [(0, [(node.strip(), "")], False)]))
            continue
        if node.tag == "h1":
            slides.append(Slide("section" if slides else "title", words(node)))
        elif node.tag == "h2":
            slides.append(Slide("content", words(node)))
        else:
            put(current(slides), node)
    if not slides:
        raise Fault("the outline has no slides; each begins with a line such as: ## Title of the slide")
    return slides


def top(tree):
    """The blocks of the outline; what a tag for columns holds comes after it."""
    for child in tree.children:
        if isinstance(child, Node) and child.tag == "column":
            yield child
            yield from top(child)
        elif isinstance(child, Node) and child.tag in ("div", "section", "article", "main"):
            yield from top(child)
        else:
            yield child


def current(slides):
    if not slides:
        raise Fault("the outline must begin with a heading: # for the title of all, ## for a slide")
    return slides[-1]


def put(slide, node):
    text = words(node)
    if node.tag == "p" and re.match(r"notes?:", text, re.I):
        slide.notes.append(re.sub(r"(?i)^notes?:\s*", "", node.text().strip()))
    elif node.tag == "column":
        slide.columns.append([])
    elif node.tag in ("ul", "ol"):
        slide.add(("text", items(node, 0)))
    elif node.tag == "table":
        rows = [[words(cell) for cell in row.children if isinstance(cell, Node) and cell.tag in ("td", "th")] for row in node.all("tr")]
        slide.add(("table", [row for row in rows if row]))
    elif node.tag == "pre":
        code = next(node.all("code"), node)
        if "language-chart" in code.attributes.get("class", ""):
            slide.add(("chart", chart(code.text())))
        else:
            slide.add(("code", code.text().rstrip("\n").expandtabs(4)))
    elif node.tag == "hr":
        pass
    else:
        pictures = list(node.all("img"))
        if text:
            if slide.kind in ("title", "section") and not slide.subtitle:
                slide.subtitle = text
            else:
                level = {"h3": "head"}.get(node.tag, "quote" if node.tag == "blockquote" else "plain")
                slide.add(("text", [(0, pieces(node), level)]))
        for picture in pictures:
            slide.add(("picture", (picture.attributes.get("src", ""), picture.attributes.get("alt", ""))))


def items(node, level):
    """The items of a list: (level, pieces, how)."""
    found, number = [], 0
    for item in node.children:
        if not isinstance(item, Node) or item.tag != "li":
            continue
        number += 1
        inner = [child for child in item.children if isinstance(child, Node) and child.tag in ("ul", "ol")]
        own = Node("li")
        own.children = [child for child in item.children if child not in inner]
        found.append((level, pieces(own), f"number {number}" if node.tag == "ol" else "bullet"))
        for child in inner:
            found.extend(items(child, min(level + 1, 4)))
    return found


def pieces(node, look=""):
    """The words of a node with their looks: [(text, "bi")]."""
    found = []
    for child in node.children:
        if isinstance(child, str):
            text = re.sub(r"\s+", " ", child)
            if text:
                found.append((text, look))
        elif child.tag == "br":
            found.append(("\v", look))
        elif child.tag != "img":
            more = {"strong": "b", "b": "b", "em": "i", "i": "i", "code": "c"}.get(child.tag, "")
            found.extend(pieces(child, look + more))
    while found and not found[-1][0].strip():
        found.pop()
    while found and not found[0][0].strip():
        found.pop(0)
    if found:
        found[0] = (found[0][0].lstrip(), found[0][1])
        found[-1] = (found[-1][0].rstrip(), found[-1][1])
    return [piece for piece in found if piece[0]]


def words(node):
    return " ".join(node.text().split())


def chart(text):
    try:
        told = json.loads(text)
        labels, series = told["labels"], told["series"]
        if not labels or not isinstance(series, dict) or not series:
            raise ValueError("labels or series are empty")
        for name, values in series.items():
            if len(values) != len(labels) or not all(isinstance(value, (int, float)) or value is None for value in values):
                raise ValueError(f"{name} needs a number for each of the {len(labels)} labels")
    except (ValueError, KeyError, TypeError) as error:
        raise Fault(f'a chart is not of the right form: {error}; write {{"type": "column", "labels": ["a", "b"], "series": {{"Ships": [1, 2]}}}}') from error
    return told
