"""Sentences of manuals that others wrote, asked for in the six forms in which people ask:

- `keywords`: four of its words.
- `question3`, `question4`: a question with three, or four, of its words.
- `extra`: four of its words, and one that its page has not.
- `typo`: four of its words, one of them with a letter too many, too few, wrong, or in the wrong place.
- `endings`: four of its words, each with another ending where the language offers one.

Besides, what stands on one page only is asked for as it stands there: four words in quotes (`phrase`), and stretches of Chinese,
Japanese, Korean and Vietnamese (`zh`, `ja`, `ko`, `vi`). Of Arabic and Persian, both: what stands there (`ar`, `fa`), and questions with
four words of a line (`ar-question`, `fa-question`).

Half of the sentences, `tuned`, are those on which the ranking was tuned; the other half is reported. A query with a piece of a word,
where PyMuPDF reads an accent beside its letter, is left out.
"""

import collections
import random
import re
import unicodedata

import pymupdf

SEED = 20251127
STRETCHES = 30
SENTENCES = 240
LEAST_LETTERS = 5
# Share of all pages.
FREQUENT = 0.05

# A word with an accent that PyMuPDF reads beside its letter: "st\u00a8andig".
CUT = re.compile(r"([^\W\d_]*)[\u00a8\u00b4\u00b8\u02dc]([^\W\d_]+)|([^\W\d_]+)`([^\W\d_]+)")

# How a question is put, by language.
QUESTIONS = {
    "en": ["What does it say about {}?", "How is {} described in the document?", "Tell me about {}"],
    "de": ["Was steht im Dokument über {}?", "Was wird zu {} gesagt?"],
    "fr": ["Que dit le document sur {} ?", "Comment est décrit {} ?"],
    "es": ["¿Qué dice el documento sobre {}?", "¿Cómo se describe {}?"],
    "it": ["Che cosa dice il documento su {}?", "Come si descrive {}?"],
    "pt": ["O que diz o documento sobre {}?"],
    "nl": ["Wat zegt het document over {}?"],
    "sv": ["Vad säger dokumentet om {}?"],
    "da": ["Hvad siger dokumentet om {}?"],
    "ru": ["Что говорится в документе о {}?"],
}
AND = {"en": "and", "de": "und", "fr": "et", "es": "y", "it": "e", "pt": "e", "nl": "en", "sv": "och", "da": "og", "ru": "и"}

# The most frequent words: they are never queried, and identify the language of a sentence.
SMALL = {
    "en": "the of and to in is that for are with this be you can not from which will have when your should other there these would about where their more also been only after into some such then them than they",
    "de": "der die das und ist von zu mit auf für den nicht ein eine werden wird sie dem des sich auch wenn oder kann aus nach können durch einer einen sind wie über werden diese dieser diesem",
    "fr": "le la les des et est une un que dans pour sur par avec pas qui vous ce cette sont peut être plus ou aux comme votre pouvez",
    "es": "el la los las de que en es un una por con para se del no como su este esta son puede más pero sus todos desde cuando",
    "it": "il la le di che è un una per con non si del della dei in sono questo questa come può anche più gli nel alla essere",
    "pt": "o a os as de que em um uma por com para se do da não como este esta são pode mais mas seus todos quando",
    "nl": "de het een van en is dat in op te zijn met voor niet aan worden wordt kan bij ook als deze dit naar door",
    "sv": "och att det som en är på för med av inte den till om har kan från eller ett du ska vara detta denna",
    "da": "og at det som en er på for med af ikke den til om har kan fra eller et du skal være dette denne vil",
    "ru": "и в не на что с для по как это из или если будет вы при может от также быть все того чтобы",
}
SMALL = {language: set(words.split()) for language, words in SMALL.items()}
ALL_SMALL = set().union(*SMALL.values())


def language_of(words):
    """The language whose small words are the most; none where that is not clear."""
    scores = sorted(((sum(word.lower() in small for word in words), language) for language, small in SMALL.items()), reverse=True)
    return scores[0][1] if scores[0][0] >= 4 and scores[0][0] > scores[1][0] + 1 else None


