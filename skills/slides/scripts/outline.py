"""A Markdown outline as slides: each a title, columns of blocks, and notes."""

import json
import re

from cli import Fault, read_text
from markup import Node, rows_of, runs, tree_of_markdown, walk


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
    for kind, node, _ in walk(tree.children):
        if node.tag == "h1":
            slides.append(Slide("section" if slides else "title", words(node)))
        elif node.tag == "h2":
            slides.append(Slide("content", words(node)))
        else:
            put(current(slides), kind, node)
    if not slides:
        raise Fault("the outline has no slides; each begins with a line such as: ## Title of the slide")
    return slides


def current(slides):
    if not slides:
        raise Fault("the outline must begin with a heading: # for the title of all, ## for a slide")
    return slides[-1]


def put(slide, kind, node):
    text = words(node)
    if kind == "paragraph" and re.match(r"notes?:", text, re.I):
        slide.notes.append(re.sub(r"(?i)^notes?:\s*", "", node.text().strip()))
    elif kind == "column":
        slide.columns.append([])
    elif kind == "list":
        slide.add(("text", items(node, 0)))
    elif kind == "table":
        slide.add(("table", [[words(cell) for cell in row] for row in rows_of(node)[0]]))
    elif kind == "code":
        code = next(node.all("code"), node)
        if "language-chart" in code.attributes.get("class", ""):
            slide.add(("chart", chart(code.text())))
        else:
            slide.add(("code", code.text().rstrip("\n").expandtabs(4)))
    elif kind not in ("rule", "page"):
        if text:
            if slide.kind in ("title", "section") and not slide.subtitle:
                slide.subtitle = text
            else:
                look = "head" if node.tag == "h3" else "quote" if kind == "quote" else "plain"
                slide.add(("text", [(0, pieces(node.children), look)]))
        for picture in node.all("img"):
            slide.add(("picture", (picture.attributes.get("src", ""), picture.attributes.get("alt", ""))))


def items(node, level):
    """The items of a list: (level, pieces, how)."""
    found, number = [], 0
    for item in node.children:
        if not isinstance(item, Node) or item.tag != "li":
            continue
        number += 1
        inner = [child for child in item.children if isinstance(child, Node) and child.tag in ("ul", "ol")]
        own = [child for child in item.children if child not in inner]
        found.append((level, pieces(own), f"number {number}" if node.tag == "ol" else "bullet"))
        for child in inner:
            found.extend(items(child, min(level + 1, 4)))
    return found


def pieces(children):
    """The words of a line with their looks: [(text, "bi")]."""
    marks = {"bold": "b", "italic": "i", "code": "c"}
    found = [("\v" if text == "\n" else text, "".join(marks.get(look, "") for look in looks)) for text, looks, _ in runs(children)]
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
