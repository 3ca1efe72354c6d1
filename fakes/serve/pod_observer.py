"""Observes the calls to drivers, and the statuses of pods, for timelines that wait for them or expect them."""

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
    """Counts the calls of each driver and reads pod statuses, if it gets `pods`. `changes` notifies of both."""

    def __init__(self, pods: NodePods | None = None) -> None:
        self.changes = Changes()
        self.newest = object()
        """Another object after each change of a pod."""
        self._pods = pods
        self._calls = Counter[tuple[str, type[DriverEvent]]]()
        if pods:
            pods.add(self._pod_changed)

    def __call__(self, event: DriverEvent, /) -> None:
        if type(event) in _EVENTS.values():
            self._calls[event.driver, type(event)] += 1
            self.changes.notify()

    def _pod_changed(self) -> None:
        self.newest = object()
        self.changes.notify()

    def calls(self, driver: str, method: str | None = None) -> int:
        """Number of calls of a driver since the start of the process: those of one method, or all."""
        events = [_EVENTS[method]] if method else _EVENTS.values()
        return sum(self._calls[driver, event] for event in events)

    def shown(self, ids: Collection[str], entry: str = "") -> list[ResourceHealth]:
        """The health of devices with these IDs in the statuses of pods on the node (`node_pods.shown`)."""
        return [found for pod in (self._pods.all() if self._pods else ()) for found in shown(pod, ids, entry)]

    @property
    def problem(self) -> str:
        """Why pod statuses are unavailable now; empty if they are available."""
        return self._pods.problem if self._pods else ""


def looks_at_pods(stories: Iterable[Story]) -> bool:
    """Whether any of them has an expectation or a trigger on a pod status."""
    return any(_looks(action) for story in stories for action in (*story.plan.actions, *story.plan.always))


def _looks(action: Action) -> bool:
    return isinstance(action.do, Expect) or bool(action.trigger and action.trigger.seen)
