"""Timelines as tests: each one of a `*.timeline.yaml` is a scenario on the run's target."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.fakes.timelines.plan import Plan
from drahealth.fakes.timelines.play import play
from drahealth.fakes.timelines.story import Story, stories
from drahealth.fakes.user_files import FileError
from drahealth.suites.scenario import scenario
from drahealth.suites.session import Session
from drahealth.suites.story.node import PATIENCE, Node
from drahealth.suites.timelines.plugin_steps import needs_plugin
from drahealth.suites.timelines.stage import NodeStage

SUFFIX = ".timeline.yaml"


class TimelineFile(pytest.File):
    """A file of timelines."""

    def collect(self) -> Iterator["TimelineItem"]:
        seed = self.config.getoption("--drahealth-seed")
        try:
            found = stories(self.path, seed=int(seed) if seed else None)
        except FileError as error:
            raise self.CollectError(str(error)) from None
        for story in found:
            yield TimelineItem.from_parent(self, name=story.timeline.name, story=story)


class TimelineItem(pytest.Item):
    """One timeline, to be played with a driver of its own, whose devices one pod holds."""

    def __init__(self, *, story: Story, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]
        self._story = story
        speed = self.config.getoption("--drahealth-speed")
        self._speed = float(speed) if speed else 1.0
        self.function = scenario("STATUS-10", alone=disturbs(story.plan))(_named(self, story.timeline.name))

    def runtest(self) -> None:
        session = Session.of(self.config)
        node = session.begin(self)
        node.patience = PATIENCE + lasts(self._story.plan) / self._speed
        try:
            self.function(node=node)
        finally:
            session.finish(node)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    async def tell(self, node: Node) -> None:
        """The story itself."""
        story = self._story
        paths, devices = story.inventory.leaves, story.inventory.devices
        use = story.timeline.use
        driver = await node.driver(
            devices=paths, catalogue=use.catalogue, policy=use.policy, inventory=devices, seed=story.plan.seed
        )
        names = [story.inventory[path].name for path in paths]
        plugin = await node.device_plugin(names) if needs_plugin(story.plan) else None
        asks = [plugin.asks(len(names))] if plugin else []
        pod = await node.running_pod((await node.claim(driver, gpu=len(paths)))["gpu"], *asks)
        await pod.has_devices(len(paths) * (2 if plugin else 1))
        node.tell(f"timeline {story.timeline.name}, seed {story.plan.seed}, plan {story.plan.hash}")
        stage = NodeStage(node, driver, pod, story.inventory, plugin=plugin, speed=self._speed)
        await play(story.plan, stage, speed=self._speed)


def _named(item: TimelineItem, name: str):  # type: ignore[no-untyped-def]
    """The story as a function whose name is the timeline's, as scenarios have it."""

    async def story(node: Node) -> None:
        await item.tell(node)

    story.__name__ = name
    return story


def disturbs(plan: Plan) -> bool:
    """It restarts the kubelet, so nothing else may run on its node."""
    return any(action.verb == "kubelet" for action in (*plan.actions, *plan.always))


def lasts(plan: Plan) -> float:
    """Seconds of the story, with what it expects to hold."""
    ends = (
        action.at + (action.what.get("holds", 0.0) if action.verb == "expect" else 0.0)
        for action in (*plan.actions, *plan.always)
    )
    return max(ends, default=0.0)
