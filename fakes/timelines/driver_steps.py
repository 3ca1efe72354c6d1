"""What a timeline's steps tell a fake driver: faults, recoveries, taints, what is set, and what is wrong with streams.

None of it needs a kubelet; what a driver is as a process, and what pods show, is the stage's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.control.commands.registry import definition
from drahealth.fakes.control.driver import DriverControl
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.messages import report_of
from drahealth.fakes.timelines.model import EVERYTHING
from drahealth.fakes.timelines.plan import Action
from drahealth.proto.values import Health

VERBS = frozenset({"inject", "clear", "recover", "set", "taint", "untaint", "stream", "restore"})
"""Those that are told here."""

_KINDS = {"clock_skew": "skew"}
"""What the control surface calls a fault of streams, where that is not what timelines call it."""


@dataclass(frozen=True)
class DriverSteps:
    """A driver that is told of a timeline's devices; `speed` times as fast as the plan has it."""

    control: DriverControl
    pool: str
    inventory: Inventory
    speed: float = 1.0

    async def tell(self, action: Action, wall: float) -> str:
        """Does it, at this Unix time; what is worth a line of the story."""
        control, what = self.control, action.what
        match action.verb:
            case "inject":
                await control.inject(what, action.device)
            case "clear":
                await control.clear(what, action.device)
            case "recover":
                return await self._recover(what, action.device)
            case "set":
                await self._set(what, action.device)
            case "taint":
                await control.taint(action.device, **what)
            case "untaint":
                await control.untaint(action.device, **what)
            case "stream":
                await self._stream(what, wall)
            case "restore":
                await (
                    control.stream_restore("silence")
                    if what == "silence"
                    else control.stream_restore(_KINDS.get(what, what))
                )
        return ""

    async def _recover(self, what: Any, device: str) -> str:
        if what == EVERYTHING:
            await self.control.reset()
            return ""
        said: dict[str, Any] = {"action": what} if isinstance(what, str) else dict(what)
        if "takes" in said:
            said["takes"] = None if said["takes"] == "catalogue" else said["takes"] / self.speed
        came = await self.control.recover(device=device, **said)
        return f"{said['action']} leaves {', '.join(came.left)}" if came.left else ""

    async def _set(self, what: Mapping[str, Any], device: str) -> None:
        """What is not named stays what the driver has it, whatever a pod shows."""
        if "heartbeat" in what:
            await self.control.set_heartbeat(what["heartbeat"])
        if not {"health", "message", "timeout"} & what.keys():
            return
        had = {said.device: said for said in await self.control.devices()}
        timeout = int(what["timeout"]) if "timeout" in what else None
        for path in self.inventory.reached(device, "device"):  # the device, or its parts if it is divided
            if old := had.get(self.inventory[path].name):
                health, message = Health(what.get("health", old.health)), what.get("message", old.message)
                await self.control.set_health(old.device, health, message, timeout)

    async def _stream(self, what: Mapping[str, Any], wall: float) -> None:
        ((verb, value),) = what.items()
        control = self.control
        match verb:
            case "silence":
                await control.stream_silence()
            case "close":
                await control.stream_close(value)
            case "send" if value.get("raw") is not None:
                await control.stream_send(value["raw"])
            case "send":
                payload = report_of(value, self.pool, wall, self.inventory)
                await (control.stream_send(payload) if isinstance(payload, str) else control.report(payload))
            case "delay":
                await control.stream_delay(value / self.speed)
            case _:
                await control.do(definition("driver", f"stream_{_KINDS.get(verb, verb)}").command(*_arguments(value)))


def _arguments(value: Any) -> list[float]:
    return [] if value is None or isinstance(value, bool) else [float(value)]
