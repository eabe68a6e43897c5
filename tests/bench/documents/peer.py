"""The stack that documents are compared with: PyMuPDF, python-docx, openpyxl and python-pptx read, jieba cuts Chinese, and
SQLite's FTS5 finds, with one table of chunks that has the text (stemmed by Porter's rules) and its cut form.

    python peer.py index DATABASE CORPUS documents|filler
    python peer.py search DATABASE CORPUS questions|kinds
    python peer.py first CORPUS

Each prints one line of JSON. What the description of that stack leaves open is decided in its favour: the write-ahead log, one
commit a document without waiting for the disk, and questions whose words are not all in one chunk are asked again with any of
them, as otherwise most would find nothing.
"""

import hashlib
import json
import pathlib
import re
import sqlite3
import sys
import time

import docx
import jieba
import openpyxl
import pptx
import pymupdf

LETTERS, OVERLAP = 400, 80
ROWS, ROW_OVERLAP = 20, 2
HITS = 5
ROUNDS = 2

SCHEMA = """
CREATE TABLE IF NOT EXISTS file_metadata (
    file_hash TEXT PRIMARY KEY, file_name TEXT, full_text TEXT, chunk_count INTEGER, indexed_at REAL);
CREATE TABLE IF NOT EXISTS chunks_meta (
    id INTEGER PRIMARY KEY, file_hash TEXT, chunk_id INTEGER, page TEXT, start INTEGER, UNIQUE (file_hash, chunk_id));
CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5(text, text_jieba, tokenize = 'porter unicode61');
"""


def pieces(text):
    """Paragraphs, and sentences of those that are too long; cut where even those are."""
    for paragraph in re.split(r"\n\s*\n", text):
        if len(paragraph) <= LETTERS:
            yield paragraph
            continue
        for sentence in re.split(r"(?<=[.!?。！？\n])", paragraph):
            for start in range(0, len(sentence), LETTERS):
                yield sentence[start : start + LETTERS]


def chunks_of_text(text):
    """Chunks of about 400 letters, each of which begins with the last 80 of the one before."""
    chunk = ""
    for piece in pieces(text):
        if chunk and len(chunk) + len(piece) > LETTERS:
            yield chunk
            chunk = chunk[-OVERLAP:]
        chunk += piece
    if chunk.strip():
        yield chunk


def chunks_of_rows(rows):
    for start in range(0, len(rows), ROWS - ROW_OVERLAP):
        yield "\n".join(rows[start : start + ROWS])
        if start + ROWS >= len(rows):
            break


def of_pdf(path):
    with pymupdf.open(path) as made:
        for page in made:
            for chunk in chunks_of_text(page.get_text()):
                yield page.number + 1, chunk


def of_word(path):
    made = docx.Document(str(path))
    texts = [paragraph.text for paragraph in made.paragraphs]
    for table in made.tables:
        texts += [" | ".join(cell.text for cell in row.cells) for row in table.rows]
    for chunk in chunks_of_text("\n\n".join(text for text in texts if text.strip())):
        yield None, chunk


def of_workbook(path):
    made = openpyxl.load_workbook(path, read_only=True, data_only=True)
    for sheet in made.worksheets:
        rows = [" | ".join(str(cell) for cell in row if cell is not None) for row in sheet.iter_rows(values_only=True)]
        for chunk in chunks_of_rows([row for row in rows if row]):
            yield sheet.title, chunk
    made.close()


def of_deck(path):
    for number, slide in enumerate(pptx.Presentation(str(path)).slides, 1):
        texts = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
        if slide.has_notes_slide:
            texts.append(slide.notes_slide.notes_text_frame.text)
        for chunk in chunks_of_text("\n\n".join(texts)):
            yield number, chunk


READERS = {".pdf": of_pdf, ".docx": of_word, ".xlsx": of_workbook, ".pptx": of_deck}


