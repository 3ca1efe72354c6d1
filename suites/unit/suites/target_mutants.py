"""Wrong nodes around a correct manager. Each has one error of a kubelet."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.allocation import reserved
from drahealth.fakes.cluster.api import PODS, Kind, Object
from drahealth.fakes.cluster.api_server import strategies
from drahealth.fakes.cluster.api_server.pod_statuses import HealthFields
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.runtime import ContainerState
from drahealth.manager.pod_worker.devices import PodDevices
from drahealth.manager.pod_worker.pod_status import PodEvent, pod_status
from drahealth.manager.pod_worker.worker import PodLifecycle, PodWorkers
from drahealth.manager.profile import Profile
from drahealth.suites.targets.api_servers import MemoryApiServer
from drahealth.suites.targets.reference.target import ReferenceTarget


def _served_by(kind: type[ApiServer]) -> Callable[[Path], MemoryApiServer]:
    def make_server(root: Path) -> MemoryApiServer:
        server = MemoryApiServer(root)
        server.api = kind()
        return server

    return make_server


class LenientApiServer(ApiServer):
    """An API server that refuses no status."""

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        old, new = self._precondition(kind, obj)
        return self._served(kind, self._put(kind, self._gated(kind, strategies.status_updated(kind, new, old), old)))


class RefusesNothing(ReferenceTarget):
    """The API server refuses no status, so that a wrong one can be seen."""

    def __init__(self, profile: Profile, **known: Any) -> None:
        super().__init__(profile, make_server=_served_by(LenientApiServer), **known)


class _ContainersOnly(HealthFields):
    def served(self, pod: Object) -> Object:
        served, initial = super().served(pod), "initContainerStatuses"
        kept = {initial: pod["status"][initial]} if initial in pod.get("status", {}) else {}
        return {**served, "status": {**served["status"], **kept}} if kept else served


class _Forgetful(ApiServer):
    def restart(self, gates: Mapping[str, bool] | None = None) -> None:
        super().restart(gates)
        rules = replace(self._rules, keeps_what_was_there=True)
        self._fields = _ContainersOnly(rules, self._fields.status, self._fields.message)


class FiltersContainersOnly(ReferenceTarget):
    """With the gate off, the API server filters the statuses of regular containers only."""

    def __init__(self, profile: Profile, **known: Any) -> None:
        super().__init__(profile, make_server=_served_by(_Forgetful), **known)


class _Incomplete(HealthFields):
    def served(self, pod: Object) -> Object:
        served = super().served(pod)
        if self.status or "containerStatuses" not in served.get("status", {}):
            return served
        left = [{k: v for k, v in one.items() if k != "started"} for one in served["status"]["containerStatuses"]]
        return {**served, "status": {**served["status"], "containerStatuses": left}}


class _Dropping(ApiServer):
    def restart(self, gates: Mapping[str, bool] | None = None) -> None:
        super().restart(gates)
        self._fields = _Incomplete(self._rules, self._fields.status, self._fields.message)


class DropsAnotherField(ReferenceTarget):
    """With the gate off, the API server does not serve the field `started` of containers, either."""

    def __init__(self, profile: Profile, **known: Any) -> None:
        super().__init__(profile, make_server=_served_by(_Dropping), **known)


class _Replacing(ApiServer):
    async def patch_status(self, kind: Kind, name: str, namespace: str, patch: Object) -> Object:
        def change(old: Object) -> Object:
            return {**old, "status": {**old["status"], **patch["status"]}}

        return await self.patch(kind, name, namespace, change, status=True)


class ReplacesLists(ReferenceTarget):
    """A patch of a status replaces each list that it has."""

    def __init__(self, profile: Profile, **known: Any) -> None:
        super().__init__(profile, make_server=_served_by(_Replacing), **known)


class RestartsWorkloads(ReferenceTarget):
    """A change of the gate restarts all containers."""

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        if running := self.runtime.containers(state=ContainerState.RUNNING):
            for container in running:
                self.runtime.stop_container(container.id, 0)
            await self._restarted()
        await super().set_gates(api_server=api_server, kubelet=kubelet, dra=dra, messages=messages)

    async def _restarted(self) -> None:
        """Returns when the status of the story's only pod shows it."""
        async with aclosing(self.api.watch(PODS)) as changes:
            async for change in changes:
                if all(container["restartCount"] for container in change.object["status"]["containerStatuses"]):
                    return


