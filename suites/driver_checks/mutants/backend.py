"""A scripted backend of these drivers: `backend.py SOCKET` sends the health of broken devices at a Unix socket.

It is run as a file, so it imports nothing of drahealth.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress


class Backend:
    """The broken devices, for each connection: one line of JSON at once and after each change."""

    def __init__(self) -> None:
        self.broken: dict[str, str] = {}
        self.writers: set[asyncio.StreamWriter] = set()

    async def connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        self.send(writer)

    def send(self, *writers: asyncio.StreamWriter) -> None:
        for writer in writers:
            writer.write(json.dumps(self.broken).encode() + b"\n")

    def obey(self, line: str) -> None:
        verb, device = line.split()
        if verb == "heal":
            self.broken.pop(device, None)
        else:
            self.broken[device] = "no link"
        self.send(*self.writers)


async def main(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
    backend = Backend()
    server = await asyncio.start_unix_server(backend.connected, path)
    async with server:
        print("ready", flush=True)  # noqa: T201
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer
        )
        while line := await commands.readline():
            backend.obey(line.decode())
            print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
