"""Disruptions of a scenario's node: the kubelet ends, the API server is away, feature gates are switched."""

from drahealth.proto import events
from drahealth.suites.errors import HarnessError
from drahealth.suites.story.history import History
from drahealth.suites.targets.target import Target

_GATE = "ResourceHealthStatus"


class Disruptions:
    """What a scenario that has the node for itself does to it. It keeps what has to be undone at the end.

    Raises HarnessError where the scenario does not say that it needs the node for itself.
    """

    def __init__(self, target: Target, title: str, *, alone: bool) -> None:
        self.target = target
        self.history = History()
        self.gates_on = True
        """The feature gate is on, on both sides."""
        self._title = title
        self._alone = alone
        self._api_is_away = False
        self._kubelet_is_stopped = False

    def tell(self, text: str) -> None:
        """A line of the story for its time line."""
        self.history.observe(events.Step(text))

    async def kubelet_restarts(self) -> None:
        self._must_be_alone()
        self.tell("the kubelet is killed and started again")
        await self.target.restart_kubelet()
        self._kubelet_is_stopped = False
        self.history.observe(events.Restarted("kubelet"))

    async def kubelet_stops(self) -> None:
        """It is killed; containers and drivers run on. The story's end starts it again, if nothing else does."""
        self._must_be_alone()
        self.tell("the kubelet is killed")
        self._kubelet_is_stopped = True
        await self.target.stop_kubelet()

    async def kubelet_runs(self) -> None:
        """It is started on the same files, if it was stopped, and serves the node."""
        if self._kubelet_is_stopped:
            self.tell("the kubelet is started again")
            await self.target.start_kubelet()
            self._kubelet_is_stopped = False
            self.history.observe(events.Restarted("kubelet"))

    async def gates(self, *, on: bool | None = None, api_server: bool = True, kubelet: bool = True) -> None:
        """The feature gate is switched, `on` both sides or on each; the API server and the kubelet are restarted."""
        self._must_be_alone()
        api_server, kubelet = (api_server, kubelet) if on is None else (on, on)
        sides = {"API server": api_server, "kubelet": kubelet}
        self.tell(f"the feature gate is {', '.join(f'{_on(is_on)} in the {side}' for side, is_on in sides.items())}")
        self.gates_on = api_server and kubelet
        await self.target.set_gates(api_server=api_server, kubelet=kubelet)
        self.history.observe(events.GateSet(_GATE, self.gates_on, api_server, kubelet))

    async def api_server_goes_away(self) -> None:
        """Nobody hears of anything any more, and nobody can write."""
        self._must_be_alone()
        self.tell("the API server goes away")
        self._api_is_away = True
        await self.target.stop_api_server()

    async def api_server_returns(self) -> None:
        """It serves again, from the same store, if it was away."""
        if not self._api_is_away:
            return
        await self.target.start_api_server()
        self._api_is_away = False
        self.history.observe(events.Restarted("kube-apiserver"))

    def _must_be_alone(self) -> None:
        if not self._alone:
            raise HarnessError(f"{self._title!r} disturbs its node", "declare it with @scenario(..., alone=True)")


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"
