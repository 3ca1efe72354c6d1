"""The experiments that run a Pod with devices of a device plugin, and follow its status."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import uuid4

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, ListWatch, Object
from drahealth.fakes.waiting import poll
from drahealth.manager.profile import Profile
from drahealth.proto.events import Event, ListReceived, PodRequested, RegistrationFailed
from drahealth.proto.values import Health, PluginDevice, health_of
from drahealth.suites.driver_checks.claims_experiments import NAMESPACE
from drahealth.suites.driver_checks.device_plugins.kubelet import Relay
from drahealth.suites.driver_checks.device_plugins.registration_experiments import (
    MORE_LIMIT,
    kubelet_of,
    registered_plugins,
)
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.faults_steps import Bench
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_pods import shown_in_entry
from drahealth.suites.driver_checks.pods_experiments import (
    KUBELET,
    REFERENCE,
    Limits,
    WatchedPod,
    break_device,
    faults_of_pods,
    follow,
    record_events,
    reference,
    watched_pod,
)
from drahealth.suites.driver_checks.pods_experiments import is_running as runs
from drahealth.suites.driver_checks.profile.faults import Fault
from drahealth.suites.driver_checks.real_kubelet import DEFAULT_SCHEDULER, RealKubelet, real_kubelet
from drahealth.suites.driver_checks.registration_experiments import SOCKET_LIMIT, started
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE, Plugin
from drahealth.suites.story import manifests

_IMAGE = "workload.example.com/job:1"
_SHORT = replace(REFERENCE, watch=0)
_ON_KUBELET = replace(KUBELET, watch=12)
"""A device plugin lists its devices once; a driver reports them again and again."""
_NODE_LIMIT = 60.0
"""Seconds until the node shows the devices. Kubelets update it every 10 s."""


class _Seen:
    """The latest list of each resource, from the events of the node."""

    def __init__(self) -> None:
        self.lists: dict[str, tuple[PluginDevice, ...]] = {}

    def add(self, event: Event) -> None:
        """Adds an event."""
        if isinstance(event, ListReceived):
            self.lists[event.driver] = event.devices

    def healthy(self, resource: str) -> int:
        """The number of healthy devices."""
        return len({one.id for one in self.lists.get(resource, ()) if health_of(one.health) is Health.HEALTHY})


class _Node:
    """The node of a Pod: the reference, or a real kubelet."""

    def __init__(self, lab: Lab, profile: Profile, seen: _Seen, limits: Limits, kubelet: RealKubelet | None) -> None:
        assert lab.subject.api, "the device plugin has no API server"
        self.lab, self.profile, self.seen, self.limits = lab, profile, seen, limits
        self.api: ListWatch = lab.subject.api
        self._kubelet = kubelet

    @property
    def scheduler(self) -> str:
        """Value of `schedulerName` in its Pods."""
        return self._kubelet.scheduler if self._kubelet else DEFAULT_SCHEDULER

    async def schedule(self, pod: Object) -> None:
        """Binds the Pod to the node, unless a scheduler does."""
        if self._kubelet:
            await self._kubelet.schedule(pod, ())

    async def allocatable(self) -> Mapping[str, int]:
        """The number of devices of each resource that Pods can use, as the Node object says."""
        try:
            node = await self.api.get(NODES, self.lab.subject.places.node_name)
        except ApiError:
            return {}
        amounts = node.get("status", {}).get("allocatable", {})
        return {name: int(amounts[name]) for name in self.seen.lists if str(amounts.get(name, "")).isdigit()}


async def plugin_pod_status(lab: Lab) -> None:
    """Runs a Pod on the reference with profile kep, and then another one."""
    async with _reference(lab) as node:
        asked = await _amounts(node, ())
        await _run_pod(node, asked, limits=REFERENCE)
        await _shown(node, asked)
        await _run_pod(node, asked)


async def plugin_pod_faults(lab: Lab) -> None:
    """Runs a Pod on the reference, and breaks one of its devices."""
    faults = tuple(faults_of_pods(lab.subject.faults))
    if not faults:
        raise NotApplicable("each fault needs a restart of the driver")
    async with _reference(lab) as node:
        await _run_pod(node, await _amounts(node, faults), faults)


async def plugin_kubelet_pod(lab: Lab) -> None:
    """Runs a Pod on a real kubelet, and breaks one of its devices, if the driver profile has faults."""
    async with _kubelet(lab) as node:
        faults = tuple(faults_of_pods(lab.subject.faults))
        await _run_pod(node, await _amounts(node, faults), faults, limits=_ON_KUBELET)


@asynccontextmanager
async def _reference(lab: Lab) -> AsyncGenerator[_Node, None]:
    seen = _Seen()
    async with reference(lab, seen.add) as profile:
        await started(lab)
        yield _Node(lab, profile, seen, _SHORT, None)


@asynccontextmanager
async def _kubelet(lab: Lab) -> AsyncGenerator[_Node, None]:
    """A real kubelet with relays. The plugin registers at a kubelet of drahealth, in its own directories."""
    seen = _Seen()

    def observe(event: Event) -> None:
        seen.add(event)
        lab.record(event)

    async with real_kubelet(lab, own_directories=True) as kubelet, AsyncExitStack() as stack:
        ours = await kubelet_of(lab)
        await started(lab)
        folder, clock = kubelet.target.device_plugins_dir, lab.subject.clock
        for number, plugin in enumerate(await registered_plugins(lab, ours, SOCKET_LIMIT)):
            relay = Relay(plugin, folder, f"r{number}", clock, observe)
            stack.push_async_callback(relay.stop)
            await relay.start()
        yield _Node(lab, kubelet.profile, seen, _ON_KUBELET, kubelet)
        kubelet.check()


async def _amounts(node: _Node, broken: tuple[Fault, ...]) -> dict[str, int]:
    """The number of devices that a container requests of each resource, once the node shows them.

    All of a resource with a device that a fault names; at least two of the first resource, if a fault names no device.
    """
    lab, seen, clock = node.lab, node.seen, node.lab.subject.clock

    def are_listed() -> bool:
        lab.subject.check_running()
        return bool(seen.lists)

    if not await poll(are_listed, PAUSE, SOCKET_LIMIT, clock):
        problem = f"no device plugin was registered within {SOCKET_LIMIT:g} s"
        lab.record(RegistrationFailed("{device_plugins_dir}", problem))
        raise Incomplete(problem)
    await clock.sleep(MORE_LIMIT)  # for the lists of other resources
    wanted = {name: seen.healthy(name) for name in sorted(seen.lists) if seen.healthy(name)}
    if not wanted:
        raise NotApplicable("the plugin lists no healthy device")
    first, named = next(iter(wanted)), {fault.device for fault in broken} - {""}
    asked = {name: _asked(lab, name, count) for name, count in wanted.items()}
    if broken and not named:
        asked[first] = max(asked[first], min(2, wanted[first]))
    for name in wanted:
        if any(device in (one.id, f"{name}/{one.id}") for one in seen.lists[name] for device in named):
            asked[name] = wanted[name]
    await _shown(node, asked)
    return asked


def _asked(lab: Lab, resource: str, healthy: int) -> int:
    """The number of devices by the driver profile. Raises Incomplete if the plugin has too few."""
    devices = lab.run.profile.claim.devices
    count = healthy if devices == "all" else devices
    if count > healthy:
        raise Incomplete(f"a Pod needs {count} devices of {resource}; the plugin lists {healthy} healthy ones")
    return count


async def _shown(node: _Node, asked: Mapping[str, int]) -> None:
    """Waits until the node has the devices, or the limit."""

    async def are_shown() -> bool:
        node.lab.subject.check_running()
        found = await node.allocatable()
        return all(found.get(name, 0) >= count for name, count in asked.items())

    await poll(are_shown, PAUSE, _NODE_LIMIT, node.lab.subject.clock)


async def _run_pod(
    node: _Node, asked: Mapping[str, int], faults: tuple[Fault, ...] = (), *, limits: Limits | None = None
) -> None:
    """Runs a Pod from its creation to its deletion. A Pod that does not start is deleted, too: its records show why."""
    lab, api, limits = node.lab, node.api, limits or node.limits
    unique = f"drahealth-check-{uuid4().hex[:5]}"
    manifest = manifests.pod(NAMESPACE, unique, {"main": []}, {}, {"image": _IMAGE}, limits=asked)
    created = await api.create(PODS, {**manifest, "spec": {**manifest["spec"], "schedulerName": node.scheduler}})
    metadata = created["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    request = PodRequested("created", name, uid, (), node.profile.name)
    lab.record(request)
    await node.schedule(created)
    async with watched_pod(lab, api, uid) as pod:
        if await pod.until(limits.start, lambda: runs(pod.status)):
            await follow(lab, pod, limits)
            await _break(node, pod, faults)
        else:
            await record_events(lab, api, uid, namespace)
            if few := [one for one, count in asked.items() if node.seen.healthy(one) < count]:
                raise Incomplete(f"the plugin now lists too few healthy devices of {few[0]}")
        lab.subject.check_running()
        lab.record(replace(request, change="deleted"))
        await api.delete(PODS, name, namespace)
        await pod.until(limits.end, lambda: pod.deleted)


async def _break(node: _Node, pod: WatchedPod, faults: tuple[Fault, ...]) -> None:
    """Breaks a device of the Pod with each fault, and heals it; waits each time until the Pod status shows it."""
    lab = node.lab
    endpoint = lab.subject.places.device_plugins_dir
    bench = Bench(lab, Plugin("", endpoint, endpoint, ()))
    for fault in faults:
        device = _device(pod, fault)
        shows = partial(_shows, pod, device)
        await break_device(bench, pod, fault, device, shows, Health.UNHEALTHY, node.limits.late)


def _device(pod: WatchedPod, fault: Fault) -> Device:
    """The named device of the Pod, or the last one of its first resource. Raises Incomplete."""
    entries = [entry for _, found in pod.status.entries() for entry in found] if pod.status else []
    devices = [Device(entry.name, one.resource_id) for entry in entries for one in entry.resources]
    found = [one for one in devices if fault.device in ("", one.name, str(one))]
    if not found:
        raise Incomplete(f"fault {fault.name}: the Pod has no device {fault.device}")
    return [one for one in found if one.pool == found[0].pool][-1]


def _shows(pod: WatchedPod, device: Device, health: Health) -> bool:
    shown = shown_in_entry(pod.status, device.pool, device.name) if pod.status else None
    return shown is not None and shown.health is health
