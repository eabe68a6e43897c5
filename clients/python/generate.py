#!/usr/bin/env python3
"""Generates the package agentd.v1 from the .proto files: messages with their types, and one list of all names.

    generate.py [FOLDER]    the folder of the .proto files; default ../../proto/proto

Services need no generated code, because their methods are called by descriptor. Requires grpcio-tools of the version
in tests/clients/packages/requirements.txt, so that the output is reproducible. The generated code works with protobuf
of that version and newer.
"""

import re
import shutil
import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "proto" / "proto"
OUT = HERE / "src" / "agentd" / "v1"
# Top-level messages and enums, and the values of those enums.
DECLARED = re.compile(r"^(?:message|enum) (\w+)|^  ([A-Z][A-Z0-9_]+) = \d+;", re.MULTILINE)


def main():
    files = sorted((PROTO / "agentd" / "v1").glob("*.proto"))
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    out = OUT.parent.parent
    args = ["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}", *map(str, files)]
    if protoc.main(args) != 0:
        sys.exit("protoc failed")
    lines = ['"""The messages of agentd.v1, generated from its .proto files."""\n']
    modules = [file.stem + "_pb2" for file in files]
    lines.append("from . import " + ", ".join(modules))
    for file, module in zip(files, modules):
        for found in DECLARED.finditer(file.read_text(encoding="utf-8")):
            # `X as X` marks the name as re-exported for type checkers.
            name = found[1] or found[2]
            lines.append(f"from .{module} import {name} as {name}")
    services = ", ".join(f"**{module}.DESCRIPTOR.services_by_name" for module in modules)
    lines.append(f"\nSERVICES = {{{services}}}")
    (OUT / "__init__.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
