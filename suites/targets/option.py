"""Options: each is declared once, with its name, type and help text.

The pytest options `--drahealth-NAME` and the flags of `drahealth run`, `play` and `doctor` are derived from them. This
module imports only the standard library, because every pytest run loads it.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

from drahealth.suites.errors import ConfigurationError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Word = TypeVar("Word", bound=str)

Command = Literal["run", "doctor"]
"""A command that takes options: `run` stands for `drahealth run`, `drahealth play` and pytest."""


@dataclass(frozen=True)
class Option(Generic[T_co]):
    """`read` makes a value of a text. Its ValueError completes the sentence "--NAME ..., got TEXT"."""

    name: str
    metavar: str
    help: str
    """A noun phrase or an imperative, with the default."""
    read: Callable[[str], T_co]
    commands: tuple[Command, ...] = ("run",)
    choices: Callable[[], Iterable[str]] | None = None
    """Its values, for shell completion; None: too many to list."""

    @property
    def is_switch(self) -> bool:
        """It takes no value: its text is "true", or there is none."""
        return not self.metavar

    def value(self, text: str) -> T_co:
        """Raises ConfigurationError."""
        try:
            return self.read(text)
        except ValueError as error:
            raise ConfigurationError(f"--{self.name} {error}, got {text!r}") from None


class Values:
    """The values of the options that were given."""

    def __init__(self, texts: Mapping[str, str | None], options: Iterable[Option[Any]]) -> None:
        """`texts` are by name; None or "" stands for an option that is not given. Raises ConfigurationError."""
        self._texts = texts
        self._values = {option.name: option.value(text) for option in options if (text := texts.get(option.name))}

    def get(self, option: Option[T]) -> T | None:
        """None if it is not given."""
        return cast("T | None", self._values.get(option.name))

    def text_of(self, option: Option[Any]) -> str | None:
        """Its text as given; None if it is not given."""
        return self._texts.get(option.name) or None


def text(value: str) -> str:
    """Any text."""
    return value


def switch(value: str) -> bool:
    """Whether it is on."""
    return value == "true"


def choice(*allowed: Word) -> Callable[[str], Word]:
    """One of these."""

    def read(value: str) -> Word:
        for word in allowed:
            if value == word:
                return word
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """A number in this range, both ends included."""

    def read(value: str) -> int:
        if not (value.isascii() and value.isdecimal()) or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(value)

    return read


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """A text that this regular expression matches as a whole; `what` names it in the error."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {what}")
        return value

    return read


def readable_file(name: str) -> Path:
    """The absolute path of a file that can be opened."""
    path = Path(name).absolute()
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"must be a readable file ({error.strerror})") from None
    return path


def executable_file(name: str) -> Path:
    """The absolute path of a file that this user may execute."""
    path = Path(name).absolute()
    if not path.is_file():
        raise ValueError("must be an executable file (no such file)")
    if not os.access(path, os.X_OK):
        raise ValueError("must be an executable file (its permissions do not allow it)")
    return path
