"""The small part of a control plane that pods need: a scheduler, and the controllers of claims and ReplicaSets."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from drahealth.fakes.cluster.allocation import (
    POD_CLAIM,
    Pool,
    UnschedulableError,
    allocate,
    allocation,
    claim_status,
    claimed_resources,
    consumers,
    devices_held,
    extended_claim,
    from_template,
    is_allocated,
    is_extended_claim,
    is_protected,
    owner_uid,
    pools_on,
    protected,
    released,
    requests_of_claim,
    reserved,
    suits_node,
)
from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    SLICES,
    ApiError,
    ControlPlaneApi,
    Kind,
    Object,
    timestamp,
)
from drahealth.fakes.cluster.mirror import Mirror, when_ready
from drahealth.fakes.cluster.pods import allocatable, insufficient, is_gated, is_terminal, with_condition
from drahealth.proto.clock import Clock, SystemClock

# The common part of controllers: they read a mirror of the API after each change, and never poll.

_RETRY = 1.0
"""Seconds until a rejected pass is repeated."""

log = logging.getLogger(__name__)


class ControlLoop(ABC):
    """Works from `start` to `stop`."""

    def __init__(self, name: str, api: ControlPlaneApi, kinds: Sequence[Kind]) -> None:
        self._name = name
        self._mirror = Mirror(api, kinds, self._changed, again=when_ready(api))
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Handles the existing objects, then every change."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def wait(self) -> None:
        """Waits until the loop has ended; raises its error."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Ends the loop; raises an earlier error."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run(), name=f"mirror of {self._name}")
            complaint = ""
            while True:
                await self._wake.wait()
                await self._mirror.whole.wait()
                self._wake.clear()
                try:
                    await self._pass()
                    complaint = ""
                except ApiError as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        log.warning("%s: %s; retrying each second", self._name, error)
                    await asyncio.sleep(_RETRY)
                    self._wake.set()

    @abstractmethod
    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """Called after a change of an object; sets `_wake` if the change matters."""

    @abstractmethod
    async def _pass(self) -> None:
        """Checks all objects once. An `ApiError` is logged, and the pass is repeated."""


# The claims of pods: creates them, reserves them, and releases them after the pods have ended.
#
# It creates claims from templates, and for extended resources that DRA drivers provide.
#
# It replaces the resource claim controller of Kubernetes, and the part of the scheduler that writes claims.


