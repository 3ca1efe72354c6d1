"""Disruptions of a node: stop and restart the kubelet and the API server, and set feature gates."""

from collections.abc import Collection

from drahealth.proto import events
from drahealth.proto.values import DRA_GATE, MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import HarnessError
from drahealth.suites.story.history import History
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.target import Target


class Disruptions:
    """Disruptions by a scenario, with the capabilities that it `needs`. It remembers what to undo at the end.

    All methods raise HarnessError for a capability that the scenario does not declare.
    """

    def __init__(self, target: Target, title: str, *, needs: Collection[Capability] = ()) -> None:
        self.target = target
        self.history = History()
        self.gates_on = True
        """The feature gate is on in the API server and in the kubelet."""
        self.has_default_gates = True
        """The gates DynamicResourceAllocation and ResourceHealthStatusMessage are on, too."""
        self.title = title
        self._needs = needs
        self._api_server_is_stopped = False
        self._kubelet_is_stopped = False

    def log(self, text: str) -> None:
        """Add a line to the history."""
        self.history.observe(events.Step(text))

    async def kubelet_restarts(self) -> None:
        """Kill the kubelet and start it again."""
        self._use(Capability.RESTART_KUBELET)
        self.log("the kubelet is killed and started again")
        self.history.observe(events.Stopped("kubelet"))
        await self.target.restart_kubelet()
        self._kubelet_is_stopped = False
        self.history.observe(events.Restarted("kubelet"))

    async def kubelet_stops(self, *, orderly: bool = False) -> None:
        """Kill the kubelet, or let it stop in an orderly way. Containers and drivers keep running.

        The cleanup starts it again if needed.
        """
        self._use(Capability.STOP_KUBELET)
        self.log("the kubelet stops" if orderly else "the kubelet is killed")
        self.history.observe(events.Stopped("kubelet"))
        self._kubelet_is_stopped = True
        await self.target.stop_kubelet(orderly=orderly)

    async def kubelet_starts(self) -> None:
        """Start a stopped kubelet with its old files, and wait until it serves the node."""
        if self._kubelet_is_stopped:
            self.log("the kubelet is started again")
            await self.target.start_kubelet()
            self._kubelet_is_stopped = False
            self.history.observe(events.Restarted("kubelet"))

    async def set_gates(
        self,
        *,
        on: bool | None = None,
        api_server: bool = True,
        kubelet: bool = True,
        dra: bool = True,
        messages: bool = True,
    ) -> None:
        """Set the feature gate and restart the API server and the kubelet. `on` sets both sides.

        `dra` is the gate DynamicResourceAllocation of the kubelet, `messages` its gate
        ResourceHealthStatusMessage.
        """
        self._use(Capability.SWITCH_GATES)
        if not dra:
            self._use(Capability.SWITCH_DRA)
            self.log(f"the feature gate {DRA_GATE} is off in the kubelet")
        if not messages:
            self._use(Capability.SWITCH_MESSAGES)
            self.log(f"the feature gate {MESSAGE_GATE} is off in the kubelet")
        api_server, kubelet = (api_server, kubelet) if on is None else (on, on)
        sides = {"API server": api_server, "kubelet": kubelet}
        self.log(f"the feature gate is {', '.join(f'{_on(is_on)} in the {side}' for side, is_on in sides.items())}")
        self.gates_on = api_server and kubelet
        self.has_default_gates = self.gates_on and dra and messages
        self.history.observe(events.Stopped("kubelet"))
        without_messages = events.GateSet(MESSAGE_GATE, False, True, False)
        if not messages:  # the kubelet may write statuses before the node is ready again
            self.history.observe(without_messages)
        await self.target.set_gates(api_server=api_server, kubelet=kubelet, dra=dra, messages=messages)
        self.history.observe(events.GateSet(STATUS_GATE, self.gates_on, api_server, kubelet))
        if not messages:
            self.history.observe(without_messages)

    async def api_server_stops(self) -> None:
        """Stop the API server. Watches end, and writes fail."""
        self._use(Capability.STOP_API_SERVER)
        self.log("the API server is stopped")
        self._api_server_is_stopped = True
        await self.target.stop_api_server()

    async def api_server_starts(self) -> None:
        """Start a stopped API server with the same store."""
        if not self._api_server_is_stopped:
            return
        await self.target.start_api_server()
        self._api_server_is_stopped = False
        self.history.observe(events.Restarted("kube-apiserver"))

    @property
    def is_exclusive(self) -> bool:
        """The scenario disrupts every pod on its node, so no other one may run there at the same time."""
        return any(capability.exclusive for capability in self._needs)

    def _use(self, capability: Capability) -> None:
        if capability not in self._needs:
            raise HarnessError(
                f"scenario {self.title!r} uses the capability {capability.value} but does not declare it",
                f'add needs=("{capability.value}",) to @scenario',
            )


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"
