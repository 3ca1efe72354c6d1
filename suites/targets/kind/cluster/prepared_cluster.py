"""The description of a cluster that is ready for scenarios, as plain data for the workers of a distributed run."""

import re
from dataclasses import dataclass
from typing import Protocol

from drahealth.suites.targets.shared_file import SharedFile

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class PreparedCluster:
    """A cluster that is ready for scenarios."""

    engine: str
    """The container engine: docker or podman."""
    folder: str
    """A folder for the lock files of the processes that share the cluster."""
    kubeconfig: str
    control_plane: str
    nodes: tuple[str, ...]
    """The names of all nodes."""
    pods: dict[str, str]
    """The name of the fake driver's pod on each node that accepts workload."""
    image: str
    """The image of the driver's pods and of the workload."""
    sync_frequency: float
    """The `syncFrequency` of the kubelets, in seconds."""

    def node_for(self, worker: int) -> str:
        """The node for the scenarios of a worker of a distributed run."""
        names = sorted(self.pods)
        return names[worker % len(names)]


class ClusterProvider(Protocol):
    """Gives a target its cluster."""

    async def up(self) -> PreparedCluster:
        """The cluster, ready. Raises HarnessError."""

    async def down(self) -> None:
        """Takes the cluster down."""


class JoinedCluster:
    """The cluster that the controller of a distributed run made."""

    def __init__(self, file: SharedFile) -> None:
        self._file = file

    async def up(self) -> PreparedCluster:
        description = self._file.read()
        return PreparedCluster(**{**description, "nodes": tuple(description["nodes"])})

    async def down(self) -> None:
        """Nothing: the controller takes it down."""


def seconds(duration: str) -> float:
    """The seconds of a duration of Go, such as 1m0s. Raises ValueError."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"{duration!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