class ClaimController:
    """Reads from the mirror, writes to the API server; every method raises `ApiError` if a write is rejected."""

    def __init__(self, api: ControlPlaneApi, mirror: Mirror) -> None:
        self._api = api
        self._mirror = mirror

    async def claims_of(self, pod: Object) -> list[Object]:
        """The claims of the pod, created from templates if necessary. `UnschedulableError` if one is missing."""
        names, found = [], {}
        for entry in pod["spec"].get("resourceClaims") or ():
            if "resourceClaimTemplateName" in entry:
                claim = self._made_from_template(pod, entry["name"]) or await self._make(pod, entry)
                names.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
            else:
                claim = self._existing(pod, entry["resourceClaimName"])
            found[claim["metadata"]["uid"]] = claim
        if names != (pod["status"].get("resourceClaimStatuses") or []):
            await self._update_pod_status(pod, "resourceClaimStatuses", names)
        return list(found.values())

    def made_for_resources(self, pod: Object) -> Object | None:
        """The claim that was created for the pod's extended resources."""
        return next((claim for claim in self._made_for(pod) if is_extended_claim(claim)), None)

    async def make_for_resources(self, pod: Object, claim: Object, resources: Collection[str]) -> Object:
        """Creates this claim for extended resources of the pod, unless it exists, and names it in the pod's status."""
        if "uid" not in claim["metadata"]:
            claim = await self._api.create(CLAIMS, claim)
            self._mirror.store(CLAIMS, claim)
        await self._update_pod_status(pod, "extendedResourceClaimStatus", claim_status(pod, claim, resources))
        return claim

    async def reserve(self, claim: Object, pod: Object, allocation: Object | None) -> None:
        """Reserves the claim for the pod, with this allocation if it has none."""
        if not is_protected(claim):
            claim = await self._api.replace(CLAIMS, protected(claim, held=True))
            self._mirror.store(CLAIMS, claim)
        if allocation is not None:
            claim = {**claim, "status": {**(claim.get("status") or {}), "allocation": allocation}}
        self._mirror.store(CLAIMS, await self._api.replace_status(CLAIMS, reserved(claim, pod)))

    async def collect(self) -> None:
        """Releases the claims of ended pods, and deletes claims that were created for them."""
        for claim in self._mirror.objects(CLAIMS):
            claim = await self._freed(claim)
            if is_protected(claim) and not is_allocated(claim):
                claim = await self._unprotected(claim)
            owner = owner_uid(claim)
            if owner and "deletionTimestamp" not in claim["metadata"] and await self._is_over(claim, owner):
                await self._api.delete(CLAIMS, claim["metadata"]["name"], claim["metadata"]["namespace"])

    async def _unprotected(self, claim: Object) -> Object:
        """Removes the finalizer; a claim that is marked for deletion is then deleted."""
        claim = await self._api.replace(CLAIMS, protected(claim, held=False))
        if "deletionTimestamp" not in claim["metadata"]:
            self._mirror.store(CLAIMS, claim)
        return claim

    async def _freed(self, claim: Object) -> Object:
        pods = [one for one in consumers(claim) if one["resource"] == "pods"]
        gone = {pod["uid"] for pod in pods if await self._is_over(claim, pod["uid"], pod["name"])}
        is_left = "deletionTimestamp" in claim["metadata"] and not consumers(claim)
        if not gone and not (is_left and is_allocated(claim)):
            return claim
        freed = await self._api.replace_status(CLAIMS, released(claim, gone))
        self._mirror.store(CLAIMS, freed)
        return freed

    async def _is_over(self, claim: Object, uid: str, name: str | None = None) -> bool:
        """Whether the pod has ended or is deleted. The server is asked, because the mirror can be behind."""
        namespace = claim["metadata"]["namespace"]
        name = name or next(o["name"] for o in claim["metadata"]["ownerReferences"] if o["uid"] == uid)
        pod = self._mirror.get(PODS, name, namespace)
        if pod is None or pod["metadata"]["uid"] != uid:
            try:
                pod = await self._api.get(PODS, name, namespace)
            except ApiError as error:
                if error.reason != "NotFound":
                    raise
                return True
        return pod["metadata"]["uid"] != uid or is_terminal(pod)

    def _made_from_template(self, pod: Object, pod_claim: str) -> Object | None:
        names = ((claim, claim["metadata"]["annotations"].get(POD_CLAIM)) for claim in self._made_for(pod))
        return next((claim for claim, name in names if name == pod_claim), None)

    def _made_for(self, pod: Object) -> list[Object]:
        """The claims that were created for the pod, and are not being deleted."""
        mine = (one for one in self._mirror.objects(CLAIMS) if owner_uid(one) == pod["metadata"]["uid"])
        return [claim for claim in mine if "deletionTimestamp" not in claim["metadata"]]

    async def _make(self, pod: Object, entry: Object) -> Object:
        template_name = entry["resourceClaimTemplateName"]
        template = self._mirror.get(CLAIM_TEMPLATES, template_name, pod["metadata"]["namespace"])
        if template is None:
            raise UnschedulableError(f"resourceclaimtemplate {template_name} not found")
        claim = await self._api.create(CLAIMS, from_template(pod, entry["name"], template))
        self._mirror.store(CLAIMS, claim)
        return claim

    def _existing(self, pod: Object, name: str) -> Object:
        claim = self._mirror.get(CLAIMS, name, pod["metadata"]["namespace"])
        if claim is None:
            raise UnschedulableError(f"resourceclaim {name} not found")
        if "deletionTimestamp" in claim["metadata"]:
            raise UnschedulableError(f"resourceclaim {name} is being deleted")
        return claim  # any pod can use the claim

    async def _update_pod_status(self, pod: Object, field: str, value: object) -> None:
        """Writes the names of created claims into this field of the pod's status."""
        latest = await self._api.get(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        latest["status"][field] = value
        self._mirror.store(PODS, await self._api.replace_status(PODS, latest))


# Keeps the number of pods that each ReplicaSet requests: creates missing pods and deletes extra ones.
#
# It replaces the ReplicaSet controller of Kubernetes, and the garbage collector for the pods of a deleted set. It
# acts after changes and never polls.

_NOT_CREATED = (403, 404, 409, 503)
"""Errors after which a watch event explains the reason, or after which there is nothing to do."""


class ReplicaSetController(ControlLoop):
    """Works from `start` to `stop`."""

    def __init__(self, api: ControlPlaneApi) -> None:
        super().__init__("replica sets", api, (REPLICA_SETS, PODS))
        self._api = api

    async def _pass(self) -> None:
        for replica_set in self._mirror.objects(REPLICA_SETS):
            await self._unless_changed(self._fill(replica_set))
        await self._unless_changed(self._collect())

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if kind == REPLICA_SETS or _owner(new or old or {}):
            self._wake.set()

    async def _unless_changed(self, work: Any) -> None:
        try:
            await work
        except ApiError as error:
            if error.status not in _NOT_CREATED:
                raise

    async def _fill(self, replica_set: Object) -> None:
        """Terminating pods do not count, so a replacement is created before the old pod is gone."""
        meta, spec = replica_set["metadata"], replica_set["spec"]
        pods = [pod for pod in self._mirror.objects(PODS) if _owner(pod) == meta["uid"] and _is_active(pod)]
        wanted = spec.get("replicas", 1)
        for _ in range(wanted - len(pods)):
            self._mirror.store(PODS, await self._api.create(PODS, _pod(replica_set)))
        for pod in pods[wanted:]:
            await self._api.delete(PODS, pod["metadata"]["name"], meta["namespace"])

    async def _collect(self) -> None:
        """Deletes pods of deleted sets."""
        sets = {replica_set["metadata"]["uid"] for replica_set in self._mirror.objects(REPLICA_SETS)}
        for pod in self._mirror.objects(PODS):
            if _owner(pod) and _owner(pod) not in sets and "deletionTimestamp" not in pod["metadata"]:
                await self._api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])


