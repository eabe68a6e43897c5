#!/usr/bin/env python3
"""Makes the packages and installs them where nothing else is: each has to answer with the built-in model.

Takes the folder of the programs, and needs what `make model` brings. The Debian package and the tarball are unpacked into roots
of their own that hold nothing but the system's C library; the wheel is installed by pip.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 240


def run(*command, env=None):
    """Runs a program to its end, and returns what it said."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=LIMIT)
    if done.returncode != 0:
        raise SystemExit("{} ended with {}\n{}\n{}".format(command, done.returncode, done.stdout, done.stderr))
    return done.stdout


def stripped(build, folder):
    """Copies of the programs, without what is there for debuggers where that can be taken away."""
    for name in ("agentd", "agentctl"):
        shutil.copy2(build / name, folder / name)
        if shutil.which("strip"):
            run("strip", str(folder / name))


def members(package):
    """The members of an `ar` archive."""
    data, at = package.read_bytes(), 8
    assert data[:8] == b"!<arch>\n", package
    while at < len(data):
        head = data[at:at + 60]
        size = int(head[48:58])
        yield head[:16].decode().strip(), data[at + 60:at + 60 + size]
        at += 60 + size + size % 2


def with_libraries(root):
    """Gives a root what programs need of the system: the C library, and a few folders."""
    for program in ("agentd", "agentctl"):
        path = next(root.rglob("bin/" + program))
        for line in run("ldd", str(path)).splitlines():
            library = next((word for word in line.split() if word.startswith("/")), None)
            if library and not (root / library[1:]).exists():
                (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(library, root / library[1:])
    for folder in ("tmp", "proc", "dev", "home/me"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "dev/null").touch()


def answers(root, program):
    """Asks the built-in model, with nothing of this machine in view but its kernel."""
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child",
             "sh", "-c", 'mount --bind /dev/null "$1/dev/null" && mount -t proc proc "$1/proc" && exec chroot "$@"', "sh"]
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/home/me"}
    if subprocess.run(enter[:-4] + ["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("skip  {}: this machine lets no user have a root of its own (namespaces)".format(program))
        return
    version = run(*enter, str(root), program, "--version", env=env)
    answer = run(*enter, str(root), program, "run", "Write a short poem.", env=env).strip()
    assert answer, "{} says nothing".format(program)
    print("ok    {} {} says {!r}".format(program, version.split()[-1], answer[:60]))


def wheel(packages, folder):
    """Installs the wheel, and asks with the weights where the fetching script would put them."""
    target = folder / "wheel"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--target", str(target),
        str(next(packages.glob("*.whl"))))
    program, home = target / "bin/agentctl", folder / "home"
    models = home / "data/models"
    models.parent.mkdir(parents=True)
    data = os.environ.get("AGENTD_DATA_DIR") or Path.home() / ".local/share/agentd"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "AGENTD_DATA_DIR": str(home / "data")}
    lost = subprocess.run([str(program), "doctor"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=LIMIT)
    script = target / "share/agentd/fetch_model.py"
    assert str(script) in lost.stdout and script.is_file(), lost.stdout
    models.symlink_to(Path(data) / "models")
    try:
        answer = run(str(program), "run", "Write a short poem.", env=env).strip()
    finally:
        run(str(program), "stop", "--within", "0", env=env)
    assert answer, "the wheel's program says nothing"
    print("ok    wheel says {!r}".format(answer[:60]))


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="agentd-dist-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "build").mkdir()
        stripped(build, folder / "build")
        packages = folder / "packages"
        run(sys.executable, str(ROOT / "scripts/dist.py"), "--build", str(folder / "build"), "--out", str(packages), "--fast")

        debian = folder / "debian"
        found = dict(members(next(packages.glob("*.deb"))))
        assert list(found) == ["debian-binary", "control.tar.gz", "data.tar.gz"], list(found)
        with tarfile.open(fileobj=io.BytesIO(found["data.tar.gz"])) as tar:
            tar.extractall(debian)
        if shutil.which("dpkg-deb"):
            run("dpkg-deb", "--info", str(next(packages.glob("*.deb"))))
        for place in ("usr/share/man/man1/agentd.1.gz", "usr/share/man/man1/agentctl-run.1.gz",
                      "usr/share/bash-completion/completions/agentctl",
                      "usr/lib/systemd/user/agentd.socket", "usr/share/doc/agentd/copyright"):
            assert (debian / place).is_file(), place
        with_libraries(debian)
        answers(debian, "/usr/bin/agentctl")

        unpacked = folder / "unpacked"
        with tarfile.open(next(packages.glob("*.tar.gz"))) as tar:
            tar.extractall(unpacked)
        place = next(unpacked.iterdir()).name
        with_libraries(unpacked)
        answers(unpacked, "/{}/bin/agentctl".format(place))
        wheel(packages, folder)


if __name__ == "__main__":
    main()
