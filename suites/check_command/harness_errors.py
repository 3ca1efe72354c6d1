"""Unexpected exceptions of `drahealth check` and `judge` exit with 3: exit code 1 means that the driver fails."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.proto.quoting import one_line
from drahealth.suites.check_command.signals import sigterm_as_interrupt
from drahealth.suites.errors import HarnessError

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


def harness_errors(command: Callable[P, R]) -> Callable[P, R]:
    """A subcommand that raises HarnessError for any exception that is neither an error of ours nor its exit code.

    An interrupt by Ctrl-C or SIGTERM is one, too: its exit code is neither 0 nor 1.
    """

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            with sigterm_as_interrupt():
                return command(*arguments, **options)
        except KeyboardInterrupt:
            raise HarnessError("interrupted") from None
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
