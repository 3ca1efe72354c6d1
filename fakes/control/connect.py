"""Joins standard input and output to a unix socket: `python -m drahealth.fakes.control.connect SOCKET`.

What is executed in a driver's pod, so it needs nothing but the standard library and starts at once.
"""

import asyncio
import sys

_CHUNK = 65536


async def join(socket: str) -> None:
    """Carries bytes both ways until either side ends. OSError if nobody listens there."""
    loop = asyncio.get_running_loop()
    inner = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(inner), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    outer = asyncio.StreamWriter(transport, protocol, None, loop)
    reader, writer = await asyncio.open_unix_connection(socket)
    ways = [asyncio.create_task(_carry(inner, writer)), asyncio.create_task(_carry(reader, outer))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


def main() -> None:
    try:
        asyncio.run(join(sys.argv[1]))
    except OSError as error:
        sys.exit(f"no process listens at {sys.argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main()
