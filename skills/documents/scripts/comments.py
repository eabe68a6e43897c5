"""Lists the comments of a Word document, adds some to texts, takes them out."""

from cli import Fault, arguments, input_file, output_file, read_json, say, say_json, start
from docx.oxml.ns import qn
from docx.text.run import Run
from word import W, blocks, isolate, legal, open_document, runs_of

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/documents/scripts/comments.py list uploads/a.docx\n"
    '  python skills/documents/scripts/comments.py add uploads/a.docx \'[{"at": "the fee", "comment": "Which one?"}]\' --author Ada --out outputs/a.docx\n'
    "  python skills/documents/scripts/comments.py drop uploads/a.docx all --out outputs/a.docx",
)
works = parser.add_subparsers(dest="work", required=True, metavar="WORK")
listing = works.add_parser("list", help="all comments, with the text that they are about")
listing.add_argument("file")
listing.add_argument("--json", action="store_true", help="print JSON")
adding = works.add_parser("add", help="comments on texts, or on whole blocks by their number")
adding.add_argument("file")
adding.add_argument("comments", help='a JSON file or JSON: [{"at": "a text", "comment": "…"}, {"block": 12, "comment": "…"}]')
adding.add_argument("--author", required=True, help="who comments")
adding.add_argument("--out", required=True)
dropping = works.add_parser("drop", help="take comments out")
dropping.add_argument("file")
dropping.add_argument("which", help="numbers parted by commas, or all")
dropping.add_argument("--out", required=True)


def main(options):
    document = open_document(options.file)
    if options.work == "list":
        return tell(document, options)
    target = output_file(options.out, ".docx", ".docm", inputs=[input_file(options.file)])
    told = add(document, options) if options.work == "add" else drop(document, options)
    document.save(str(target))
    say(f"{options.out}: {told}")


def tell(document, options):
    found = []
    for comment in document.comments:
        found.append({"number": comment.comment_id, "author": comment.author, "when": str(comment.timestamp or ""),
                      "about": about(document, comment.comment_id), "comment": comment.text})  # fmt: skip
    if options.json:
        return say_json(found)
    for comment in found:
        say(f"{comment['number']} {comment['author'] or '?'} {comment['when'][:16]} about {comment['about'][:120]!r}: {comment['comment']}")
    say(f"{len(found)} comments")


def about(document, number):
    """The text between the marks of a comment."""
    texts, within = [], False
    for node in document.element.body.iter():
        if node.tag == f"{W}commentRangeStart" and node.get(qn("w:id")) == str(number):
            within = True
        elif node.tag == f"{W}commentRangeEnd" and node.get(qn("w:id")) == str(number):
            break
        elif within and node.tag == f"{W}t":
            texts.append(node.text or "")
        elif within and node.tag == f"{W}p" and texts:
            texts.append(" ")
    return "".join(texts)


def add(document, options):
    wanted = read_json(options.comments)
    wanted = [wanted] if isinstance(wanted, dict) else wanted
    if not isinstance(wanted, list) or not wanted:
        raise Fault('the comments must be a list: [{"at": "a text", "comment": "…"}]')
    found = blocks(document)
    for number, one in enumerate(wanted, 1):
        if not isinstance(one, dict) or not str(one.get("comment", "")).strip() or ("at" in one) == ("block" in one):
            raise Fault(f'comment {number} needs "comment", and "at" (a text) or "block" (a number)')
        runs = by_text(document, one["at"], number) if "at" in one else by_block(found, one["block"], number)
        initials = "".join(word[0] for word in options.author.split())[:4].upper()
        document.add_comment([Run(run, None) for run in runs], text=legal(one["comment"]), author=legal(options.author), initials=initials)
    return f"{len(wanted)} comments more"


def by_text(document, text, number):
    for paragraph in document.element.body.iter(f"{W}p"):
        at = "".join(piece for _, piece in runs_of(paragraph)).find(str(text))
        if at >= 0 and text:
            return isolate(paragraph, at, at + len(str(text)))
    raise Fault(f"comment {number}: {text!r} is not in the document, or runs over the end of a paragraph")


def by_block(found, number_of_block, number):
    if not isinstance(number_of_block, int) or not 1 <= number_of_block <= len(found):
        raise Fault(f"comment {number}: there is no block {number_of_block!r}; there are 1 to {len(found)}")
    paragraphs = [found[number_of_block - 1]] if found[number_of_block - 1].tag == f"{W}p" else list(found[number_of_block - 1].iter(f"{W}p"))
    for paragraph in paragraphs:
        runs = [run for run, _ in runs_of(paragraph)]
        if runs:
            return runs
    raise Fault(f"comment {number}: block {number_of_block} has no words that can carry a comment")


def drop(document, options):
    there = {str(comment.comment_id) for comment in document.comments}
    which = there if options.which == "all" else {part.strip() for part in options.which.split(",")}
    if which - there or not there:
        raise Fault(f"there is no comment {', '.join(sorted(which - there)) or 'at all'}; see comments.py list")
    for node in list(document.element.body.iter(f"{W}commentRangeStart", f"{W}commentRangeEnd", f"{W}commentReference")):
        if node.get(qn("w:id")) in which:
            holder = node.getparent()
            holder.remove(node)
            if holder.tag == f"{W}r" and not [child for child in holder if child.tag != f"{W}rPr"]:
                holder.getparent().remove(holder)
    for comment in list(document.comments._comments_elm):
        if comment.get(qn("w:id")) in which:
            comment.getparent().remove(comment)
    return f"{len(which)} comments less"


if __name__ == "__main__":
    start(main, parser)
