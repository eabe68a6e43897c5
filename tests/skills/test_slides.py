"""The skill `slides`, on files of other programs, its own, damaged and hostile ones."""

import json
import unittest
import zipfile

import pptx
from PIL import Image
from pptx.util import Inches, Pt
from trial import Trial

OUTLINE = """---
title: The harbour 港口
subtitle: Figures
author: Ada
---
## What happened

- Ships came, **more than ever**
- Cargo rose
  - containers
- 港口收费按照船舶吨位计算

Notes: Say hello.

## Figures

| Quarter | Ships |
|---|---|
| First | 212 |
| 第二 | 305 |

## Chart

```chart
{"type": "column", "labels": ["Q1", "Q2"], "series": {"2023": [40, 50], "2024": [48, 61]}}
```

# Plans

What comes next

## Beside

- a picture at the right

![a square](square.png)

## Two

- left

<column>

1. right

```
code = 1
```
"""


def texts(slide):
    return [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]


class Slides(Trial):
    skill = "slides"

    def talk(self, outline=OUTLINE, *options):
        Image.new("RGB", (80, 80), (200, 30, 30)).save(self.path("outputs/square.png"))
        self.write("outputs/talk.md", outline)
        self.done("make.py", "outputs/talk.md", "--out", "outputs/talk.pptx", *options)
        return pptx.Presentation(self.path("outputs/talk.pptx"))

    def test_read(self):
        output = self.done("read.py", self.take("programs/office.pptx"))
        for part in ("## 1. Plan of the year", "- Grow", "Notes: Speak slowly.", "## 2. 预算"):
            self.assertIn(part, output)
        self.assertNotIn("Grow", self.done("read.py", "uploads/office.pptx", "--titles"))
        self.assertIn("## 2. 预算", self.done("read.py", self.take("deck.pptx"), "--slides", "2"))

    def test_make(self):
        deck = self.talk()
        slides = list(deck.slides)
        self.assertEqual([slide.shapes.title.text_frame.text for slide in slides],
                         ["The harbour 港口", "What happened", "Figures", "Chart", "Plans", "Beside", "Two"])  # fmt: skip
        self.assertEqual(texts(slides[0])[1], "Figures\nAda")
        levels = [(paragraph.text, paragraph.level) for paragraph in slides[1].placeholders[1].text_frame.paragraphs]
        self.assertEqual(levels, [("Ships came, more than ever", 0), ("Cargo rose", 0), ("containers", 1), ("港口收费按照船舶吨位计算", 0)])
        self.assertEqual(slides[1].notes_slide.notes_text_frame.text, "Say hello.")
        table = next(shape.table for shape in slides[2].shapes if shape.has_table)
        self.assertEqual([cell.text for cell in table.rows[2].cells], ["第二", "305"])
        chart = next(shape.chart for shape in slides[3].shapes if shape.has_chart)
        self.assertEqual(list(chart.plots[0].series[1].values), [48, 61])
        picture = next(shape for shape in slides[5].shapes if shape.shape_type == 13)
        self.assertEqual(picture._element._nvXxPr.cNvPr.get("descr"), "a square")
        self.assertGreater(picture.left, deck.slide_width // 2 - Inches(1))
        self.assertAlmostEqual(picture.width, picture.height, delta=2)
        self.done("check.py", "outputs/talk.pptx")
        read = self.done("read.py", "outputs/talk.pptx", "--pictures", "outputs/p")
        self.assertIn("| 2024 | 48.0 | 61.0 |", read)
        self.assertTrue(self.path("outputs/p/slide-6-picture-1.png").is_file())

    def test_what_does_not_fit_goes_on(self):
        long = "## Long\n\n" + "\n".join(f"- item {index} says something that takes about a line on a slide" for index in range(40))
        long += "\n\n## Table\n\n| a | b |\n|---|---|\n" + "\n".join(f"| {index} | row |" for index in range(60))
        deck = self.talk(long)
        titles = [slide.shapes.title.text_frame.text for slide in deck.slides]
        self.assertEqual(titles[:2], ["Long", "Long (2)"])
        items = [paragraph.text for slide in deck.slides for shape in slide.placeholders for paragraph in shape.text_frame.paragraphs if "item" in paragraph.text]
        self.assertEqual(len(items), 40)
        tables = [shape.table for slide in deck.slides for shape in slide.shapes if shape.has_table]
        self.assertGreater(len(tables), 1)
        self.assertEqual([table.cell(0, 0).text for table in tables], ["a"] * len(tables))
        self.assertEqual([table.cell(row, 0).text for table in tables for row in range(1, len(table.rows))], [str(index) for index in range(60)])
        self.assertEqual(self.call("check.py", "outputs/talk.pptx").code, 0)

    def test_make_with_a_template(self):
        self.take("programs/office.pptx")
        deck = self.talk(OUTLINE, "--template", "uploads/office.pptx")
        self.assertEqual(len(deck.slides), 7)
        self.assertEqual(deck.slide_width, pptx.Presentation(self.path("uploads/office.pptx")).slide_width)
        self.done("check.py", "outputs/talk.pptx")
        self.assertNotIn("Grow", self.done("read.py", "outputs/talk.pptx"))

    def test_edit(self):
        self.talk()
        shapes = self.done("read.py", "outputs/talk.pptx", "--slides", "2", "--shapes")
        number = int(shapes.split("[shape ")[2].split(" ")[0])
        Image.new("RGB", (160, 80), (0, 0, 200)).save(self.path("uploads/blue.png"))
        picture = next(shape for shape in pptx.Presentation(self.path("outputs/talk.pptx")).slides[5].shapes if shape.shape_type == 13)
        edits = [
            {"replace": {"old": "港口", "new": "海港"}},
            {"replace": {"old": "Ships", "new": "Boats", "slide": 3}},
            {"title": {"slide": 3, "text": "Numbers"}},
            {"text": {"slide": 2, "shape": number, "text": ["First", "  below", "Second"]}},
            {"notes": {"slide": 3, "text": "Slowly"}},
            {"cell": {"slide": 3, "row": 2, "column": 2, "text": "213"}},
            {"picture": {"slide": 6, "shape": picture.shape_id, "file": "uploads/blue.png", "words": "blue"}},
            {"add": {"markdown": "## New\n\n- a", "before": 3}},
            {"delete": [4]},
            {"move": {"slide": 7, "to": 2}},
        ]
        self.write("temp/e.json", json.dumps(edits))
        self.done("edit.py", "outputs/talk.pptx", "temp/e.json", "--out", "outputs/e.pptx")
        deck = pptx.Presentation(self.path("outputs/e.pptx"))
        self.assertEqual([slide.shapes.title.text_frame.text for slide in deck.slides],
                         ["The harbour 海港", "Two", "What happened", "New", "Numbers", "Plans", "Beside"])  # fmt: skip
        frame = deck.slides[2].placeholders[1].text_frame
        self.assertEqual([(paragraph.text, paragraph.level) for paragraph in frame.paragraphs], [("First", 0), ("below", 1), ("Second", 0)])
        table = next(shape.table for shape in deck.slides[4].shapes if shape.has_table)
        self.assertEqual([table.cell(0, 1).text, table.cell(1, 1).text], ["Boats", "213"])
        self.assertEqual(deck.slides[4].notes_slide.notes_text_frame.text, "Slowly")
        changed = next(shape for shape in deck.slides[6].shapes if shape.shape_type == 13)
        self.assertEqual(changed.image.size, (160, 80))
        self.assertAlmostEqual(changed.width / changed.height, 2, delta=0.01)
        for wrong, says in (({"replace": {"old": "zeppelin", "new": ""}}, "is not in the presentation"), ({"title": {"slide": 99, "text": ""}}, "no slide 99"),
                            ({"text": {"slide": 2, "shape": 999, "text": ""}}, "there are: "), ({"cell": {"slide": 2, "row": 1, "column": 1, "text": ""}}, "0 tables"),
                            ({"delete": [1, 2, 3, 4, 5, 6, 7]}, "one slide must stay"), ({"add": {"markdown": "no heading"}}, "must begin with a heading"),
                            ({"picture": {"slide": 2, "shape": number, "file": "uploads/blue.png"}}, "is no picture"), ({"move": {}}, "not of the right form")):  # fmt: skip
            self.refused("edit.py", "outputs/talk.pptx", json.dumps([wrong]), "--out", "outputs/x.pptx", says=says)
        self.assertFalse(self.path("outputs/x.pptx").exists())

    def test_replacing_keeps_looks(self):
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        paragraph = slide.shapes.title.text_frame.paragraphs[0]
        for text, bold in (("The har", True), ("bour and har", None), ("bour", True)):
            run = paragraph.add_run()
            run.text, run.font.bold = text, bold
        deck.save(self.path("uploads/a.pptx"))
        self.done("edit.py", "uploads/a.pptx", '[{"replace": {"old": "harbour", "new": "the harbour"}}]', "--out", "outputs/a.pptx")
        runs = pptx.Presentation(self.path("outputs/a.pptx")).slides[0].shapes.title.text_frame.paragraphs[0].runs
        self.assertEqual([(run.text, run.font.bold) for run in runs if run.text], [("The the harbour", True), (" and the harbour", None)])

    def test_check(self):
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = "Too much"
        slide.placeholders[1].text = "long words here and there " * 80
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        box = slide.shapes.add_textbox(Inches(9), Inches(1), Inches(3), Inches(1))
        box.text_frame.text = "Lorem ipsum"
        box.text_frame.paragraphs[0].runs[0].font.size = Pt(7)
        box.text_frame.word_wrap = True
        deck.save(self.path("uploads/bad.pptx"))
        ran = self.call("check.py", "uploads/bad.pptx", "--json")
        self.assertEqual(ran.code, 1, ran)
        output = [f"{finding['slide']} {finding['text']}" for finding in json.loads(ran.out)]
        for slide, part in ((1, "the text needs about"), (1, "words; part it"), (2, "has no title"), (2, "is an empty place"), (2, "reaches beyond the slide: right"),
                            (2, "looks left over"), (2, "hard to read")):  # fmt: skip
            self.assertTrue(any(line.startswith(f"{slide} ") and part in line for line in output), (part, output))
        self.assertEqual(self.call("check.py", self.take("programs/office.pptx")).code, 0)

    def test_preview(self):
        self.talk()
        self.done("preview.py", "outputs/talk.pptx", "--slides", "5-6")
        with Image.open(self.path("outputs/slides/talk-5.png")) as image:
            self.assertEqual(image.size, (960, 540))
            self.assertEqual(image.getpixel((900, 30)), (0x1F, 0x4E, 0x79), "the ground of a section")
        with Image.open(self.path("outputs/slides/talk-6.png")) as image:
            self.assertIn((200, 30, 30), [colour for _, colour in image.getcolors(100_000)])
        self.done("preview.py", self.take("programs/office.pptx"), "--sheet")

    def test_bad_input(self):
        self.refused("read.py", self.write("uploads/empty.pptx", ""), says="is empty")
        self.refused("read.py", self.write("uploads/text.pptx", "hello"), says="damaged or not what its name says")
        self.refused("read.py", self.write("uploads/old.pptx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), says="locked with a password")
        self.refused("read.py", self.bomb("uploads/bomb.pptx", "ppt/slides/slide1.xml"), says="is refused")
        source = self.path(self.take("programs/office.pptx"))
        self.refused("check.py", self.write("uploads/cut.pptx", source.read_bytes()[:9000]), says="damaged")
        for name, change in (("laughs", lambda text: text.replace("?>", '?><!DOCTYPE x [<!ENTITY a "aa">]>', 1)), ("broken", lambda text: text[:500]), ("other", lambda text: "<other/>")):
            with zipfile.ZipFile(source) as old, zipfile.ZipFile(self.path(f"uploads/{name}.pptx"), "w", zipfile.ZIP_DEFLATED) as new:
                for part in old.namelist():
                    data = old.read(part)
                    new.writestr(part, change(data.decode()).encode() if part == "ppt/slides/slide1.xml" else data)
            for script in ("read.py", "check.py", "preview.py"):
                ran = self.call(script, f"uploads/{name}.pptx")
                self.assertIn(ran.code, (2, 3), f"{name} {script} {ran}")
        for outline, says in (("- no heading", "must begin with a heading"), ("## A\n\n![x](gone.png)", "does not exist"), ("", "is empty"),
                              ("## A\n\n```chart\n{}\n```", "a chart is not of the right form"), ("## A\n\n1\n\n<column>\n\n2\n\n<column>\n\n3", "at most 2 fit"),
                              ('## A\n\n```chart\n{"type": "cake", "labels": ["a"], "series": {"b": [1]}}\n```', "a chart is one of")):  # fmt: skip
            self.refused("make.py", self.write("temp/o.md", outline), "--out", "outputs/a.pptx", says=says)
        self.refused("make.py", self.write("temp/o.md", "## A"), "--colour", "red", "--out", "outputs/a.pptx", says="is no colour")


if __name__ == "__main__":
    unittest.main()