def wrong(dice, word):
    """One typo, somewhere behind the first letter, as most are."""
    at = dice.randrange(1, len(word) - 1)
    letters = "".join(sorted({letter for letter in word.lower()} | set("aeinrst")))
    kind = dice.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + dice.choice(letters) + word[at:]
    if kind == 2:
        return word[:at] + dice.choice([letter for letter in letters if letter != word[at].lower()]) + word[at + 1 :]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def other_ending(word, language):
    """The word with another ending of its language, by rules that are right for most words."""
    low = word.lower()
    if language == "en":
        for old, new in [("ies", "y"), ("ing", "s"), ("ed", "ing"), ("es", "e"), ("s", "")]:
            if low.endswith(old) and len(low) > len(old) + 3 and not low.endswith("ss"):
                return low[: -len(old)] + new
        return low[:-1] + "ies" if re.search("[^aeiou]y$", low) else low + ("es" if re.search("(s|x|ch|sh)$", low) else "s")
    rules = {
        "de": [("en", "e"), ("er", "e"), ("es", "e"), ("e", "en"), ("n", ""), ("t", "en"), ("s", ""), ("", "en")],
        "fr": [("es", "e"), ("aux", "al"), ("s", ""), ("é", "ée"), ("er", "é"), ("e", "es"), ("", "s")],
        "es": [("es", ""), ("os", "o"), ("as", "a"), ("ar", "ado"), ("o", "os"), ("a", "as"), ("e", "es"), ("", "es")],
        "it": [("are", "ato"), ("i", "o"), ("e", "a"), ("o", "i"), ("a", "e"), ("", "")],
        "pt": [("os", "o"), ("as", "a"), ("ar", "ado"), ("o", "os"), ("a", "as"), ("e", "es"), ("", "s")],
        "nl": [("en", "e"), ("e", "en"), ("s", ""), ("", "en")],
        "sv": [("arna", "ar"), ("en", ""), ("et", ""), ("ar", ""), ("a", "ar"), ("", "en")],
        "da": [("erne", "er"), ("en", ""), ("et", ""), ("er", ""), ("e", "er"), ("", "en")],
        "ru": [("ов", "ы"), ("ами", "ы"), ("ы", "а"), ("и", "ей"), ("а", "ы"), ("о", "а"), ("е", "я"), ("", "а")],
    }
    for old, new in rules[language]:
        if low.endswith(old) and len(low) > len(old) + 3:
            return low[: len(low) - len(old)] + new
    return low


def sentences(dice, text, frequent):
    """Sentences of running text: language, words that can be asked for, and the sentence. Nobody asks for words that are
    everywhere, or twice for one."""
    for sentence in dice.sample(parts := re.split(r"(?<=[^\W\d_]{2})[.!?] ", text)[1:-1], len(parts)):
        words = re.findall(r"[^\W\d_]+", sentence)
        language = language_of(words) if 9 <= len(words) <= 40 else None
        asked = {}
        for word in sorted(words):
            if len(word) >= LEAST_LETTERS and word.lower() not in ALL_SMALL and word.lower() not in frequent:
                asked.setdefault(word.lower()[:LEAST_LETTERS], word)
        if language and len(asked) >= 4:
            yield language, list(asked.values()), sentence


def cut_words(sentence):
    """The pieces of words that an accent cuts, and words with one in them. Nobody asks for "andig" or "f\u02c6ete"."""
    pieces = {piece for pieces in CUT.findall(sentence) for piece in pieces}
    return pieces | {word for word in re.findall(r"[^\W\d_]+", sentence) if re.search("[\u02c6\u02c7]", word)}


def forms(dice, language, words, foreign, cut, pieces):
    """One query of each form, without those that would ask for pieces of words."""
    four = dice.sample(words, 4)
    three = dice.sample(words, 3)
    glue = f" {AND[language]} "
    question = QUESTIONS[language]
    spoilt = list(four)
    at = dice.randrange(4)
    spoilt[at] = wrong(dice, spoilt[at])
    queries = {
        "keywords": " ".join(four),
        "question3": dice.choice(question).format(glue.join(three)),
        "question4": dice.choice(question).format(glue.join(four)),
        "extra": " ".join(dice.sample([*four, foreign], 5)),
        "typo": " ".join(spoilt),
        "endings": " ".join(other_ending(word, language) for word in four),
    }
    if foreign in pieces:
        del queries["extra"]
    return {form: query for form, query in queries.items() if not cut & set(three if form == "question3" else four)}


