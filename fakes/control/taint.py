"""A taint of a device, as the API has it."""

from dataclasses import dataclass

TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")


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
        from drahealth.fakes.cluster.object_rules import label_key_errors, label_value_errors  # for a fast start

        if why := next(label_key_errors(self.key), ""):
            raise ValueError(f"a taint key must look like example.com/unhealthy, got {self.key!r}: {why}")
        if any(label_value_errors(self.value)):
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
