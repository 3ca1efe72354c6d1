"""Mutants that prepare or unprepare claims wrongly, or whose answers do not fit together."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.kubelet_plugin.interface import Device, PrepareResult
from drahealth.fakes.kubelet_plugin.slices import Owner
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth
from drahealth.suites.driver_checks.mutants.healthy import CDI_KIND, OTHER, Healthy, Surroundings
from drahealth.suites.driver_checks.mutants.table import mutant

# Mutants that prepare or unprepare claims wrongly.

_ALLOCATED = "answers-name-allocated-devices"
_CDI = "cdi-device-ids-are-in-a-valid-spec"


class _Earlier(Healthy):
    """Knows which claims an earlier process prepared."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.earlier = frozenset(self.prepared)

    def has_prepared(self, uid: str) -> bool:
        """Whether this process has prepared the claim."""
        return uid in self.prepared and uid not in self.earlier


@mutant("second-prepare-returns-the-same-devices")
class OtherAnswerToSecondPrepare(_Earlier):
    """The second NodePrepareResources call for a claim returns another CDI device ID."""

    again = False

    def prepare(self, claim: Object) -> PrepareResult:
        self.again = self.has_prepared(claim["metadata"]["uid"])
        return super().prepare(claim)

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        return (f"{CDI_KIND}={device}{OTHER if self.again else ''}",)


@mutant("second-prepare-returns-the-same-devices")
class ErrorOnSecondPrepare(_Earlier):
    """The second NodePrepareResources call for a claim fails."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        return "the claim is already prepared" if self.has_prepared(uid) else super().refusal(uid, results)


@mutant("restarted-driver-returns-the-same-devices")
class BusyAfterRestart(_Earlier):
    """After a restart, the driver refuses to prepare a claim again, as if another claim used the devices."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        return "the device is in use" if uid in self.earlier else super().refusal(uid, results)


@mutant("restarted-driver-returns-the-same-devices")
class OtherAnswerAfterRestart(_Earlier):
    """After a restart, NodePrepareResources returns another CDI device ID for a prepared claim."""

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        return (f"{CDI_KIND}={device}{OTHER if self.earlier else ''}",)


@mutant("restarted-driver-unprepares-its-claims")
class ErrorOnUnprepareAfterRestart(_Earlier):
    """After a restart, NodeUnprepareResources fails for a claim that was prepared before the restart."""

    def unprepare(self, uid: str) -> Exception | None:
        return ValueError("the claim has no open device") if uid in self.earlier else super().unprepare(uid)


class _Remembering(Healthy):
    """Knows which claims were prepared at any time."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.known = set(self.prepared)

    def prepare(self, claim: Object) -> PrepareResult:
        result = super().prepare(claim)
        self.known |= self.prepared.keys()
        return result


@mutant("second-unprepare-succeeds")
class ErrorOnSecondUnprepare(_Remembering):
    """The second NodeUnprepareResources call for a claim fails."""

    def unprepare(self, uid: str) -> Exception | None:
        if uid in self.known and uid not in self.prepared:
            return ValueError("the claim is no longer prepared")
        return super().unprepare(uid)


@mutant("second-unprepare-succeeds")
class FirstDeviceStaysPrepared(Healthy):
    """NodeUnprepareResources fails for a claim that has the first device."""

    def unprepare(self, uid: str) -> Exception | None:
        held = [device.device for device in self.prepared.get(uid, ())]
        return ValueError("the device is busy") if self.devices[0] in held else super().unprepare(uid)


@mutant("unknown-claim-is-unprepared")
class ErrorOnUnknownUnprepare(_Remembering):
    """NodeUnprepareResources fails for an unknown claim."""

    def unprepare(self, uid: str) -> Exception | None:
        return super().unprepare(uid) if uid in self.known else ValueError("unknown claim")


@mutant("each-claim-of-a-call-has-a-result")
class OneErrorForAll(Healthy):
    """The error of one claim is the result of all claims of the call."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        results = await super().prepare_resource_claims(claims)
        failed = next((one for one in results.values() if one.error), None)
        return dict.fromkeys(results, failed) if failed else results


