"""Log lines of programs: what plugins and files bring into them is made fit for a terminal."""

import logging

from drahealth.proto.quoting import printable_lines

FORMAT = "%(levelname)s %(message)s"


class LogLines(logging.Formatter):
    """Lines with nothing in them but what can be printed."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, with those of its exception after it."""
        return printable_lines(super().format(record))


def log_to(handler: logging.Handler, line: str = FORMAT) -> None:
    """Warnings and errors go there from now on, unless somebody has set up logging before."""
    handler.setFormatter(LogLines(line))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
