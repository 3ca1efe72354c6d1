"""The interface that the objects of a story (driver, device plugin, pod, ReplicaSet) use of their node.

`node.Node` implements these protocols. The other modules do not import `node`, so there is no import cycle.
"""

from collections.abc import Callable
from typing import Protocol

from drahealth.manager.profile import Profile
from drahealth.proto.events import StatusSeen
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.story.history import History
from drahealth.suites.targets.target import Target, Window


class StoryNode(Protocol):
    """A node with a history, and with methods that wait and check."""

    @property
    def target(self) -> Target: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def history(self) -> History: ...

    def log(self, text: str) -> None:
        """Add a line to the history."""

    def latest(self, pod_uid: str) -> StatusSeen | None:
        """The newest status of the pod that the client received."""

    async def until(
        self, true: Callable[[], bool], window: Window, expected: str, seen: object, sought: Sought | None = None
    ) -> None:
        """Wait for the condition. Raises Violation with the last seen state at the end of the window.

        `sought` is the same for the diagnosis of a failure.
        """

    def check(self, true: bool, expected: str, seen: object, sought: Sought | None = None) -> None:
        """Raises Violation if the condition is false now. `sought` as in `until`."""
