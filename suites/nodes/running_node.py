"""A node of `drahealth up` as a node for tests."""

import secrets
from types import TracebackType

from drahealth.fakes.cluster.api import PODS, ApiError, Kind, Object
from drahealth.fakes.control.driver import DriverControl
from drahealth.fakes.control.node_folder import DEFAULT_NODE
from drahealth.suites.nodes.node import Node
from drahealth.suites.nodes.pod import Pod
from drahealth.suites.nodes.running_target import RunningConfiguration, RunningTarget


class RunningNode(Node):
    """A node that `drahealth up` has started. Entering connects to it; afterwards it continues.

    At the end, the objects that the test created are deleted. `restart_kubelet` and `Pod.exit` raise HarnessError.
    """

    def __init__(self, name: str = DEFAULT_NODE) -> None:
        """`name` is that of `drahealth up --name`. Raises ConfigurationError for an invalid name when entered."""
        super().__init__(RunningConfiguration(name))

    async def driver(self, name: str = "") -> DriverControl:
        """The driver with this name, on this node; without a name, the only driver of the node. Raises ControlFailed.

        `run_pod_with_device` takes it.
        """
        target = self._target
        assert isinstance(target, RunningTarget)
        return await target.drivers.use(name)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._delete_created()
        finally:
            await super().__aexit__(kind, error, trace)

    def _pod_name(self) -> str:
        return f"pod-{secrets.token_hex(3)}"  # the Pods of other tests are there, too

    async def _delete_created(self) -> None:
        """Deletes Pods first, and waits until they are gone: other objects are in use until then."""
        pods = [obj for kind, obj in self._created if kind == PODS]
        for obj in pods:
            await self._delete(PODS, obj)
        try:
            for obj in pods:
                await Pod(self._seen, obj).wait_deleted()
        finally:
            for kind, obj in reversed(self._created):
                if kind != PODS:
                    await self._delete(kind, obj)

    async def _delete(self, kind: Kind, obj: Object) -> None:
        try:
            await self.api.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        except ApiError as error:
            if error.status != 404:  # the test has deleted it
                raise
