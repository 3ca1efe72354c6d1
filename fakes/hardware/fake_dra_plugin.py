"""The claims part of a fake driver (`kubelet_plugin.interface.DRAPlugin`): it stores the prepared claims in a file."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.control.commands.claims import FailClaims
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.fakes.kubelet_plugin.interface import Device, NamespacedObject, PrepareResult
from drahealth.proto import events
from drahealth.proto.events import Observe
from drahealth.proto.values import DeviceId, PreparedDevice


class FakeDraPlugin:
    """Stores prepared claims for `devices` in `prepared`; calls `changed()` after each change.

    `errors` has what fails, by call: prepare, unprepare.
    """

    def __init__(
        self,
        options: DriverOptions,
        devices: Set[DeviceId],
        prepared: PreparedClaims,
        observe: Observe,
        changed: Callable[[], None],
        errors: Mapping[str, FailClaims],
    ) -> None:
        self._options = options
        self._devices = devices
        self._prepared = prepared
        self._observe = observe
        self._changed = changed
        self._errors = errors

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        if self._failure("prepare").omit:
            return {}
        results = {claim["metadata"]["uid"]: self._prepare(claim) for claim in claims}
        self._changed()
        return results

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        failure = self._failure("unprepare")
        if failure.omit or failure.error:
            return {} if failure.omit else {claim.uid: ValueError(failure.error) for claim in claims}
        for claim in claims:
            self._prepared.remove(claim.uid)
            self._observe(events.Unprepared(self._options.name, self._options.instance, claim.uid))
        self._changed()
        return {claim.uid: None for claim in claims}

    def _prepare(self, claim: Object) -> PrepareResult:
        uid = claim["metadata"]["uid"]
        results = claim["status"]["allocation"].get("devices", {}).get("results", [])
        own = [result for result in results if result["driver"] == self._options.name]
        if problem := self._failure("prepare").error or self._refusal(uid, own):
            return PrepareResult(error=ValueError(problem))
        devices = [device for result in own for device in self._returned(result)]
        self._prepared.add(uid, devices)
        names = tuple(device.id.device for device in devices)
        self._observe(events.Prepared(self._options.name, self._options.instance, uid, names))
        return PrepareResult(
            tuple(Device(d.id.pool, d.id.device, d.requests, d.cdi_ids, d.share_id) for d in devices),
        )

    def _failure(self, call: str) -> FailClaims:
        return self._errors.get(call, FailClaims(call))

    def _refusal(self, uid: str, results: Sequence[dict[str, Any]]) -> str:
        """Why devices cannot be prepared for this claim; empty if they can.

        Claims with admin access, and shares of a device, may use a device that another claim holds. A claim that is
        prepared stays so if a newer driver does not publish its devices.
        """
        prepared = self._prepared.all()
        held = {device.id for claim, devices in prepared.items() if claim != uid for device in devices}
        for result in results:
            device = DeviceId(self._options.name, result["pool"], result["device"])
            if device not in self._devices and uid not in prepared:
                return f"driver {device.driver} does not publish device {device.device} of pool {device.pool}"
            if device in held and not (result.get("adminAccess") or result.get("shareID")):
                return f"device {device.device} is prepared for another claim"
        return ""

    def _returned(self, result: dict[str, Any]) -> list[PreparedDevice]:
        """The prepared devices for an allocated device: itself, or its replacements in the options."""
        driver, request = self._options.name, (result["request"].split("/")[0],)
        if result["device"] not in self._options.returns:
            name = DeviceId(driver, result["pool"], result["device"])
            return [PreparedDevice(name, request, self._cdi_ids(result["device"]), result.get("shareID"))]
        return [
            PreparedDevice(
                DeviceId(driver, replacement.pool, replacement.device),
                request if replacement.requests is None else replacement.requests,
                self._cdi_ids(replacement.device) if replacement.cdi_ids is None else replacement.cdi_ids,
                replacement.share_id or None,
            )
            for replacement in self._options.returns[result["device"]]
        ]

    def _cdi_ids(self, device: str) -> tuple[str, ...]:
        """The CDI ids of a device of the driver."""
        return (self._options.cdi_id(device),) if self._options.cdi_ids else ()
