"""The Pods with claims for the driver: what was allocated, prepared, reported and shown in the status."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drahealth.manager.device_status import resource_id
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import PROFILES
from drahealth.proto.events import PodDeleted, PodRequested, PreparedClaimsRead, StatusSeen
from drahealth.proto.values import DeviceId, Health, PreparedDevice, ResourceHealth
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import (
    Answered,
    ClaimCall,
    Device,
    allocated,
    allocations,
    answered,
    claim_calls,
    get_info,
    text,
)
from drahealth.suites.driver_checks.observed_health import arrivals, streams

Reports = list[tuple[float, int, "Shown"]]


class Shown(NamedTuple):
    """Health and message of a device, in a report or a Pod status."""

    health: Health
    message: str = ""

    def __str__(self) -> str:
        return f"{self.health} {self.message!r}" if self.message else str(self.health)


@dataclass(frozen=True, slots=True)
class PodRun:
    """One Pod, from its creation to its end."""

    experiment: str
    created: Observation[PodRequested]
    delete_requested: Observation[PodRequested] | None
    deleted: Observation[PodDeleted] | None
    statuses: tuple[Observation[StatusSeen], ...]
    allocated: tuple[tuple[str, Device], ...]
    """The driver's devices of its claims, with the name of the driver."""
    calls: tuple[ClaimCall, ...]
    """The prepare and unprepare calls of its claims; those of a real kubelet are not seen."""
    prepared: tuple[Answered, ...]
    """The devices that the driver returned for its claims."""
    reports: dict[Device, Reports]
    """When each device was reported on the stream of the kubelet."""
    by_resource: bool = False
    """Whether its devices are those of a device plugin: the pool of a device is its resource."""

    @property
    def profile(self) -> Profile:
        """Profile of the kubelet."""
        return PROFILES.get(self.created.what.profile, KEP)

    @property
    def running(self) -> tuple[Observation[StatusSeen], ...]:
        """Its statuses from the start of its containers until its deletion was requested."""
        end = self.delete_requested.at if self.delete_requested else float("inf")
        return tuple(one for one in self.statuses if one.at <= end and _runs(one.what))

    @property
    def end(self) -> float:
        """When its deletion was requested; without that, the time of its last status."""
        if self.delete_requested:
            return self.delete_requested.at
        return self.statuses[-1].at if self.statuses else self.created.at

    def id_of(self, driver: str, device: Device) -> str:
        """What names a device in its status; for a device plugin with its resource."""
        if self.by_resource:
            return str(device)
        cdi_ids = next((one.cdi_ids for one in self.prepared if one.device == device), ())
        return resource_id(PreparedDevice(DeviceId(driver, *device), (), cdi_ids), self.profile)

    def shown(self, status: StatusSeen, driver: str, device: Device) -> Shown | None:
        """What a status of the Pod shows of a device; None if it is not listed."""
        if self.by_resource:
            return shown_in_entry(status, device.pool, device.name)
        return shown_health(status, self.id_of(driver, device))


def pod_runs(evidence: Evidence, *experiments: str) -> list[PodRun]:
    """The Pods of these experiments, in order."""
    return [pod_run(evidence, one) for one in evidence.of(PodRequested, *experiments) if one.what.change == "created"]


def resources(status: StatusSeen) -> Iterator[ResourceHealth]:
    """All devices in a Pod status."""
    for _, entries in status.entries():
        for entry in entries:
            yield from entry.resources


def shown_health(status: StatusSeen, name: str) -> Shown | None:
    """What a status shows of a device; None if it is not listed."""
    found = next((one for one in resources(status) if one.resource_id == name), None)
    return Shown(found.health, found.message) if found else None


def shown_in_entry(status: StatusSeen, resource: str, name: str) -> Shown | None:
    """What a status shows of a device below the name of its resource; None if it is not listed."""
    entries = (entry for _, found in status.entries() for entry in found if entry.name == resource)
    found = next((one for entry in entries for one in entry.resources if one.resource_id == name), None)
    return Shown(found.health, found.message) if found else None


def pod_run(evidence: Evidence, created: Observation[PodRequested]) -> PodRun:
    """The Pod of this request."""
    experiment, uid = created.experiment, created.what.uid
    info = next((one for one in get_info(evidence, experiment) if one.what.code == "OK"), None)
    driver = text(info.what.response, "name") if info else ""
    requests = [one for one in evidence.of(PodRequested, experiment) if one.what.uid == uid]
    found = allocations(evidence, experiment)
    claims = [found[claim].what for claim in created.what.claims if claim in found]
    of_driver = {
        (text(results[0], "driver"), device): None
        for one in claims
        for device, results in allocated(one, driver).items()
    }
    calls = tuple(call for call in claim_calls(evidence, experiment) if set(call.claims) & set(created.what.claims))
    reports: dict[Device, Reports] = {}
    for stream in streams(evidence, experiment):
        for device, times in arrivals(stream).items():
            reports.setdefault(device, []).extend((at, number, Shown(d.health, d.message)) for at, number, d in times)
    return PodRun(
        experiment,
        created,
        next((one for one in requests if one.what.change == "deleted"), None),
        next((one for one in evidence.of(PodDeleted, experiment) if one.what.uid == uid), None),
        tuple(one for one in evidence.of(StatusSeen, experiment) if one.what.uid == uid),
        tuple(of_driver),
        calls,
        (*_answers(calls), *_checkpointed(evidence, created)),
        {device: sorted(times, key=lambda one: one[0]) for device, times in reports.items()},
    )


def _answers(calls: Sequence[ClaimCall]) -> Iterator[Answered]:
    for call in calls:
        if call.kind == "prepare":
            for uid in call.claims:
                yield from call.devices(uid)


def _checkpointed(evidence: Evidence, created: Observation[PodRequested]) -> Iterator[Answered]:
    for read in evidence.of(PreparedClaimsRead, created.experiment):
        for claim in read.what.claims:
            if claim.claim_uid in created.what.claims:
                yield from map(answered, claim.devices)


def _runs(status: StatusSeen) -> bool:
    return status.phase == "Running" and {one.state for one in status.containers} == {"running"}
