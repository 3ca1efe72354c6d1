"""Checks of Pods with claims for the driver: they start, show what the driver reported, and end."""

from collections.abc import Callable
from dataclasses import dataclass

from drahealth.manager.status import cut
from drahealth.proto.events import CdiSpecsRead, PluginRegistered, StreamClosed
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device, named
from drahealth.suites.checking.observed.pods import PodRun, Reports, Shown, pod_runs, resources, shown_health
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

LATE = 5.0
"""Seconds from a report, or from the end of a timeout, to the Pod status. The reference syncs a Pod every 3 s."""
_REFERENCE = "pod-status"


def pod_check(
    requirement: str, experiment: str, fix: str
) -> Callable[[Callable[[Evidence, PodRun], Finding]], Callable[[Evidence, PodRun], Finding]]:
    """Registers a check of the Pod of an experiment."""

    def register(judge: Callable[[Evidence, PodRun], Finding]) -> Callable[[Evidence, PodRun], Finding]:
        def whole(evidence: Evidence) -> Finding:
            found = pod_runs(evidence, experiment)
            return judge(evidence, found[0]) if found else not_tested("no Pod was created")

        whole.__name__ = judge.__name__
        check(requirement, experiment, fix=fix)(whole)
        return judge

    return register


@pod_check(
    "POD-01",
    _REFERENCE,
    fix="Answer NodePrepareResources without an error, also while a health stream is open.",
)
def pod_with_a_claim_starts(evidence: Evidence, pod: PodRun) -> Finding:
    """The Pod has run."""
    if pod.running:
        return passed("the Pod ran", pod.created.number, pod.running[0].number)
    prepares = [call for call in pod.calls if call.kind == "prepare"]
    problems = [(call, call.problem(uid)) for call in prepares for uid in call.claims if call.problem(uid)]
    if not pod.delete_requested:
        return not_tested("the run ended before the Pod could start", pod.created.number)
    if not problems:
        seen = "NodePrepareResources was not called" if not prepares else "the Pod did not start"
        return not_tested(seen, pod.created.number, *(call.number for call in prepares))
    call, problem = problems[-1]
    return failed("a running Pod", f"NodePrepareResources: {problem}", pod.created.number, call.number)


@pod_check(
    "POD-02",
    _REFERENCE,
    fix="Return the pool and the name of each allocated device, and its request, from NodePrepareResources.",
)
def pod_status_lists_allocated_devices(evidence: Evidence, pod: PodRun) -> Finding:
    """The status of the running Pod lists each allocated device."""
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    last = pod.running[-1]
    missing = [(driver, device) for driver, device in pod.allocated if not _last(pod, driver, device)]
    if missing:
        listed = ", ".join(one.resource_id for one in resources(last.what)) or "no device"
        expected = ", ".join(pod.id_of(*one) for one in missing)
        return failed(expected, listed, *_prepares(pod), last.number)
    return passed(f"lists {named([device for _, device in pod.allocated])}", last.number)


@pod_check(
    "POD-03",
    _REFERENCE,
    fix="Report each device by the pool and the name of its ResourceSlice, and keep reporting while it is prepared.",
)
def pod_status_shows_reported_health(evidence: Evidence, pod: PodRun) -> Finding:
    """The status shows each report that is valid for 5 s, and at the end the last report."""
    if absent := _without_health(evidence, pod.experiment):
        return absent
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    seen: list[int] = []
    for driver, device in pod.allocated:
        if not _last(pod, driver, device):
            continue
        name, reports = pod.id_of(driver, device), pod.reports.get(device, [])
        if not reports:
            others = named(set(pod.reports)) if pod.reports else "no device"
            return failed(f"a report of {device}", f"reported: {others}", pod.running[-1].number)
        for sample in _samples(reports, pod):
            shown = _at(pod, name, sample.time)
            if shown and shown[0] != sample.expected:
                expected = f"{device} {sample.expected}"
                return failed(expected, f"{device} {shown[0]}", sample.record, shown[1])
            seen += [sample.record, shown[1]] if shown else []
    if not seen:
        return not_tested("no report was valid for 5 s while the Pod status listed its device", pod.created.number)
    return passed("the Pod status shows what was reported", *seen[:10])


