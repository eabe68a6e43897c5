"""The skill `spreadsheets`, on files of other programs, its own, locked, damaged and hostile ones."""

import csv
import json
import re
import shutil
import sys
import unittest
import zipfile

import openpyxl
from trial import SKILLS, Trial

sys.path.insert(0, str(SKILLS / "spreadsheets/scripts"))
from office import library  # noqa: E402

# Stands in for LibreOffice: it gives the values of a test, and does not know XLOOKUP.
FAKE = '''
import json, pathlib, sys, time
found, profile, source, target = sys.argv[1:]
plan = json.loads(pathlib.Path(found).with_name("plan.json").read_text())
sys.path[:0] = plan["path"]
import openpyxl, xlsxwriter
if plan.get("fails"):
    sys.exit(plan["fails"])
time.sleep(plan.get("sleeps", 0))
assert "OOXMLRecalcMode" in pathlib.Path(profile.removeprefix("file://"), "user/registrymodifications.xcu").read_text()
made = xlsxwriter.Workbook(target.removeprefix("file://"), {"strings_to_formulas": False})
for sheet in openpyxl.load_workbook(source.removeprefix("file://")).worksheets:
    page = made.add_worksheet(sheet.title)
    for row in sheet.iter_rows():
        for cell in row:
            at, value = (cell.row - 1, cell.column - 1), cell.value
            if cell.data_type == "f":
                formula = value.replace("XLOOKUP", "xlookup")
                page.write_formula(*at, formula, None, plan["answers"].get(f"{sheet.title}!{cell.coordinate}", 0))
            elif isinstance(value, (int, float, str)):
                page.write(*at, value)
made.close()
'''


