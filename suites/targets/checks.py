"""One result of `drahealth doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check. `hint` says what to do if it is not ok. The target runs without checks that are not
    `needed`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    needed: bool = True
