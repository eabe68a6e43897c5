#!/usr/bin/env python3
"""Makes what people install out of a finished release build: a tarball, a Debian package and a wheel.

Needs Python 3.9 or newer, and nothing else. Packages made twice of the same programs are the same, byte for byte
(SOURCE_DATE_EPOCH sets their time).

Exit codes: 0 done; 1 a package could not be made; 2 wrong use.
"""

import argparse
import base64
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("agentd", "agentctl")
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
RECOGNITION = ["ocr-detection.onnx", "ocr-recognition.onnx", "ocr-letters.txt"]
SUMMARY = "A private, always-on agent runtime: a daemon, and the client that talks to it"
HOMEPAGE = "https://github.com/agentd/agentd"
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))
# The names of one machine in the two worlds.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Failure(Exception):
    """What went wrong, and what to do about it."""

    def __init__(self, what, hint):
        super().__init__(what)
        self.hint = hint


class File:
    """A file of a package: its place below the prefix, its content and its mode."""

    def __init__(self, place, content, mode=0o644):
        self.place = place
        self.content = content
        self.mode = mode


def version():
    text = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    return re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', text, re.M).group(1)


def glibc(programs):
    """The oldest glibc that the programs run with; none where they need none."""
    found = [tuple(map(int, name.split(b"."))) for program in programs
             for name in re.findall(rb"GLIBC_(2\.\d+)\0", program)]
    return max(found, default=None)


def generated(agentd, agentctl):
    """The manual pages and completions, as the programs themselves write them."""
    page = subprocess.run([agentd, "--man"], check=True, stdout=subprocess.PIPE).stdout
    yield File("share/man/man1/agentd.1.gz", gzip.compress(page, mtime=TIME))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([agentctl, "man", "--dir", folder], check=True)
        for page in sorted(Path(folder).iterdir()):
            content = gzip.compress(page.read_bytes(), mtime=TIME)
            yield File("share/man/man1/" + page.name + ".gz", content)
    for shell, place in [("bash", "share/bash-completion/completions/agentctl"),
                         ("zsh", "share/zsh/site-functions/_agentctl"),
                         ("fish", "share/fish/vendor_completions.d/agentctl.fish")]:
        script = subprocess.run([agentctl, "completions", shell], check=True, stdout=subprocess.PIPE).stdout
        yield File(place, script)


def units(program):
    """The user units, for a daemon at that place."""
    for unit in sorted((ROOT / "systemd").iterdir()):
        text = unit.read_text(encoding="utf-8").replace("%h/.local/bin/agentd", program)
        yield File("lib/systemd/user/" + unit.name, text.encode())


def documents():
    yield File("share/doc/agentd/README.md", (ROOT / "README.md").read_bytes())
    yield File("share/doc/agentd/CHANGELOG.md", (ROOT / "CHANGELOG.md").read_bytes())
    yield File("share/doc/agentd/copyright", (ROOT / "LICENSE").read_bytes())
    for folder in ("docs", "config"):
        for path in sorted((ROOT / folder).glob("*.*")):
            yield File("share/doc/agentd/{}/{}".format(folder, path.name), path.read_bytes())


def programs(build):
    for name in PROGRAMS:
        path = build / name
        if not path.is_file():
            raise Failure("{} is not built".format(path), "make dist builds it first")
        yield File("bin/" + name, path.read_bytes(), 0o755)


def model_fetcher():
    """The script that brings the weights, for who installed a package without them."""
    for name in ("fetch_model.py", "models.txt", "recognition.txt"):
        yield File("share/agentd/" + name, (ROOT / "scripts" / name).read_bytes())