@pod_check(
    "POD-04",
    _REFERENCE,
    fix="Answer NodeUnprepareResources without an error for each claim that was prepared.",
)
def deleted_pod_ends(evidence: Evidence, pod: PodRun) -> Finding:
    """The deleted Pod is gone after its claims were unprepared."""
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    if not pod.delete_requested:
        return not_tested("the run ended before the Pod was deleted", pod.created.number)
    unprepares = [call for call in pod.calls if call.kind == "unprepare"]
    records = (pod.delete_requested.number, *(call.number for call in unprepares))
    if pod.deleted:
        return passed("the Pod is gone", *records, pod.deleted.number)
    problems = [call.problem(uid) for call in unprepares for uid in call.claims if call.problem(uid)]
    seen = f"NodeUnprepareResources: {problems[-1]}" if problems else "the Pod still exists"
    return failed("no Pod", seen, *records)


@pod_check(
    "POD-05",
    _REFERENCE,
    fix="Write the CDI spec before NodePrepareResources returns, and keep it until the claim is unprepared.",
)
def cdi_devices_exist_while_the_pod_runs(evidence: Evidence, pod: PodRun) -> Finding:
    """All CDI device IDs of the Pod are in the CDI specs when it has started, and before it is deleted."""
    prepares = [call for call in pod.calls if call.kind == "prepare"]
    ids = {one for call in prepares for uid in call.claims for device in call.devices(uid) for one in device.cdi_ids}
    reads = list(evidence.of(CdiSpecsRead, pod.experiment))
    if not pod.running or not reads:
        return not_tested("the Pod did not run", pod.created.number)
    if not ids:
        return not_applicable("NodePrepareResources returned no CDI device IDs", *_prepares(pod))
    for read in reads:
        if missing := ids - _defined(read):
            seen = f"without {', '.join(sorted(missing)[:5])}"
            return failed(f"CDI specs with {', '.join(sorted(ids)[:5])}", seen, *_prepares(pod), read.number)
    return passed("the CDI specs have all CDI devices of the Pod", *(read.number for read in reads))


def _defined(read: "Observation[CdiSpecsRead]") -> set[str]:
    return {device for spec in read.what.specs if not spec.problem for device in spec.devices}


def _prepares(pod: PodRun) -> tuple[int, ...]:
    return tuple(call.number for call in pod.calls if call.kind == "prepare")


def _last(pod: PodRun, driver: str, device: Device) -> Shown | None:
    """What the last status of the running Pod shows of a device."""
    return shown_health(pod.running[-1].what, pod.id_of(driver, device))


def _without_health(evidence: Evidence, experiment: str) -> Finding | None:
    """Not applicable, if the driver advertises no health API, or serves none."""
    plugin = next(evidence.of(PluginRegistered, experiment), None)
    if plugin and plugin.what.health_api is None:
        return not_applicable("health is not advertised", plugin.number)
    closed = [one for one in evidence.of(StreamClosed, experiment) if one.what.code == "UNIMPLEMENTED"]
    return not_applicable("the health API answers Unimplemented", closed[-1].number) if closed else None


@dataclass(frozen=True, slots=True)
class _Sample:
    """What the Pod status must show at a time, because of a report."""

    time: float
    expected: Shown
    record: int


def _samples(reports: Reports, pod: PodRun) -> list[_Sample]:
    """A sample after each report that no other one contradicts for 5 s; and one at the end."""
    start = pod.running[0].at
    found = []
    for at, number, reported in reports:
        time = max(at, start) + LATE
        if time <= pod.end:
            found.append((time, number, reported))
    before = [one for one in reports if one[0] <= pod.end - LATE]
    found += [(pod.end, before[-1][1], before[-1][2])] if before else []
    return [_Sample(time, _cut(one, pod), number) for time, number, one in found if _stays(reports, time, one)]


def _stays(reports: Reports, time: float, value: Shown) -> bool:
    """Whether the last report more than 5 s before `time`, and all reports since then, have this value."""
    before = [one for at, _, one in reports if at <= time - LATE]
    return before[-1:] == [value] and all(one == value for at, _, one in reports if time - LATE < at <= time)


def _cut(shown: Shown, pod: PodRun) -> Shown:
    return Shown(shown.health, cut(shown.message, pod.profile))


def _at(pod: PodRun, name: str, time: float) -> tuple[Shown, int] | None:
    """What the status shows of a device at a time, with its record; None if it did not list the device then."""
    before = [one for one in pod.running if one.at <= time]
    shown = shown_health(before[-1].what, name) if before else None
    return (shown, before[-1].number) if shown else None
