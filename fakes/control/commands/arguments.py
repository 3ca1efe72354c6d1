"""The arguments of commands: how people write each kind of value, and what a program gets. Standard library alone."""

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

Devices = str | tuple[str, ...]
"""Devices of one driver: a path (`gpu-0`, `gpu-0/mig-1`), a pattern (`gpu-*`), `all`, or several of these."""

EACH = "catalogue"
"""What a recovery time may be instead of a time: the time that the catalogue has for each fault."""


class Kind(StrEnum):
    """What a value is, and so how people write it."""

    TEXT = "text"
    DEVICES = "devices"
    FLAG = "flag"
    INTEGER = "integer"
    DURATION = "duration"
    """Seconds that pass on the driver's clock; a timeline that is played faster shortens them."""
    RECOVERY_TIME = "recovery time"
    """A duration, or `catalogue`, which is None."""
    INTERVAL = "interval"
    """Seconds between reports, a plain number; no timeline shortens them."""
    OFFSET = "offset"
    """Seconds before or after now, such as -5m."""
    SHARE = "share"
    """From 0 to 1, written as 20%."""
    TEXTS = "texts"
    DATA = "data"
    """Something that only programs send, such as the devices of a report."""


class Argument(NamedTuple):
    """One argument of a command."""

    help: str
    kind: Kind = Kind.TEXT
    option: str = ""
    """The name of its option in `drahealth ctl`; empty: it has a position."""
    metavar: str = ""
    name: str = ""
    """The name of its field."""
    choices: tuple[str, ...] = ()
    """The only values, if there are few."""
    required: bool = True
    default: Any = None


class Joined(NamedTuple):
    """How several arguments are written in one word, such as a taint."""

    metavar: str
    help: str
    parse: Callable[[str], dict[str, Any]]
    """The arguments by name. Raises ValueError."""


def argument(
    text: str,
    kind: Kind = Kind.TEXT,
    *,
    option: str = "",
    metavar: str = "",
    choices: tuple[str, ...] = (),
    **default: Any,
) -> Any:
    """A field of a command. `default` as keyword: what it is where nobody says."""
    return field(metadata={"argument": Argument(text, kind, option, metavar, choices=choices)}, **default)


def parse(argument: Argument, text: str) -> Any:
    """The value that a person has written. Raises ValueError for none of its kind."""
    return _PARSERS.get(argument.kind, str)(text)


def _seconds(text: str) -> float:
    from drahealth.fakes.durations import parse_signed  # most commands need none

    return parse_signed(text)


def _recovery_time(text: str) -> float | None:
    return None if text == EACH else _seconds(text)


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"must be between 0% and 100%, got {text!r}") from None


_PARSERS: dict[Kind, Callable[[str], Any]] = {
    Kind.INTEGER: int,
    Kind.DURATION: _seconds,
    Kind.RECOVERY_TIME: _recovery_time,
    Kind.INTERVAL: float,
    Kind.OFFSET: _seconds,
    Kind.SHARE: _share,
}