@mutant("each-claim-of-a-call-has-a-result")
class NoResultForRefusedClaim(Healthy):
    """If a call has several claims, a refused claim has no result."""

    async def answer_claims(self, call: Any, request: Any, context: Any) -> Any:
        response = await super().answer_claims(call, request, context)
        refused = [uid for uid, result in response.claims.items() if result.error]
        for uid in refused if len(response.claims) > 1 else ():
            del response.claims[uid]
        return response


@mutant("error-of-a-claim-is-in-its-result")
class ErrorForTheWholeCall(Healthy):
    """If one claim has an error, the whole call fails."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        results = await super().prepare_resource_claims(claims)
        if error := next((one.error for one in results.values() if one.error), None):
            raise error
        return results


@mutant(_ALLOCATED)
class WrongPool(Healthy):
    """NodePrepareResources returns the driver name as the pool."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), pool=self.name)

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        """The stream of prepared devices has the same pool."""
        found = super().health_of(device, api)
        return replace(found, pool=self.name) if api.prepared_only else found


@mutant(_ALLOCATED)
class WrongPoolOfFirstDevice(Healthy):
    """NodePrepareResources returns the first device with another pool."""

    def answer(self, uid: str, device: Device) -> Device:
        found = super().answer(uid, device)
        return replace(found, pool=f"{found.pool}-x") if found.device == self.devices[0] else found


@mutant(_ALLOCATED)
class WrongDevice(Healthy):
    """NodePrepareResources returns the first device, even if another device is allocated."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), device=self.devices[0])

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        """The stream of prepared devices lists the same device."""
        if not api.prepared_only:
            return super().listed(api, number)
        return [self.health_of(self.devices[0], api)] if self.prepared else []


@mutant(_ALLOCATED)
class WrongRequest(Healthy):
    """NodePrepareResources returns a request that the claim does not have."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), requests=("gpu",))


@mutant("all-allocated-devices-are-returned")
class NoDevices(Healthy):
    """NodePrepareResources returns no devices."""

    def prepare(self, claim: Object) -> PrepareResult:
        return replace(super().prepare(claim), devices=())


@mutant(_CDI)
class UndefinedCdiDevice(Healthy):
    """No CDI spec defines the returned CDI device IDs."""

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        return (f"{CDI_KIND}={device}-undefined",)


@mutant(_CDI)
class InvalidCdiSpec(Healthy):
    """The CDI spec has no version."""

    def write_cdi(self) -> None:
        super().write_cdi()
        for path in self.around.cdi_dir.glob("*.json"):
            specification = json.loads(path.read_text())
            del specification["cdiVersion"]
            path.write_text(json.dumps(specification))


@mutant(_CDI)
class LateCdiSpec(Healthy):
    """The driver writes the CDI spec 2 s after NodePrepareResources has returned."""

    def write_cdi(self) -> None:
        """Writes nothing at the start."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        asyncio.get_running_loop().call_later(2, super().write_cdi)
        return await super().prepare_resource_claims(claims)


@mutant("first-cdi-device-id-is-unique")
class SharedCdiDevice(Healthy):
    """The first CDI device ID is the same for all devices."""

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        return (f"{CDI_KIND}={self.devices[0]}{OTHER}", *super().cdi_ids(device))


@mutant("device-of-another-claim-is-refused")
class DeviceForTwoClaims(Healthy):
    """The driver prepares a device that is already prepared for another claim."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        found = super().refusal(uid, results)
        return "" if "another claim" in found else found


