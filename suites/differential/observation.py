"""What was seen of a script that was played: what its pods show, moment by moment, and when the moments were.

Pure data with a JSON form. Names that differ from one play to the next are replaced by those of the script.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drahealth.proto.events import StatusSeen

FENCE = "fence"
"""The container and the claim of the fence, which every pod has and no observation."""

Readings = dict[str, tuple[str, str]]
"""Health and message by resourceID."""
Entries = dict[str, Readings] | None
"""The entries of a container by their names: order is left to chance (B-01). None: the field is not there."""


@dataclass(frozen=True, slots=True)
class PodShown:
    """A pod as the API has it. `stuck`: a sync that was asked for never came to show, as its status was refused."""

    phase: str
    stuck: bool
    containers: dict[str, Entries]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is there at one moment: `pushed`, what the kubelet showed of its own accord; `synced`, after one more sync
    of every pod; `recovered`, the same once a stream that ended was opened again, or time enough for it has passed.
    """

    step: int
    """The number of the step; -1 for what is there before the first."""
    moment: str
    pods: dict[str, PodShown]
    streams: dict[str, int]
    """Health streams opened so far, by driver and instance."""


@dataclass(frozen=True, slots=True)
class Played:
    """A script's play: its snapshots, and when things happened, in seconds from its beginning."""

    snapshots: tuple[Snapshot, ...]
    times: dict[str, float] = field(default_factory=dict)


def shown(status: StatusSeen, names: Mapping[str, str], *, stuck: bool) -> PodShown:
    """The pod as an observation has it. `names` maps drivers' names to those in the script."""
    containers: dict[str, Entries] = {}
    for container in status.containers:
        if container.name == FENCE:
            continue
        if container.resources is None:
            containers[container.name] = None
            continue
        containers[container.name] = {
            entry.name: {_plain(r.resource_id, names): (str(r.health), r.message) for r in entry.resources}
            for entry in container.resources
        }
    return PodShown(status.phase, stuck, containers)


def _plain(text: str, names: Mapping[str, str]) -> str:
    for name, plain in names.items():
        text = text.replace(name, plain)
    return text
