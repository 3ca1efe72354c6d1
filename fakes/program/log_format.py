"""The option `--log-format` of programs that run in containers."""

from enum import StrEnum
from typing import Annotated

import typer


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