def questions(paths, count=SENTENCES):
    """A list of `{document, page, form, query, tuned, language}` over PDFs; the same from the same files. The pages are read by the
    library of the stack that is compared, so that none is asked for that it cannot read."""
    dice = random.Random(SEED)
    pages, vocabulary = [], {}
    for path in sorted(paths):
        with pymupdf.open(path) as made:
            for page in made:
                text = re.sub(r"\s+", " ", re.sub(r"(\w)[-\u00ad]\n(\w)", r"\1\2", page.get_text()))
                # Tables of contents and indexes are full of dots.
                if len(text) >= 600 and text.count(". . .") + text.count("....") + text.count("…") == 0:
                    pages.append((path.name, page.number + 1, text))
    dice.shuffle(pages)
    # As many of each document, as far as it goes: a manual of a thousand pages is not all that is asked for.
    turns, taken = {}, {}
    for page in pages:
        taken[page[0]] = taken.get(page[0], 0) + 1
        turns.setdefault(taken[page[0]], []).append(page)
    whole = "\n".join(text for _, _, text in pages)
    seen = collections.Counter(word for _, _, text in pages for word in set(re.findall(r"[^\W\d_]+", text.lower())))
    frequent = {word for word, times in seen.items() if times > len(pages) * FREQUENT}
    chosen = []
    for turn in sorted(turns):
        for document, number, text in turns[turn]:
            # One that another page has as well would be answered there, too.
            one = next((one for one in sentences(dice, text, frequent) if whole.count(one[2]) == 1), None)
            if one:
                vocabulary.setdefault(one[0], set()).update(one[1])
                chosen.append((document, number, text, *one))
            if len(chosen) == count:
                break
        if len(chosen) == count:
            break
    asked, pieces = [], set().union(*(cut_words(sentence) for *_, sentence in chosen))
    for index, (document, number, text, language, words, sentence) in enumerate(chosen):
        low = text.lower()
        others = [word for word in sorted(vocabulary[language]) if word.lower() not in low]
        for form, query in forms(dice, language, words, dice.choice(others), cut_words(sentence), pieces).items():
            asked.append({"document": document, "page": number, "form": form, "query": query, "language": language,
                          "tuned": index % 2 == 0})
    return asked


# What is asked for of a script: letters that stand together, or words.
WIDE = r"[\u3040-\u30ff\u3400-\u9fff]"
KANA = re.compile(r"[\u3040-\u30ff]")
HANGUL = re.compile(r"[\uac00-\ud7af]{2,}(?: [\uac00-\ud7af]{2,}){2}")
WORDS = re.compile(r"[^\W\d_]{2,}(?: [^\W\d_]{2,}){3}")


def stretch(dice, ending, text):
    """Something that stands on a page, as it stands there; none where there is nothing of this script."""
    if ending in ("zh", "ja"):
        found = [one for one in re.findall(WIDE + "{10,}", text.replace(" ", "")) if bool(KANA.search(one)) == (ending == "ja")]
        if not found:
            return None
        one = dice.choice(found)
        start = dice.randrange(len(one) - 9)
        return one[start : start + 10]
    found = (HANGUL if ending == "ko" else WORDS).findall(text)
    return dice.choice(found) if found else None


# Names of manuals by what is asked for of them.
MANUALS = {"zh": r"zh", "ja": r"\.ja\.", "ko": r"\.ko\.", "vi": r"\.vi\.", "phrase": r"\.en\.|octave|valgrind|R-"}


def stretches(paths):
    """The same list of what is asked for as it stands there; each on one page only, whatever spaces stand in it."""
    dice = random.Random(SEED)
    pages = []
    for path in sorted(paths):
        with pymupdf.open(path) as made:
            pages += [(path.name, page.number + 1, re.sub(r"\s+", " ", page.get_text())) for page in made]
    whole = "\n".join(text for _, _, text in pages).replace(" ", "")
    dice.shuffle(pages)
    asked = []
    for form, manuals in MANUALS.items():
        count = 0
        for document, number, text in pages:
            full = len(text) >= 600 and text.count("....") + text.count(". . .") == 0
            query = stretch(dice, form, text) if full and re.search(manuals, document) else None
            if query and whole.count(query.replace(" ", "")) == 1:
                query = f'"{query}"' if form == "phrase" else query
                asked.append({"document": document, "page": number, "form": form, "query": query, "language": form, "tuned": False})
                count += 1
            if count == STRETCHES:
                break
    return asked


