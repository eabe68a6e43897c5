"""The skill `pdf`, on files of other programs, its own, locked, damaged and hostile ones."""

import io
import json
import unittest

import pypdf
import pypdfium2
from PIL import Image
from reportlab.pdfgen.canvas import Canvas
from trial import Trial

MARKDOWN = """---
title: Harbour report
---
# Harbour report

Text with **bold** words, a [link](https://example.org) and 港口 in it. Кириллица too.

1. One
2. Two
   - nested

| Month | Ships |
|---|---:|
| January | 12 |
| 三月 | 15 |

> A quote

```
code = 1
```

![a square](square.png)

<pagebreak>

## 第二章 收费

港口收费按照船舶吨位计算。每艘船舶在进港时须缴纳基本费用。
"""


def words(path):
    document = pypdfium2.PdfDocument(path)
    return [page.get_textpage().get_text_bounded() for page in document]


class Pdf(Trial):
    skill = "pdf"

    def form(self):
        buffer = io.BytesIO()
        canvas = Canvas(buffer)
        canvas.drawString(50, 780, "Name")
        canvas.acroForm.textfield(name="name", x=120, y=770, width=200, height=20)
        canvas.acroForm.checkbox(name="agree", x=120, y=735)
        canvas.acroForm.choice(name="colour", x=120, y=690, width=100, height=20, options=["red", "green"], value="red")
        for index, value in enumerate(("small", "large")):
            canvas.acroForm.radio(name="size", value=value, x=120 + 40 * index, y=650, selected=False)
        canvas.save()
        return self.write("uploads/form.pdf", buffer.getvalue())

    def test_info(self):
        details = json.loads(self.done("info.py", self.take("programs/office.pdf"), "--json"))
        self.assertEqual((details["pages"], details["locked"], details["pages without text"]), (3, "no", "none"))
        self.assertIn("第三章 港口收费", details["bookmarks"])
        self.assertIn("pages without text: 1", self.done("info.py", self.take("scanned.pdf")))

    def test_text(self):
        text = self.done("text.py", self.take("programs/office.pdf"), "--pages", "3")
        self.assertIn("--- page 3 ---", text)
        self.assertIn("北码头在疏浚期间暂停使用", text)
        self.assertNotIn("page 1", text)
        layout = self.done("text.py", "uploads/office.pdf", "--pages", "1", "--layout")
        self.assertIn("harbour", layout)
        self.done("text.py", self.take("programs/latex-zh.pdf"), "--out", "outputs/zh.txt")
        self.assertIn("船舶的航行安全", self.path("outputs/zh.txt").read_text(encoding="utf-8"))
        self.assertIn("page 3: 第三章", self.done("text.py", "uploads/office.pdf", "--find", "港口"))
        self.assertEqual(self.call("text.py", "uploads/office.pdf", "--find", "zeppelin").code, 1)

    def test_tables(self):
        rows = ["| Quarter | Ships | Tonnes |", "| First | 212 | 48,100 |", "| Third | 287 | 59,020 |"]
        for program in ("office", "browser", "latex"):
            shown = self.done("tables.py", self.take(f"programs/{program}.pdf"), "--pages", "2")
            for row in rows:
                self.assertIn(row, shown, program)
        self.done("tables.py", self.take("table.pdf"), "--out", "outputs/tables")
        table = self.path("outputs/tables/page-1-table-1.csv").read_text(encoding="utf-8-sig")
        self.assertTrue(table.startswith("Product,Quantity,Price\n"), table)
        # Prose in columns is no table.
        self.assertEqual(self.call("tables.py", self.take("columns.pdf")).code, 1)

    def test_render(self):
        self.done("render.py", self.take("programs/browser.pdf"), "--pages", "1", "--dpi", "50")
        with Image.open(self.path("outputs/pages/browser-1.png")) as image:
            self.assertEqual(image.size, (425, 550))
            self.assertGreater(len(image.convert("L").getcolors()), 5, "something is drawn")
        self.done("render.py", "uploads/browser.pdf", "--sheet")
        self.assertTrue(self.path("outputs/pages/browser-sheet.png").is_file())
        self.refused("render.py", "uploads/browser.pdf", "--dpi", "9000", says="--dpi")

    def test_pages(self):
        office, chinese = self.take("programs/office.pdf"), self.take("programs/latex-zh.pdf")
        self.done("pages.py", "merge", office, chinese, "--out", "outputs/all.pdf")
        texts = words(self.path("outputs/all.pdf"))
        self.assertEqual(len(texts), 5)
        self.assertIn("第二章", texts[4])
        self.done("pages.py", "pick", "outputs/all.pdf", "5,1-2", "--out", "outputs/picked.pdf")
        picked = words(self.path("outputs/picked.pdf"))
        self.assertEqual([len(picked), picked[0]], [3, texts[4]])
        self.done("pages.py", "drop", "outputs/all.pdf", "2-", "--out", "outputs/one.pdf")
        self.assertEqual(len(words(self.path("outputs/one.pdf"))), 1)
        self.done("pages.py", "split", "outputs/all.pdf", "--at", "2,4", "--out", "outputs/parts")
        parts = sorted(self.path("outputs/parts").iterdir())
        self.assertEqual([len(words(part)) for part in parts], [1, 2, 2])
        self.done("pages.py", "rotate", "outputs/all.pdf", "90", "--pages", "1", "--out", "outputs/turned.pdf")
        self.assertEqual([page.rotation for page in pypdf.PdfReader(self.path("outputs/turned.pdf")).pages][:2], [90, 0])
        self.done("pages.py", "stamp", "outputs/turned.pdf", "--text", "Draft", "--numbers", "--out", "outputs/stamped.pdf")
        stamped = words(self.path("outputs/stamped.pdf"))
        self.assertIn("Draft", stamped[0])
        self.assertIn("5 / 5", stamped[4])

    def test_locks(self):
        locked = self.take("password.pdf")
        self.refused("text.py", locked, says="ask for its password")
        self.refused("info.py", locked, "--password", "wrong", says="does not open")
        self.assertIn("pages: 3", self.done("info.py", locked, "--password", "secret"))
        self.done("pages.py", "unlock", locked, "--password", "secret", "--out", "outputs/open.pdf")
        self.assertEqual(len(words(self.path("outputs/open.pdf"))), 3)
        self.done("pages.py", "lock", "outputs/open.pdf", "--new-password", "other", "--out", "outputs/locked.pdf")
        with self.assertRaises(pypdfium2.PdfiumError):
            pypdfium2.PdfDocument(self.path("outputs/locked.pdf"))
        self.assertEqual(len(pypdfium2.PdfDocument(self.path("outputs/locked.pdf"), password="other")), 3)

    def test_forms(self):
        form = self.form()
        self.assertIn("page 1: colour (choice) = 'red'; one of: red, green", self.done("forms.py", "list", form))
        values = self.write("temp/v.json", json.dumps({"name": "Ada", "agree": True, "colour": "green", "size": "large"}))
        self.done("forms.py", "fill", form, values, "--out", "outputs/filled.pdf")
        fields = pypdf.PdfReader(self.path("outputs/filled.pdf")).get_fields()
        self.assertEqual([fields[name]["/V"] for name in ("name", "agree", "colour", "size")], ["Ada", "/Yes", "green", "/large"])
        self.done("forms.py", "fill", form, values, "--flatten", "--out", "outputs/flat.pdf")
        self.assertIn("Ada", words(self.path("outputs/flat.pdf"))[0])
        self.assertFalse(pypdf.PdfReader(self.path("outputs/flat.pdf")).get_fields())
        # Letters that the form's own font lacks are drawn all the same.
        self.done("forms.py", "fill", form, '{"name": "李 Ада"}', "--flatten", "--out", "outputs/strange.pdf")
        self.assertIn("李", words(self.path("outputs/strange.pdf"))[0])
        for wrong, says in (('{"nam": 1}', "near: name"), ('{"colour": "blue"}', "one of: red, green"), ('{"agree": 3}', "true or false"),
                            ('{"name": ["a"]}', "a text or a number"), ("[1]", "must be an object"), ('{"name"', "not valid JSON")):  # fmt: skip
            self.refused("forms.py", "fill", form, wrong, "--out", "outputs/x.pdf", says=says)
        self.refused("forms.py", "list", self.take("programs/office.pdf"), says="no form fields")

    def test_make(self):
        Image.new("RGB", (80, 80), (200, 30, 30)).save(self.path("outputs/square.png"))
        self.write("outputs/report.md", MARKDOWN)
        self.done("make.py", "outputs/report.md", "--toc", "--out", "outputs/report.pdf")
        reader = pypdf.PdfReader(self.path("outputs/report.pdf"))
        self.assertEqual((len(reader.pages), reader.metadata.title), (3, "Harbour report"))
        texts = words(self.path("outputs/report.pdf"))
        self.assertIn("第二章 收费", texts[0], "the table of contents")
        for said in ("Кириллица", "港口", "January", "nested", "code = 1", "A quote"):
            self.assertIn(said, texts[1])
        self.assertIn("每艘船舶在进港时", texts[2].replace("\r\n", ""))
        self.assertEqual(len(reader.pages[1].images), 1)
        self.assertEqual(reader.outline[0].title, "Harbour report")

    def test_make_of_html_and_text(self):
        self.write("temp/a.html", "<title>T &amp; U</title><h1>Head</h1><p>One<p>Two<table><tr><th>A<th>B<tr><td colspan=2>wide</table>"
                   "<script>alert(1)</script><ul><li>x<li>y</ul><p align=center>mid &lt;b&gt;</p>" + "<div>" * 5000)  # fmt: skip
        self.done("make.py", "temp/a.html", "--landscape", "--out", "outputs/a.pdf")
        text = words(self.path("outputs/a.pdf"))[0]
        self.assertIn("mid <b>", text)
        self.assertNotIn("alert", text)
        self.write("temp/b.txt", "first line\nsecond <line> & more\n\nnext paragraph")
        self.done("make.py", "temp/b.txt", "--family", "serif", "--out", "outputs/b.pdf")
        self.assertIn("second <line> & more", words(self.path("outputs/b.pdf"))[0])

    def test_long_things_are_broken(self):
        rows = "\n".join(f"| {index} | {'word ' * 30} |" for index in range(200))
        self.write("temp/long.md", f"{'x' * 3000}\n\n| n | text |\n|---|---|\n{rows}\n\n```\n{'y' * 5000}\n```\n\n" + "- deep\n" * 400)
        self.done("make.py", "temp/long.md", "--out", "outputs/long.pdf")
        self.assertGreater(len(words(self.path("outputs/long.pdf"))), 5)

    def test_bad_input(self):
        self.refused("info.py", "uploads/none.pdf", says="does not exist")
        self.refused("info.py", self.write("uploads/empty.pdf", ""), says="is empty")
        self.refused("text.py", self.write("uploads/text.pdf", "hello, I am a text"), says="is no PDF")
        self.refused("text.py", self.take("sales.xlsx"), says="this script reads .pdf")
        self.refused("text.py", "uploads", says="is not a file")
        office = self.take("programs/office.pdf")
        whole = self.path(office).read_bytes()
        self.write("uploads/cut.pdf", whole[: len(whole) // 3])
        self.write("uploads/noise.pdf", whole[:400] + bytes(range(256)) * 100)
        self.write("uploads/nested.pdf", b"%PDF-1.4\n1 0 obj\n" + b"[" * 100_000)
        # A tree of pages that is its own child.
        self.write("uploads/loop.pdf", b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[2 0 R]/Count 5>>\nendobj\n"
                   b"trailer<</Root 1 0 R>>\n%%EOF")  # fmt: skip
        for name in ("cut", "noise", "nested", "loop"):
            for script in ("info.py", "text.py", "tables.py", "render.py"):
                ran = self.call(script, f"uploads/{name}.pdf")
                self.assertIn(ran.code, (0, 1, 2), f"{name} {script} {ran}")
                self.assertLess(len(ran.err), 1000)
        self.refused("text.py", office, "--pages", "0", says="out of range")
        self.refused("text.py", office, "--pages", "a-b", says="is no range")
        self.refused("pages.py", "rotate", office, "90", "--out", office, says="is the input")
        self.refused("pages.py", "rotate", office, "90", "--out", "outputs/a.txt", says="must end with .pdf")
        self.refused("pages.py", "drop", office, "1-3", "--out", "outputs/a.pdf", says="no page would be left")
        self.refused("make.py", self.write("temp/none.md", "![x](gone.png)"), "--out", "outputs/a.pdf", says="does not exist")
        self.refused("make.py", self.write("temp/bad.md", "![x](none.md)"), "--out", "outputs/a.pdf", says="cannot be read")

    def test_names_as_the_file_tools_write_them(self):
        self.take("programs/office.pdf")
        project = self.path("temp/project")
        project.mkdir()
        self.path("uploads/office.pdf").rename(project / "office.pdf")
        details = self.done("info.py", "/project/office.pdf", PROJECT=str(project))
        self.assertIn("pages: 3", details)
        self.done("pages.py", "pick", "/project/office.pdf", "1", "--out", "/outputs/a.pdf", PROJECT=str(project), WORKSPACE=str(self.folder))
        self.assertTrue(self.path("outputs/a.pdf").is_file())


if __name__ == "__main__":
    unittest.main()