def _pod(replica_set: Object) -> Object:
    """The next pod of the set."""
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    owner = {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.kind, "controller": True}
    metadata = {
        "namespace": meta["namespace"],
        "generateName": f"{meta['name']}-",
        "labels": (template.get("metadata") or {}).get("labels") or {},
        "ownerReferences": [{**owner, "name": meta["name"], "uid": meta["uid"]}],
    }
    return {"metadata": metadata, "spec": template["spec"]}


def _owner(pod: Object) -> str:
    """The UID of the pod's set; empty if there is none."""
    references = pod.get("metadata", {}).get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one["kind"] == REPLICA_SETS.kind), "")


def _is_active(pod: Object) -> bool:
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]


# The small part of a control plane that pods in one process need: claims from templates, allocation, binding.
#
# It replaces kube-scheduler and the resource claim controller. Only claims and extended resources count; the first
# suitable node by name gets the pod. It acts after changes and never polls.

_KINDS = (PODS, CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES, NODES)
_COMPONENT = "default-scheduler"
_CHANGED_UNDER_US = (404, 409, 503)
"""Errors after which a watch event explains the reason."""

_Allocations = dict[str, Object]
"""New allocations by claim UID; the UID is empty for a claim that is not created yet."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """A node for a pod. `extended` is the claim for `resources`, the extended resources that DRA drivers provide."""

    node: str
    allocations: _Allocations
    extended: Object | None
    resources: tuple[str, ...]


class Scheduler(ControlLoop):
    """Schedules pods from `start` to `stop`.

    An unschedulable pod has the reason in its PodScheduled condition, and in an Event.
    """

    def __init__(self, api: ControlPlaneApi, *, clock: Clock | None = None) -> None:
        super().__init__("scheduler", api, _KINDS)
        self._api = api
        self._clock = clock or SystemClock()
        self._controller = ClaimController(api, self._mirror)
        self._pools: dict[str, list[Pool]] = {}
        """Devices by node, cached until a slice changes, because reading many devices is slow."""
        self._bound: dict[str, str] = {}
        """Nodes of recently bound pods, until the mirror has the change."""
        self._is_refused = False

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if kind == SLICES:
            self._pools.clear()
        if kind == PODS and (new is None or new["spec"].get("nodeName")):
            self._bound.pop((new or old or {})["metadata"]["uid"], None)
        if self._is_refused or old is None or new is None or _view(kind, old) != _view(kind, new):
            self._wake.set()

    async def _pass(self) -> None:
        """Checks all objects once: first ended pods, then waiting pods, the oldest first."""
        self._is_refused = False
        try:
            await self._controller.collect()
            pending = [pod for pod in self._mirror.objects(PODS) if _is_pending(pod)]
            for pod in sorted(pending, key=lambda pod: str(pod["metadata"]["creationTimestamp"])):
                await self._place(pod)
        except ApiError as error:
            if error.status not in _CHANGED_UNDER_US:
                raise
            self._is_refused = True

    async def _place(self, pod: Object) -> None:
        try:
            found = await self._controller.claims_of(pod)
            fit = self._choose(pod, found)
            for claim in found:
                await self._controller.reserve(claim, pod, fit.allocations.get(claim["metadata"]["uid"]))
            if fit.extended is not None:
                claim = await self._controller.make_for_resources(pod, fit.extended, fit.resources)
                await self._controller.reserve(claim, pod, fit.allocations.get(_uid(fit.extended)))
        except UnschedulableError as why:
            await self._explain(pod, str(why))
        except ApiError as error:
            if error.status in _CHANGED_UNDER_US:
                raise
            await self._explain(pod, error.message)
        else:
            await self._api.bind(pod["metadata"]["name"], pod["metadata"]["namespace"], fit.node)
            self._bound[pod["metadata"]["uid"]] = fit.node

    def _choose(self, pod: Object, found: list[Object]) -> _Fit:
        """A node, and the allocation of each unallocated claim there. `UnschedulableError` if there is none."""
        nodes = sorted(self._mirror.objects(NODES), key=lambda node: str(node["metadata"]["name"]))
        if not nodes:
            raise UnschedulableError("no nodes available to schedule pods")
        reasons: Counter[str] = Counter()
        for node in nodes:
            fit = self._fit(pod, found, node)
            if not isinstance(fit, str):
                return fit
            reasons[fit] += 1
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        raise UnschedulableError(f"0/{len(nodes)} nodes are available: {counts}")

    def _fit(self, pod: Object, found: list[Object], node: Object) -> _Fit | str:
        """The allocations, or the reason why the pod does not fit on this node."""
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if node.get("spec", {}).get("unschedulable"):
            return "node(s) were unschedulable"
        if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
            return "node(s) didn't match Pod's node affinity/selector"
        resources = claimed_resources(pod, node, self._classes())
        if lacking := insufficient(pod, node, self._pods_on(name), claimed=resources):
            return lacking
        extended = self._extended(pod, resources) if resources else None
        wanted = found if extended is None else [*found, extended]
        if not all(suits_node(claim, name) for claim in wanted if is_allocated(claim)):
            return "resourceclaim not available on the node"
        allocations = self._allocations([claim for claim in wanted if not is_allocated(claim)], name)
        if allocations is None:
            return "cannot allocate all claims"
        return _Fit(name, allocations, extended, tuple(resources))

    def _extended(self, pod: Object, resources: Mapping[str, str]) -> Object:
        """The claim for these extended resources; it exists if an earlier attempt did not bind the pod."""
        return self._controller.made_for_resources(pod) or extended_claim(pod, resources)

    def _classes(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self._mirror.objects(DEVICE_CLASSES)}

    def _pods_on(self, node: str) -> list[Object]:
        pods = self._mirror.objects(PODS)
        return [p for p in pods if node in (p["spec"].get("nodeName"), self._bound.get(p["metadata"]["uid"]))]

    def _allocations(self, unallocated: list[Object], node: str) -> _Allocations | None:
        if not unallocated:
            return {}
        classes = self._classes()
        wanted = [requests_of_claim(claim, classes) for claim in unallocated]
        in_use = {device for claim in self._mirror.objects(CLAIMS) for device in devices_held(claim)}
        flat = [request for requests in wanted for request in requests]
        if node not in self._pools:
            self._pools[node] = pools_on(node, self._mirror.objects(SLICES))
        grants = allocate(flat, self._pools[node], in_use)
        if grants is None:
            return None
        left = iter(grants)
        return {
            _uid(claim): allocation(claim, [next(left) for _ in requests], classes, node)
            for claim, requests in zip(unallocated, wanted, strict=True)
        }

    async def _explain(self, pod: Object, why: str) -> None:
        """Writes the reason into the pod's condition, once."""
        latest = await self._api.get(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        now = timestamp(self._clock.wall())
        status = with_condition(latest["status"], "PodScheduled", False, now=now, reason="Unschedulable", message=why)
        if status != latest["status"]:
            self._mirror.store(PODS, await self._api.replace_status(PODS, {**latest, "status": status}))
            with suppress(ApiError):  # the condition has the reason, too
                await self._api.create(EVENTS, _failed_scheduling(latest, why, self._clock.wall()))


def _failed_scheduling(pod: Object, why: str, wall: float) -> Object:
    """The Event of kube-scheduler for a Pod without a node."""
    metadata, time = pod["metadata"], timestamp(wall)
    reference = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{metadata['name']}.{uuid4().hex[:16]}", "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **reference},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": why,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
    }


def _is_pending(pod: Object) -> bool:
    if pod["spec"].get("schedulerName") not in (None, _COMPONENT):
        return False  # another scheduler binds it
    if is_gated(pod):
        return False
    return not pod["spec"].get("nodeName") and not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]


def _view(kind: Kind, obj: Object) -> Any:
    """The relevant part of an object, without health reports and heartbeats."""
    if kind == PODS:
        return obj["spec"].get("nodeName"), is_terminal(obj), is_gated(obj), "deletionTimestamp" in obj["metadata"]
    if kind == NODES:
        return obj.get("spec"), _labels(obj), allocatable(obj)
    return obj


def _uid(claim: Object) -> str:
    return str(claim["metadata"].get("uid", ""))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
