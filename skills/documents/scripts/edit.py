"""Changes a Word document and keeps its styles: texts, paragraphs, tables, placeholders, tracked changes."""

import copy
import datetime as dt

from builder import Builder
from cli import Fault, arguments, input_file, note, output_file, read_json, say, start
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from markup import tree_of_markdown
from word import (
    W, block, blocks, inside, isolate, legal, open_document, paragraphs_everywhere, runs_of, said, write_run,
)  # fmt: skip

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/documents/scripts/edit.py uploads/a.docx temp/edits.json --out outputs/a.docx\n"
    '  python skills/documents/scripts/edit.py uploads/a.docx \'[{"replace": {"old": "2023", "new": "2024"}}]\' --out outputs/a.docx\n'
    "  python skills/documents/scripts/edit.py uploads/a.docx temp/edits.json --track \"Ada\" --out outputs/a.docx    (replacements as tracked changes)\n"
    "All edits are told in skills/documents/reference/edit.md.",
)
parser.add_argument("file", help=".docx")
parser.add_argument("edits", help="a JSON file, or JSON itself: a list of edits, done one after the other")
parser.add_argument("--out", required=True, help="the .docx to write")
parser.add_argument("--track", metavar="AUTHOR", help="texts are replaced as tracked changes of this author")


def main(options):
    source = input_file(options.file, ".docx", ".docm")
    target = output_file(options.out, source.suffix.lower(), inputs=[source])
    document = open_document(options.file)
    edits = read_json(options.edits)
    edits = [edits] if isinstance(edits, dict) else edits
    if not isinstance(edits, list) or not edits:
        raise Fault('the edits must be a list: [{"replace": {"old": "2023", "new": "2024"}}, …]')
    if options.track and any(set(edit) - {"replace", "fill"} for edit in edits if isinstance(edit, dict)):
        raise Fault("with --track, only replace and fill can be done")
    editor = _Editor(document, source.parent, options.track)
    for number, edit in enumerate(edits, 1):
        if not isinstance(edit, dict) or len(edit) != 1 or next(iter(edit)) not in EDITS:
            raise Fault(f"edit {number} must be an object with one of these keys: {', '.join(EDITS)}")
        name, what = next(iter(edit.items()))
        try:
            say(f"{name}: {getattr(editor, name)(what)}")
        except Fault as fault:
            raise Fault(f"edit {number} ({name}): {fault}") from fault
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise Fault(f"edit {number} ({name}) is not of the right form: {error}; see skills/documents/reference/edit.md") from error
    document.save(str(target))
    say(f"{options.out}: {target.stat().st_size} bytes")


EDITS = ("replace", "fill", "text", "insert", "delete", "style", "cell", "add_rows", "delete_rows", "properties", "accept_changes", "reject_changes")


