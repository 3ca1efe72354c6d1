"""The health that pods showed during a story, as one line per changed device. Pure."""

from collections.abc import Iterable, Iterator

from drahealth.proto.events import Record, StatusSeen, TimePassed, TimeSkipped
from drahealth.proto.quoting import one_line
from drahealth.proto.values import ResourceHealth

LINES = 4
"""Maximum number of devices to print."""
STATES = 6
"""Maximum number of states per device. The last ones are printed."""
LETTERS = 80
"""Maximum length of a message."""

_States = list[tuple[float, str]]


def status_changes(records: Iterable[Record], since: float) -> Iterator[str]:
    """One line per changed device. `since` is the start of the story on the records' clock.

    Times in the lines are seconds since the start, including simulated time.
    """
    jumped, seen = 0.0, dict[tuple[str, str], _States]()
    for record in records:
        match record.what:
            case TimePassed(seconds=seconds) | TimeSkipped(seconds=seconds) if record.at >= since:
                jumped += seconds
            case StatusSeen() as status:
                at = max(record.at - since, 0.0) + jumped
                for key, words in _healths(status):
                    states = seen.setdefault(key, [])
                    if not states or states[-1][1] != words:
                        states.append((at, words))
    changed = {key: states for key, states in seen.items() if len(states) > 1}
    for (pod, device), states in list(changed.items())[:LINES]:
        yield f"pod {pod} showed {device}: {_in_order(states)}"
    if len(changed) > LINES:
        yield f"{len(changed) - LINES} more devices changed"


def _healths(status: StatusSeen) -> Iterator[tuple[tuple[str, str], str]]:
    for _, entries in status.entries():
        for entry in entries:
            for resource in entry.resources:
                device = resource.resource_id.replace("=", "/").rpartition("/")[2]
                yield (
                    (status.pod, device if entry.name.startswith("claim:") else f"{entry.name} {device}"),
                    _words(resource),
                )


def _words(resource: ResourceHealth) -> str:
    return f"{resource.health} '{one_line(resource.message, LETTERS)}'" if resource.message else str(resource.health)


def _in_order(states: _States) -> str:
    more = len(states) - STATES
    first, *others = states[-STATES:]
    later = [f"{words} at {at:.1f} s" for at, words in others]
    return ", ".join([*([f"{more} more"] if more > 0 else []), first[1], *later])
