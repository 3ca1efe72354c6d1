"""Health events of a pod, derived from its previous and current status."""

import pytest

from drahealth.fakes.cluster.api import Object
from drahealth.manager.pod_worker.pod_status import PodEvent, health_events

GPU = "gpu.example.com/node-a/gpu-0"


def entry(health: str, message: str = "", name: str = "claim:gpu/gpu", device: str = GPU) -> Object:
    return {"name": name, "resources": [{"resourceID": device, "health": health, "message": message}]}


def status(*entries: Object) -> Object:
    return {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": list(entries)}]}


SICK = PodEvent("Warning", "DeviceUnhealthy", f"Device {GPU} of claim:gpu/gpu is Unhealthy: xid 79")
LOST = PodEvent("Warning", "DeviceUnknown", f"Device {GPU} of claim:gpu/gpu is Unknown")
WELL = PodEvent("Normal", "DeviceHealthy", f"Device {GPU} of claim:gpu/gpu is Healthy")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (entry("Healthy"), entry("Unhealthy", "xid 79"), SICK),
        (entry("Unknown"), entry("Unhealthy", "xid 79"), SICK),
        (entry("Unhealthy", "xid 79"), entry("Unknown"), LOST),
        (entry("Unhealthy", "xid 79"), entry("Healthy"), WELL),
        (entry("Unknown"), entry("Healthy"), WELL),
    ],
)
def test_changed_health_creates_an_event(before: Object, after: Object, told: PodEvent) -> None:
    assert list(health_events(status(before), status(after))) == [told]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (status(entry("Unhealthy", "xid 79")), status(entry("Unhealthy", "xid 48"))),
        (status(entry("Healthy")), status(entry("Healthy"))),
        (status(entry("Unhealthy")), status()),
        (status(entry("Unhealthy")), {}),
    ],
)
def test_changed_message_or_removed_device_creates_no_event(before: Object, after: Object) -> None:
    assert list(health_events(before, after)) == []


def test_first_status_creates_an_event_only_for_unhealthy() -> None:
    shown = [list(health_events({}, status(entry(health, "xid 79")))) for health in ("Healthy", "Unknown", "Unhealthy")]
    assert shown == [[], [], [SICK]]


def test_device_in_several_places_creates_one_event() -> None:
    before, after = entry("Healthy"), entry("Unhealthy", "xid 79")
    lists = [
        {"initContainerStatuses": s["containerStatuses"], **s, "allocatedResourcesStatus": [e]}
        for e, s in ((before, status(before)), (after, status(after)))
    ]
    assert list(health_events(*lists)) == [SICK]


def test_equal_ids_of_two_extended_resources_are_two_devices() -> None:
    before, after = (
        status(*(entry(health, name=f"{vendor}.example.com/gpu", device="0") for vendor, health in found))
        for found in ((("a", "Healthy"), ("b", "Healthy")), (("a", "Healthy"), ("b", "Unhealthy")))
    )
    assert [told.message for told in health_events(before, after)] == ["Device 0 of b.example.com/gpu is Unhealthy"]
