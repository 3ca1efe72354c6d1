"""Unexpected exceptions of `drahealth check` and `judge` exit with 3: exit code 1 means that the driver fails."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import HarnessError

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


def harness_errors(command: Callable[P, R]) -> Callable[P, R]:
    """A subcommand that raises HarnessError for any exception that is neither an error of ours nor its exit code."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return command(*arguments, **options)
        except (HarnessError, CommandError, typer.Exit):
            raise
        except OSError as error:
            raise HarnessError(one_line(str(error))) from error
        except Exception as error:
            log.exception("drahealth failed")
            raise HarnessError(
                one_line(f"unexpected {type(error).__name__}: {error}"), "report it with this traceback"
            ) from error

    return run
