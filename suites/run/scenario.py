"""The `scenario` decorator, the list of all scenarios, and their names in results."""

import importlib
import os
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from importlib import resources
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Never

import pytest

from drahealth.proto.health_apis import HealthApi
from drahealth.suites.errors import reject_old_arguments
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.options import Options
from drahealth.suites.targets.capabilities import Capability, named

# The `scenario` decorator: it names the requirements that a test checks. The test gets a `node`.
#
#     @scenario("STATUS-01")
#     async def test_an_unhealthy_device_shows_in_the_pod_status(node):
#         driver, pod, gpu = await node.pod_with_a_gpu()
#         await gpu.becomes(UNHEALTHY)
#         await pod.shows(gpu, UNHEALTHY)
#
# For pytest, the decorated function is synchronous, so no plugin for asynchronous tests is involved.

EVERYTHING: Mapping[Capability, str] = MappingProxyType({})
"""What a target lacks that can do everything."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The declaration of a scenario."""

    name: str
    requirements: tuple[str, ...]
    title: str
    needs: tuple[Capability, ...] = ()
    """The capabilities that a target must have for it, beside those that its requirements need."""
    counterpart_of: tuple[str, ...] = ()
    """The tests of the KEP and of Kubernetes that it covers (suites/unit/upstream_tests.toml)."""

    @property
    def all_needs(self) -> frozenset[Capability]:
        """Its own needs, and those of its requirements."""
        return frozenset(self.needs).union(*(requirements()[name].needs for name in self.requirements))

    @property
    def is_exclusive(self) -> bool:
        """It disrupts every pod on its node, so no other one may run there at the same time."""
        return any(capability.exclusive for capability in self.all_needs)

    def beyond(self, health_api: HealthApi | None, missing: Mapping[Capability, str] = EVERYTHING) -> tuple[str, ...]:
        """Its requirements that need more than this health API carries, or a capability that is `missing`.

        With any of them the scenario is not applicable.
        """
        if any(capability in missing for capability in self.needs):
            return self.requirements
        lacking = {name for name in self.requirements if missing.keys() & requirements()[name].needs}
        return tuple(name for name in self.requirements if name in lacking or _missing(name, health_api))

    def why_not(self, health_api: HealthApi | None, missing: Mapping[Capability, str] = EVERYTHING) -> str:
        """Why it is not applicable, in a clause; empty if it is. `missing` has the reason of each capability."""
        needs = [("it", self.needs), *((name, requirements()[name].needs) for name in self.requirements)]
        for who, capability in ((who, capability) for who, those in needs for capability in those):
            if capability in missing:
                return f"{who} needs {capability.value}: {missing[capability]}"
        if not health_api or not self.beyond(health_api):
            return ""
        fields = (f"{name} needs {' and '.join(_missing(name, health_api))}" for name in self.beyond(health_api))
        return f"{', '.join(fields)}, which {health_api.name} does not have"


def _missing(requirement: str, health_api: HealthApi | None) -> list[str]:
    """Fields that it needs and the health API does not have; None stands for the released ones, which have all."""
    fields = requirements()[requirement].needs_fields
    return [field for field in fields if health_api and field not in health_api.carries]


_NEW_ARGUMENTS = {"alone": "needs=('restart-kubelet', ...)", "not_on": "needs=('set-resync', ...)"}


def scenario(
    *checks: str, needs: tuple[str, ...] = (), counterpart_of: tuple[str, ...] = (), **old: Never
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Declares which requirements of the ledger a test checks, which capabilities it needs beside those that the
    requirements need, and whose counterpart it is.

    Raises ValueError for an id that is not in the ledger, and for an unknown capability. Raises TypeError for an old
    argument, with the new one.
    """
    reject_old_arguments("scenario", old, _NEW_ARGUMENTS)
    for name in checks:
        if name not in requirements():
            raise ValueError(f"requirement {name!r} is not in the ledger, suites/judging/requirements.toml")
    capabilities = named(needs)

    def declare(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @wraps(story)
        def run(**fixtures: Any) -> None:
            fixtures["node"].play(partial(story, **fixtures))

        name = story.__name__
        title = name.removeprefix("test_").replace("_", " ")
        run.scenario = Scenario(name, checks, title, capabilities, counterpart_of)  # type: ignore[attr-defined]
        return run

    return declare


def scenario_of(test: object) -> Scenario | None:
    """The scenario behind a test function, None if it is an ordinary one."""
    found = getattr(test, "scenario", None)
    return found if isinstance(found, Scenario) else None


# The list of all scenarios, without running them.

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


# The names of scenarios in results: the same from the command, `--pyargs` and a checkout, and in all releases.

KEP = "drahealth.kep"
"""The class name of our scenarios. It has no module, because a scenario may move to another one."""

TIMELINES = "drahealth.timelines"
"""The beginning of the class names of timelines; the path of the file follows."""

TIMELINE_SUFFIX = ".timeline.yaml"

STANDARD_INPUT = f"stdin{TIMELINE_SUFFIX}"
"""The name of the file with the timelines from standard input."""


def case_of(item: pytest.Item) -> tuple[str, str] | None:
    """The class name and the name of a scenario of ours, or of a timeline; None for others, which pytest names."""
    if not isinstance(item, pytest.Function):
        return f"{TIMELINES}.{_dotted(item.path)}", item.name
    return (KEP, item.name) if item.path.parent.samefile(scenarios_folder()) else None


def id_of(item: pytest.Item) -> str:
    """What identifies a scenario in a run: no two tests have the same."""
    if not isinstance(item, pytest.Function):
        path = STANDARD_INPUT if item.path.name == STANDARD_INPUT else os.path.relpath(item.path)
        return f"{path}::{item.name}"
    case = case_of(item)
    return "::".join(case) if case else item.nodeid


def _dotted(path: Path) -> str:
    """The path of a timeline as seen from the current directory, with dots. One that is outside of it has its name."""
    parts = PurePath(os.path.relpath(path)).parts
    parts = parts[-1:] if parts[0] == os.pardir else parts
    return ".".join(parts).removesuffix(TIMELINE_SUFFIX)


# Scenarios that are played over several health APIs. pytest sees them as parameters of the fixture `node`.

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
