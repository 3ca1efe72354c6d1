"""The number of processes of a run: one for each processor that scenarios keep busy, and one for each node that fits
into the memory.
"""

import os
from importlib.util import find_spec

import psutil

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.definition import TargetDefinition

MOST = 4
"""The most processes that nobody asked for."""


def worker_count(asked: int | None, definition: TargetDefinition, *, whole: bool) -> int:
    """The number of processes; 1: no others. `asked` is that of `-n`. `whole`: all scenarios of this project run.

    Raises ConfigurationError if `-n` asks for several, and pytest-xdist is not installed.
    """
    has_xdist = find_spec("xdist") is not None
    if asked is not None and asked > 1 and not has_xdist:
        raise ConfigurationError("-n needs the package pytest-xdist", "run `pip install pytest-xdist`")
    if asked is not None or not has_xdist:
        return asked or 1
    if definition.is_busy:  # a few scenarios end before another process has started
        return min(MOST, len(os.sched_getaffinity(0))) if whole else 1
    return fitting(definition.node_memory, psutil.virtual_memory().available // 2**20)


def fitting(node_memory: int, available: int) -> int:
    """The number of nodes for half of the available memory, in MB: 1 to 4. For nodes that need almost none, 1."""
    return min(MOST, max(1, available // 2 // node_memory)) if node_memory else 1
