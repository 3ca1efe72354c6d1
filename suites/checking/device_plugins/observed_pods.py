"""The Pods with devices of a device plugin: what was allocated, listed and shown in the status. Pure."""

from dataclasses import replace

from drahealth.proto.events import ListReceived, PodRequested
from drahealth.proto.extended_resources import health_of
from drahealth.suites.checking.device_plugins.observed import allocations
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.pods import PodRun, Reports, Shown, pod_run


def plugin_pod_runs(evidence: Evidence, experiment: str) -> list[PodRun]:
    """The Pods of this experiment, in order. The pool of each device is its resource, and its reports are the lists."""
    created = [one for one in evidence.of(PodRequested, experiment) if one.what.change == "created"]
    ends = [*(one.number for one in created), evidence.records[-1].number + 1 if evidence.records else 0][1:]
    reports = _reports(evidence, experiment)
    return [
        replace(pod_run(evidence, one), allocated=_allocated(evidence, one, end), reports=reports, by_resource=True)
        for one, end in zip(created, ends, strict=True)
    ]


def _allocated(evidence: Evidence, created: Observation[PodRequested], end: int) -> tuple[tuple[str, Device], ...]:
    """What the kubelet allocated after the creation of the Pod."""
    found = [
        (call.call.what.driver, Device(call.call.what.driver, device))
        for call in allocations(evidence, created.experiment)
        if call.succeeded and created.number < call.number < end
        for devices in call.containers
        for device in devices
    ]
    return tuple(dict.fromkeys(found))


def _reports(evidence: Evidence, experiment: str) -> dict[Device, Reports]:
    found: dict[Device, Reports] = {}
    for listed in evidence.of(ListReceived, experiment):
        for one in listed.what.devices:
            shown = Shown(health_of(one.health))
            found.setdefault(Device(listed.what.driver, one.id), []).append((listed.at, listed.number, shown))
    return found
