"""What an API client sees of the pods on a node, and waiting for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drahealth.fakes.cluster.api import ApiError
from drahealth.proto.events import StatusSeen
from drahealth.suites.errors import HarnessError
from drahealth.suites.nodes.node_target import NodeTarget
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch

START_LIMIT = 30.0
"""Seconds for the start of a Pod, also on a target whose windows are shorter: the machine can be busy."""


class PodStatuses:
    """The statuses of all pods on a running target, from `start` to `stop`."""

    def __init__(self, target: NodeTarget) -> None:
        self.target = target
        self._history = History()
        self._watch = PodWatch(target.api, None, self._history)

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def stop(self) -> None:
        """End the watch."""
        await self._watch.stop()

    def all(self) -> list[StatusSeen]:
        """All different statuses until now; the newest status is the last one."""
        return list(self._history.of(StatusSeen))

    def exists(self, pod_uid: str) -> bool:
        """The pod has a status and is not deleted."""
        return pod_uid in self._watch.statuses

    @property
    def status_timeout(self) -> float:
        """The longest time in seconds that a change may need to show: one sync of the pod and a margin."""
        return self.target.windows["resync"]

    @property
    def start_timeout(self) -> float:
        """The longest time in seconds that a pod may need to start or to go."""
        return max(self.target.windows["start"], START_LIMIT)

    async def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until it is true, looking again at each status; False after `timeout` seconds.

        Raises HarnessError if a process of the target has died.
        """
        if await self._history.until(condition, timeout):
            return True
        self.target.check()
        return False


@contextmanager
def naming_a_stopped_node(target: NodeTarget) -> Iterator[None]:
    """An unavailable API server of a node that has stopped is a HarnessError with the name of the node and a hint."""
    try:
        yield
    except ApiError as error:
        if error.reason == "ServiceUnavailable":
            try:
                target.check()
            except HarnessError as stopped:
                raise stopped from None  # without the error of the connection
        raise


def timed_out(expected: str, seconds: float, seen: str) -> TimeoutError:
    """The error of a wait: what was expected for how long, and what was seen last."""
    return TimeoutError(f"expected within {seconds:g} s: {expected}; last seen: {seen}")
