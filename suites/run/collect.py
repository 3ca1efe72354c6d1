"""pytest collection of timelines: each timeline in a `*.timeline.yaml` is a scenario on the run's target."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.plan import Action, ChangeKubelet, Expect, Plan
from drahealth.fakes.timelines.play import Story, play, stories
from drahealth.suites.run.scenario import scenario
from drahealth.suites.run.session import Session
from drahealth.suites.story.history import STORY_LIMIT
from drahealth.suites.story.node import Node
from drahealth.suites.timelines.node_stage import Holder, NodeStage, jumped, status_changes


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


class TimelineWarning(pytest.PytestWarning):
    """A passed timeline has a remark, for example that it has no expectations."""


class TimelineItem(pytest.Item):
    """One timeline. It has its own driver, and a workload that holds the devices."""

    def __init__(self, *, story: Story, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]
        self._story = story
        speed = self.config.getoption("--drahealth-speed")
        self._speed = float(speed) if speed else 1.0
        self._node: Node | None = None
        self.function = as_scenario(story, self._speed)

    def runtest(self) -> None:
        session = Session.of(self.config)
        node = self._node = session.begin(self)
        node.time_limit = STORY_LIMIT + lasts(self._story.plan) / self._speed
        try:
            self.function(node=node)
            # The kubelet can write an effect of the last step after the timeline has ended.
            node.status_changes += status_changes(node.history.records, node.timeline_began)
        finally:
            session.finish(node)
        for note in node.notes:
            self.warn(TimelineWarning(note))

    def progress(self) -> str:
        """The name and, if the target's time is simulated, how much of the timeline's time has passed."""
        passed = jumped(self._node.history) if self._node else 0.0
        return f"{self.name} ...{story_time(passed * self._speed, lasts(self._story.plan)) if passed else ''}"

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


def story_time(passed: float, total: float) -> str:
    """How much of a timeline has been played, such as `, at 1 day, 2:00:00 of 3 days, 0:00:00`."""
    at, end = (timedelta(seconds=int(seconds)) for seconds in (min(passed, total), total))
    return f", at {at} of {end}"


async def play_story(story: Story, node: Node, speed: float = 1.0) -> None:
    """Play the timeline with its own driver, and a workload that holds the devices."""
    inventory, plan, use = story.inventory, story.plan, story.timeline.use
    paths = inventory.leaves
    names = [inventory[path].name for path in paths]
    driver = await node.driver(
        devices=paths, catalogue=use.catalogue, policy=use.policy, inventory=inventory.devices, seed=plan.seed
    )
    plugin = await node.device_plugin(names) if plan.has_plugin else None
    count = use.workload.devices or len(paths)
    async with Holder(node, driver, shows=count * (2 if plugin else 1)) as holder:
        await holder.begin(use.workload, count, [plugin.request(count)] if plugin else [])
        node.log(f"timeline {story.timeline.name}, seed {plan.seed}, plan {plan.hash}")
        node.timeline_began = time.monotonic()
        stage = NodeStage(node, driver, holder, story, plugin=plugin, speed=speed)
        left_out = await play(plan, stage, speed=speed)
        node.notes += dict.fromkeys((*stage.notes(), *notes(story, left_out)))
        await node.kubelet_starts()  # the checks at the end need a running kubelet


def notes(story: Story, left_out: Iterable[Action]) -> Iterator[str]:
    """Remarks on a story that has ended, one line each."""
    if not any(action.verb == "expect" for action in (*story.plan.actions, *story.plan.always)):
        yield "the timeline has no `expect` step: only the final pod status was checked"
    for where in dict.fromkeys(map(story.where, left_out)):
        yield f"{where} was skipped: its condition did not occur"


def as_scenario(story: Story, speed: float = 1.0) -> Callable[..., None]:
    """A function as scenarios are, whose name is the timeline's."""

    async def run(node: Node) -> None:
        await play_story(story, node, speed)

    run.__name__ = story.timeline.name
    return scenario("STATUS-10", needs=needs(story.plan))(run)


_KUBELET_NEEDS = {"restart": "restart-kubelet", "stop": "stop-kubelet"}


def needs(plan: Plan) -> tuple[str, ...]:
    """The names of the capabilities that a target must have to play it."""
    actions = (*plan.actions, *plan.always)
    kubelet = {
        _KUBELET_NEEDS[a.do.what] for a in actions if isinstance(a.do, ChangeKubelet) and a.do.what in _KUBELET_NEEDS
    }
    return (*sorted(kubelet), *(["control-without-kubelet"] if commands_while_stopped(plan) else []))


def commands_while_stopped(plan: Plan) -> bool:
    """A driver, a plugin or a pod gets a command while the kubelet is stopped."""
    stopped = False
    for action in (*plan.actions, *plan.always):
        if isinstance(action.do, ChangeKubelet):
            stopped = action.do.what == "stop"
        elif stopped and action.verb not in ("expect", "mark"):
            return True
    return False


def lasts(plan: Plan) -> float:
    """The duration of the story in seconds, including `holds` of expectations."""
    ends = (
        action.at + (action.do.holds if isinstance(action.do, Expect) else 0.0)
        for action in (*plan.actions, *plan.always)
    )
    return max(ends, default=0.0)
