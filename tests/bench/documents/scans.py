"""Makes scans of pages whose text is known, and brings real ones.

    python scans.py FOLDER
    python scans.py judge FOLDER TEXTS

The first prints pages of manuals from Debian's packages as a scanner gives them: grey, a little askew, with noise and shadows,
packed as JPEG; and takes real scans out of the test suite of OCRmyPDF, of which `REAL` has sentences. `corpus.json` in the folder
names the `documents`, `truth.json` has the text of their pages. The second compares `TEXTS` with it, word by word as `foreign.py`
does.
"""

import collections
import io
import json
import pathlib
import random
import shutil
import sys
import tarfile
import tempfile

import numpy
import pymupdf
from PIL import Image, ImageFilter

import foreign
import manuals
import real

PACKAGES = {"debian-reference-en": "en", "debian-reference-zh-cn": "zh", "debian-reference-fr": "fr", "debian-reference-de": "de"}
PAGES = 6
LEAST_LETTERS = 600
SDIST = "ocrmypdf==16.11.0"
# What can be read on real scans, in part.
REAL = {
    "linn.png": (
        "track sequence recorder state-of-the-art composition performance professional musician extremely powerful tape PLAY STOP RECORD "
        "REWIND controls synthesizers disk drive stores songs seconds 110,000 TRANSPOSED touch key rhythmic TIMING CORRECTION remote "
        "control keyboard click track loops erased overdubbed pitch bend modulation velocity aftertouch sustain pedal note pressed "
        "function INSERT/COPY bars location bridge DELETE unwanted sections Creating Song verse chorus chain infinitely fadeout "
        "Composition Without Compromise technology interferes creative precisely dealer demonstration Additional Features character "
        "display HELP button FOOTSWITCH INPUTS TRIGGER OUTPUTS tone computer internally FRAMES-PER-BEAT tenths quarter TAP CHANGES smooth "
        "SIGNATURE Electronics Oxnard Street Tarzana 91356 708-8131 TELEX"
    ),
    "typewriter.png": (
        "Linzensoep Waterman linzen liter water uien bloem boter kopjes melk laurier kruidnagel kerrie zout wassen kokend dag laten weken "
        "voegen zonder het waarin geweekt zijn gieten helft van bakken met Alles aan kook brengen papje maken verder afmaken soep Als gaar "
        "klaar"
    ),
}
# Dots per inch, degrees askew, spread of the noise, quality of the JPEG.
CLEAN, USUAL, POOR = (300, 0.0, 4, 90), (200, 0.7, 10, 70), (150, 1.8, 18, 50)


def scanned(page, kind, chance):
    dots, askew, noise, quality = kind
    drawn = page.get_pixmap(dpi=dots, colorspace=pymupdf.csGRAY)
    picture = Image.frombytes("L", (drawn.width, drawn.height), drawn.samples)
    picture = picture.rotate(chance.choice([-askew, askew]), resample=Image.BICUBIC, fillcolor=255)
    picture = picture.filter(ImageFilter.GaussianBlur(0.5))
    grey = numpy.asarray(picture, dtype=numpy.float32)
    # Paper is not white, and darker at one edge; ink is not black.
    shade = numpy.linspace(235, 205, grey.shape[1], dtype=numpy.float32)
    grey = 40 + grey / 255 * (shade - 40)
    grey += numpy.random.default_rng(chance.randrange(1 << 30)).normal(0, noise, grey.shape).astype(numpy.float32)
    out = io.BytesIO()
    Image.fromarray(grey.clip(0, 255).astype(numpy.uint8)).save(out, "JPEG", quality=quality)
    return out.getvalue()


def chosen(made, chance):
    full = [page.number for page in made if len(page.get_text()) > LEAST_LETTERS]
    return sorted(chance.sample(full, min(PAGES, len(full))))


def print_manual(path, name, into, truth):
    chance = random.Random(name)
    with pymupdf.open(path) as made:
        numbers = chosen(made, chance)
        for kind, how in (("clean", CLEAN), ("usual", USUAL), ("poor", POOR)):
            with pymupdf.open() as printed:
                for number in numbers:
                    page = made[number]
                    printed.new_page(width=page.rect.width, height=page.rect.height)
                    printed[-1].insert_image(page.rect, stream=scanned(page, how, chance))
                file = f"{name}-{kind}.pdf"
                printed.save(into / file)
                truth[file] = {str(at): made[number].get_text() for at, number in enumerate(numbers, 1)}


def bring_real(into, truth):
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", SDIST]
        if not real.run(*pip, cwd=folder):
            real.log(f"without {SDIST}: pip does not give it")
            return
        with tarfile.open(next(pathlib.Path(folder).glob("*.tar.gz"))) as packed:
            for member in packed.getmembers():
                name = pathlib.PurePosixPath(member.name).name
                if name in REAL and member.isfile():
                    (into / f"real-{name}").write_bytes(packed.extractfile(member).read())
                    truth[f"real-{name}"] = {"1": REAL[name]}


def make(target):
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    truth = {}
    for package, name in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            manuals.bring(package, pathlib.Path(folder))
            for path in sorted(pathlib.Path(folder).glob("*.pdf"))[:1]:
                print_manual(path, name, part, truth)
    bring_real(part, truth)
    documents = [{"name": name, "pages": len(pages)} for name, pages in sorted(truth.items())]
    (part / "corpus.json").write_text(json.dumps({"documents": documents, "questions": []}), encoding="utf-8")
    (part / "truth.json").write_text(json.dumps(truth, ensure_ascii=False), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def judge(folder, texts):
    verdicts = {}
    for name, pages in json.loads((folder / "truth.json").read_text(encoding="utf-8")).items():
        kind = name.rsplit(".", 1)[0] if not name.startswith("real-") else "real"
        verdict = verdicts.setdefault(kind, {"documents": 0, "words": 0, "found": 0, "ordered": 0, "compared": 0, "worst": []})
        own_known = own_found = 0
        for place, text in pages.items():
            ours = foreign.words(texts.get(name, {}).get(place, ""))
            known = collections.Counter(foreign.words(text))
            said, joined = set(ours), "".join(ours)
            own_known += len(known)
            own_found += sum(word in said for word in known)
            verdict["compared"] += len(known)
            verdict["ordered"] += sum(word in said or len(word) >= foreign.LEAST_JOINED and word in joined for word in known)
        verdict["documents"] += 1
        verdict["words"] += own_known
        verdict["found"] += own_found
        if own_found < 0.9 * own_known:
            verdict["worst"].append(f"{name} {100 * own_found / max(1, own_known):.0f} %")
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    if sys.argv[1] == "judge":
        judge(pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")))
    else:
        make(pathlib.Path(sys.argv[1]))
