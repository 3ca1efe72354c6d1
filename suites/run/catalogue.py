"""The scenarios there are, found without running any."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from drahealth.suites.scenario import Scenario, scenario_of

SCENARIOS = "drahealth.suites.kep"
"""The package of the scenarios, by name: its fixture imports this folder."""


def scenarios_folder() -> Path:
    """Where the scenarios are."""
    return Path(str(resources.files(SCENARIOS)))


def scenarios() -> Iterator[Scenario]:
    """All scenarios of `suites/kep`, by file and in the order in which they stand there."""
    for module in sorted(pkgutil.iter_modules([str(scenarios_folder())]), key=lambda found: found.name):
        if not module.name.startswith("test_"):
            continue
        tests = vars(importlib.import_module(f"{SCENARIOS}.{module.name}")).values()
        yield from (found for test in tests if (found := scenario_of(test)))
