"""The errors of the suites.

    Exception
      HarnessError            a failure of the harness or of the machine, with a hint
        ConfigurationError    an error in a file or an option of the user

A failure of the tested kubelet or driver is a `Violation` (an AssertionError) instead.
"""

from collections.abc import Iterable, Mapping


class HarnessError(Exception):
    """A failure of drahealth or of the machine. `message` says what happened, `hint` what to do (may be "")."""

    where = ""
    """For a timeline: the failed step, with its file and line."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message.rstrip(". \n")
        self.hint = hint.rstrip(". \n")

    def __str__(self) -> str:
        message = f"{self.where}: {self.message}" if self.where else self.message
        joint = " " if message.endswith("?") else "; "  # a question is a suggestion
        return f"{message}{joint}{self.hint}" if self.hint else message


def full_text(error: Exception) -> str:
    """The message of an error, with the notes that were added to it."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


def reject_old_arguments(function: str, given: Iterable[str], renamed: Mapping[str, str]) -> None:
    """Raises TypeError for an argument that is no argument any more, with the one to use instead."""
    for name in given:
        instead = f"; use {renamed[name]}" if name in renamed else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{instead}")


class ConfigurationError(HarnessError):
    """An invalid file or option of the user."""
