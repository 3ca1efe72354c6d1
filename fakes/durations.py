"""Durations in timelines: `500ms`, `1m30s`, a range (`20s..40s`, `8s+-25%`), or `exp(5m)`.

A draw uses only uniform random numbers, so it is the same in every version of Python.
"""

import math
import re
from dataclasses import dataclass
from typing import Literal, Protocol

from drahealth.proto.quoting import quoted

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TERM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_MAX_SECONDS = 10 * 365 * 86400.0
EXAMPLES = {
    "500ms": "milliseconds",
    "90s": "seconds",
    "1m30s": "a sum of terms: ms, s, m, h, d",
    "20s..40s": "a random value in this range, uniformly distributed",
    "8s+-25%": "a random value around 8 s, here between 6 s and 10 s",
    "exp(5m)": "a random value from an exponential distribution with this mean, like times between failures",
}
"""The forms of a duration, with their meaning."""
HINT = f"use {', '.join([*EXAMPLES][:-1])} or {[*EXAMPLES][-1]}"
FIXED_HINT = "use 500ms, 90s or 1m30s"


class Uniform(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """A number, at least 0 and less than 1."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, fixed or random: between `low` and `high`, or with the mean `low`."""

    low: float
    high: float
    kind: Literal["fixed", "uniform", "exponential"] = "fixed"
    text: str = ""
    """The text in the file."""

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Parses a duration. Raises ValueError, with a hint, for an invalid one."""
        compact = text.replace(" ", "").replace("±", "+-")
        if found := re.fullmatch(r"exp\((.*)\)", compact):
            mean = _seconds(found[1], text)
            return cls(mean, mean, "exponential", text)
        if ".." in compact:
            low, _, high = compact.partition("..")
            return cls._between(_seconds(low, text), _seconds(high, text), text)
        if found := re.fullmatch(r"(.*)\+-(\d+(?:\.\d+)?)%", compact):
            middle, part = _seconds(found[1], text), float(found[2]) / 100
            if part > 1:
                raise ValueError(f"the spread must be at most 100%, got {text!r}")
            return cls._between(middle * (1 - part), middle * (1 + part), text)
        seconds = _seconds(compact, text)
        return cls(seconds, seconds, "fixed", text)

    @classmethod
    def _between(cls, low: float, high: float, text: str) -> "Duration":
        if low > high:
            raise ValueError(f"the shorter time must come first, got {text!r}")
        return cls(low, high, "uniform", text)

    def draw(self, random: Uniform) -> float:
        """Draws a value, in seconds, rounded to milliseconds."""
        match self.kind:
            case "fixed":
                return round(self.low, 3)
            case "uniform":
                return round(self.low + (self.high - self.low) * random.random(), 3)
            case "exponential":
                return round(min(-math.log(1 - random.random()) * self.low, _MAX_SECONDS), 3)

    def __str__(self) -> str:
        return self.text


def parse_signed(text: str) -> float:
    """Parses a fixed duration, in seconds; a negative one (`-5m`) is in the past. Raises ValueError."""
    compact = text.strip()
    sign = -1.0 if compact.startswith("-") else 1.0
    return sign * _seconds(compact.removeprefix("-").removeprefix("+"), text, FIXED_HINT)


def _seconds(compact: str, text: str, hint: str = HINT) -> float:
    terms = _TERM.findall(compact)
    if not terms or "".join(number + unit for number, unit in terms) != compact:
        raise ValueError(f"invalid duration {text!r} ({hint})")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in terms)
    if seconds > _MAX_SECONDS:
        raise ValueError(f"a duration must be at most ten years, got {text!r}")
    return seconds


def option_seconds(option: str, text: str, longest_days: int) -> float:
    """The seconds of an option that takes one fixed duration of 1 s or more. Raises ValueError, which names it."""
    try:
        found = Duration.parse(text)
    except ValueError:
        raise ValueError(f"{option}: invalid duration {quoted(text)}") from None
    if found.kind != "fixed":
        raise ValueError(f"{option} must be one duration, got {quoted(text)}")
    if not 1.0 <= found.low <= longest_days * 24 * 3600.0:
        raise ValueError(f"{option} must be between 1s and {longest_days}d, got {quoted(text)}")
    return found.low