class _Restless(PodLifecycle):
    async def _stay_at_rest(self) -> None:
        self._last_health = None
        status = pod_status(self.pod.newest, self._facts(is_over=True))
        if status != self.pod.newest["status"]:
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": status}))
        await super()._stay_at_rest()


class _Discreet(PodLifecycle):
    def _record(self, event: PodEvent) -> None:
        if event.reason != "FailedPrepareDynamicResources":
            super()._record(event)


class _Chatty(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        super()._record_health_events({}, after)


class _Talkative(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        super()._record_health_events(before if "was reset" not in str(after) else {}, after)


class _Reticent(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        if "'Unhealthy'" not in str(before):
            super()._record_health_events(before, after)


class _Refused(PodLifecycle):
    async def _write_status(self, is_over: bool) -> bool:
        was_known = "'Healthy'" in str(self.pod.newest["status"])
        written = await super()._write_status(is_over)
        if was_known and "'Unknown'" in str(self.pod.newest["status"]):
            await self._refuse("UnknownDevice", "the health of a device is unknown")
        return written


class _Impatient(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        if "Unhealthy" in str(after):
            self._containers.stop()
        super()._record_health_events(before, after)


class _Resigned(PodLifecycle):
    rejections: asyncio.Event
    _is_resigned = False

    async def _write_status(self, is_over: bool) -> bool:
        written = self._is_resigned or await super()._write_status(is_over)
        if not written:
            self._is_resigned = True
            self.rejections.set()
        return True


class _Flickering(PodLifecycle):
    _has_flickered = False

    async def _write_status(self, is_over: bool) -> bool:
        status = pod_status(self.pod.newest, self._facts(is_over))
        if not self._has_flickered and "'Unhealthy'" in str(status):
            unknown = json.loads(json.dumps(status).replace('"Unhealthy"', '"Unknown"'))
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": unknown}))
            self._has_flickered = True
        return await super()._write_status(is_over)


class _Shy(PodLifecycle):
    _has_shown = False

    async def _write_status(self, is_over: bool) -> bool:
        status = pod_status(self.pod.newest, self._facts(is_over))
        was_unknown = "'Unknown'" in str(self.pod.newest.get("status"))  # rightly: the first report was late
        if not self._has_shown and not was_unknown and "'Healthy'" in str(status):
            unknown = json.loads(json.dumps(status).replace('"Healthy"', '"Unknown"'))
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": unknown}))
            self._has_shown = True
        return await super()._write_status(is_over)


class _Empty(PodLifecycle):
    _has_written = False

    async def _write_status(self, is_over: bool) -> bool:
        status = pod_status(self.pod.newest, self._facts(is_over))
        if not self._has_written and "'Healthy'" in str(status):
            empty = {**status, "allocatedResourcesStatus": []}
            self.pod.take(await self._node.api.replace_status(PODS, {**self.pod.newest, "status": empty}))
            self._has_written = True
        return await super()._write_status(is_over)


class _Generous(PodDevices):
    def cdi_devices(self, container: str) -> tuple[str, ...]:
        devices = (device for claimed in (self._prepared or {}).values() for device in claimed)
        return tuple(dict.fromkeys(name for device in devices for name in device.cdi_ids))


class _Hasty(PodDevices):
    async def _resolve(self) -> list[Object]:
        return [reserved(claim, self._pod.newest) for claim in await super()._resolve()]


class _Starting(PodLifecycle):
    devices_type = _Hasty


class _Giving(PodLifecycle):
    devices_type = _Generous


def _workers(life: type[PodLifecycle]) -> type[PodWorkers]:
    return type("Workers", (PodWorkers,), {"lifecycle": life})


class RewritesTheTerminated(ReferenceTarget):
    """Each sync writes the status of terminated pods."""

    workers = _workers(_Restless)


class IgnoresReservations(ReferenceTarget):
    """Each claim of a pod counts as reserved for it."""

    workers = _workers(_Starting)


class WritesEmptyLists(ReferenceTarget):
    """A pod without claims of its own has an empty list for a moment."""

    workers = _workers(_Empty)


class GivesAllDevices(ReferenceTarget):
    """Each container gets the CDI devices of all claims of its pod."""

    workers = _workers(_Giving)


class HidesFailures(ReferenceTarget):
    """A failed preparation creates no Event."""

    workers = _workers(_Discreet)


class TellsAtEachSync(ReferenceTarget):
    """Events for unhealthy devices are repeated."""

    workers = _workers(_Chatty)


class TellsOfMessages(ReferenceTarget):
    """A new message causes an event, although the health is the same."""

    workers = _workers(_Talkative)


class HasNoGoodNews(ReferenceTarget):
    """There is no event for the recovery of an unhealthy device."""

    workers = _workers(_Reticent)


class RefusesTheUnknown(ReferenceTarget):
    """A pod with a device of unknown health becomes Failed; its containers keep running."""

    workers = _workers(_Refused)


class EndsTheSick(ReferenceTarget):
    """The containers of a pod with an unhealthy device are stopped."""

    workers = _workers(_Impatient)


class NeverTriesAgain(ReferenceTarget):
    """A pod with a rejected status never gets another one. The API server stays down until it has rejected one."""

    workers = _workers(_Resigned)

    async def stop_api_server(self) -> None:
        _Resigned.rejections = asyncio.Event()
        await super().stop_api_server()

    async def start_api_server(self) -> None:
        if hasattr(_Resigned, "rejections"):
            await _Resigned.rejections.wait()
        await super().start_api_server()


class ShyAtFirst(ReferenceTarget):
    """A pod shows its healthy devices as Unknown at first."""

    workers = _workers(_Shy)


class Flickers(ReferenceTarget):
    """An unhealthy device reads Unknown at first."""

    workers = _workers(_Flickering)


class _Cautious(PodLifecycle):
    def _record_health_events(self, before: Object, after: Object) -> None:
        if "Unknown" in str(after):
            self._containers.stop()
        super()._record_health_events(before, after)


class _Changing(PodLifecycle):
    def _change(self, status: Object) -> Object:
        """The status to write in place of the right one."""
        return status

    async def _write_status(self, is_over: bool) -> bool:
        write, change = self.pod.write_status, self._change
        self.pod.write_status = lambda build: write(lambda pod: change(build(pod)))  # type: ignore[method-assign]
        try:
            return await super()._write_status(is_over)
        finally:
            self.pod.write_status = write  # type: ignore[method-assign]


class _Doubting(_Changing):
    def _change(self, status: Object) -> Object:
        return _doubted(status)


class _Counting(_Changing):
    def _change(self, status: Object) -> Object:
        if "'Unhealthy'" not in str(status):
            return status
        return {**status, "containerStatuses": [{**c, "restartCount": 1} for c in status["containerStatuses"]]}


class _Dating(_Changing):
    _syncs = 0

    def _change(self, status: Object) -> Object:
        self._syncs += 1
        now = f"2030-01-01T00:00:{self._syncs % 60:02}Z"
        return {**status, "conditions": [{**c, "lastTransitionTime": now} for c in status["conditions"]]}


def _doubted(status: Object) -> Object:
    ready = "False" if "'Unhealthy'" in str(status) else "True"
    conditions = status.get("conditions", ())
    return {**status, "conditions": [{**c, **({"status": ready} if c["type"] == "Ready" else {})} for c in conditions]}


class _Stamping(PodLifecycle):
    _syncs = 0

    async def _write_status(self, is_over: bool) -> bool:
        self._syncs += 1
        metadata = self.pod.newest["metadata"]
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), "syncs": str(self._syncs)}}
        self.pod.take(await self._node.api.replace(PODS, {**self.pod.newest, "metadata": metadata}))
        return await super()._write_status(is_over)


class _Repeating(PodLifecycle):
    async def _write_status(self, is_over: bool) -> bool:
        written = await super()._write_status(is_over)
        self.pod.take(await self._node.api.replace_status(PODS, self.pod.newest))
        return written


class RepeatsEachWrite(ReferenceTarget):
    """Each status is written twice."""

    workers = _workers(_Repeating)


class DatesEachSync(ReferenceTarget):
    """Each sync writes the conditions with the time of the sync."""

    workers = _workers(_Dating)


class CountsTheSick(ReferenceTarget):
    """An unhealthy device counts as a restart of its containers."""

    workers = _workers(_Counting)


class EndsTheUnknown(ReferenceTarget):
    """The containers of a pod with a device of unknown health are stopped."""

    workers = _workers(_Cautious)


class MakesTheSickUnready(ReferenceTarget):
    """A pod with an unhealthy device is not Ready."""

    workers = _workers(_Doubting)


class WritesAtEachSync(ReferenceTarget):
    """Each sync writes the pod."""

    workers = _workers(_Stamping)
