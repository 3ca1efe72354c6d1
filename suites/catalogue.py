"""The scenarios there are, found without running any."""

import importlib
import pkgutil
from collections.abc import Iterator

from drahealth.suites import kep
from drahealth.suites.scenario import Scenario, scenario_of


def scenarios() -> Iterator[Scenario]:
    """All scenarios of `suites/kep`, by file and in the order in which they stand there."""
    for module in sorted(pkgutil.iter_modules(kep.__path__), key=lambda found: found.name):
        if not module.name.startswith("test_"):
            continue
        tests = vars(importlib.import_module(f"{kep.__name__}.{module.name}")).values()
        yield from (found for test in tests if (found := scenario_of(test)))
