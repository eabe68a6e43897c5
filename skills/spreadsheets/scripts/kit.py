"""Opens a file in LibreOffice and saves it as XLSX: `kit.py LIBRARY PROFILE SOURCE TARGET`, the last three as addresses.

LibreOffice is loaded as a library (LibreOfficeKit). The program `soffice` looks for other instances through a socket, and ends where a
sandbox refuses sockets.
"""

import ctypes
import os
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_size_t, c_void_p


class Office(Structure):
    """The first functions of the table that LibreOfficeKit gives; their order never changes."""

    _fields_ = [
        ("size", c_size_t),
        ("destroy", CFUNCTYPE(None, c_void_p)),
        ("load", CFUNCTYPE(c_void_p, c_void_p, c_char_p)),
        ("error", CFUNCTYPE(c_char_p, c_void_p)),
    ]


class Document(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("destroy", CFUNCTYPE(None, c_void_p)),
        ("save", CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p, c_char_p)),
    ]


def table(pointer, kind):
    """An object begins with the address of its table."""
    return ctypes.cast(pointer, POINTER(POINTER(kind))).contents.contents


def main(path, profile, source, target):
    hook = ctypes.CDLL(path).libreofficekit_hook_2
    hook.restype, hook.argtypes = c_void_p, [c_char_p, c_char_p]
    office = hook(os.path.dirname(path).encode(), profile.encode())
    if not office:
        return "it does not start"
    document = table(office, Office).load(office, source.encode())
    if not document:
        return (table(office, Office).error(office) or b"no reason given").decode(errors="replace")
    return "" if table(document, Document).save(document, target.encode(), b"xlsx", None) else "it cannot be saved"


if __name__ == "__main__":
    failure = main(*sys.argv[1:])
    print(failure, file=sys.stderr, flush=True)
    # The library's own exit may wait for its threads.
    os._exit(1 if failure else 0)
