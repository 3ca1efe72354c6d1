"""Log lines of programs: foreign text from plugins and files is made safe for a terminal."""

import logging

from drahealth.proto.quoting import printable_lines

FORMAT = "%(levelname)s %(message)s"


class LogLines(logging.Formatter):
    """Formats log lines without unprintable characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and the lines of its exception."""
        return printable_lines(super().format(record))


def log_to(handler: logging.Handler, line: str = FORMAT) -> None:
    """Sends warnings and errors to this stream, unless logging is already configured."""
    handler.setFormatter(LogLines(line))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