class Index:
    def __init__(self, path):
        self.base = sqlite3.connect(path)
        self.base.execute("PRAGMA journal_mode = WAL")
        self.base.execute("PRAGMA synchronous = NORMAL")
        self.base.executescript(SCHEMA)

    def add(self, path):
        digest = hashlib.md5(path.read_bytes()).hexdigest()
        full = []
        for number, (page, text) in enumerate(READERS[path.suffix](path)):
            cut = " ".join(jieba.cut_for_search(text))
            row = self.base.execute("INSERT INTO chunks_fts (text, text_jieba) VALUES (?, ?)", (text, cut)).lastrowid
            self.base.execute(
                "INSERT INTO chunks_meta (id, file_hash, chunk_id, page, start) VALUES (?, ?, ?, ?, ?)",
                (row, digest, number, None if page is None else str(page), sum(map(len, full[-1:]))),
            )
            full.append(text)
        self.base.execute(
            "INSERT OR REPLACE INTO file_metadata VALUES (?, ?, ?, ?, ?)",
            (digest, path.name, "\n".join(full), len(full), time.time()),
        )
        self.base.commit()
        return len(full)

    def search(self, query):
        """The best five: document, page, text."""
        found = self.ranked(match(query, " AND "))
        if len(found) < HITS:
            found += [one for one in self.ranked(match(query, " OR ")) if one not in found]
        return found[:HITS]

    def ranked(self, expression):
        if not expression:
            return []
        sql = """SELECT file_metadata.file_name, chunks_meta.page, chunks_fts.text FROM chunks_fts
                 JOIN chunks_meta ON chunks_meta.id = chunks_fts.rowid
                 JOIN file_metadata ON file_metadata.file_hash = chunks_meta.file_hash
                 WHERE chunks_fts MATCH ? ORDER BY bm25(chunks_fts) LIMIT ?"""
        return self.base.execute(sql, (expression, HITS)).fetchall()


def match(query, glue):
    """English words in the text, Chinese ones in its cut form; what stands in quotes stays together."""
    terms = []
    for quoted, plain in re.findall(r'"([^"]+)"|([^"]+)', query):
        if quoted:
            cut = " ".join(jieba.cut_for_search(quoted))
            terms.append(f'{{text text_jieba}} : "{quoted}"' if quoted.isascii() else f'text_jieba : "{cut}"')
            continue
        for word in jieba.cut_for_search(plain):
            if re.search(r"\w", word):
                column = "text" if word.isascii() else "text_jieba"
                terms.append(f'{column} : "{word}"')
    return glue.join(dict.fromkeys(terms))


def peak():
    """The most memory that this process ever held, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def corpus(folder):
    return json.loads((pathlib.Path(folder) / "corpus.json").read_text(encoding="utf-8"))


def index(database, folder, which):
    jieba.initialize()
    documents_index, chunks = Index(database), 0
    begun = time.perf_counter()
    for document in corpus(folder)[which]:
        chunks += documents_index.add(pathlib.Path(folder) / document["name"])
    return {"seconds": time.perf_counter() - begun, "chunks": chunks, "peak": peak()}


def search(database, folder, which):
    jieba.initialize()
    documents_index = Index(database)
    queries = [question["query"] for question in corpus(folder)[which]]
    found = [[{"document": name, "page": page} for name, page, _ in documents_index.search(query)] for query in queries]
    times = []
    for _ in range(ROUNDS):
        for query in queries:
            begun = time.perf_counter()
            documents_index.search(query)
            times.append(1000 * (time.perf_counter() - begun))
    return {"millis": times, "found": found}


def first(folder):
    """From nothing, but with the libraries loaded."""
    long = corpus(folder)["long"]
    begun = time.perf_counter()
    documents_index = Index(":memory:")
    documents_index.add(pathlib.Path(folder) / long["document"])
    hits = documents_index.search(long["query"])
    return {"seconds": time.perf_counter() - begun, "hits": len(hits)}


if __name__ == "__main__":
    jieba.setLogLevel(60)
    print(json.dumps({"index": index, "search": search, "first": first}[sys.argv[1]](*sys.argv[2:])))
