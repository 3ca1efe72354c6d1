"""What has happened around the drivers of a process, for the stories that wait for it or expect it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from drahealth.fakes.serve.node_pods import NodePods, shown
from drahealth.fakes.timelines.actions import Action, Expect
from drahealth.fakes.timelines.story import Story
from drahealth.fakes.waiting import Changes
from drahealth.proto.events import DriverEvent, Prepared, StreamOpened, Unprepared
from drahealth.proto.values import ResourceHealth

_EVENTS: Mapping[str, type[DriverEvent]] = {
    "NodePrepareResources": Prepared,
    "NodeUnprepareResources": Unprepared,
    "NodeWatchResources": StreamOpened,
}
"""The event of a call, by the method's name in timelines."""


class PodObserver:
    """Counts calls, and looks at pods where there are any to look at. `changes` wakes waiting tasks."""

    def __init__(self, pods: NodePods | None = None) -> None:
        self.changes = Changes()
        self._pods = pods
        self._calls = Counter[tuple[str, type[DriverEvent]]]()
        if pods:
            pods.add(self.changes.notify)

    def __call__(self, event: DriverEvent, /) -> None:
        if type(event) in _EVENTS.values():
            self._calls[event.driver, type(event)] += 1
            self.changes.notify()

    def calls(self, driver: str, method: str | None = None) -> int:
        """How often a driver was called since the process began: claims that it has prepared, and so on."""
        events = [_EVENTS[method]] if method else _EVENTS.values()
        return sum(self._calls[driver, event] for event in events)

    def shown(self, ids: Collection[str], entry: str = "") -> list[ResourceHealth]:
        """What the statuses of pods on the node show of the devices with these names (`node_pods.shown`)."""
        return [found for pod in (self._pods.all() if self._pods else ()) for found in shown(pod, ids, entry)]

    @property
    def problem(self) -> str:
        """Why pods cannot be seen now; empty where they can."""
        return self._pods.problem if self._pods else ""


def looks_at_pods(stories: Iterable[Story]) -> bool:
    """Whether any of them expects something of pods, or waits for it."""
    return any(_looks(action) for story in stories for action in (*story.plan.actions, *story.plan.always))


def _looks(action: Action) -> bool:
    return isinstance(action.do, Expect) or bool(action.trigger and action.trigger.seen)
