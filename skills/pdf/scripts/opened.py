"""PDF files opened for reading, by the library that suits: faults are told in words."""

import logging
import re

from cli import Fault, input_file

# More pages than this are not worked on at once.
MAX_PAGES = 20_000


def pypdf_reader(path, password=None):
    """A reader of pypdf: structure, forms, pages to move. Unlocked, and known to have pages."""
    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    found = input_file(path, ".pdf")
    _check_header(found)
    try:
        reader = pypdf.PdfReader(found)
        if reader.is_encrypted and not reader.decrypt(password or ""):
            raise _locked(found, password)
        count = len(reader.pages)
        if count:
            reader.pages[0].mediabox  # fails here and not half way, where the file is damaged
    except Fault:
        raise
    except (PyPdfError, RecursionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
        raise _damaged(found, error) from error
    _check_count(found, count)
    return reader


def pdfium_document(path, password=None):
    """A document of pdfium: text and pictures of pages, quickly and also of damaged files."""
    import pypdfium2

    found = input_file(path, ".pdf")
    _check_header(found)
    try:
        document = pypdfium2.PdfDocument(found, password=password)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise _locked(found, password) from error
        raise _damaged(found, error) from error
    _check_count(found, len(document))
    return document


def page_at(document, number):
    """A page by its number, counted from 1."""
    import pypdfium2

    try:
        return document[number - 1]
    except pypdfium2.PdfiumError as error:
        raise Fault(f"page {number} is damaged and cannot be opened; give other pages with --pages") from error


def plumber_document(path, password=None):
    """A document of pdfplumber: where words and lines lie. Only for what pdfium opened before."""
    import pdfplumber

    logging.getLogger("pdfminer").setLevel(logging.ERROR)
    pdfium_document(path, password).close()
    found = input_file(path, ".pdf")
    try:
        return pdfplumber.open(found, password=password or "")
    except Exception as error:  # it raises what its parsers raise
        raise _damaged(found, error) from error


def _check_header(found):
    with open(found, "rb") as file:
        if b"%PDF-" not in file.read(1024):
            raise Fault(f"{found.name} is no PDF: its first bytes are those of something else")


def _check_count(found, count):
    if count == 0:
        raise Fault(f"{found.name} has no pages; it is damaged")
    if count > MAX_PAGES:
        raise Fault(f"{found.name} has {count} pages; more than {MAX_PAGES} are not read")


def _locked(found, password):
    if password:
        return Fault(f"the password does not open {found.name}")
    return Fault(f"{found.name} is locked; ask for its password and give it with --password")


def _damaged(found, error):
    cause = re.sub(r"\s+", " ", str(error))[:200]
    return Fault(f"{found.name} is damaged and cannot be opened: {cause}")
