"""Whose fault it is.

    Exception
      HarnessError            ours or the machine's; says what to do about it
        ConfigurationError    the user's file or flag

The fault of what is tested is no `HarnessError`: that is an assertion about the subject.
"""


class HarnessError(Exception):
    """Something around the test went wrong: `message` says what happened, `hint` what to do about it (may be "")."""

    where = ""
    """Of a timeline: the step that could not be done, with its file and line."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message.rstrip(". \n")
        self.hint = hint.rstrip(". \n")

    def __str__(self) -> str:
        message = f"{self.where}: {self.message}" if self.where else self.message
        return f"{message}; {self.hint}" if self.hint else message


def full_text(error: Exception) -> str:
    """All that an error has to say: its sentence, and the lines that were added to it."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


class ConfigurationError(HarnessError):
    """A file or a flag of the user's says something that cannot be done."""
