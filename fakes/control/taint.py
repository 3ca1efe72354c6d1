"""A taint of a device, as the API has it."""

import re
from dataclasses import dataclass

TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")
# Not compiled here: commands that import this and check no taint start sooner.
_QUALIFIED = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a device (API `DeviceTaint`). ValueError for what is none."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    @classmethod
    def parse(cls, text: str) -> "Taint":
        """The taint of KEY[=VALUE][:EFFECT]. Raises ValueError."""
        return cls(**taint_fields(text))

    def __post_init__(self) -> None:
        if not re.fullmatch(_QUALIFIED, self.key):
            raise ValueError(f"a taint key must look like example.com/unhealthy, got {self.key!r}")
        if not re.fullmatch(_LABEL_VALUE, self.value):
            raise ValueError(
                "a taint value must be letters, digits, and -_. (not at its ends), at most 63 characters, "
                f"got {self.value!r}"
            )
        if self.effect not in TAINT_EFFECTS:
            raise ValueError(f"a taint effect must be one of {', '.join(TAINT_EFFECTS)}, got {self.effect!r}")


def taint_fields(text: str) -> dict[str, str]:
    """The parts of KEY[=VALUE][:EFFECT]; a missing effect is left out."""
    key_value, _, effect = text.partition(":")
    key, _, value = key_value.partition("=")
    return {"key": key, "value": value, **({"effect": effect} if effect else {})}
