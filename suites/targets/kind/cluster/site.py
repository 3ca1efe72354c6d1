"""A kind cluster with all that scenarios need on it, as plain data: the workers of a distributed run share one."""

import re
from dataclasses import dataclass
from typing import Protocol

from drahealth.suites.targets.shared_file import SharedFile

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Site:
    """Where it is and what is on it."""

    engine: str
    """The container engine: docker or podman."""
    folder: str
    """A folder for what the processes that share the site agree on."""
    kubeconfig: str
    control_plane: str
    nodes: tuple[str, ...]
    """All of them."""
    pods: dict[str, str]
    """The fake driver's pod on each node where workload may run."""
    image: str
    """Of the driver's pods and of the workload."""
    sync_frequency: float
    """The kubelets', in seconds."""

    def node_for(self, worker: int) -> str:
        """The node that a worker of a distributed run tells its stories on."""
        names = sorted(self.pods)
        return names[worker % len(names)]


class Provider(Protocol):
    """Where a target gets its site from."""

    async def up(self) -> Site:
        """The site, ready. Raises HarnessError."""

    async def down(self) -> None:
        """It is not needed any more."""


class SharedSite:
    """The site that the controller of a distributed run made, or failed to make."""

    def __init__(self, file: SharedFile) -> None:
        self._file = file

    async def up(self) -> Site:
        description = self._file.read()
        return Site(**{**description, "nodes": tuple(description["nodes"])})

    async def down(self) -> None:
        """The controller takes it down."""


def seconds(duration: str) -> float:
    """Seconds of a duration as Go writes it, such as 1m0s. Raises ValueError."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"{duration!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
