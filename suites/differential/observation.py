"""The observations of a play: the pod statuses at each moment, and the times of the moments.

Pure data with a JSON form. Names that differ between plays are replaced by names of the script.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drahealth.proto.events import StatusSeen

FENCE = "fence"
"""The container and the claim of the fence. Every pod has them; observations leave them out."""

Readings = dict[str, tuple[str, str]]
"""Health and message by resourceID."""
Entries = dict[str, Readings] | None
"""The entries of a container by name. Their order is random in releases (B-01). None: the field is missing."""


@dataclass(frozen=True, slots=True)
class PodShown:
    """A pod in the API. `stuck`: the status of a requested sync did not arrive, because the API server rejected it."""

    phase: str
    stuck: bool
    containers: dict[str, Entries]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The observations at one moment.

    `pushed`: after the kubelet's own updates. `synced`: after one more sync of every pod. `recovered`: the same, after
    an ended stream is open again or the time for it is over.
    """

    step: int
    """The number of the step; -1 before the first step."""
    moment: str
    pods: dict[str, PodShown]
    streams: dict[str, int]
    """Health streams opened so far, by driver and instance."""


@dataclass(frozen=True, slots=True)
class Played:
    """A play of a script: its snapshots, and the times of its marks in seconds since the start."""

    snapshots: tuple[Snapshot, ...]
    times: dict[str, float] = field(default_factory=dict)


def shown(status: StatusSeen, names: Mapping[str, str], *, stuck: bool) -> PodShown:
    """The observation of a pod status. `names` maps names of drivers and device plugins to names in the script."""
    containers: dict[str, Entries] = {}
    for container in status.containers:
        if container.name == FENCE:
            continue
        if container.resources is None:
            containers[container.name] = None
            continue
        containers[container.name] = {
            _plain(entry.name, names): {
                _plain(device.resource_id, names): (str(device.health), device.message) for device in entry.resources
            }
            for entry in container.resources
        }
    return PodShown(status.phase, stuck, containers)


def _plain(text: str, names: Mapping[str, str]) -> str:
    for name, plain in names.items():
        text = text.replace(name, plain)
    return text
