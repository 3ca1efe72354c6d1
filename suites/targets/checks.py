"""One thing to know about a machine, for `drahealth doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """What was found; `hint` says what to do where it is not ok. A target can do without what is not `needed`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    needed: bool = True
