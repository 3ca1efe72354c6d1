"""The values in a timeline: durations, shares, devices that are named or drawn."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PlainSerializer, Tag, WithJsonSchema

from drahealth.fakes.durations import EXAMPLES, HINT, Duration, parse_signed


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str):
        raise ValueError(f"invalid duration {value!r} ({HINT})")
    return Duration.parse(value)


def _signed(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"invalid duration {value!r} (use 90s or -5m)")
    return parse_signed(value)


def _percent(value: Any) -> float:
    """80% as 0.8."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            part = float(value.removesuffix("%")) / 100
        except ValueError:
            part = -1.0
        if 0 <= part <= 1:
            return part
    raise ValueError(f"must be between 0% and 100%, got {value!r}")


Lasting = Annotated[
    Duration,
    BeforeValidator(_duration),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"^ *(exp|\d)", "examples": list(EXAMPLES)}),
]
Offset = Annotated[
    float,
    BeforeValidator(_signed),
    PlainSerializer(lambda seconds: f"{seconds:g}s", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^ *[-+]?\d", "examples": ["-5m"]}),
]
Share = Annotated[
    float,
    BeforeValidator(_percent),
    PlainSerializer(lambda share: f"{share * 100:g}%", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "%$", "examples": ["80%"]}),
]


def _taking(value: Any) -> str:
    return "catalogue" if value == "catalogue" else "duration"


Taking = Annotated[
    Annotated[Literal["catalogue"], Tag("catalogue")] | Annotated[Lasting, Tag("duration")], Discriminator(_taking)
]
"""A duration, or what the catalogue says."""


def _chance(value: Any) -> str:
    return "share" if isinstance(value, str | float) and not isinstance(value, bool) else "flag"


Chance = Annotated[Annotated[bool, Tag("flag")] | Annotated[Share, Tag("share")], Discriminator(_chance)]
"""True, or in how many cases."""


class Part(BaseModel):
    """A part of a timeline: what it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True)


class Pick(Part):
    """A random choice of this number of devices from those that match the pattern."""

    pick: int = Field(ge=1)
    from_: str = Field(default="*", alias="from")


def shape(value: Any) -> str:
    """Selects the member of a union, so that errors refer to that member."""
    return "mapping" if isinstance(value, dict | BaseModel) else "word"


Where = Annotated[Annotated[str, Tag("word")] | Annotated[Pick, Tag("mapping")], Discriminator(shape)]
"""A device's name, a pattern of names (`gpu-0/mig-*`), `all`, or a draw from them."""
