"""The small part of a control plane that pods in one process need: claims from templates, allocation, binding.

It replaces kube-scheduler and the resource claim controller. Only claims and extended resources count; the first
suitable node by name gets the pod. It acts after changes and never polls.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.api_server.deletion import timestamp
from drahealth.fakes.cluster.extended_resources import allocatable, insufficient
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.cluster.pods import is_gated, is_terminal, with_condition
from drahealth.fakes.cluster.scheduling import claims
from drahealth.fakes.cluster.scheduling.allocator import allocate
from drahealth.fakes.cluster.scheduling.claim_controller import ClaimController
from drahealth.fakes.cluster.scheduling.control_loop import ControlLoop
from drahealth.fakes.cluster.scheduling.device_requests import UnschedulableError, requests_of
from drahealth.fakes.cluster.scheduling.extended_claims import claimed_resources, extended_claim
from drahealth.fakes.cluster.scheduling.pools import Pool, pools_on
from drahealth.proto.clock import Clock, SystemClock

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
        if not all(claims.suits_node(claim, name) for claim in wanted if claims.is_allocated(claim)):
            return "resourceclaim not available on the node"
        allocations = self._allocations([claim for claim in wanted if not claims.is_allocated(claim)], name)
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
        wanted = [requests_of(claim, classes) for claim in unallocated]
        in_use = {device for claim in self._mirror.objects(CLAIMS) for device in claims.devices_held(claim)}
        flat = [request for requests in wanted for request in requests]
        if node not in self._pools:
            self._pools[node] = pools_on(node, self._mirror.objects(SLICES))
        grants = allocate(flat, self._pools[node], in_use)
        if grants is None:
            return None
        left = iter(grants)
        return {
            _uid(claim): claims.allocation(claim, [next(left) for _ in requests], classes, node)
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
