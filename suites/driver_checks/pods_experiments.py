"""The experiments that run a Pod with claims for the driver, and follow its status."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from drahealth.fakes.cluster.api import EVENTS, PODS, ListWatch, Object
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.waiting import in_background
from drahealth.manager.device_status import resource_id
from drahealth.manager.profile import Profile
from drahealth.manager.stream import advertised_health_api, pick_health_api
from drahealth.proto.events import (
    IN_SHORT,
    CdiSpecsRead,
    CheckpointWritten,
    Event,
    EventSeen,
    GrpcCall,
    Observe,
    PodDeleted,
    PodRequested,
    StatusSeen,
    StreamClosed,
    ignore,
)
from drahealth.proto.values import ClaimRef, DeviceId, Health, PreparedDevice
from drahealth.suites.driver_checks.cdi_specs import read_specs
from drahealth.suites.driver_checks.claims_experiments import Allocator, allocator
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.faults_steps import Bench
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device, answered, mapping, sequence
from drahealth.suites.driver_checks.observed_pods import shown_health
from drahealth.suites.driver_checks.profile.faults import MARGIN, Fault
from drahealth.suites.driver_checks.real_kubelet import (
    DEFAULT_SCHEDULER,
    CheckpointNode,
    ClusterKubelet,
    cluster_kubelet,
    real_kubelet,
)
from drahealth.suites.driver_checks.registration_experiments import SOCKET_LIMIT, described, started
from drahealth.suites.driver_checks.scripted_kubelet import (
    Plugin,
    device_plugin_manager,
    dra_manager,
    plugin_of,
    subscribed,
)
from drahealth.suites.story import manifests

# The statuses of one Pod, as a client of the API server sees them.

_RETRY = 0.5
"""Seconds until a watch that has ended is opened again."""


class WatchedPod:
    """Records each different status of the Pod with this UID, and its deletion."""

    def __init__(self, lab: Lab, api: ListWatch, uid: str) -> None:
        self._lab = lab
        self._uid = uid
        self._watch = PodWatch(api, self._saw, again=after(_RETRY, lab.subject.clock))
        self.status: StatusSeen | None = None
        """The newest status."""
        self.deleted = False

    async def follow(self) -> None:
        """Follows the API server, until cancelled."""
        await self._watch.run()

    async def until(self, limit: float, condition: Callable[[], bool]) -> bool:
        """Waits until it is true; looks again after each change. False at the limit."""
        return await self._watch.changes.until_within(condition, limit, self._lab.subject.clock)

    def _saw(self, pod: Object, status: StatusSeen | None) -> None:
        metadata = pod["metadata"]
        if metadata["uid"] != self._uid:
            return
        if status is None:
            self.deleted = True
            self._lab.record(PodDeleted(metadata["name"], self._uid, metadata["namespace"]))
        else:
            self.status = replace(status, namespace=metadata["namespace"])
            self._lab.record(self.status)


@asynccontextmanager
async def watched_pod(lab: Lab, api: ListWatch, uid: str) -> AsyncGenerator[WatchedPod, None]:
    """The statuses of a Pod, until the end of the block."""
    watch = WatchedPod(lab, api, uid)
    async with in_background(watch.follow(), "watch of the Pod"):
        yield watch


# What a Pod shows while drahealth breaks and heals its devices.

CdiIds = Callable[[Device], tuple[str, ...]]
"""The CDI device IDs of a prepared device."""


def faults_of_pods(faults: Sequence[Fault]) -> list[Fault]:
    """Those that need no restart of the driver; those that stay until its end come last."""
    return sorted((one for one in faults if not one.restarts), key=lambda one: one.heal == "none")


def devices_to_break(faults: Sequence[Fault]) -> frozenset[str]:
    """The names of the devices that the faults name."""
    return frozenset(one.device.rpartition("/")[2] for one in faults_of_pods(faults) if one.device)


async def break_devices(
    lab: Lab, plugin: Plugin, pod: WatchedPod, devices: Sequence[Device], profile: Profile, cdi_ids: CdiIds, late: float
) -> None:
    """Breaks a device of the Pod with each fault, and heals it; waits each time until the Pod status shows it.

    `late` is the time from a report to the status. Raises NotApplicable without health, and if each
    fault needs a restart of the driver.
    """
    faults = faults_of_pods(lab.subject.faults)
    if not advertised_health_api(plugin.versions, profile):
        raise NotApplicable("health is not advertised")
    if not faults:
        raise NotApplicable("each fault needs a restart of the driver")
    bench = Bench(lab, plugin)
    for fault in faults:
        device = _device(fault, devices)
        name = resource_id(PreparedDevice(DeviceId(plugin.driver, *device), (), cdi_ids(device)), profile)
        await break_device(bench, pod, fault, device, partial(_shows, pod, name), fault.health, late)


async def break_device(
    bench: Bench,
    pod: WatchedPod,
    fault: Fault,
    device: Device,
    shows: Callable[[Health], bool],
    broken: Health,
    late: float,
) -> None:
    """Breaks a device of the Pod, and heals it; waits each time until the Pod status `shows` the health.

    `broken` is the health after the break, `late` the time from a report to the status. Raises Incomplete, if the
    device is not Healthy before.
    """
    limit = fault.settle + MARGIN + late
    if not await pod.until(limit, partial(shows, Health.HEALTHY)):
        raise Incomplete(f"the Pod status did not show {device} as Healthy before fault {fault.name}")
    if await bench.breaks(fault, device):
        await pod.until(limit, partial(shows, broken))
    if await bench.heals(fault, device):
        await pod.until(limit, partial(shows, Health.HEALTHY))
    bench.lab.subject.check_running()


def _device(fault: Fault, devices: Sequence[Device]) -> Device:
    found = [one for one in devices if fault.device in ("", one.name, str(one))]
    if not found:
        raise Incomplete(f"fault {fault.name}: the Pod has no device {fault.device}")
    return found[0]


def _shows(pod: WatchedPod, name: str, health: Health) -> bool:
    shown = shown_health(pod.status, name) if pod.status else None
    return shown is not None and shown.health is health


# The experiments that run a Pod with claims for the driver, and follow its status.


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for the parts of a run."""

    start: float
    """Until a Pod must run whose claims are allocated. Calls to prepare that fail are retried meanwhile."""
    watch: float
    """For which the status of a running Pod is followed: time for several reports of most drivers."""
    end: float
    """Until a deleted Pod must be gone; its grace period is 1 s."""
    late: float
    """From a report to the Pod status, when a device breaks or heals."""


