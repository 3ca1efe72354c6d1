"""The sources of the programs of a package, tried in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.binaries.releases import Package, Platform
from drahealth.suites.targets.progress import Progress


class Unavailable(Exception):
    """This source is unavailable: `reason` is a clause ("there is no Go toolchain"), `hint` says what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Order:
    """The wanted programs of a package, each as the file `into`/NAME; `scratch` is an empty folder to work in."""

    package: Package
    programs: Sequence[str]
    platform: Platform
    into: Path
    scratch: Path


class Source(Protocol):
    """One way to get programs."""

    def get(self, order: Order, progress: Progress) -> str:
        """Writes the files. Returns their origin, for people.

        Raises `Unavailable` if another source may work, HarnessError if none can.
        """


@dataclass(frozen=True, slots=True)
class FirstThatCan:
    """Tries each source in turn. Raises one HarnessError with all reasons."""

    sources: Sequence[Source]

    def get(self, order: Order, progress: Progress) -> str:
        lacking: list[Unavailable] = []
        for source in self.sources:
            try:
                return source.get(order, progress)
            except Unavailable as lack:
                lacking.append(lack)
        reasons = ", and ".join(lack.reason for lack in lacking)
        hints = ", or ".join(lack.hint for lack in lacking if lack.hint)
        raise HarnessError(f"cannot get {order.package}: {reasons}", hints)
