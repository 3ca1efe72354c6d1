"""Scenarios that are played over several health APIs. pytest sees them as parameters of the fixture `node`."""

from pathlib import Path

import pytest

from drahealth.proto.health_apis import HealthApi
from drahealth.suites.run.catalogue import scenarios_folder
from drahealth.suites.run.options import Options
from drahealth.suites.run.scenario import scenario_of

BASIC = "test_basic.py"
"""The file of the scenarios that a plain run plays over every health API."""


def play_over_health_apis(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each health API. The test over the default one keeps its name.

    A scenario is left out over an API that is not the only one of the run and that it is not applicable to.
    """
    scenario, options = scenario_of(metafunc.function), Options.of(metafunc.config)
    assert scenario
    file = Path(str(metafunc.module.__file__))
    basic = file.name == BASIC and file.parent.samefile(scenarios_folder())
    apis = options.health_apis(basic=basic)
    if len(apis) == 1:
        return
    kept = [api for api in apis if options.every_health_api or not scenario.why_not(api)]
    ids = [api.name if api else pytest.HIDDEN_PARAM for api in kept]
    metafunc.parametrize("node", kept, indirect=True, ids=ids)


def health_api_of(item: pytest.Item, options: Options) -> HealthApi | None:
    """The only health API of the drivers in this test; None: the default of fake drivers."""
    call = getattr(item, "callspec", None)
    chosen = call.params.get("node") if call else None
    return chosen if isinstance(chosen, HealthApi) else options.health_api


def suffix(item: pytest.Item, options: Options) -> str:
    """What the name of a scenario needs to differ from the same one over another health API."""
    api = health_api_of(item, options)
    return f"[{api.name}]" if api and api is not options.health_api else ""
