"""What kubelets of Kubernetes 1.34 to 1.37 show of the devices of a Pod, from the recorded reports. Pure."""

from collections.abc import Iterator, Sequence

from drahealth.manager.plugin import pick_health_api
from drahealth.manager.profile import PROFILES, Profile
from drahealth.manager.status import resource_id
from drahealth.proto.events import ReportReceived
from drahealth.proto.values import DEFAULT_TIMEOUT, MESSAGE_LIMIT, DeviceHealth, DeviceId, PreparedDevice
from drahealth.suites.certifying.pod_status.plugin_releases import shown_of_lists
from drahealth.suites.certifying.pod_status.replay import replay
from drahealth.suites.certifying.pod_status.view import GATED, ReleaseView
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.claims import claim_calls
from drahealth.suites.checking.observed.plain import text, texts
from drahealth.suites.checking.observed.registrations import get_info
from drahealth.suites.checking.observed.streams import Stream, is_served, served_apis, streams

_SOURCES = (("pod-faults", "pod-faults"), ("pod-status", "pod-status"), ("registration", "claims"))
"""Experiments whose GetInfo and whose claims are of one driver process; the first one with reports counts."""
_STREAMS = {"pod-faults": ("pod-faults",), "pod-status": ("pod-status", "watch"), "claims": ("watch",)}


def shown_by_releases(evidence: Evidence) -> tuple[ReleaseView, ...]:
    """What each release shows of each device that the driver prepared; empty if it prepared none.

    The Pod uses all prepared devices at once, through one claim that the release shows. Of a device plugin: what it
    shows of each device that a Pod was allocated.
    """
    if evidence.header.subject == "device-plugin":
        return shown_of_lists(evidence)
    found = [(described, claims) for described, claims in _SOURCES if _prepared(evidence, claims, "")]
    reported = [one for one in found if any(stream.reports for stream in streams(evidence, *_STREAMS[one[1]]))]
    for described, claims in (reported or found)[:1]:
        info = next((one for one in get_info(evidence, described) if one.what.code == "OK"), None)
        if info:
            driver = text(info.what.response, "name")
            devices = _prepared(evidence, claims, driver)
            advertised = texts(info.what.response, "supported_versions")
            releases = sorted((one for one in PROFILES.values() if one.release), key=lambda one: one.name)
            views = (_Release(evidence, claims, driver, devices, advertised, one).views() for one in releases)
            return tuple(view for each in views for view in each)
    return ()


def _prepared(evidence: Evidence, experiment: str, driver: str) -> tuple[PreparedDevice, ...]:
    """The devices that were prepared, in the order of the answers."""
    found: dict[DeviceId, PreparedDevice] = {}
    for call in claim_calls(evidence, experiment):
        for uid in call.claims if call.kind == "prepare" else ():
            for one in call.devices(uid):
                name = DeviceId(driver, *one.device)
                found.setdefault(name, PreparedDevice(name, one.requests, one.cdi_ids))
    return tuple(found.values())


class _Release:
    """One release, and what it reads."""

    def __init__(
        self,
        evidence: Evidence,
        experiment: str,
        driver: str,
        devices: tuple[PreparedDevice, ...],
        advertised: Sequence[str],
        profile: Profile,
    ) -> None:
        self.release = profile.release or ""
        self._profile = profile
        self._driver = driver
        self._devices = devices
        apis = pick_health_api(advertised, profile)
        self._called = apis[0].advertised if apis else ""
        self._stream = _stream_of(evidence, experiment, self._called)
        self._reports: list[Observation[ReportReceived]] = self._stream.reports if self._stream else []

    def views(self) -> Iterator[ReleaseView]:
        """A view of each device."""
        shown = replay(self._profile, self._driver, self._devices, self._reports)
        for device in self._devices:
            name = resource_id(device, self._profile)
            reported = [
                one
                for report in self._reports
                for one in report.what.devices
                if (one.pool, one.device) == (device.id.pool, device.id.device)
            ]
            reasons = tuple(self._reasons(device, name, reported))
            pool_and_name = f"{device.id.pool}/{device.id.device}"
            yield ReleaseView(self.release, pool_and_name, name, shown.get(name, ()), reasons)

    def _reasons(self, device: PreparedDevice, name: str, reported: Sequence[DeviceHealth]) -> Iterator[str]:
        profile = self._profile
        if self.release in GATED:
            yield "only with feature gate ResourceHealthStatus, which is off by default"
        if profile.claims_shown == "listed":
            yield "only claims from a ResourceClaimTemplate are shown"
        if profile.claims_shown == "same name":
            yield "shows a claim only if its name in the Pod is the name of the ResourceClaim"
        if not self._called:
            yield "the driver advertises no health API that this kubelet calls"
        elif self._stream is None:
            yield f"the kubelet calls only {self._called}, which the driver does not serve"
        elif not reported:
            yield "the driver does not report this device"
        if name != str(device.id):
            yield "the first CDI device ID names the device"
        yield from self._shared(device, name)
        yield from self._unread(reported)

    def _shared(self, device: PreparedDevice, name: str) -> Iterator[str]:
        first = next(one for one in self._devices if resource_id(one, self._profile) == name)
        if first is device:
            return
        other = f"{first.id.pool}/{first.id.device}"
        if self._profile.duplicate_id_shows == "all":
            yield f"the API server rejects the status, because {other} has the same ID"
        else:
            yield f"{other} has the same ID, and only its health is shown"

    def _unread(self, reported: Sequence[DeviceHealth]) -> Iterator[str]:
        """What the release does not read of the reports."""
        if not self._profile.messages and any(one.message for one in reported):
            yield "messages are not shown"
        if self._profile.messages and any(len(one.message.encode()) > MESSAGE_LIMIT for one in reported):
            yield f"messages are cut to {MESSAGE_LIMIT} bytes"
        timeouts = sorted({one.timeout for one in reported if one.timeout > 0} - {DEFAULT_TIMEOUT})
        if not self._profile.timeouts and timeouts:
            yield f"the timeout of {timeouts[0]} s is ignored: it is always {DEFAULT_TIMEOUT} s"
        if any(report.what.size > self._profile.largest_report for report in self._reports):
            yield f"a report has more than {self._profile.largest_report // 2**20} MiB, and ends the health stream"


def _stream_of(evidence: Evidence, experiment: str, api: str) -> Stream | None:
    """The stream whose reports such a kubelet reads; None if the driver does not serve the health API.

    If the health API was not called, the reports of another one stand for its reports: both have the same content.
    """
    if not api:
        return None
    for name in _STREAMS[experiment]:
        found = [one for one in streams(evidence, name) if one.reports]
        same = [one for one in found if one.api.advertised == api]
        if same or found:
            served = {one.api.advertised for one in streams(evidence, "services") if is_served(one)}
            unserved = served_apis(evidence) and api not in served
            return None if unserved else (same or found)[0]
    return None
