"""What is handed over beside the words of an input."""

from __future__ import annotations

from . import v1


def text(words: str) -> v1.InputPart:
    """Words, added to the text of the input."""
    return v1.InputPart(text=words)


def picture(data: bytes, media_type: str, name: str | None = None) -> v1.InputPart:
    """A picture for models that see: PNG, JPEG, GIF or WebP, at most 8 MiB."""
    return v1.InputPart(picture=v1.InputPart.Picture(data=data, media_type=media_type, name=name))


def file(name: str, data: bytes) -> v1.InputPart:
    """A file of at most 8 MiB. It is put into ``uploads/``, and the model is told of it."""
    return v1.InputPart(file=v1.InputPart.File(name=name, data=data))


def selection(uri: str, words: str, first: int | None = None, last: int | None = None) -> v1.InputPart:
    """A part of what the person looks at, such as an unsaved buffer; its lines count from 1."""
    lines = None if first is None else v1.InputPart.LineRange(first=first, last=first if last is None else last)
    return v1.InputPart(selection=v1.InputPart.Selection(uri=uri, text=words, lines=lines))
