"""The mark on the nodes of our clusters: a mount whose path names the run that made them.

kind has no option for labels on its containers, and anybody may use a name. A mount exists as long as the container, on
every engine, and cannot be added or removed later.
"""

import re
from collections.abc import Iterable

_PREFIX = "/kind/made-by-drahealth-"
_RUN_ID = re.compile(r"[0-9a-f]{4,64}")
HOST_PATH = "/dev/null"
"""The mounted file: every machine has it, and it holds no data."""


def mark(run_id: str) -> str:
    """The path of the mount in the node. Raises ValueError if the run's id is not lower-case hexadecimal."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no run id: 4 to 64 lower-case hexadecimal digits are wanted")
    return _PREFIX + run_id


def is_mark(path: str) -> bool:
    """Whether the path of a mount begins like a mark, valid or not."""
    return path.startswith(_PREFIX)


def run_id_of(mounts: Iterable[str]) -> str | None:
    """The run that made a container with these mounts; None if it has no mark, or more than one."""
    marks = [path.removeprefix(_PREFIX) for path in mounts if is_mark(path)]
    return marks[0] if len(marks) == 1 and _RUN_ID.fullmatch(marks[0]) else None
