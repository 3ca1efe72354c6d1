"""Timelines on a fleet: the devices of all hollow nodes, and what the statuses of their Pods show."""

import asyncio
from collections.abc import Sequence

from drahealth.fakes.control.definition import Subject
from drahealth.fakes.control.news import Publish
from drahealth.fakes.serve.playing import DriverStage
from drahealth.fakes.serve.pods import PodObserver, shown
from drahealth.fakes.timelines.model import HELD
from drahealth.fakes.timelines.play import Story, play
from drahealth.proto.events import TimelineEnded, TimelineStarted
from drahealth.proto.values import DeviceId, ResourceHealth
from drahealth.suites.fleet.driver import FleetDriver
from drahealth.suites.fleet.pods import FleetPods

_PAUSE = 0.05
"""Seconds in which changes of Pods are combined: an expectation can read thousands of devices."""


class FleetPodObserver(PodObserver):
    """Notifies of changes of the Pods of a fleet."""

    def __init__(self, pods: FleetPods) -> None:
        super().__init__()
        self._due: asyncio.TimerHandle | None = None
        pods.observe(self._soon)

    def _soon(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_PAUSE, self._notify)

    def _notify(self) -> None:
        self._due = None
        self._pod_changed()


class FleetStage(DriverStage):
    """Reads the status of a device on its own node: on another node, a device can have the same CDI name."""

    def __init__(
        self, driver: FleetDriver, fleet: FleetPods, observer: PodObserver, story: Story, publish: Publish
    ) -> None:
        super().__init__(driver, story, publish, observer)
        self._fleet = fleet

    def shown(self, device: str, of: Subject = "driver") -> list[ResourceHealth]:
        options, inventory = self._driver.options, self.story.inventory
        paths = options.devices if device == HELD else inventory.reached(device, "device")
        found = list[ResourceHealth]()
        for one in (inventory[path] for path in paths):
            name = DeviceId(options.name, one.pool, one.name)
            for pod in self._fleet.holders(name):
                found += shown(pod, {str(name), options.cdi_id(one.name)})
        return found


async def play_on_fleet(
    driver: FleetDriver, fleet: FleetPods, observer: PodObserver, stories: Sequence[Story], publish: Publish
) -> None:
    """One story after the other. What waits for something waits until it comes."""
    for story in stories:
        name = (driver.name, story.timeline.name, story.plan.seed, story.plan.hash)
        publish(TimelineStarted(*name))
        await play(story.plan, FleetStage(driver, fleet, observer, story, publish), patient=True)
        publish(TimelineEnded(*name))
