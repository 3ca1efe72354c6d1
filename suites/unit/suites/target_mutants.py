"""Wrong nodes around a correct manager. Each has one error of a kubelet."""

import asyncio

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.containers.runtime import ContainerState
from drahealth.fakes.cluster.pod_worker.lifecycle import PodLifecycle
from drahealth.fakes.cluster.pod_worker.status import pod_status
from drahealth.fakes.cluster.pod_worker.worker import PodWorkers
from drahealth.suites.targets.reference.target import ReferenceTarget


class RestartsWorkloads(ReferenceTarget):
    """A change of the gate restarts all containers."""

    async def set_gates(self, *, api_server: bool, kubelet: bool) -> None:
        await super().set_gates(api_server=api_server, kubelet=kubelet)
        for container in self.runtime.containers(state=ContainerState.RUNNING):
            self.runtime.stop_container(container.id, 0)
        await asyncio.sleep(0.05)
        await self.advance_time(11)


class _Restless(PodLifecycle):
    async def _stay_at_rest(self) -> None:
        self._last_health = None
        status = pod_status(self.pod.newest, self._facts(is_over=True))
        if status != self.pod.newest["status"]:
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": status}))
        await super()._stay_at_rest()


class _Chatty(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        super()._record_health_events({}, after)


class _Talkative(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        super()._record_health_events(before if "was reset" not in str(after) else {}, after)


class _Impatient(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        if "Unhealthy" in str(after):
            self._containers.stop()
        super()._record_health_events(before, after)


class _Resigned(PodLifecycle):
    _is_resigned = False

    async def _write_status(self, is_over: bool) -> bool:
        written = self._is_resigned or await super()._write_status(is_over)
        self._is_resigned |= not written
        return True


def _workers(life: type[PodLifecycle]) -> type[PodWorkers]:
    return type("Workers", (PodWorkers,), {"lifecycle": life})


class RewritesTheTerminated(ReferenceTarget):
    """Each sync writes the status of terminated pods."""

    workers = _workers(_Restless)


class TellsAtEachSync(ReferenceTarget):
    """Events for unhealthy devices are repeated."""

    workers = _workers(_Chatty)


class TellsOfMessages(ReferenceTarget):
    """A new message causes an event, although the health is the same."""

    workers = _workers(_Talkative)


class EndsTheSick(ReferenceTarget):
    """The containers of a pod with an unhealthy device are stopped."""

    workers = _workers(_Impatient)


class NeverTriesAgain(ReferenceTarget):
    """A pod with a rejected status never gets another one."""

    workers = _workers(_Resigned)


class _Cautious(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        if "Unknown" in str(after):
            self._containers.stop()
        super()._record_health_events(before, after)


class _Doubting(PodLifecycle):
    async def _write_status(self, is_over: bool) -> bool:
        written = await super()._write_status(is_over)
        await self._restate("False" if "'Unhealthy'" in str(self.pod.newest["status"]) else "True")
        return written

    async def _restate(self, ready: str) -> None:
        status = self.pod.newest["status"]
        changed = [{**c, **({"status": ready} if c["type"] == "Ready" else {})} for c in status.get("conditions", ())]
        if changed != status.get("conditions", []):
            status = {**status, "conditions": changed}
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": status}))


class _Stamping(PodLifecycle):
    async def _write_status(self, is_over: bool) -> bool:
        written = await super()._write_status(is_over)
        right = self.pod.newest["status"]
        for status in ({**right, "message": "being synced"}, right):
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": status}))
        return written


class EndsTheUnknown(ReferenceTarget):
    """The containers of a pod with a device of unknown health are stopped."""

    workers = _workers(_Cautious)


class MakesTheSickUnready(ReferenceTarget):
    """A pod with an unhealthy device is not Ready."""

    workers = _workers(_Doubting)


class WritesAtEachSync(ReferenceTarget):
    """Each sync writes the status."""

    workers = _workers(_Stamping)