def rewritten(source, target, part, change):
    """A copy of a package with one part changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data.decode()).encode() if name == part else data)


class Spreadsheets(Trial):
    skill = "spreadsheets"

    def call(self, script, *arguments, **variables):
        return super().call(script, *arguments, **{"LIBREOFFICE": str(self.path("office")), **variables})

    def answer(self, answers, **more):
        """From here on there is a LibreOffice that gives these values."""
        if not self.path("office").exists():
            self.path("office").mkdir()
            self.path("skills").unlink()
            shutil.copytree(SKILLS / self.skill, self.path("skills") / self.skill)
            self.write("skills/spreadsheets/scripts/kit.py", FAKE)
            self.write("office/libmergedlo.so", "")
        self.write("office/plan.json", json.dumps({"answers": answers, "path": sys.path, **more}))

    def book(self, cells, name="uploads/book.xlsx"):
        """A workbook of {sheet: {cell: value}} that no program has computed yet."""
        book = openpyxl.Workbook()
        book.remove(book.active)
        for sheet, values in cells.items():
            page = book.create_sheet(sheet)
            for place, value in values.items():
                page[place] = value
        book.save(self.path(name))
        return name

    def rows(self, name, **options):
        options.setdefault("format", "json")
        arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        return [row["cells"] for row in json.loads(self.done("read.py", name, *arguments))]

    def test_look(self):
        output = self.done("look.py", self.take("programs/office.xlsx"))
        self.assertIn("B1 'Ships': 3 numbers from 212 to 305", output)
        self.assertIn("北码头关闭", output)
        output = self.done("look.py", self.take("sales.xlsx"))
        self.assertIn("29 formulas, first =C2*2", output)
        self.assertIn("sheet 2: 销售 2024", output)
        self.assertIn("charts: 1", self.done("look.py", self.take("cached.xlsx")))

    def test_read(self):
        self.assertEqual(self.rows(self.take("programs/office.xlsx"))[1], ["First", "212", "48100", "quiet"])
        self.assertEqual(self.rows(self.take("sales.xlsx"), range="A2:D2"), [["North", "2024-01-02", "3", ""]])
        self.assertEqual(self.rows("uploads/sales.xlsx", sheet="2"), [["", "", "名称", "数量"], ["", "", "苹果", "12"]])
        self.assertIn("D2 =C2*2 -> no value", self.done("read.py", "uploads/sales.xlsx", "--formulas"))
        self.assertIn("D2 =20+22 -> 42", self.done("read.py", self.take("cached.xlsx"), "--formulas"))
        self.refused("read.py", "uploads/sales.xlsx", "--sheet", "Nope", says="there are: Sales")
        self.refused("read.py", "uploads/sales.xlsx", "--range", "A1:", says="is no range")

    def test_analyse(self):
        self.write("uploads/ports.csv", "Port,Month,Cargo\nKiel,Jan,10\nKiel,Feb,20\nBremen,Jan,5.5\nBremen,Feb,\n")
        output = self.done("analyse.py", "uploads/ports.csv", "--group", "Port", "--sum", "Cargo", "--mean", "Cargo")
        self.assertIn("| Kiel | 2 | 30 | 15 |", output)
        self.assertIn("| Bremen | 2 | 5.5 | 5.5 |", output)
        pivot = self.done("analyse.py", "uploads/ports.csv", "--group", "Port", "--across", "Month", "--sum", "Cargo")
        self.assertIn("| Port | Jan | Feb |", pivot)
        self.assertIn("| Kiel | 10 | 20 |", pivot)
        self.assertIn("1 rows", self.done("analyse.py", "uploads/ports.csv", "--where", "Cargo > 9", "--where", "Month = jan"))
        self.assertIn("| Cargo | 3 | 3 | 3 | 5.5 |", self.done("analyse.py", "uploads/ports.csv"))
        self.refused("analyse.py", "uploads/ports.csv", "--sum", "Gold", says="there are: Port, Month, Cargo")
        self.refused("analyse.py", "uploads/ports.csv", "--where", "Cargo", says="is no rule")

    def test_write(self):
        described = json.loads(self.done("write.py", "--example"))
        described["sheets"][0]["rows"].append(["四月", 4, 100])
        described["sheets"].append({"name": "Notes", "columns": ["Code", "Day"], "rows": [{"Code": "007", "Day": "2024-03-05"}],
                                    "cells": {"D1": "=Sales!B8", "D2": {"value": 0.5, "format": "0%"}}})  # fmt: skip
        self.write("temp/book.json", json.dumps(described))
        self.assertIn("8 formulas hold no value yet", self.done("write.py", "temp/book.json", "--out", "outputs/book.xlsx"))
        empty = openpyxl.load_workbook(self.path("outputs/book.xlsx"), data_only=True)
        self.assertIsNone(empty["Sales"]["D4"].value)
        self.answer({"Sales!D4": 283.375, "Sales!B8": 40, "Sales!C8": 10400.5, "Notes!D1": 40})
        self.assertIn("8 formulas\n", self.done("write.py", "temp/book.json", "--out", "outputs/book.xlsx"))
        self.assertIn("8 formulas, 8 computed, 0 errors", self.done("check.py", "outputs/book.xlsx"))
        shown = openpyxl.load_workbook(self.path("outputs/book.xlsx"), data_only=True)
        sales, notes = shown["Sales"], shown["Notes"]
        self.assertEqual([cell.value for cell in sales[4]], ["January", 12, 3400.5, 283.375])
        self.assertEqual([sales["A8"].value, sales["B8"].value, sales["C8"].value], ["Total", 40, 10400.5])
        self.assertEqual([notes["A2"].value, str(notes["B2"].value)[:10], notes["D1"].value], ["007", "2024-03-05", 40])
        raw = openpyxl.load_workbook(self.path("outputs/book.xlsx"))
        self.assertEqual(raw["Sales"]["D4"].value, "=C4/B4")
        self.assertEqual(raw["Sales"]["C4"].number_format, "#,##0.0")
        self.assertEqual(len(raw["Sales"]._charts), 1)
        for wrong, says in (
            ({"sheets": []}, "--example"),
            ({"sheets": [{"name": "a/b"}]}, "none of"),
            ({"sheets": [{"colums": []}]}, "unknown keys: colums"),
            ({"sheets": [{"columns": ["A"], "rows": [[1, 2]]}]}, "2 cells for 1 columns"),
            ({"sheets": [{"columns": [{"head": "A", "formula": "=[B]"}], "rows": [[None]]}]}, "names [B]"),
            ({"sheets": [{"columns": ["A"], "rows": [[1]], "charts": [{"type": "cake", "y": ["A"]}]}]}, "a chart is one of"),
        ):
            self.refused("write.py", json.dumps(wrong), "--out", "outputs/x.xlsx", says=says)
        self.answer({"Sheet1!B2": "#DIV/0!"})
        broken = {"sheets": [{"columns": ["A", {"head": "B", "formula": "=1/[A]"}], "rows": [[0]]}]}
        self.assertEqual(self.call("write.py", json.dumps(broken), "--out", "outputs/x.xlsx").code, 1)

    def test_what_a_csv_holds_is_no_formula(self):
        self.write("uploads/evil.csv", 'name,value\n"=HYPERLINK(""http://x"",""y"")",1\n+1+1,2\n')
        self.done("convert.py", "uploads/evil.csv", "outputs/a.xlsx")
        self.done("write.py", json.dumps({"sheets": [{"csv": "uploads/evil.csv"}]}), "--out", "outputs/b.xlsx")
        for name in ("a", "b"):
            page = openpyxl.load_workbook(self.path(f"outputs/{name}.xlsx")).worksheets[0]
            self.assertEqual([page["A2"].data_type, page["A3"].data_type], ["s", "s"], name)
            self.assertTrue(page["A2"].value.startswith("=HYPERLINK"))

    def test_convert(self):
        text = "code;name;amount;when\n007;李;3.5;2024-01-05\n008;Ä;12345678901234567;2024-02-30\n"
        self.write("uploads/odd.csv", text.encode("gb18030"))
        self.done("convert.py", "uploads/odd.csv", "outputs/odd.xlsx")
        page = openpyxl.load_workbook(self.path("outputs/odd.xlsx")).worksheets[0]
        self.assertEqual([cell.value for cell in page[2]][:3], ["007", "李", 3.5])
        self.assertEqual(page["D2"].value.year, 2024)
        self.assertEqual([page["C3"].value, page["D3"].value], ["12345678901234567", "2024-02-30"])
        self.done("convert.py", "outputs/odd.xlsx", "outputs/odd.csv")
        with open(self.path("outputs/odd.csv"), encoding="utf-8-sig", newline="") as file:
            self.assertEqual(list(csv.reader(file)), [line.split(";") for line in text.strip().split("\n")])
        self.done("convert.py", self.take("programs/cargo.csv"), "uploads/odd.csv", "outputs/two.xlsx")
        self.assertEqual(openpyxl.load_workbook(self.path("outputs/two.xlsx")).sheetnames, ["cargo", "odd"])

    def test_edit(self):
        self.done("write.py", json.dumps({"sheets": [
            {"name": "Sales", "columns": ["Month", "Ships", {"head": "Double", "formula": "=[Ships]*2"}], "rows": [["Jan", 1], ["Feb", 2]],
             "totals": {"Ships": "sum"}, "charts": [{"x": "Month", "y": ["Ships"]}]},
            {"name": "Sum", "columns": ["A"], "rows": [["=Sales!B4"]]}]}), "--out", "uploads/a.xlsx")  # fmt: skip
        edits = [
            {"set": {"Sales!B2": 10}},
            {"append": {"sheet": "Sales", "rows": [["Mar", 5], ["Apr", 7]]}},
            {"set": {"Sum!A2": "=Sales!B6"}},
            {"rename_sheet": {"from": "Sales", "to": "My sales"}},
            {"replace": {"old": "Jan", "new": "January"}},
            {"add_sheet": {"name": "新", "rows": [["x", "=IFS(1>0,\"yes\")"]]}},
            {"look": {"cells": "My sales!B2:B3", "bold": True, "format": "0.0"}},
            {"fill": {"from": "My sales!C2", "to": "My sales!E2:E3"}},
        ]
        self.write("temp/e.json", json.dumps(edits))
        output = self.done("edit.py", "uploads/a.xlsx", "temp/e.json", "--out", "outputs/a.xlsx")
        self.assertIn("9 formulas hold no value yet", output)
        book = openpyxl.load_workbook(self.path("outputs/a.xlsx"))
        page = book["My sales"]
        self.assertEqual([cell.value for cell in page[5]][:3], ["Apr", 7, "=B5*2"])
        self.assertEqual([page["A6"].value, page["B6"].value], ["Total", "=SUBTOTAL(109,B2:B5)"])
        self.assertEqual([page["A2"].value, page["B2"].font.bold, page["E3"].value], ["January", True, "=D3*2"])
        self.assertEqual(book["Sum"]["A2"].value, "='My sales'!B6")
        self.assertEqual(book["新"]["B1"].value, '=_xlfn.IFS(1>0,"yes")')
        self.assertEqual(page._charts[0].series[0].val.numRef.f, "'My sales'!$B$2:$B$5")
        before = self.path("uploads/a.xlsx").read_bytes()
        for wrong, says in (([{"delete_sheet": "Sales"}], "formulas use it"), ([{"set": {"Nope!A1": 1}}], "no sheet"), ([{"sets": {}}], "one of these keys"),
                            ([{"set": {"A1:B2": 1}}], "more than one cell"), ([{"append": {"rows": 3}}], "not of the right form"),
                            ([{"clear": "A1:XFD1048576"}], "too many cells"), ([], "must be a list")):  # fmt: skip
            self.refused("edit.py", "uploads/a.xlsx", json.dumps(wrong), "--out", "outputs/b.xlsx", says=says)
        self.refused("edit.py", "uploads/a.xlsx", json.dumps(edits), "--out", "uploads/a.xlsx", says="is the input")
        self.assertEqual(self.path("uploads/a.xlsx").read_bytes(), before)
        self.assertFalse(self.path("outputs/b.xlsx").exists())

    def test_edit_reports_lost_content(self):
        name = self.book({"S": {"A1": 1}})
        self.path("temp/x.xlsx").write_bytes(self.path(name).read_bytes())
        with zipfile.ZipFile(self.path(name), "a") as package:
            package.writestr("xl/slicers/slicer1.xml", "<slicers/>")
        self.refused("edit.py", name, '[{"set": {"A1": 2}}]', "--out", "outputs/a.xlsx", says="slicers (1)")
        self.assertEqual(list(self.path("outputs").iterdir()), [])
        self.done("edit.py", name, '[{"set": {"A1": 2}}]', "--out", "outputs/a.xlsx", "--accept-loss")

    def test_check(self):
        name = self.book({
            "Data": {f"{column}{row}": value for row in range(1, 9) for column, value in (("A", row), ("B", f"=A{row}*2"))},
            "Sums": {"A1": "=SUM(Data!A1:A8)", "A2": "=Nope!A1", "A3": "=SUM(A1", "A4": "=FOO(1)", "A5": "=A6", "A6": "=A5", "A7": "=1/0",
                     "A8": "=Data!Z99", "A9": "=word", "A10": "#REF!", "A11": "=COLUMNS(A$1:A11)", "A12": '=_xlfn.NEW.ONE(1)'},
        })  # fmt: skip
        book = openpyxl.load_workbook(self.path(name))
        book["Data"]["B4"], book["Data"]["B6"] = 99, "=A6*3"
        book["Data"]["A9"] = "=SUM(A1:A7)"
        book["Data"]["A5"] = "5"
        book.save(self.path(name))
        self.answer({"Sums!A2": "#REF!", "Sums!A4": "#NAME?", "Sums!A5": "#VALUE!", "Sums!A7": "#DIV/0!", "Sums!A11": 2})
        ran = self.call("check.py", name, "--json")
        self.assertEqual(ran.code, 1, ran)
        found = {}
        for finding in json.loads(ran.out):
            found[finding["cell"]] = found.get(finding["cell"], "") + finding["text"] + "\n"
        for cell, text in (
            ("Sums!A2", "no sheet Nope"), ("Sums!A3", "')' is missing"), ("Sums!A4", "no function FOO"), ("Sums!A5", "refers to itself"),
            ("Sums!A6", "refers to itself"), ("Sums!A7", "gives #DIV/0!"), ("Sums!A8", "is empty"), ("Sums!A9", "no name word"), ("Sums!A10", "#REF!"),
            ("Data!B4", "between equal formulas"), ("Data!B6", "differs"), ("Data!A9", "leaves out A8"), ("Data!A5", "is a text among numbers"),
        ):  # fmt: skip
            self.assertIn(text, found.get(cell, ""), cell)
        self.assertFalse({"Sums!A1", "Sums!A11", "Sums!A12"} & found.keys(), found)
        self.assertEqual(self.call("check.py", self.take("sales.xlsx")).code, 0)

    def test_check_without_libreoffice(self):
        output = self.call("check.py", self.take("cached.xlsx"))
        self.assertEqual(output.code, 1, output)
        self.assertIn("Totals!D3: =1/0 gave #DIV/0! when it was saved", output.out)
        self.assertIn("2 formulas, 0 computed, 1 errors", output.out)
        self.assertIn("2 formulas are not computed: LibreOffice is not installed; install LibreOffice Calc", output.err)

    def test_stale_values(self):
        self.take("cached.xlsx")
        self.answer({"Totals!D2": 43, "Totals!D3": "#DIV/0!"})
        self.assertIn("Totals!D2: the file says 42, computed here it is 43", self.call("check.py", "uploads/cached.xlsx").out)
        self.assertIn("D2 =20+22 -> 42", self.done("read.py", "uploads/cached.xlsx", "--formulas"))

    def test_syntax(self):
        wrong = {"1+": "ends too early", "A1+*2": "before '*'", "SUM(A1": "')' is missing", "SUM(A1))": "closed that is not open", '"a': "string",
                 "SUM(1+)": "before ')'", "A1%2": "too much: '2'"}  # fmt: skip
        right = ["SUM(,1)", "A1:A2 A2:A3", "-A1%", "1 + 2", "A1:INDEX(A:A,2)", "'S'!A1", "{1,2;3,4}", "IF(A1,,2)", "+A1", "SUM(Table1[Col])", "1:1"]
        name = self.book({"S": {"A1": 1, "A2": 2, "A3": 3, **{f"C{row}": f"={formula}" for row, formula in enumerate([*wrong, *right], 1)}}})
        found = {}
        for finding in json.loads(self.call("check.py", name, "--json").out):
            if finding["level"] == "error":
                found[finding["cell"]] = found.get(finding["cell"], "") + finding["text"]
        self.assertEqual(set(found), {f"S!C{row}" for row in range(1, len(wrong) + 1)}, found)
        for row, (formula, text) in enumerate(wrong.items(), 1):
            self.assertIn(text, found[f"S!C{row}"], formula)

    def test_values_come_from_libreoffice(self):
        name = self.book({"S": {"A1": 2, "A2": "=A1*2", "A3": '=_xlfn.XLOOKUP(1,A1:A2,A1:A2)', "A4": "=IFERROR(A3,0)", "A5": '="x"', "A6": '=""'}})
        output = self.call("read.py", name, "--formulas")
        self.assertIn("5 formulas have no value: LibreOffice is not installed", output.err)
        self.assertEqual(self.rows(name), [["2"], *[[""]] * 5])
        self.answer({"S!A2": 4, "S!A5": "x", "S!A6": "", "S!A3": "#NAME?"})
        output = self.call("read.py", name, "--format", "json")
        self.assertEqual([row["cells"] for row in json.loads(output.out)], [["2"], ["4"], [""], [""], ["x"], [""]])
        self.assertIn("2 formulas are not computed: LibreOffice does not know XLOOKUP; they are S!A3, S!A4", output.err)
        self.assertIn("3 formulas had no value in the file; LibreOffice computed them", self.done("look.py", name))
        self.done("convert.py", name, "outputs/s.csv")
        self.assertIn("4", self.path("outputs/s.csv").read_text(encoding="utf-8-sig").split("\n"))
        self.assertEqual(sorted(path.name for path in self.path("uploads").iterdir()), ["book.xlsx"], "nothing is left beside the file")

    def test_libreoffice_may_fail(self):
        name = self.book({"S": {"A1": "=1+1"}})
        self.answer({}, fails="it is broken")
        self.assertIn("could not open it (it is broken); install LibreOffice Calc", self.call("read.py", name).err)
        self.answer({}, sleeps=30)
        script = self.path("skills/spreadsheets/scripts/office.py")
        script.write_text(script.read_text(encoding="utf-8").replace("LIMIT = 100", "LIMIT = 1"), encoding="utf-8")
        self.assertIn("took longer than 1 seconds", self.call("read.py", name).err)

    @unittest.skipUnless(library(), "LibreOffice is not installed")
    def test_formulas(self):
        cells = {"A1": 1, "A2": 2, "A3": 3, "B1": "apple", "B2": "pear", "B3": "apple"}
        wanted = [
            ("SUM(A1:A3)", "6"), ('COUNTIF(B1:B3,"a*")', "2"), ('SUMIFS(A1:A3,B1:B3,"apple",A1:A3,">1")', "3"), ('VLOOKUP("pear",B1:B3,1,FALSE)', "pear"),
            ('IFERROR(1/0,"none")', "none"), ('TEXT(0.256,"0.0%")', "25.6%"), ("DATE(2024,14,1)-DATE(2025,1,1)", "31"), ("A1/0", "#DIV/0!"),
            ('IF(A9="","empty","full")', "empty"), ("A9=0", "TRUE"), ("DATE(2024,2,29)", "2024-02-29"), ('_xlfn.IFS(1>0,"yes")', "yes"),
        ]  # fmt: skip
        name = self.book({"S": {**cells, **{f"F{row}": f"={formula}" for row, (formula, _) in enumerate(wanted, 1)}}})
        output = super().call("read.py", name, "--range", f"F1:F{len(wanted)}", "--format", "json")
        self.assertEqual([row["cells"] for row in json.loads(output.out)], [[value] for _, value in wanted], output)

    def test_formulas_are_found_however_late_they_come(self):
        cells = {f"A{row}": row * 1234567 for row in range(1, 9000)}
        name = self.book({"S": {**cells, "A9000": "=A1+1"}, "T": {"A1": 5}})
        self.assertIn("1 formulas, first =A1+1", self.done("look.py", name))

    def test_long_chains(self):
        cells = {"A1": 1, **{f"A{row}": f"=A{row - 1}+1" for row in range(2, 6001)}}
        self.assertIn("5999 formulas, 0 computed, 0 errors", self.done("check.py", self.book({"S": cells})))

    def test_a_sheet_may_claim_to_be_large(self):
        name = self.book({"S": {"A1": "head", "A2": 1, "XFD1048576": "far"}})
        rewritten(self.path(name), self.path("uploads/claims.xlsx"), "xl/worksheets/sheet1.xml",
                  lambda text: re.sub(r'<dimension ref="[^"]*"', '<dimension ref="A1:XFD1048576"', text))  # fmt: skip
        for path in (name, "uploads/claims.xlsx"):
            self.assertIn("3 filled", self.done("look.py", path))
            self.assertEqual(self.rows(path, range="A1:A3"), [["head"], ["1"]])
            self.done("check.py", path)
            self.done("convert.py", path, "outputs/far.xlsx")
            self.done("edit.py", path, '[{"set": {"B1": 2}}]', "--out", "outputs/e.xlsx")

    def test_bad_input(self):
        self.refused("look.py", self.take("password.xlsx"), says="locked with a password")
        self.refused("look.py", self.take("old.xls"), says="this script reads .xlsx")
        self.refused("look.py", self.write("uploads/empty.xlsx", ""), says="is empty")
        self.refused("look.py", self.write("uploads/text.xlsx", "hello"), says="damaged or not what its name says")
        self.refused("look.py", self.write("uploads/zeros.csv", b"\0" * 100), says="this is no text")
        self.refused("look.py", self.write("uploads/blank.csv", "\n\n\n"), says="holds nothing")
        self.refused("look.py", self.bomb("uploads/bomb.xlsx", "xl/worksheets/sheet1.xml"), says="is refused")
        whole = self.path(self.take("programs/office.xlsx")).read_bytes()
        self.refused("look.py", self.write("uploads/cut.xlsx", whole[:2000]), says="damaged")
        rewritten(self.path("uploads/office.xlsx"), self.path("uploads/laughs.xlsx"), "xl/workbook.xml",
                  lambda text: re.sub(r"(<\?xml.*?\?>)", r'\1<!DOCTYPE x [<!ENTITY a "aaaa">]>', text))  # fmt: skip
        rewritten(self.path("uploads/office.xlsx"), self.path("uploads/broken.xlsx"), "xl/worksheets/sheet1.xml", lambda text: text[:300])
        for script, *more in (("look.py",), ("check.py",), ("edit.py", '[{"set": {"A1": 1}}]', "--out", "outputs/a.xlsx")):
            self.refused(script, "uploads/laughs.xlsx", *more, says="declares a document type")
            self.assertIn(self.call(script, "uploads/broken.xlsx", *more).code, (0, 2))
        self.write("uploads/wide.csv", "a," * 20_000 + "\n" + '"' + "x" * 100_000 + '"\n')
        self.refused("look.py", "uploads/wide.csv", says="20001 cells")


if __name__ == "__main__":
    unittest.main()
