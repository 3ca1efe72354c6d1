"""How long, in a timeline: `500ms`, `1m30s`, a range to draw from (`20s..40s`, `8s+-25%`), or `exp(5m)`.

A draw uses nothing of a random stream but its uniform numbers, so it is the same with every version of Python.
"""

import math
import re
from dataclasses import dataclass
from typing import Literal, Protocol

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TERM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST = 10 * 365 * 86400.0
EXAMPLES = {
    "500ms": "milliseconds",
    "90s": "seconds",
    "1m30s": "a sum of terms: ms, s, m, h, d",
    "20s..40s": "a random value in this range, uniformly distributed",
    "8s+-25%": "a random value around 8 s, here between 6 s and 10 s",
    "exp(5m)": "a random value from an exponential distribution with this mean, like times between failures",
}
"""Each way to say how long, and what it means."""
HINT = f"say {', '.join([*EXAMPLES][:-1])} or {[*EXAMPLES][-1]}"


class Uniform(Protocol):
    """Where draws come from, such as `random.Random`."""

    def random(self) -> float:
        """From 0 up to but not 1."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, or how to draw them: between `low` and `high`, or `low` on average."""

    low: float
    high: float
    kind: Literal["fixed", "uniform", "exponential"] = "fixed"
    text: str = ""
    """As it was written."""

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Raises ValueError, with a hint, for what is no duration."""
        words = text.replace(" ", "").replace("±", "+-")
        if found := re.fullmatch(r"exp\((.*)\)", words):
            mean = _seconds(found[1], text)
            return cls(mean, mean, "exponential", text)
        if ".." in words:
            low, _, high = words.partition("..")
            return cls._between(_seconds(low, text), _seconds(high, text), text)
        if found := re.fullmatch(r"(.*)\+-(\d+(?:\.\d+)?)%", words):
            middle, part = _seconds(found[1], text), float(found[2]) / 100
            if part > 1:
                raise ValueError(f"{text!r} could be negative: a spread is at most 100%")
            return cls._between(middle * (1 - part), middle * (1 + part), text)
        seconds = _seconds(words, text)
        return cls(seconds, seconds, "fixed", text)

    @classmethod
    def _between(cls, low: float, high: float, text: str) -> "Duration":
        if low > high:
            raise ValueError(f"{text!r} ends before it begins: say the shorter time first")
        return cls(low, high, "uniform", text)

    def draw(self, random: Uniform) -> float:
        """Seconds, to the millisecond."""
        match self.kind:
            case "fixed":
                return round(self.low, 3)
            case "uniform":
                return round(self.low + (self.high - self.low) * random.random(), 3)
            case "exponential":
                return round(min(-math.log(1 - random.random()) * self.low, _LONGEST), 3)

    def __str__(self) -> str:
        return self.text


def parse_signed(text: str) -> float:
    """Seconds of a fixed duration that may lie in the past (`-5m`). Raises ValueError."""
    words = text.strip()
    sign = -1.0 if words.startswith("-") else 1.0
    return sign * _seconds(words.removeprefix("-").removeprefix("+"), text)


def _seconds(words: str, text: str) -> float:
    terms = _TERM.findall(words)
    if not terms or "".join(number + unit for number, unit in terms) != words:
        raise ValueError(f"not a duration: {text!r} ({HINT})")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in terms)
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is more than ten years")
    return seconds