REFERENCE, KUBELET = Limits(40, 12, 30, 5), Limits(60, 20, 40, 10)
RESYNC = 3.0
"""Seconds between two syncs of the Pod on the reference; kubelets sync a Pod after 60 to 90 s (B-03)."""
_IMAGE = "workload.example.com/job:1"
_CONTAINER = "main"


async def pod_status(lab: Lab) -> None:
    """Runs a Pod on the reference with profile kep, in the directories of the driver process."""
    async with _reference(lab) as node:
        await started(lab)
        await _run_pod(lab, await _plugin(lab), node, REFERENCE)


async def pod_faults(lab: Lab) -> None:
    """Does the same, and breaks the devices of the Pod."""
    async with _reference(lab) as node:
        await started(lab)
        await _run_pod(lab, await _plugin(lab), node, REFERENCE, breaks=True)


async def kubelet_pod_status(lab: Lab) -> None:
    """Runs a Pod on a real kubelet, in its directories, or on the driver's node in a cluster.

    drahealth subscribes to the driver's health beside it.
    """
    await _on_kubelet(lab, breaks=False)


async def kubelet_pod_faults(lab: Lab) -> None:
    """Does the same, and breaks the devices of the Pod."""
    await _on_kubelet(lab, breaks=True)


async def _on_kubelet(lab: Lab, *, breaks: bool) -> None:
    async with _kubelet(lab) as node:
        await started(lab)
        plugin = await _plugin(lab)
        async with AsyncExitStack() as stack:
            for api in pick_health_api(plugin.versions, node.profile)[:1]:
                await stack.enter_async_context(subscribed(plugin, api, lab.subject.clock, lab.record))
            image = node.image if isinstance(node, ClusterKubelet) else _IMAGE
            await _run_pod(lab, plugin, node, KUBELET, breaks=breaks, image=image)
        node.check()


@asynccontextmanager
async def _kubelet(lab: Lab) -> AsyncGenerator[CheckpointNode, None]:
    """The kubelet of the driver's node in a cluster, or a kubelet of drahealth."""
    if lab.subject.launch:
        yield await cluster_kubelet(lab)
        return
    async with real_kubelet(lab) as node:
        yield node


@asynccontextmanager
async def _reference(lab: Lab) -> AsyncGenerator["_Reference", None]:
    """The reference, with its calls."""
    calls: list[GrpcCall] = []

    def add(event: Event) -> None:
        if isinstance(event, GrpcCall):
            calls.append(event)

    async with reference(lab, add) as profile:
        yield _Reference(profile, calls)


@asynccontextmanager
async def reference(lab: Lab, also: Observe = ignore) -> AsyncGenerator[Profile, None]:
    """The reference as the node of the driver process; its events are recorded, and `also` gets each of them."""
    from drahealth.suites.targets.reference.target import ReferenceCluster

    setup, places = lab.subject.kubelet_setup, lab.subject.places
    assert setup, "drahealth does not start the driver"
    assert setup.server, "drahealth does not run its API server"

    def observe(event: Event) -> None:
        if isinstance(event, StreamClosed) and event.code == "CANCELLED":
            event = replace(event, why=CANCELLED_BY_US)
        also(event)
        if not isinstance(event, (*IN_SHORT, CheckpointWritten)):  # reports are there in full
            lab.record(event)

    cluster = ReferenceCluster(
        *(places.kubelet_dir, setup.server),
        profile=setup.profile,
        clock=lab.subject.clock,
        name=places.node_name,
        resync=RESYNC,
        observe=observe,
        dra=dra_manager(places),
        device_plugins=device_plugin_manager(places),
    )
    try:
        await cluster.start()
        yield setup.profile
    finally:
        await cluster.stop()


