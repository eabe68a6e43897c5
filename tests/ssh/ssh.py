"""An SSH server on loopback for tests, and a client where OpenSSH is not installed. Both use asyncssh.

    ssh.py server FOLDER             creates keys in FOLDER, prints the port, and runs commands in its own environment
    ssh.py client FOLDER ARGUMENTS   runs a command with the arguments of OpenSSH's client
"""

import asyncio
import getopt
import os
import sys
from pathlib import Path

import asyncssh

PIPE = asyncio.subprocess.PIPE


async def pump(source, sink):
    """Copies until the end of either side."""
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except (OSError, asyncssh.Error):
        pass


async def run(process):
    """Runs a command as sshd does, by a shell in the home folder, and ends its input with the connection."""
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
    child = await asyncio.create_subprocess_exec("/bin/sh", "-c", process.command, cwd=os.environ["HOME"], **pipes)

    async def feed():
        await pump(process.stdin, child.stdin)
        child.stdin.close()

    feeding = asyncio.create_task(feed())
    await asyncio.gather(pump(child.stdout, process.stdout), pump(child.stderr, process.stderr))
    process.exit(await child.wait())
    feeding.cancel()


async def server(folder):
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    own_key = asyncssh.generate_private_key("ssh-ed25519")
    key_file = folder / "key"
    key_file.touch(mode=0o600)
    key_file.write_bytes(own_key.export_private_key())
    (folder / "authorized").write_bytes(own_key.export_public_key())
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=str(folder / "authorized"),
        process_factory=run,
        encoding=None,
    )
    port = listener.get_port()
    known = b"[127.0.0.1]:%d %s" % (port, host_key.export_public_key())
    (folder / "known").write_bytes(known)
    print(port, flush=True)
    await listener.wait_closed()


async def client(folder, arguments):
    options, (host, command) = getopt.getopt(arguments, "Taxo:p:l:")
    options = dict(options)
    keys = {"client_keys": [str(folder / "key")], "known_hosts": str(folder / "known"), "config": None}
    connection = await asyncssh.connect(host, int(options["-p"]), username=options["-l"], **keys)
    async with connection:
        process = await connection.create_process(
            command, stdin=sys.stdin.buffer, stdout=sys.stdout.buffer, stderr=sys.stderr.buffer, encoding=None
        )
        return (await process.wait()).exit_status


def main():
    mode, folder, *arguments = sys.argv[1:]
    if mode == "server":
        asyncio.run(server(Path(folder)))
    else:
        try:
            sys.exit(asyncio.run(client(Path(folder), arguments)))
        except (OSError, asyncssh.Error) as error:
            sys.exit(f"ssh: {error}")


main()