@mutant("published-device-can-be-prepared")
class UnusableDevices(Healthy):
    """The driver publishes devices that it never prepares."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        return "the device is reserved"


@mutant("published-device-can-be-prepared", level="core")
class NothingIsPreparedAfterAFault(Healthy):
    """After the first fault, NodePrepareResources fails for the first device, even if this device has recovered."""

    def refusal(self, uid: str, results: Any) -> str:
        self.ever = getattr(self, "ever", False) or bool(self.faults)
        mine = any(one["device"] == self.devices[0] for one in results)
        return "the device was reset" if self.ever and mine else super().refusal(uid, results)


@mutant("driver-publishes-its-devices")
class OtherDriverNameInSlices(Healthy):
    """The driver name in the ResourceSlices is not the name that GetInfo returns."""

    def owner(self) -> Owner:
        return Owner(f"slices.{self.name}", self.around.node)


# Mutants whose calls and reports are right by themselves, but do not fit together: a Pod on a kubelet shows that.

_SHOWS = "pod-status-shows-reported-health"


@mutant("pod-with-a-claim-starts", "kubelet-pod-with-a-claim-starts")
class BusyWhileWatched(Healthy):
    """NodePrepareResources fails while a health stream is open."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        return "the device library is in use" if self.open_streams else super().refusal(uid, results)


@mutant(
    "pod-status-lists-allocated-devices",
    "kubelet-pod-status-lists-allocated-devices",
    "answers-name-allocated-devices",
)
class PreparedUnderOtherName(Healthy):
    """NodePrepareResources adds the node name to the name of each device. The reports have the published names."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), device=f"{self.around.node}-{device.device}")


@mutant("pod-status-lists-allocated-devices", "answers-name-allocated-devices")
class OneDeviceForAllClaims(Healthy):
    """For each claim, NodePrepareResources returns the first device, with the request of the claim."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), device=self.devices[0])


@mutant(_SHOWS, "kubelet-pod-status-shows-reported-health")
class HealthOfOtherPool(Healthy):
    """The pool in the reports is the name of the driver. NodePrepareResources returns the published pool."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), pool=self.name)


@mutant(_SHOWS, "required-fields-are-valid", "first-report-lists-published-devices")
class HealthByCdiDevice(Healthy):
    """The reports name each device by its CDI device ID."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), device=f"{CDI_KIND}={device}")


@mutant(_SHOWS, "devices-are-refreshed-within-their-timeout")
class SilentAfterPrepare(Healthy):
    """After the first NodePrepareResources, the driver sends no reports, and the devices become stale."""

    timeout = 4

    def wake(self, *, prepared_only: bool = False) -> None:
        if not self.prepared:
            super().wake(prepared_only=prepared_only)


@mutant("fault-appears-in-the-pod-status", "kubelet-fault-appears-in-the-pod-status")
class BrokenDeviceInOtherPool(Healthy):
    """The pool in the reports of a broken device is the name of the driver."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, pool=self.name) if device in self.faults else found


@mutant("fault-appears-in-the-pod-status")
class PreparedDevicesAreNotExamined(Healthy):
    """The driver does not check the health of prepared devices."""

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        held = {device.device for devices in self.prepared.values() for device in devices}
        super().apply_faults({name: one for name, one in found.items() if name not in held})


@mutant("deleted-pod-ends", "kubelet-deleted-pod-ends")
class UnprepareFailsWhileWatched(Healthy):
    """NodeUnprepareResources fails while a health stream is open."""

    def unprepare(self, uid: str) -> Exception | None:
        return ValueError("the device is watched") if self.open_streams else super().unprepare(uid)


@mutant("cdi-devices-exist-while-the-pod-runs")
class ShortLivedCdiSpec(Healthy):
    """The driver removes the CDI spec 3 s after NodePrepareResources."""

    def prepare(self, claim: Object) -> PrepareResult:
        asyncio.get_running_loop().call_later(3, self._remove_cdi)
        return super().prepare(claim)

    def _remove_cdi(self) -> None:
        for path in self.around.cdi_dir.glob("*.json"):
            path.unlink()
