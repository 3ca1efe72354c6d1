"""A scenario on a wrong reference: which requirement must fail, and how long a step may take until it does."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.profile import KEP, Profile
from drahealth.proto.health_apis import HealthApi
from drahealth.suites.judging.diagnosis import Diagnosis
from drahealth.suites.judging.status_content import Violation
from drahealth.suites.run.scenario import scenario_of
from drahealth.suites.story.node import Node
from drahealth.suites.targets.reference.target import RESYNC, ReferenceTarget
from drahealth.suites.targets.target import Window
from drahealth.suites.unit.suites import mutants

PATIENT: Mapping[Window, float] = {"push": 60.0, "resync": 60.0, "start": 60.0, "restart": 60.0}
"""Windows that a healthy step never reaches the end of, however slow the machine is."""
SOON: Mapping[Window, float] = {"push": 0.4, "resync": 0.4, "start": 3.0, "restart": 0.8}
"""Short windows, because mutants fail at their end. Only for the requirement that a mutant must fail."""
NOT_DUE = 600.0
"""Seconds between syncs, for mutants that do not notify: on a slow machine, a sync that is due anyway would hide it."""


@dataclass(frozen=True)
class Case:
    """A story, its target, and the requirement that fails."""

    requirement: str
    story: Callable[..., None]
    manager: type[DraManager] = DraManager
    device_plugins: type[DevicePluginManager] = DevicePluginManager
    profile: Profile = KEP
    target: type[ReferenceTarget] = ReferenceTarget
    health_api: HealthApi | None = None
    resync: float = RESYNC

    def __str__(self) -> str:
        over = f" {self.health_api.name}" if self.health_api else ""
        manager = self.manager if self.device_plugins is DevicePluginManager else self.device_plugins
        return f"{self.requirement} {manager.__name__} {self.target.__name__}{over}"


class SoonWhileJudged(Mapping[Window, float]):
    """Short windows while a node judges the requirement, patient ones in all other steps."""

    def __init__(self, node: Node, requirement: str) -> None:
        self._node = node
        self._requirement = requirement

    def __getitem__(self, window: Window) -> float:
        return (SOON if self._node._judge.requirement == self._requirement else PATIENT)[window]

    def __iter__(self) -> Iterator[Window]:
        return iter(PATIENT)

    def __len__(self) -> int:
        return len(PATIENT)


def play(
    case: Case, windows: Mapping[Window, float] | None = None, *, diagnosed: Callable[[Diagnosis], None] | None = None
) -> None:
    """Play the story on its own target, with short windows for its requirement unless others are given.

    Raises Violation. `diagnosed` receives its diagnosis.
    """
    found = scenario_of(case.story)
    assert found
    with asyncio.Runner() as runner:

        def run(work: Awaitable[Any]) -> Any:
            return runner.run(_done(work))

        halves: dict[str, Any] = {"dra": case.manager, "device_plugins": case.device_plugins}
        target = case.target(case.profile, **halves, resync=case.resync, longest=0)
        mutants.KnowsContainers.runtime = target.runtime
        node = Node(target, found.title, found.requirements, run, needs=found.all_needs, health_api=case.health_api)
        target.windows = windows or SoonWhileJudged(node, case.requirement)
        try:
            run(target.start())
            run(node.begin())
            try:
                case.story(node=node)
            except Violation as violation:
                if diagnosed:
                    diagnosed(node.diagnosis(violation))
                raise
            finally:
                run(node.finish())
        finally:
            run(target.stop())


async def _done(work: Awaitable[Any]) -> Any:
    return await work
