"""Finds and starts the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from .errors import AgentdError, NotRunning

MAX_PATH_BYTES = 107


def data_dir(environ: Mapping[str, str]) -> Path:
    """Returns the data folder."""
    if environ.get("AGENTD_DATA_DIR"):
        return Path(environ["AGENTD_DATA_DIR"]).absolute()
    home = environ.get("XDG_DATA_HOME", "")
    if not home.startswith("/"):
        home = (environ.get("HOME") or str(Path.home())) + "/.local/share"
    return Path(home) / "agentd"


def named_socket(environ: Mapping[str, str]) -> str | None:
    """Returns the socket named by ``AGENTD_SOCKET``."""
    path = environ.get("AGENTD_SOCKET") or None
    if path and not path.startswith("/"):
        hint = "set AGENTD_SOCKET to a path that begins with /"
        raise AgentdError(f"the socket path {path} is not absolute", "CONFIGURATION", hint)
    return path


def sockets(environ: Mapping[str, str]) -> list[str]:
    """Returns the paths at which a daemon of the data folder may listen, most likely first."""
    data = data_dir(environ)
    found = [locked_socket(data)]
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        found.append(f"{runtime.rstrip('/')}/agentd/agentd.sock")
    found.append(f"/tmp/agentd-{os.geteuid()}/{digest(bytes(data)):016x}.sock")
    found.append(str(data / "agentd.sock"))
    return list(dict.fromkeys(path for path in found if path))


def locked_socket(data: Path) -> str | None:
    """Returns the socket named by the lock file. If the daemon has exited, the socket may be dead."""
    with contextlib.suppress(OSError):
        for line in (data / "agentd.lock").read_bytes()[:8192].split(b"\n")[1:-1]:
            if line.startswith(b"socket "):
                return os.fsdecode(line[7:])
    return None


def digest(path: bytes) -> int:
    """Computes the FNV-1a hash that names the socket of a data folder in /tmp."""
    value = 0xCBF29CE484222325
    for byte in path:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def listens(path: str) -> bool:
    """Returns true if a process of this user listens there. Sockets of other users are not used."""
    try:
        if len(os.fsencode(path)) > MAX_PATH_BYTES or os.stat(path).st_uid != os.geteuid():
            return False
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.setblocking(False)
            # EAGAIN means that a daemon listens, but its backlog is full.
            return attempt.connect_ex(path) in (0, errno.EAGAIN)
    except OSError:
        return False


def same_folder(one: Path, other: str) -> bool:
    """Returns true if two paths lead to the same folder."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return str(one) == other


async def start(agentctl: str, environ: Mapping[str, str]) -> None:
    """Starts the daemon unless it runs, and returns when it is ready."""
    hint = "install agentd and agentctl, or name the program with Client(agentctl=...)"
    # The PATH of desktop programs often lacks the usual installation folder.
    path = f"{environ.get('PATH', '')}:{environ.get('HOME') or Path.home()}/.local/bin"
    program = shutil.which(agentctl, path=path)
    if program is None:
        raise NotRunning(f"no daemon is running, and the program {agentctl} was not found", "NOT_RUNNING", hint)
    nothing = asyncio.subprocess.DEVNULL
    # The packages connect to a socket of this machine.
    here = {**environ, "AGENTD_HOST": ""}
    process = await asyncio.create_subprocess_exec(
        program, "start", "--json", env=here, stdin=nothing, stdout=nothing, stderr=asyncio.subprocess.PIPE
    )
    _, output = await process.communicate()
    if process.returncode != 0:
        hint = "run `agentctl doctor` to see what is wrong"
        raise NotRunning(output.decode(errors="replace").strip() or "the daemon did not start", "NOT_RUNNING", hint)
