"""The `scenario` decorator: it names the requirements that a test checks. The test gets a `node`.

    @scenario("STATUS-01")
    async def test_an_unhealthy_device_shows_in_the_pod_status(node):
        driver, pod, gpu = await node.pod_with_a_gpu()
        await gpu.becomes(UNHEALTHY)
        await pod.shows(gpu, UNHEALTHY)

For pytest, the decorated function is synchronous, so no plugin for asynchronous tests is involved.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, Never

from drahealth.proto.health_apis import HealthApi
from drahealth.suites.errors import reject_old_arguments
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.targets.capabilities import Capability, named

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
    """The tests of the KEP and of Kubernetes that it covers (docs/upstream-tests.md)."""

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
