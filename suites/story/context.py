"""What the handles of a story (driver, device plugin, pod, ReplicaSet) need of its node.

`node.Node` implements these protocols. The handles know no more of it, so no module of a story imports another that
imports it.
"""

from collections.abc import Callable
from typing import Protocol

from drahealth.manager.profile import Profile
from drahealth.proto.events import StatusSeen
from drahealth.suites.story.history import History
from drahealth.suites.targets.target import Target, Window


class StoryNode(Protocol):
    """A node with a history, on which something is awaited and checked."""

    @property
    def target(self) -> Target: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def history(self) -> History: ...

    def tell(self, text: str) -> None:
        """Adds a line to the story's history."""

    def latest(self, pod_uid: str) -> StatusSeen | None:
        """The newest status of the pod that a client saw."""

    async def until(self, true: Callable[[], bool], window: Window, expected: str, seen: object) -> None:
        """Waits for it through the window. Raises Violation, with what was seen last, if it does not come true."""

    def check(self, true: bool, expected: str, seen: object) -> None:
        """Raises Violation if it is not so now."""
