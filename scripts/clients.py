#!/usr/bin/env python3
"""Builds the client packages and installs them from their archives, for tests and for publishing.

    scripts/clients.py --out FOLDER --node NODE --npm NPM

The folder gets `agentd_client-VERSION.tar.gz` and `.whl`, `agentd-client-VERSION.tgz`, and the installed packages in `python/`
and `node_modules/`. The code generators of the Python package must be in PYTHONPATH: grpcio-tools and setuptools. For Node,
the packages of tests/clients/packages/package-lock.json are installed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto" / "proto"
# Files in a checkout that are not sources.
LEFT_OVER = shutil.ignore_patterns("node_modules", "proto", "v1", "messages.d.ts", "__pycache__", "*.egg-info", "*.tgz")
QUIET = ["--quiet", "--disable-pip-version-check"]


def run(folder, *command):
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run([str(word) for word in command], cwd=str(folder), env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit("{} exited with {}\n{}".format(" ".join(map(str, command)), done.returncode, done.stdout))


def staged(name, out):
    """Copies the sources of a package, so that code is not generated in the original."""
    stage = out / "stage" / name
    shutil.rmtree(str(stage), ignore_errors=True)
    shutil.copytree(str(ROOT / "clients" / name), str(stage), ignore=LEFT_OVER)
    shutil.copy2(str(ROOT / "LICENSE"), str(stage))
    return stage


def python_package(out):
    stage = staged("python", out)
    run(stage, sys.executable, "generate.py", PROTO)
    run(stage, sys.executable, "-c", "from setuptools import build_meta; build_meta.build_sdist({!r})".format(str(out)))
    sdist = next(out.glob("agentd_client-*.tar.gz"))
    pip = [sys.executable, "-m", "pip"]
    run(out, *pip, "wheel", *QUIET, "--no-build-isolation", "--no-deps", "--wheel-dir", out, sdist)
    wheel = next(out.glob("agentd_client-*.whl"))
    run(out, *pip, "install", *QUIET, "--no-deps", "--upgrade", "--target", out / "python", wheel)


def node_packages(out, npm):
    """Installs the pinned dependencies of the Node package."""
    pinned = ROOT / "tests/clients/packages"
    lock = out / "node_modules/.package-lock.json"
    if lock.exists() and lock.stat().st_mtime > (pinned / "package-lock.json").stat().st_mtime:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy2(str(pinned / name), str(out))
    run(out, *npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def node_package(out, node, npm):
    stage = staged("node", out)
    run(stage, node, "generate.js", PROTO)
    run(stage, *npm, "pack", "--ignore-scripts", "--pack-destination", out)
    archive = next(out.glob("agentd-client-*.tgz"))
    # Its dependencies are already installed.
    run(out, *npm, "install", "--no-save", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", archive)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--npm", required=True, help="the program, or the script that node runs")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for archive in [*out.glob("agentd_client-*"), *out.glob("agentd-client-*")]:
        archive.unlink()
    for installed in ("python", "node_modules/agentd-client"):
        shutil.rmtree(str(out / installed), ignore_errors=True)
    node = os.path.abspath(options.node)
    os.environ["PATH"] = os.path.dirname(node) + os.pathsep + os.environ.get("PATH", "")
    npm = [node, os.path.abspath(options.npm)] if options.npm.endswith(".js") else [options.npm]
    node_packages(out, npm)
    node_package(out, node, npm)
    if sys.version_info >= (3, 10):
        python_package(out)
    else:
        print("the Python package requires Python 3.10; skipping it")


if __name__ == "__main__":
    main()
