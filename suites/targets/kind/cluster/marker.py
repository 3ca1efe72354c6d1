"""The mark on the nodes of our clusters: a mount that says which run made them.

kind lets nobody label its containers, and a name proves nothing: others may use it too. A mount is there from the
moment the container exists, on every engine, and cannot be added or removed later.
"""

import re
from collections.abc import Iterable

_PREFIX = "/kind/made-by-drahealth-"
_RUN_ID = re.compile(r"[0-9a-f]{4,64}")
HOST_PATH = "/dev/null"
"""What is mounted: it is on every machine, and nothing can be read from it or lost in it."""


def mark(run_id: str) -> str:
    """The path of the mount in the node. ValueError if the run's id is not lower-case hexadecimal."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no run id: 4 to 64 lower-case hexadecimal digits are wanted")
    return _PREFIX + run_id


def is_mark(path: str) -> bool:
    """Whether a mount's path looks like a mark, be it a good one or not."""
    return path.startswith(_PREFIX)


def run_id_of(mounts: Iterable[str]) -> str | None:
    """The run that made a container with these mounts; None if it has no mark, or more than one."""
    marks = [path.removeprefix(_PREFIX) for path in mounts if is_mark(path)]
    return marks[0] if len(marks) == 1 and _RUN_ID.fullmatch(marks[0]) else None
