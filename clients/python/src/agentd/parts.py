"""Parts of an input besides its text."""

from __future__ import annotations

from . import v1


def text(content: str) -> v1.InputPart:
    """Text to append to the text of the input."""
    return v1.InputPart(text=content)


def picture(data: bytes, media_type: str, name: str | None = None) -> v1.InputPart:
    """A picture for models with vision: PNG, JPEG, GIF or WebP, at most 8 MiB."""
    return v1.InputPart(picture=v1.InputPart.Picture(data=data, media_type=media_type, name=name))


def file(name: str, data: bytes) -> v1.InputPart:
    """A file of at most 8 MiB. It is stored in ``uploads/``, and the model is notified."""
    return v1.InputPart(file=v1.InputPart.File(name=name, data=data))


def selection(uri: str, content: str, first: int | None = None, last: int | None = None) -> v1.InputPart:
    """A selection in the user's editor, such as an unsaved buffer; lines count from 1."""
    lines = None if first is None else v1.InputPart.LineRange(first=first, last=first if last is None else last)
    return v1.InputPart(selection=v1.InputPart.Selection(uri=uri, text=content, lines=lines))
