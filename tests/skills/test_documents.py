"""The skill `documents`, on files of other programs, its own, locked, damaged and hostile ones."""

import json
import re
import unittest
import zipfile

import docx
from docx.shared import Pt
from PIL import Image
from trial import Trial

MARKDOWN = """---
title: Harbour report
author: Ada
---
## Ships

Text with **bold** words, `code` and a [link](https://example.org).

1. One
2. Two
   - nested

Between.

1. Again one

| Month | Ships |
|---|---:|
| January | 12 |
| 三月 | 15 |

> A quote

![a square](square.png)

### 第二章 收费

港口收费按照船舶吨位计算。
"""


class Documents(Trial):
    skill = "documents"

    def texts(self, name):
        return [paragraph.text for paragraph in docx.Document(self.path(name)).paragraphs]

    def made(self, *paragraphs, name="uploads/own.docx"):
        """A document whose paragraphs are lists of (text, bold)."""
        document = docx.Document()
        for pieces in paragraphs:
            paragraph = document.add_paragraph()
            for text, bold in pieces:
                run = paragraph.add_run(text)
                run.bold, run.font.size = bold, Pt(13)
        document.save(self.path(name))
        return name

    def edited(self, name, *edits, options=()):
        self.done("edit.py", name, json.dumps(edits), "--out", "outputs/edited.docx", *options)
        return docx.Document(self.path("outputs/edited.docx"))

    def test_read(self):
        text = self.done("read.py", self.take("programs/office.docx"))
        for part in ("# Report of the harbour", "- The north quay stays closed.", "| First | 212 | 48,100 |", "## 第三章 港口收费", "北码头在疏浚期间"):
            self.assertIn(part, text)
        self.assertNotIn("Dredging", self.done("read.py", "uploads/office.docx", "--outline"))
        self.assertIn("[1 Title] # Rules", self.done("read.py", self.take("handbook.docx"), "--numbers").replace("Heading 1", "Title"))

    def test_make(self):
        Image.new("RGB", (80, 40), (200, 30, 30)).save(self.path("outputs/square.png"))
        self.write("outputs/report.md", MARKDOWN)
        self.done("make.py", "outputs/report.md", "--toc", "--out", "outputs/report.docx")
        document = docx.Document(self.path("outputs/report.docx"))
        styles = {paragraph.text: paragraph.style.name for paragraph in document.paragraphs}
        self.assertEqual([styles["Harbour report"], styles["A quote"], styles["a square"]], ["Title", "Quote", "Caption"])
        self.assertEqual(styles["第二章 收费"], "Heading 3")
        self.assertEqual((document.core_properties.title, document.core_properties.author), ("Harbour report", "Ada"))
        self.assertEqual([[cell.text for cell in row.cells] for row in document.tables[0].rows][2], ["三月", "15"])
        self.assertEqual(len(document.inline_shapes), 1)
        bold = [run.text for paragraph in document.paragraphs for run in paragraph.runs if run.bold]
        self.assertEqual(bold, ["bold"])
        read = self.done("read.py", "outputs/report.docx")
        self.assertIn("[link](https://example.org)", read)
        self.assertIn("  - nested", read)
        numbers = {paragraph.text: paragraph._p.pPr.numPr.numId.val for paragraph in document.paragraphs if paragraph._p.pPr is not None and paragraph._p.pPr.numPr is not None}
        self.assertEqual(numbers["One"], numbers["Two"])
        self.assertNotEqual(numbers["One"], numbers["Again one"], "each list counts for itself")
        self.done("read.py", "outputs/report.docx", "--pictures", "outputs/pictures")
        with Image.open(self.path("outputs/pictures/picture-1.png")) as image:
            self.assertEqual(image.size, (80, 40))

    def test_make_with_a_template(self):
        template = docx.Document()
        template.styles["Heading 1"].font.size = Pt(33)
        template.sections[0].header.paragraphs[0].text = "Company"
        template.add_paragraph("old words")
        template.save(self.path("uploads/company.docx"))
        self.write("outputs/a.md", "# Head\n\nText\x0b\n\n1. one\n")
        self.done("make.py", "outputs/a.md", "--template", "uploads/company.docx", "--out", "outputs/a.docx")
        document = docx.Document(self.path("outputs/a.docx"))
        self.assertEqual([paragraph.text for paragraph in document.paragraphs], ["Head", "Text", "one"])
        self.assertEqual(document.styles["Heading 1"].font.size, Pt(33))
        self.assertEqual(document.sections[0].header.paragraphs[0].text, "Company")

    def test_replacing_keeps_looks(self):
        name = self.made([("The har", True), ("bour is ", False), ("closed", True)], [("harbour harbour", None)])
        document = self.edited(name, {"replace": {"old": "harbour", "new": "port & <quay>"}})
        first, second = document.paragraphs
        self.assertEqual([(run.text, run.bold) for run in first.runs], [("The ", True), ("port & <quay>", True), (" is ", False), ("closed", True)])
        self.assertEqual(second.text, "port & <quay> port & <quay>")
        self.assertEqual(first.runs[1].font.size, Pt(13))

    def test_edit(self):
        name = self.take("programs/office.docx")
        read = self.done("read.py", name, "--numbers")
        dredging = int(re.search(r"\[(\d+) [^\]]*\] - Dredging", read).group(1))
        document = self.edited(
            name,
            {"text": {"block": 1, "text": "New title"}},
            {"insert": {"after": 3, "markdown": "## Added\n\nSome **bold** text\n\n- item"}},
            {"delete": {"first": dredging}},
            {"cell": {"table": 1, "row": 2, "column": 2, "text": "999"}},
            {"add_rows": {"table": 1, "rows": [["Fourth", "1", "2"]]}},
            {"delete_rows": {"table": 1, "rows": [3]}},
            {"properties": {"title": "T"}},
        )
        texts = [paragraph.text for paragraph in document.paragraphs]
        self.assertEqual(texts[0], "New title")
        self.assertEqual(document.paragraphs[0].style.name, docx.Document(self.path(name)).paragraphs[0].style.name)
        self.assertEqual(texts[3:6], ["Added", "Some bold text", "item"])
        self.assertEqual(document.paragraphs[3].style.name, "Heading 2")
        self.assertNotIn("Dredging begins in spring.", texts)
        self.assertEqual([[cell.text for cell in row.cells] for row in document.tables[0].rows],
                         [["Quarter", "Ships", "Tonnes"], ["First", "999", "48,100"], ["Third", "287", "59,020"], ["Fourth", "1", "2"]])  # fmt: skip
        for wrong, says in (({"replace": {"old": "zeppelin", "new": ""}}, "is not in the document"), ({"replace": {"old": "HARBOUR", "new": ""}}, '"case": false'),
                            ({"text": {"block": 99, "text": ""}}, "there are 1 to"), ({"cell": {"table": 2, "row": 1, "column": 1, "text": ""}}, "there are 1"),
                            ({"fill": {"{{x}}": "y"}}, "not in the document: {{x}}"), ({"style": {"block": 1, "style": "Nope"}}, "there are: "),
                            ({"insert": {"after": 1}}, "not of the right form"), ({"delete": {}}, "not of the right form"), ({"nope": {}}, "one of these keys")):  # fmt: skip
            self.refused("edit.py", name, json.dumps([wrong]), "--out", "outputs/x.docx", says=says)
        self.assertFalse(self.path("outputs/x.docx").exists())

    def test_tracked_changes(self):
        name = self.take("programs/office.docx")
        self.edited(name, {"replace": {"old": "harbour", "new": "port"}}, options=("--track", "Ada"))
        self.assertIn("Report of the {-harbour-}{+port+}", self.done("read.py", "outputs/edited.docx"))
        for how, expected in (("accept_changes", "Report of the port"), ("reject_changes", "Report of the harbour")):
            self.done("edit.py", "outputs/edited.docx", json.dumps([{how: {}}]), "--out", f"outputs/{how}.docx")
            self.assertEqual(self.texts(f"outputs/{how}.docx")[0], expected)
        self.assertEqual(self.call("compare.py", name, "outputs/reject_changes.docx").code, 0)
        self.refused("edit.py", name, '[{"delete": {"first": 1}}]', "--track", "Ada", "--out", "outputs/x.docx", says="only replace and fill")

    def test_comments(self):
        name = self.take("programs/office.docx")
        self.assertIn("0 comments", self.done("comments.py", "list", name))
        wanted = [{"at": "efficient office", "comment": "Which <one>?"}, {"block": 1, "comment": "说明"}]
        self.done("comments.py", "add", name, json.dumps(wanted), "--author", "Ada Byron", "--out", "outputs/c.docx")
        comments = {comment.text: comment for comment in docx.Document(self.path("outputs/c.docx")).comments}
        self.assertEqual((comments["说明"].author, comments["说明"].initials), ("Ada Byron", "AB"))
        listed = {one["comment"]: one for one in json.loads(self.done("comments.py", "list", "outputs/c.docx", "--json"))}
        self.assertEqual(listed["Which <one>?"]["about"], "efficient office")
        self.assertEqual(self.texts("outputs/c.docx"), self.texts(name))
        self.assertIn("by Ada Byron: 说明]", self.done("read.py", "outputs/c.docx"))
        self.done("comments.py", "drop", "outputs/c.docx", listed["说明"]["number"], "--out", "outputs/d.docx")
        self.assertIn("1 comments", self.done("comments.py", "list", "outputs/d.docx"))
        self.done("comments.py", "drop", "outputs/c.docx", "all", "--out", "outputs/e.docx")
        self.assertNotIn("commentReference", zipfile.ZipFile(self.path("outputs/e.docx")).read("word/document.xml").decode())
        self.refused("comments.py", "add", name, '[{"at": "zeppelin", "comment": "x"}]', "--author", "A", "--out", "outputs/x.docx", says="is not in the document")
        self.refused("comments.py", "drop", name, "7", "--out", "outputs/x.docx", says="no comment 7")

    def test_compare(self):
        old = self.made([("The fee is 5 euro.", None)], [("Second.", None)], [("停泊费上调。", None)], name="uploads/old.docx")
        new = self.made([("Before all.", None)], [("The fee is 7 euro.", None)], [("停泊费下调。", None)], [("Last.", None)], name="uploads/new.docx")
        ran = self.call("compare.py", old, new, "--redline", "outputs/red.docx")
        self.assertEqual(ran.code, 1, ran)
        for part in ("added: Before all.", "changed: The fee is [-5-]{+7+} euro.", "removed: Second.", "停泊费[-上-]{+下+}调。", "added: Last."):
            self.assertIn(part, ran.out)
        for how, like in (("accept_changes", new), ("reject_changes", old)):
            self.done("edit.py", "outputs/red.docx", json.dumps([{how: {}}]), "--out", f"outputs/{how}.docx")
            self.assertEqual(self.texts(f"outputs/{how}.docx"), self.texts(like), how)

    def test_bad_input(self):
        self.refused("read.py", self.write("uploads/empty.docx", ""), says="is empty")
        self.refused("read.py", self.write("uploads/text.docx", "hello"), says="damaged or not what its name says")
        self.refused("read.py", self.write("uploads/old.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), says="locked with a password")
        self.refused("read.py", self.bomb("uploads/bomb.docx", "word/document.xml"), says="is refused")
        source = self.path(self.take("programs/office.docx"))
        self.refused("read.py", self.write("uploads/cut.docx", source.read_bytes()[:3000]), says="damaged")
        for name, change in (("laughs", lambda text: text.replace("?>", '?><!DOCTYPE x [<!ENTITY a "aa">]>', 1)), ("broken", lambda text: text[:500]),
                             ("other", lambda text: "<other/>"), ("deep", lambda text: "<a>" * 50_000)):  # fmt: skip
            with zipfile.ZipFile(source) as old, zipfile.ZipFile(self.path(f"uploads/{name}.docx"), "w", zipfile.ZIP_DEFLATED) as new:
                for part in old.namelist():
                    data = old.read(part)
                    new.writestr(part, change(data.decode()).encode() if part == "word/document.xml" else data)
            ran = self.call("read.py", f"uploads/{name}.docx")
            self.assertEqual(ran.code, 2, ran)
        # Names in the file lead nowhere: pictures are written under names of our own.
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(self.path("uploads/escape.docx"), "w") as new:
            for part in old.namelist():
                new.writestr(part, old.read(part))
            new.writestr("../../../evil.txt", "x")
        self.done("read.py", "uploads/escape.docx", "--pictures", "outputs/p")
        self.assertFalse(list(self.folder.glob("**/evil.txt")))
        self.write("temp/gone.md", "![x](gone.png)")
        self.refused("make.py", "temp/gone.md", "--out", "outputs/a.docx", says="does not exist")
        self.refused("make.py", self.write("temp/none.md", " \n"), "--out", "outputs/a.docx", says="has no text")


if __name__ == "__main__":
    unittest.main()
