"""Standard input and output as a connection, whatever they are: pipes, sockets, terminals, plain files."""

import asyncio
import logging
import os
import stat
import sys

from drahealth.fakes.control.wire import Writer

log = logging.getLogger(__name__)


async def standard_streams(limit: int) -> tuple[asyncio.StreamReader, Writer]:
    """Both, for lines of at most `limit` bytes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    if _is_a_file(sys.stdin.fileno()):
        reader.feed_data(sys.stdin.buffer.read())
        reader.feed_eof()
    else:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if _is_a_file(sys.stdout.fileno()):
        return reader, FileWriter(sys.stdout.fileno())
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _is_a_file(number: int) -> bool:
    """Nobody is waited for at its other end, so an event loop has no use for it; /dev/null is of that kind too."""
    found = os.fstat(number)
    return stat.S_ISREG(found.st_mode) or os.path.samestat(found, os.stat(os.devnull))  # noqa: PTH116  (a number, too)


class FileWriter:
    """Writes to a plain file. After a failure, which is logged, it discards data, like a closed connection."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._closing = False

    def write(self, data: bytes) -> None:
        """Returns when all is written, or cannot be."""
        left = memoryview(data)
        try:
            while left and not self._closing:
                left = left[os.write(self._number, left) :]
        except OSError as error:
            log.error("standard output cannot be written: %s; further lines are dropped", error.strerror)
            self.close()

    def is_closing(self) -> bool:
        """Nothing more is written."""
        return self._closing

    def close(self) -> None:
        """What is written from now on goes nowhere."""
        self._closing = True

    async def wait_closed(self) -> None:
        """It is closed at once."""
