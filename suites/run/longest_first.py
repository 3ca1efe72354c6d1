"""The order of a run with several processes: the longest scenarios first, so that all processes end at about the same
time. `long_scenarios.toml` has the usual seconds on the targets where time is real.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import pytest

from drahealth.suites.run.scenario import scenario_of
from drahealth.suites.targets.definition import TargetDefinition

_CHUNK = 1
"""The number of scenarios that a process gets at once. A process that is slow then delays no other scenario."""


def sort_longest_first(items: list[pytest.Item], target: TargetDefinition) -> None:
    """Sorts scenarios; those of the same duration, and other tests, keep their order.

    If scenarios overlap on the target, those that cannot come first: the others then follow one another.
    """
    usual = seconds().get(target.name, {})

    def place(item: pytest.Item) -> tuple[bool, int]:
        found = scenario_of(getattr(item, "function", None))
        if found is None:
            return True, 0
        return target.overlaps and not found.is_exclusive, -usual.get(found.name, 0)

    items.sort(key=place)


def distribute_evenly(config: pytest.Config) -> None:
    """Gives each process few scenarios at once, unless the user has chosen another number."""
    if getattr(config.option, "maxschedchunk", 0) is None:
        config.option.maxschedchunk = _CHUNK


@cache
def seconds() -> Mapping[str, Mapping[str, int]]:
    """The seconds of long scenarios, by target and name."""
    text = resources.files("drahealth.suites.run").joinpath("long_scenarios.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, int]] = tomllib.loads(text)
    return found
