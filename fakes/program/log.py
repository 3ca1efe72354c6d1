"""The log of programs, as text or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from drahealth.proto.quoting import printable_lines

# The option `--log-format` of programs that run in containers.


class LogFormat(StrEnum):
    """How a program writes its log lines."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        metavar="FORMAT",
        help="Format of the log lines on standard error: text (default) or json. json implies --json.",
        show_default=False,
    ),
]


# Log lines of programs, as text or as JSON. Foreign text from plugins and files is made safe for a terminal.

FORMAT = "%(levelname)s %(message)s"


class LogLines(logging.Formatter):
    """Formats log lines without unprintable characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and the lines of its exception."""
        return printable_lines(super().format(record))


class JsonLogLines(logging.Formatter):
    """Formats each record as one line of JSON: `time` (RFC 3339), `level`, `logger`, `message`, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to(handler: logging.Handler, line: str = FORMAT) -> None:
    """Sends warnings and errors to this stream, unless logging is already configured."""
    handler.setFormatter(LogLines(line))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def log_as_json() -> None:
    """Sends warnings and errors to standard error as JSON, also those of the module `warnings`. Later calls of
    `log_to` change nothing.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)


def write_error(text: str) -> None:
    """Writes the error that ends the program to standard error: a log line, if log lines are JSON."""
    if any(isinstance(handler.formatter, JsonLogLines) for handler in logging.getLogger().handlers):
        logging.getLogger("drahealth").error("%s", text)
    else:
        print(printable_lines(f"drahealth: {text}"), file=sys.stderr)  # noqa: T201