class PodNode(Protocol):
    """What differs between the nodes that run a Pod."""

    @property
    def profile(self) -> Profile:
        """Profile of the kubelet."""

    @property
    def scheduler(self) -> str:
        """Value of `schedulerName` in the Pod."""

    async def schedule(self, pod: Object, claims: Sequence[ClaimRef]) -> None:
        """Reserves the claims for the Pod, and binds it to the node, unless a scheduler does."""

    def look(self) -> None:
        """Records more about the running Pod."""

    def cdi_ids(self, device: Device) -> tuple[str, ...]:
        """The CDI device IDs of a prepared device."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """Implements `PodNode`: it has a scheduler, and its calls are recorded."""

    profile: Profile
    calls: list[GrpcCall]
    scheduler: str = DEFAULT_SCHEDULER

    async def schedule(self, pod: Object, claims: Sequence[ClaimRef]) -> None:
        """Nothing."""

    def look(self) -> None:
        """Nothing."""

    def cdi_ids(self, device: Device) -> tuple[str, ...]:
        """Those of the recorded answers."""
        for call in self.calls:
            for uid in mapping(call.response, "claims"):
                for one in map(answered, sequence(call.response, "claims", uid, "devices")):
                    if one.device == device:
                        return one.cdi_ids
        return ()


async def _run_pod(
    lab: Lab, plugin: Plugin, node: PodNode, limits: Limits, *, breaks: bool = False, image: str = _IMAGE
) -> None:
    """Runs a Pod from its creation to its deletion. A Pod that does not start is deleted, too: its records show why."""
    api = lab.subject.api
    assert api, "the driver has no API server"
    named = devices_to_break(lab.subject.faults) if breaks else ()
    async with allocator(lab, plugin, named) as made:
        claims = await _claims(made)
        created = await api.create(PODS, _manifest(claims, image, node.scheduler))
        metadata = created["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        await node.schedule(created, claims)
        uids = tuple(one.uid for one in claims)
        request = PodRequested("created", name, uid, uids, node.profile.name)
        lab.record(request)
        async with watched_pod(lab, api, uid) as pod:
            if await pod.until(limits.start, lambda: is_running(pod.status)):
                lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
                node.look()
                if breaks:
                    devices = [Device(one.pool, one.device) for shape in made.shapes for one in sorted(shape.devices)]
                    await break_devices(lab, plugin, pod, devices, node.profile, node.cdi_ids, limits.late)
                else:
                    await follow(lab, pod, limits)
                lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
            else:
                await record_events(lab, api, uid, namespace)
            lab.subject.check_running()
            lab.record(replace(request, change="deleted"))
            await api.delete(PODS, name, namespace)
            await pod.until(limits.end, lambda: pod.deleted)


async def _plugin(lab: Lab) -> Plugin:
    """The driver, which the kubelet registers meanwhile. Raises Incomplete if it cannot be described."""
    found = await described(lab, SOCKET_LIMIT)
    try:
        return plugin_of(found, lab.subject.places.outside)
    except ValueError as error:
        raise Incomplete(f"GetInfo: {error}") from None


async def _claims(made: Allocator) -> list[ClaimRef]:
    """A claim of each shape, in one namespace."""
    claims = [await made.claim(shape, "pod", reserved=False) for shape in made.shapes]
    return [one for one in claims if one.namespace == claims[0].namespace]


def _manifest(claims: list[ClaimRef], image: str, scheduler: str) -> dict[str, object]:
    """A Pod whose container uses all claims."""
    names = {f"claim-{number}": one.name for number, one in enumerate(claims)}
    uses = {_CONTAINER: [(name, None) for name in names]}
    pod = manifests.pod(claims[0].namespace, f"{claims[0].name}-pod", uses, names, {"image": image})
    return {**pod, "spec": {**pod["spec"], "schedulerName": scheduler}}


def is_running(status: StatusSeen | None) -> bool:
    """Whether the Pod and all its containers run."""
    return status is not None and status.phase == "Running" and all(c.state == "running" for c in status.containers)


async def record_events(lab: Lab, api: ListWatch, uid: str, namespace: str) -> None:
    """Records the Events of a Pod that does not start: they say why."""
    for one in await api.list(EVENTS, namespace):
        about = one.get("involvedObject", {})
        if about.get("uid") == uid:
            type_, reason, message = (one.get(key, "") for key in ("type", "reason", "message"))
            lab.record(EventSeen(about.get("name", ""), uid, type_, reason, message, one.get("count") or 1))


async def follow(lab: Lab, pod: WatchedPod, limits: Limits) -> None:
    """Follows the status of the running Pod."""
    await pod.until(limits.watch, lambda: pod.deleted or not lab.subject.running)