# Manuals that are written from right to left, by language.
FROM_RIGHT = {
    "ar": ["user_guide.pdf", "samplebook.pdf", "arabi-add-example.pdf", "dad-user-guide.pdf", "na-box_doc-back.pdf",
           "sexam_wexam_doc_ar.pdf", "bac_template-DZ.pdf"],
    "fa": ["lshort.pdf", "alpha-persian-p.userguide.pdf", "Persian-bib-userguide.pdf", "xepersian-doc.pdf"],
}
FROM_RIGHT_QUESTIONS = {
    "ar": ["ماذا يقول المستند عن {}؟", "كيف يصف المستند {}؟"],
    "fa": ["سند درباره {} چه می‌گوید؟", "{} در سند چگونه توضیح داده شده است؟"],
}
FROM_RIGHT_AND = "و"
FROM_RIGHT_SMALL = set("في من على إلى أن عن هذا هذه التي الذي به از که را این است با برای در".split())
LEAST_LETTERS_FROM_RIGHT = 3
ARABIC = "\u0620-\u064a\u067e\u0686\u0698\u06a9\u06af\u06cc"
# Vowel marks, which few people type.
ARABIC_MARKS = re.compile("[\u064b-\u065f\u0670]")
# A joiner stands within a word.
BEFORE, BEHIND = r"(?<![\w\u200c])", r"(?![\w\u200c])"
ARABIC_WORD = re.compile(f"{BEFORE}[{ARABIC}]+{BEHIND}")
ARABIC_STRETCH = re.compile(f"{BEFORE}[{ARABIC}]{{2,}}(?: [{ARABIC}]{{2,}}){{3}}{BEHIND}")


def is_in_order(words):
    """Returns True if the text is right-to-left, detected by its frequent words."""
    small = sum(word in FROM_RIGHT_SMALL for word in words)
    turned = sum(word[::-1] in FROM_RIGHT_SMALL for word in words if len(word) > 1)
    return small >= 3 and small > 3 * turned


def is_one_word(word, times):
    """Whether it is not stretched, and likely not several words between which PyMuPDF sees no space: most of those are seen once, or
    are others that stand together. What is left of them is asked for all the same, which favours readers that miss the same spaces."""
    if times[word] < 2 or len(word) > 10 or "\u0640" in word:
        return False
    return not any(times[word[:at]] > 1 and times[word[at:]] > 1 for at in range(2, len(word) - 1))


def from_right(paths):
    """The same list over manuals in Arabic and Persian, whose names begin with the language. What is asked for stands in the order
    and in the letters in which people type it."""
    dice = random.Random(SEED)
    pages = []
    for path in sorted(paths):
        with pymupdf.open(path) as made:
            for page in made:
                text = ARABIC_MARKS.sub("", unicodedata.normalize("NFKC", page.get_text()))
                if is_in_order(ARABIC_WORD.findall(text)):
                    pages.append((path.name, page.number + 1, [re.sub(r"\s+", " ", line) for line in text.splitlines()]))
    whole = "\n".join(" ".join(lines) for _, _, lines in pages)
    times = collections.Counter(ARABIC_WORD.findall(whole))
    seen = collections.Counter(word for _, _, lines in pages for word in set(ARABIC_WORD.findall(" ".join(lines))))
    frequent = {word for word, count in seen.items() if count > len(pages) * FREQUENT}
    dice.shuffle(pages)
    asked = []
    for language in FROM_RIGHT:
        turns = {"": [], "-question": []}
        for document, number, lines in pages:
            if not document.startswith(f"{language}."):
                continue
            lines = [line for line in lines if whole.count(line) == 1]
            stretches = [one for line in lines for one in ARABIC_STRETCH.findall(line)]
            stretches = [one for one in stretches if whole.count(one) == 1]
            stretches = [one for one in stretches if all(is_one_word(word, times) for word in one.split())]
            asks = [from_right_question(dice, language, line, times, frequent) for line in lines]
            for form, queries in [("", stretches), ("-question", [one for one in asks if one])]:
                queries = dice.sample(queries, len(queries))
                turns[form] += [(turn, document, number, query) for turn, query in enumerate(queries)]
        # As many of each page, as far as it goes.
        for form, queries in turns.items():
            asked += [{"document": document, "page": number, "form": language + form, "query": query, "language": language,
                       "tuned": False} for _, document, number, query in sorted(queries, key=lambda one: one[0])[:STRETCHES]]
    return asked


def from_right_question(dice, language, line, times, frequent):
    """A question with four words of a line; none where it has fewer that can be asked for."""
    words = [word for word in dict.fromkeys(ARABIC_WORD.findall(line)) if len(word) >= LEAST_LETTERS_FROM_RIGHT]
    words = [word for word in words if word not in frequent and is_one_word(word, times)]
    if len(words) < 4:
        return None
    return dice.choice(FROM_RIGHT_QUESTIONS[language]).format(f" {FROM_RIGHT_AND} ".join(dice.sample(words, 4)))
