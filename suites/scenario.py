"""What makes a function a scenario: it names the requirements it judges, and gets a node to tell its story on.

    @scenario("STATUS-01")
    async def test_an_unhealthy_device_shows_in_the_pod_status(node):
        driver, pod, gpu = await node.pod_with_a_gpu()
        await gpu.becomes(UNHEALTHY)
        await pod.shows(gpu, UNHEALTHY)

The decorated function is an ordinary one to pytest, so no plugin for asynchronous tests has a say in it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from drahealth.proto.health_apis import HealthApi
from drahealth.suites.judging.ledger import requirements


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is known of a scenario without running it."""

    name: str
    requirements: tuple[str, ...]
    title: str
    alone: bool = False
    """It restarts the kubelet or the API server, so that no other may run on its node meanwhile."""
    counterpart_of: tuple[str, ...] = ()
    """The tests of the texts and of Kubernetes that it stands for (docs/upstream-tests.md)."""
    not_on: Mapping[str, str] = field(default_factory=dict)
    """The targets that cannot run it though they can judge its requirements, and why."""

    def beyond(self, health_api: HealthApi | None, target: str = "") -> tuple[str, ...]:
        """The requirements it judges that need more than this health API carries, or this target can do.

        With any, it does not apply there.
        """
        if target in self.not_on:
            return self.requirements
        return tuple(n for n in self.requirements if _missing(n, health_api) or target in requirements()[n].not_on)

    def why_not(self, health_api: HealthApi | None, target: str = "") -> str:
        """Why it does not apply there, in a sentence; empty if it does."""
        if target in self.not_on:
            return f"it is not run on {target}: {self.not_on[target]}"
        for name in self.requirements:
            if target in requirements()[name].not_on:
                return f"{name} is not judged on {target}: {requirements()[name].not_on[target]}"
        needs = (f"{name} needs {' and '.join(_missing(name, health_api))}" for name in self.beyond(health_api))
        if not health_api or not self.beyond(health_api):
            return ""
        return f"{', '.join(needs)}, which {health_api.name} does not carry"


def _missing(requirement: str, health_api: HealthApi | None) -> list[str]:
    """What it needs that the health API does not carry; None is a driver of the released APIs, which carry all."""
    return [field for field in requirements()[requirement].needs if health_api and field not in health_api.carries]


def scenario(
    *judges: str, alone: bool = False, counterpart_of: tuple[str, ...] = (), not_on: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Declares which requirements of the ledger a test judges, whether it disturbs its node, whose counterpart it is,
    and which targets cannot run it.

    Raises ValueError for an id that is not in the ledger.
    """
    for name in judges:
        if name not in requirements():
            raise ValueError(f"requirement {name!r} is not in the ledger, suites/judging/requirements.toml")

    def declare(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @wraps(story)
        def run(**fixtures: Any) -> None:
            fixtures["node"].play(story(**fixtures))

        name = story.__name__
        title = name.removeprefix("test_").replace("_", " ")
        run.scenario = Scenario(name, judges, title, alone, counterpart_of, not_on or {})  # type: ignore[attr-defined]
        return run

    return declare


def scenario_of(test: object) -> Scenario | None:
    """The scenario behind a test function, None if it is an ordinary one."""
    found = getattr(test, "scenario", None)
    return found if isinstance(found, Scenario) else None
