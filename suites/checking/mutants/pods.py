"""Mutants whose calls and reports are right by themselves, but do not fit together: a Pod on a kubelet shows that."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.kubelet_plugin.interface import Device, PrepareResult
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth
from drahealth.suites.checking.mutants.healthy import CDI_KIND, Healthy
from drahealth.suites.checking.mutants.table import mutant

_SHOWS = "pod-status-shows-reported-health"


@mutant("pod-with-a-claim-starts", "kubelet-pod-with-a-claim-starts")
class BusyWhileWatched(Healthy):
    """NodePrepareResources fails while a health stream is open."""

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        return "the device library is in use" if self.open_streams else super().refusal(uid, results)


@mutant("pod-status-lists-allocated-devices", "kubelet-pod-status-lists-allocated-devices")
class PreparedUnderOtherName(Healthy):
    """NodePrepareResources adds the node name to the name of each device. The reports have the published names."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), device=f"{self.around.node}-{device.device}")


@mutant("pod-status-lists-allocated-devices")
class OneDeviceForAllClaims(Healthy):
    """For each claim, NodePrepareResources returns the first device, with the request of the claim."""

    def answer(self, uid: str, device: Device) -> Device:
        return replace(super().answer(uid, device), device=self.devices[0])


@mutant(_SHOWS, "kubelet-pod-status-shows-reported-health")
class HealthOfOtherPool(Healthy):
    """The pool in the reports is the name of the driver. NodePrepareResources returns the published pool."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), pool=self.name)


@mutant(_SHOWS)
class HealthByCdiDevice(Healthy):
    """The reports name each device by its CDI device ID."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        return replace(super().health_of(device, api), device=f"{CDI_KIND}={device}")


@mutant(_SHOWS)
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
