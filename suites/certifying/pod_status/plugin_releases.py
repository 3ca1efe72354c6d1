"""What kubelets of Kubernetes 1.34 to 1.37 show of the devices of a device plugin, from the recorded lists. Pure."""

from collections.abc import Iterator, Sequence

from drahealth.manager.profile import PROFILES, Profile
from drahealth.manager.resources import Resources
from drahealth.proto.events import ListReceived, StreamClosed, StreamOpened
from drahealth.proto.extended_resources import health_of
from drahealth.proto.values import Health
from drahealth.suites.certifying.pod_status.replay import Seen, changes
from drahealth.suites.certifying.pod_status.view import GATED, ReleaseView
from drahealth.suites.checking.device_plugins.observed_pods import plugin_pod_runs
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.kubelet.subscriber import CANCELLED_BY_US
from drahealth.suites.checking.observed.devices import Device

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
    releases = sorted((one for one in PROFILES.values() if one.release), key=lambda one: one.name)
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
        yield "only with feature gate ResourceHealthStatus, which is off by default"
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