def weights():
    data = Path(os.environ.get("AGENTD_DATA_DIR") or Path(
        os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "agentd")
    for name, command in [(WEIGHTS, "make model")] + [(name, "make recognition") for name in RECOGNITION]:
        path = data / "models" / name
        if not path.is_file():
            raise Failure("{} is not there".format(path), "{} brings it, or --without-model leaves it out".format(command))
        yield File("share/agentd/models/" + name, path.read_bytes())


def packed(prefix, files, level=6):
    """A gzipped tar of the files, with the folders that they need."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=TIME, compresslevel=level) as zipped, \
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar:
        made = set()
        for file in files:
            path = prefix + file.place
            for parent in reversed(Path(path).parents):
                name = parent.as_posix()
                if name not in made and name not in (".", "/"):
                    made.add(name)
                    name = "./" + name if prefix.startswith("./") else name
                    tar.addfile(entry(name + "/", 0o755, tarfile.DIRTYPE))
            info = entry(path, file.mode, tarfile.REGTYPE)
            info.size = len(file.content)
            tar.addfile(info, io.BytesIO(file.content))
    return out.getvalue()


def entry(name, mode, kind):
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.mtime = mode, kind, TIME
    info.uname = info.gname = "root"
    return info


def tarball(out, files, machine, level):
    name = "agentd-{}-{}-linux".format(version(), machine)
    path = out / (name + ".tar.gz")
    path.write_bytes(packed(name + "/", files, level))
    return path


def deb(out, files, machine, libc, level):
    """A Debian package: an `ar` archive of a version, a tar that describes it, and a tar of the files."""
    # Where the shell of this system looks.
    files = [File(file.place.replace("zsh/site-functions", "zsh/vendor-completions"), file.content, file.mode) for file in files]
    architecture = ARCHITECTURES[machine]
    control = "\n".join([
        "Package: agentd",
        "Version: {}".format(version()),
        "Architecture: {}".format(architecture),
        "Maintainer: The agentd authors <agentd@localhost>",
        "Installed-Size: {}".format(sum(len(file.content) for file in files) // 1024),
        "Depends: libc6 (>= {}.{}), libgcc-s1, ca-certificates".format(*libc),
        "Recommends: git, python3",
        "Section: utils",
        "Priority: optional",
        "Homepage: {}".format(HOMEPAGE),
        "Description: {}".format(SUMMARY),
        " A long-running daemon owns model clients, MCP servers, indexes and session",
        " workspaces; agentctl, pipelines and editors send it turns and watch them stream.",
        " `agentctl service install` runs it as a service of your user.",
    ]) + "\n"
    sums = "".join("{}  usr/{}\n".format(hashlib.md5(file.content).hexdigest(), file.place) for file in files)
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", packed("./", [File("control", control.encode()), File("md5sums", sums.encode())])),
        ("data.tar.gz", packed("./usr/", files, level)),
    ]
    path = out / "agentd_{}_{}.deb".format(version(), architecture)
    with path.open("wb") as archive:
        archive.write(b"!<arch>\n")
        for name, content in members:
            head = "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n".format(name, TIME, 0, 0, "100644", len(content))
            archive.write(head.encode() + content + (b"\n" if len(content) % 2 else b""))
    return path


def wheel(out, files, machine, libc, level):
    """A wheel of the programs and little else, as the specification of binary distributions describes it."""
    tag = "py3-none-manylinux_{}_{}_{}".format(libc[0], libc[1], machine)
    base = "agentctl-{}".format(version())
    info = base + ".dist-info/"
    metadata = "\n".join([
        "Metadata-Version: 2.1", "Name: agentctl", "Version: {}".format(version()), "Summary: {}".format(SUMMARY),
        "Home-page: {}".format(HOMEPAGE), "License: Apache-2.0", "Requires-Python: >=3.8",
        "Classifier: Operating System :: POSIX :: Linux", "Description-Content-Type: text/markdown", "",
    ]) + "\n" + (ROOT / "README.md").read_text(encoding="utf-8")
    kind = "Wheel-Version: 1.0\nGenerator: agentd\nRoot-Is-Purelib: false\nTag: {}\n".format(tag)
    places = [(file, "scripts/" + Path(file.place).name if file.mode & 0o111 else "data/" + file.place) for file in files]
    members = [File("{}.data/{}".format(base, place), file.content, file.mode) for file, place in places]
    members += [File(info + "METADATA", metadata.encode()), File(info + "WHEEL", kind.encode()),
                File(info + "LICENSE", (ROOT / "LICENSE").read_bytes())]
    record = ""
    for member in members:
        digest = base64.urlsafe_b64encode(hashlib.sha256(member.content).digest()).rstrip(b"=").decode()
        record += "{},sha256={},{}\n".format(member.place, digest, len(member.content))
    members.append(File(info + "RECORD", (record + info + "RECORD,,\n").encode()))
    path = out / "{}-{}.whl".format(base, tag)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            head = zipfile.ZipInfo(member.place, time.gmtime(TIME)[:6])
            head.external_attr = (0o100000 | member.mode) << 16
            head.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(head, member.content, compresslevel=level)
    return path


def make(options):
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise Failure("no package is made for {}".format(machine), "build with `make build` and copy the programs")
    options.out.mkdir(parents=True, exist_ok=True)
    own = list(programs(options.build))
    libc = glibc([file.content for file in own])
    if libc is None:
        raise Failure("the programs name no glibc", "packages are made of programs that are linked to glibc")
    texts = list(generated(options.build / "agentd", options.build / "agentctl")) + list(documents())
    model = [] if options.without_model else list(weights())
    fetcher, level = list(model_fetcher()), 1 if options.fast else 9
    everything = own + texts + fetcher + model
    made = [
        tarball(options.out, everything + list(units("%h/.local/bin/agentd")), machine, level),
        deb(options.out, everything + list(units("/usr/bin/agentd")), machine, libc, level),
        wheel(options.out, own + fetcher, machine, libc, level),
    ]
    for path in made:
        print("{:>7.1f} MB  {}".format(path.stat().st_size / 1e6, path))
    print("for {} with glibc {}.{} or newer".format(machine, *libc))


def main():
    parser = argparse.ArgumentParser(description="Makes packages out of a finished release build.")
    parser.add_argument("--build", type=Path, default=ROOT / "target/release", help="folder of the programs")
    parser.add_argument("--out", type=Path, default=ROOT / "target/dist", help="folder of the packages")
    parser.add_argument("--without-model", action="store_true", help="leave out the weights of the built-in model")
    parser.add_argument("--fast", action="store_true", help="compress little")
    try:
        make(parser.parse_args())
    except Failure as failure:
        print("error: {}\nhint: {}".format(failure, failure.hint), file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print("error: {}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
