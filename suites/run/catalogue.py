"""The list of all scenarios, without running them."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from drahealth.suites.run.scenario import Scenario, scenario_of

SCENARIOS = "drahealth.suites.kep"
"""The package of the scenarios, by name, because its fixture imports this folder."""


def scenarios_folder() -> Path:
    """The folder of the scenarios."""
    return Path(str(resources.files(SCENARIOS)))


def scenarios() -> Iterator[Scenario]:
    """All scenarios of `suites/kep`, in the order of files and of lines."""
    for module in sorted(pkgutil.iter_modules([str(scenarios_folder())]), key=lambda found: found.name):
        if not module.name.startswith("test_"):
            continue
        tests = vars(importlib.import_module(f"{SCENARIOS}.{module.name}")).values()
        yield from (found for test in tests if (found := scenario_of(test)))