class _Editor:
    """Numbers of blocks are those of the document as it was: none shifts by an edit before."""

    def __init__(self, document, folder, author):
        self.document, self.folder, self.author = document, folder, author
        self.blocks = blocks(document)
        self.tables = [element for element in self.blocks if element.tag == f"{W}tbl"]
        self.changes = 9000

    # Texts.

    def replace(self, what):
        """A text for another, wherever it stands, also where it is put together of differently looking pieces."""
        old, new, whole = what["old"], legal(what["new"]), what.get("case", True)
        if not isinstance(old, str) or not old:
            raise Fault("the old text is empty")
        count = self.swap(old, new, whole, what.get("most"))
        if not count:
            near = "; it stands there in other letters, give \"case\": false" if whole and self.found(old) else ""
            raise Fault(f"{old!r} is not in the document{near}")
        return f"{count} times"

    def fill(self, what):
        """Placeholders for values."""
        missing = [name for name, value in what.items() if not self.swap(name, legal(value), True, None)]
        if missing:
            raise Fault(f"not in the document: {', '.join(missing)}")
        return f"{len(what)} placeholders"

    def found(self, text):
        return any(text.lower() in said(paragraph).lower() for paragraph in paragraphs_everywhere(self.document))

    def swap(self, old, new, whole, most):
        count = 0
        for paragraph in paragraphs_everywhere(self.document):
            text = "".join(piece for _, piece in runs_of(paragraph))
            at = (text if whole else text.lower()).find(old if whole else old.lower())
            places = []
            while at >= 0 and (most is None or count < most):
                places.append(at)
                count += 1
                at = (text if whole else text.lower()).find(old if whole else old.lower(), at + len(old))
            # From the end, so that places before stay right.
            for place in reversed(places):
                self.put(isolate(paragraph, place, place + len(old)), new)
        return count

    def put(self, runs, new):
        if self.author:
            self.tracked(runs, new)
            return
        write_run(runs[0], new)
        for run in runs[1:]:
            run.getparent().remove(run)

    def tracked(self, runs, new):
        added = copy.deepcopy(runs[0])
        last = None
        for run in runs:
            last = self.change("w:del")
            run.addprevious(last)
            last.append(run)
            for node in run.iter(f"{W}t"):
                node.tag = f"{W}delText"
        if new:
            write_run(added, new)
            holder = self.change("w:ins")
            holder.append(added)
            last.addnext(holder)

    def change(self, tag):
        self.changes += 1
        made = OxmlElement(tag)
        made.set(qn("w:id"), str(self.changes))
        made.set(qn("w:author"), legal(self.author))
        made.set(qn("w:date"), dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
        return made

    # Blocks.

    def paragraph(self, number):
        element = block(self.blocks, number)
        if element.tag != f"{W}p":
            raise Fault(f"block {number} is a table; use cell")
        if element.getparent() is None:
            raise Fault(f"block {number} was deleted before")
        return element

    def text(self, what):
        """A paragraph's text, in its style and with the looks of its first words."""
        element = self.paragraph(what["block"])
        runs = runs_of(element)
        if runs:
            write_run(runs[0][0], what["text"])
            for run, _ in runs[1:]:
                run.getparent().remove(run)
        else:
            run = OxmlElement("w:r")
            element.append(run)
            write_run(run, what["text"])
        return f"block {what['block']}"

    def insert(self, what):
        """Markdown before or after a block."""
        if ("after" in what) == ("before" in what):
            raise Fault('give "after" or "before", and "markdown"')
        element = block(self.blocks, what.get("after", what.get("before")))
        if element.getparent() is None:
            raise Fault("the block that is named was deleted before")
        tree, _ = tree_of_markdown(what["markdown"])
        anchor = element
        if "after" in what:
            anchor = element.getnext()
            if anchor is None:
                anchor = OxmlElement("w:p")
                element.addnext(anchor)
        Builder(self.document, self.folder, before=anchor).blocks(tree.children)
        return f"{'after' if 'after' in what else 'before'} block {what.get('after', what.get('before'))}"

    def delete(self, what):
        """Blocks, from first to last."""
        first, last = what["first"], what.get("last", what["first"])
        for number in range(first, last + 1):
            element = block(self.blocks, number)
            if element.find(f"{W}pPr/{W}sectPr") is not None:
                note(f"block {number} ends a section; only its words are taken away")
                for run, _ in runs_of(element):
                    run.getparent().remove(run)
            elif element.getparent() is not None:
                element.getparent().remove(element)
        return f"blocks {first} to {last}"

    def style(self, what):
        from docx.text.paragraph import Paragraph

        names = {style.name.lower(): style for style in self.document.styles if style.name and style.type == 1}
        style = names.get(str(what["style"]).lower())
        if style is None:
            raise Fault(f"there is no style {what['style']!r}; there are: {', '.join(style.name for style in names.values())[:600]}")
        Paragraph(self.paragraph(what["block"]), self.document._body).style = style
        return f"block {what['block']} is {style.name}"

    # Tables.

    def table(self, number):
        from docx.table import Table

        if not isinstance(number, int) or not 1 <= number <= len(self.tables):
            raise Fault(f"there is no table {number!r}; there are {len(self.tables)}")
        return Table(self.tables[number - 1], self.document._body)

    def cell(self, what):
        """The text of a cell; rows and columns count from 1, the heads too."""
        table = self.table(what["table"])
        row, column = what["row"], what["column"]
        if not 1 <= row <= len(table.rows) or not 1 <= column <= len(table.columns):
            raise Fault(f"table {what['table']} has {len(table.rows)} rows and {len(table.columns)} columns")
        fill_cell(table.cell(row - 1, column - 1)._tc, what["text"])
        return f"row {row}, column {column}"

    def add_rows(self, what):
        """Rows that look like the last one."""
        table = self.table(what["table"])
        for texts in what["rows"]:
            row = copy.deepcopy(table._tbl.tr_lst[-1])
            cells = row.tc_lst
            if len(texts) > len(cells):
                raise Fault(f"a row has {len(texts)} cells, the table has {len(cells)} columns")
            for index, cell in enumerate(cells):
                fill_cell(cell, texts[index] if index < len(texts) else "")
            table._tbl.tr_lst[-1].addnext(row)
        return f"{len(what['rows'])} rows"

    def delete_rows(self, what):
        table = self.table(what["table"])
        wanted = sorted(set(what["rows"]), reverse=True)
        rows = table._tbl.tr_lst
        if not wanted or wanted[0] > len(rows) or wanted[-1] < 1 or len(wanted) >= len(rows):
            raise Fault(f"table {what['table']} has rows 1 to {len(rows)}, and one must stay")
        for number in wanted:
            table._tbl.remove(rows[number - 1])
        return f"{len(wanted)} rows"

    def properties(self, what):
        for name, value in what.items():
            if name not in ("title", "author", "subject", "keywords", "comments", "category"):
                raise Fault(f"there is no property {name!r}")
            setattr(self.document.core_properties, name, legal(value)[:255])
        return ", ".join(what)

    def accept_changes(self, what):
        return self.settle(f"{W}ins", f"{W}del")

    def reject_changes(self, what):
        return self.settle(f"{W}del", f"{W}ins")

    def settle(self, kept, gone):
        """Tracked changes become text, or go."""
        count = 0
        roots = {paragraph.getroottree().getroot() for paragraph in paragraphs_everywhere(self.document)}
        for root in roots:
            for paragraph in [node for node in root.iter(f"{W}p") if node.find(f"{W}pPr/{W}rPr/{gone}") is not None]:
                empty_out(paragraph, kept)
            for node in list(root.iter(gone)):
                count += 1
                if node.getparent() is not None:
                    node.getparent().remove(node)
            for node in list(root.iter(kept)):
                count += 1
                for text in node.iter(f"{W}delText"):
                    text.tag = f"{W}t"
                for child in list(node):
                    node.addprevious(child)
                node.getparent().remove(node)
        return f"{count} marks"


def empty_out(paragraph, kept):
    """A paragraph whose end goes too: it goes whole where nothing in it stays."""
    stays = any(not inside(run, f"{W}ins", paragraph) and not inside(run, f"{W}del", paragraph) for run in paragraph.iter(f"{W}r"))
    if not stays and paragraph.find(kept) is None and paragraph.getparent() is not None:
        paragraph.getparent().remove(paragraph)


def fill_cell(cell, text):
    """The text of a cell, with the looks that it had."""
    paragraphs = cell.p_lst
    runs = [run for paragraph in paragraphs for run, _ in runs_of(paragraph)]
    if runs:
        run = runs[0]
        for other in runs[1:]:
            other.getparent().remove(other)
    else:
        run = OxmlElement("w:r")
        paragraphs[0].append(run)
    write_run(run, text)
    holder = run
    while holder.tag != f"{W}p":
        holder = holder.getparent()
    for paragraph in paragraphs:
        if paragraph is not holder and len(cell.p_lst) > 1:
            cell.remove(paragraph)


if __name__ == "__main__":
    start(main, parser)
