"""The experiments that run a Pod with claims for the driver, and follow its status."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from drahealth.fakes.cluster.api import PODS
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.manager.profile import Profile
from drahealth.proto.events import (
    IN_SHORT,
    CdiSpecsRead,
    CheckpointWritten,
    Event,
    PodRequested,
    StatusSeen,
    StreamClosed,
)
from drahealth.proto.values import ClaimRef
from drahealth.suites.checking.experiments.allocating import Allocator, allocator
from drahealth.suites.checking.experiments.first_steps import SOCKET_LIMIT, described, started
from drahealth.suites.checking.experiments.pod_watch import PodWatch, watched_pod
from drahealth.suites.checking.kubelet.cdi_specs import read_specs
from drahealth.suites.checking.kubelet.outside import dra_manager
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.registration import plugin_of
from drahealth.suites.checking.kubelet.subscriber import CANCELLED_BY_US
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete
from drahealth.suites.story import manifests

START_LIMIT = 20.0
"""Seconds until a Pod must run whose claims are allocated. Calls to prepare that fail are retried meanwhile."""
WATCH_SECONDS = 12.0
"""Seconds for which the status of a running Pod is followed: time for several reports of most drivers."""
END_LIMIT = 15.0
"""Seconds until a deleted Pod must be gone; its grace period is 1 s."""
RESYNC = 3.0
"""Seconds between two syncs of the Pod on the reference; kubelets sync a Pod after 60 to 90 s (B-03)."""
_IMAGE = "workload.example.com/job:1"
_CONTAINER = "main"


async def pod_status(lab: Lab) -> None:
    """Runs a Pod on the reference with profile kep, in the directories of the driver process."""
    async with _reference(lab) as profile:
        await started(lab)
        await _run_pod(lab, profile)


@asynccontextmanager
async def _reference(lab: Lab) -> AsyncGenerator[Profile, None]:
    """The reference as the node of the driver process. Yields its profile."""
    from drahealth.suites.targets.reference.cluster import ReferenceCluster

    server, places = lab.subject.server, lab.subject.places
    assert server, "drahealth does not run the API server of the driver"

    def observe(event: Event) -> None:
        if isinstance(event, StreamClosed) and event.code == "CANCELLED":
            event = replace(event, why=CANCELLED_BY_US)
        if not isinstance(event, (*IN_SHORT, CheckpointWritten)):  # reports are there in full
            lab.record(event)

    cluster = ReferenceCluster(
        *(places.kubelet_dir, server),
        profile=lab.subject.profile,
        clock=lab.subject.clock,
        name=places.node_name,
        resync=RESYNC,
        observe=observe,
        dra=dra_manager(places),
    )
    try:
        await cluster.start()
        yield lab.subject.profile
    finally:
        await cluster.stop()


async def _run_pod(lab: Lab, profile: Profile) -> None:
    """Runs a Pod from its creation to its deletion. A Pod that does not start is deleted, too: its records show why."""
    plugin, api = await _plugin(lab), lab.subject.api
    assert api, "the driver has no API server"
    async with allocator(lab, plugin) as made:
        claims = await _claims(made)
        created = await api.create(PODS, _manifest(claims))
        metadata = created["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        uids = tuple(one.uid for one in claims)
        lab.record(PodRequested("created", name, uid, uids, profile.name))
        async with watched_pod(lab, api, uid) as pod:
            if await pod.until(START_LIMIT, lambda: _runs(pod.status)):
                lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
                await _observe(lab, pod)
                lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
            lab.subject.check_running()
            await _delete(lab, api, pod, PodRequested("deleted", name, uid, uids, profile.name), namespace)


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


def _manifest(claims: list[ClaimRef]) -> dict[str, object]:
    """A Pod whose container uses all claims."""
    names = {f"claim-{number}": one.name for number, one in enumerate(claims)}
    uses = {_CONTAINER: [(name, None) for name in names]}
    return manifests.pod(claims[0].namespace, f"{claims[0].name}-pod", uses, names, _IMAGE)


def _runs(status: StatusSeen | None) -> bool:
    return status is not None and status.phase == "Running" and all(c.state == "running" for c in status.containers)


async def _observe(lab: Lab, pod: PodWatch) -> None:
    """Follows the status of the running Pod."""
    await pod.until(WATCH_SECONDS, lambda: pod.deleted or not lab.subject.running)


async def _delete(lab: Lab, api: ListWatch, pod: PodWatch, request: PodRequested, namespace: str) -> None:
    lab.record(request)
    await api.delete(PODS, request.pod, namespace)
    await pod.until(END_LIMIT, lambda: pod.deleted)
