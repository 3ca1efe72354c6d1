"""What kubelets of each release show of the devices of a driver, from its evidence. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from drahealth.manager.cache import HealthCache
from drahealth.manager.device_plugins import API as DEVICE_PLUGIN_API
from drahealth.manager.device_status import entries, resource_id
from drahealth.manager.profile import Profile
from drahealth.manager.releases import MINORS, RELEASES, enables
from drahealth.manager.resources import Resources
from drahealth.manager.stream import pick_health_api
from drahealth.proto.events import ListReceived, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.quoting import printable
from drahealth.proto.values import (
    DEFAULT_TIMEOUT,
    MESSAGE_LIMIT,
    STATUS_GATE,
    ClaimUse,
    DeviceHealth,
    DeviceId,
    Health,
    PreparedDevice,
    ResourceHealth,
    health_of,
)
from drahealth.suites.driver_checks.device_plugins.observed import plugin_pod_runs
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US, Evidence, Observation
from drahealth.suites.driver_checks.observed import (
    Device,
    advertised,
    claim_calls,
    described,
    get_info,
    text,
    texts,
)
from drahealth.suites.driver_checks.observed_health import Stream, is_served, served_apis, streams
from drahealth.suites.report.document import KubeletHealth, ReleaseView, Seen

# Replays recorded reports as a kubelet of one release reads them. Pure.

_USE = ClaimUse("claim", "claim", listed=True)
_MOMENT = 1e-6
"""Seconds before a report: what was shown until then may have expired."""


def replay(
    profile: Profile,
    driver: str,
    devices: Sequence[PreparedDevice],
    reports: Iterable[Observation[ReportReceived]],
) -> Mapping[str, tuple[Seen, ...]]:
    """What the status of a Pod with all these devices shows over time, by resource ID.

    The status is read after each report, and just before the next one.
    """
    cache, shown = HealthCache(profile), dict[str, list[Seen]]()
    for report in reports:
        _read(profile, cache, devices, report.at - _MOMENT, shown)
        if report.what.size > profile.largest_report:
            cache.clear(driver)  # the stream ends
        else:
            cache.update(driver, report.what.devices, report.at)
        _read(profile, cache, devices, report.at, shown)
    if not shown:
        _read(profile, cache, devices, 0.0, shown)
    return {name: tuple(changes(found[1:] if len(found) > 1 else found)) for name, found in shown.items()}


def _read(
    profile: Profile,
    cache: HealthCache,
    devices: Sequence[PreparedDevice],
    now: float,
    shown: dict[str, list[Seen]],
) -> None:
    for one in _resources(profile, cache, devices, now):
        shown.setdefault(one.resource_id, []).append(Seen(now, one.health, one.message))


def _resources(
    profile: Profile, cache: HealthCache, devices: Sequence[PreparedDevice], now: float
) -> Iterator[ResourceHealth]:
    """The first device with each ID, as all releases show it."""
    found: dict[str, ResourceHealth] = {}
    composed = entries([_USE], lambda _: devices, lambda one: cache.read(one, now), profile, messages=profile.messages)
    for entry in composed:
        for resource in entry.resources:
            found.setdefault(resource.resource_id, resource)
    yield from found.values()


def changes(shown: Iterable[Seen]) -> Iterator[Seen]:
    """The first of equal ones."""
    last: Seen | None = None
    for one in shown:
        if last is None or (one.health, one.message) != (last.health, last.message):
            yield one
        last = one


# What a release shows of one device, and of a driver. Values.

GATED = tuple(minor for minor in MINORS if not enables(STATUS_GATE, minor))
"""Releases whose feature gate ResourceHealthStatus is off by default (facts, section 0)."""


_GATED = f"only with feature gate {STATUS_GATE}, which is off by default"


def health_by_release(evidence: Evidence) -> tuple[KubeletHealth, ...]:
    """What a kubelet of each supported release shows of the health of this driver; empty without a registration."""
    if evidence.header.subject == "device-plugin":
        lists = (DEVICE_PLUGIN_API,) if any(evidence.of(ListReceived)) else ()
        return tuple(_kubelet_health(minor, lists, lists, lists) for minor in MINORS if lists)
    if described(evidence) is None:
        return ()
    served = served_apis(evidence)
    reported = {stream.api.name for stream in streams(evidence) if stream.reports}
    return tuple(
        _kubelet_health(
            release.minor,
            [api.name for api in pick_health_api(advertised(evidence), release.behavior)],
            served,
            reported,
        )
        for release in RELEASES
    )


def _kubelet_health(
    minor: str, called: Sequence[str], served: Container[str], reported: Container[str]
) -> KubeletHealth:
    """What a kubelet that calls these health APIs, each after Unimplemented of the one before, can show."""
    if not called:
        return KubeletHealth(minor, "", False, "the driver advertises no health API that it calls")
    api = next((name for name in called if name in served), "")
    if not api:
        return KubeletHealth(minor, "", False, f"it calls {', then '.join(called)}, which the driver does not serve")
    if api not in reported:
        return KubeletHealth(minor, api, False, f"the driver sent no report over {api}")
    return KubeletHealth(minor, api, True, _GATED if minor in GATED else "")


# What releases show of devices, as text. Pure.

CHANGES = 6
"""The most changes of a device in a line; the last one counts most."""


def release_lines(views: Sequence[ReleaseView]) -> Iterator[str]:
    """A section by device and release; nothing without a prepared device."""
    if views:
        yield "What kubelets show of the same reports"
    for device, found in groupby(sorted(views, key=lambda one: one.device), key=lambda one: one.device):
        yield f"  {printable(device)}"
        for view in found:
            yield f"    {view.release}  {printable(view.resource_id)}: {printable(shown_text(view.shown))}"
            for reason in view.reasons:
                yield f"          {printable(reason)}"


def kubelet_lines(kubelets: Sequence[KubeletHealth]) -> Iterator[str]:
    """A line for each release."""
    if kubelets:
        yield "What kubelets do with the health of this driver"
    for one in kubelets:
        yield f"  {one.release}  {printable(str(one))}"


def shown_text(shown: Sequence[Seen]) -> str:
    """The healths in order, each with its message."""
    if not shown:
        return "not listed"
    texts = [f"{one.health} ({one.message})" if one.message else str(one.health) for one in shown]
    if len(texts) > CHANGES:
        texts = [*texts[:3], f"{len(texts) - 4} more", texts[-1]]
    return ", then ".join(texts)


# What kubelets of each release show of the devices of a device plugin, from the recorded lists. Pure.

_PODS = ("plugin-pod-faults", "plugin-pod-status")
"""Experiments with a Pod on the reference; the first one that ran a Pod counts."""
_Event = Observation[StreamOpened] | Observation[ListReceived] | Observation[StreamClosed]


def shown_of_lists(evidence: Evidence) -> tuple[ReleaseView, ...]:
    """What each release shows of the devices of the Pod; empty if no Pod ran."""
    pods = [pod for name in _PODS for pod in plugin_pod_runs(evidence, name)[:1] if pod.running and pod.allocated]
    if not pods:
        return ()
    pod = pods[0]
    devices = [device for _, device in pod.allocated]
    events = [one for one in _events(evidence, pod.experiment) if one.at <= pod.end]
    releases = [release.behavior for release in RELEASES]
    return tuple(_view(release, device, devices, events) for release in releases for device in devices)


def _events(evidence: Evidence, experiment: str) -> list[_Event]:
    found: list[_Event] = [*evidence.of(StreamOpened, experiment), *evidence.of(ListReceived, experiment)]
    return sorted([*found, *evidence.of(StreamClosed, experiment)], key=lambda one: one.number)


def _view(profile: Profile, device: Device, devices: Sequence[Device], events: Sequence[_Event]) -> ReleaseView:
    mine = [one for one in events if one.what.driver == device.pool]
    reasons = tuple(_reasons(profile, device, devices, mine))
    shown = tuple(changes(_replay(profile, device, mine)))
    return ReleaseView(profile.release or "", str(device), device.name, shown, reasons)


def _replay(profile: Profile, device: Device, events: Sequence[_Event]) -> Iterator[Seen]:
    """What the status shows after each event, from the first list with the device on."""
    resources, known = Resources(profile), False
    for one in events:
        match one.what:
            case StreamOpened():
                resources.came(device.pool, one.what.stream)
            case ListReceived():
                known = known or device.name in {each.id for each in one.what.devices}
                resources.listed(device.pool, one.what.stream, one.what.devices)
            case StreamClosed() if not one.what.why.startswith(CANCELLED_BY_US):
                resources.left(device.pool, one.what.stream, one.at)
        if known:
            yield Seen(one.at, resources.health(device.pool, device.name))


def _reasons(profile: Profile, device: Device, devices: Sequence[Device], events: Sequence[_Event]) -> Iterator[str]:
    if profile.release in GATED:
        yield _GATED
    lists = [one.what for one in events if isinstance(one.what, ListReceived)]
    words = {each.health for one in lists for each in one.devices if each.id == device.name}
    if other := sorted(word for word in words if word not in (Health.HEALTHY, Health.UNHEALTHY)):
        yield f"the word {other[0]!r} is shown as {health_of(other[0])}"
    if any(device.name not in {each.id for each in one.devices} for one in lists):
        yield f"a device that is not listed is shown as {profile.unlisted_device}"
    ended = any(isinstance(one.what, StreamClosed) and not one.what.why.startswith(CANCELLED_BY_US) for one in events)
    if ended and not profile.forgets_list_of_gone_plugin:
        yield "the last health is shown after the end of the stream"
    others = [one.pool for one in devices if one.name == device.name and one.pool != device.pool]
    if others and not profile.owner_by_resource:
        yield f"{others[0]} has a device with the same ID, so a change can be shown late"


# What kubelets of each release show of the devices of a Pod, from the recorded reports. Pure.

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
    found = [(registered, claims) for registered, claims in _SOURCES if _prepared(evidence, claims, "")]
    reported = [one for one in found if any(stream.reports for stream in streams(evidence, *_STREAMS[one[1]]))]
    for registered, claims in (reported or found)[:1]:
        info = next((one for one in get_info(evidence, registered) if one.what.code == "OK"), None)
        if info:
            driver = text(info.what.response, "name")
            devices = _prepared(evidence, claims, driver)
            advertised = texts(info.what.response, "supported_versions")
            releases = [release.behavior for release in RELEASES]
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
            yield _GATED
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
