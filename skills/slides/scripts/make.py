"""Makes a presentation (PPTX) from a Markdown outline: titles, bullets, columns, tables, charts, pictures, notes."""

from cli import arguments, input_file, output_file, say, start
from outline import slides_of

parser = arguments(
    __doc__,
    "examples:\n"
    "  python skills/slides/scripts/make.py outputs/talk.md --out outputs/talk.pptx\n"
    "  python skills/slides/scripts/make.py outputs/talk.md --template uploads/company.pptx --out outputs/talk.pptx\n"
    "The form of an outline is told in skills/slides/SKILL.md.",
)
parser.add_argument("outline", help="a .md file")
parser.add_argument("--out", required=True, help="the .pptx to write")
parser.add_argument("--template", help="a .pptx whose design is used; its slides are not")
parser.add_argument("--colour", default="1F4E79", help="of titles and bars, without a template (1F4E79 where absent)")
parser.add_argument("--font", default="Calibri", help="without a template (Calibri where absent)")
parser.add_argument("--asian-font", default="Microsoft YaHei", help="of Chinese letters, without a template")
parser.add_argument("--no-numbers", action="store_true", help="no numbers of slides")


def main(options):
    from composer import Composer
    from design import design_of

    source = input_file(options.outline, ".md", ".markdown", ".txt")
    target = output_file(options.out, ".pptx", inputs=[input_file(options.template)] if options.template else [])
    slides, about = slides_of(source)
    deck = design_of(options)
    composer = Composer(deck, source.parent, numbers=not options.no_numbers)
    for slide in slides:
        composer.add(slide)
    deck.core_properties.title = (about.get("title") or slides[0].title)[:255]
    deck.core_properties.author = about.get("author", "")[:255]
    deck.save(str(target))
    say(f"{options.out}: {len(deck.slides)} slides, {target.stat().st_size} bytes")
    if len(deck.slides) > len(slides):
        say(f"{len(deck.slides) - len(slides)} slides were parted because their text did not fit")
    say(f"Check it: python skills/slides/scripts/check.py {options.out}")


if __name__ == "__main__":
    start(main, parser)
