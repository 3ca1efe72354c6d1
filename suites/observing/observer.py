"""Watches an installed driver on the nodes of a cluster: permissions, a Pod on each node, and what they show."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    Object,
    key_of,
)
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.mirror import Mirror, after
from drahealth.fakes.cluster.pods import on_nodes, status_seen
from drahealth.fakes.hints import near
from drahealth.fakes.waiting import Changes, in_background, poll
from drahealth.proto.clock import SYSTEM_CLOCK
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.observing.facts import EventFact, NodeFacts, Use, pod_fact, slice_fact, uses
from drahealth.suites.targets.permissions import Permission, missing_permissions

LABEL = "drahealth/observer"
"""Label of each object that an observer makes; the value names the observer."""
EXPIRES = "drahealth/expires"
"""Annotation with the Unix time after which no observer uses the object any more."""
START_LIMIT = 60.0
"""Seconds for the Pods of the observer to run: an image may have to be pulled."""
_MARGIN = 120.0
"""Seconds that a Pod may exist beyond the observation, before the kubelet ends it."""
_REMOVED = 30.0
"""Seconds for the Pods to go at the end."""
_AGAIN = 1.0
_OF_DEVICES = ("FailedPrepareDynamicResources", "UnexpectedAdmissionError")
"""Reasons of Events about devices. Other Warnings, such as of an image, are not due to the driver."""
_HINT = "docs/drivers.md lists the permissions"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for."""

    driver: str
    seconds: float
    """How long to watch, after the Pods run."""
    namespace: str
    device_class: str = ""
    image: str = "registry.k8s.io/pause:3.10"
    node_selector: str = ""
    """A label selector; empty for each node with the driver."""


@dataclass(slots=True)
class Observation:
    """What was seen."""

    nodes: dict[str, NodeFacts]
    seconds: float = 0.0
    interrupted: bool = False
    limits: list[str] = field(default_factory=list)
    """What could not be seen on any node."""


# Permissions.


PERMISSIONS = (
    Permission(NODES, ("list", "watch")),
    Permission(SLICES, ("list", "watch")),
    Permission(DEVICE_CLASSES, ("list",)),
    Permission(PODS, ("list", "watch"), everywhere=True, optional=True),
    Permission(CLAIMS, ("list", "watch"), everywhere=True, optional=True),
    Permission(EVENTS, ("list", "watch"), everywhere=True, optional=True),
    Permission(PODS, ("create", "delete", "list", "watch")),
    Permission(CLAIMS, ("create", "delete", "list", "watch")),
    Permission(EVENTS, ("list", "watch")),
)
"""All rights that it uses. Without the optional ones it sees only its own Pods."""


# The objects of an observer.


def claim_of(pod: Object, asked: Asked, device_class: str) -> Object:
    """A claim for one device, which belongs to the Pod. It tolerates no taint: a driver can refuse a broken device."""
    meta = pod["metadata"]
    request = {
        "deviceClassName": device_class,
        "selectors": [{"cel": {"expression": f'device.driver == "{asked.driver}"'}}],
    }
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": meta["labels"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}],
        },
        "spec": {"devices": {"requests": [{"name": "device", "exactly": request}]}},
    }


def pod_on(node: str, name: str, asked: Asked, expires: float) -> Object:
    """A Pod that sleeps on the node. It fulfills the restricted Pod Security Standard."""
    container = {
        "name": "observer",
        "image": asked.image,
        "resources": {"claims": [{"name": "device"}], "requests": {"cpu": "1m", "memory": "8Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": asked.namespace,
            "labels": {LABEL: name.rpartition("-")[0]},
            "annotations": {EXPIRES: str(int(expires))},
        },
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
            "affinity": on_nodes([node]),
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": int(asked.seconds + START_LIMIT + _MARGIN),
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


def class_for(driver: str, classes: Iterable[Object], wanted: str) -> str:
    """The DeviceClass for the claims. Raises ConfigurationError if the user must choose it."""
    names = {one["metadata"]["name"]: str((one.get("spec") or {}).get("selectors", "")) for one in classes}
    if wanted:
        if wanted not in names:
            raise ConfigurationError(f"the cluster has no DeviceClass {wanted!r}", near(wanted, names))
        return wanted
    found = [driver] if driver in names else [name for name, selectors in names.items() if driver in selectors]
    if len(found) == 1:
        return found[0]
    what = f"DeviceClasses {', '.join(sorted(found))} select" if found else "no DeviceClass selects"
    raise ConfigurationError(f"{what} devices of {driver}", "pass one with --device-class")


# The facts.


class _Watch:
    """Turns changes of objects into facts."""

    def __init__(self, asked: Asked, nodes: Iterable[str], clock: Callable[[], float]) -> None:
        self.nodes = {name: NodeFacts(name) for name in nodes}
        self.changes = Changes()
        self.own: dict[str, str] = {}
        """The node of each Pod of the observer, by its name."""
        self._asked = asked
        self._clock = clock
        self._start = clock()
        self._pods: dict[tuple[str, str], Object] = {}
        self._claims: dict[tuple[str, str], Object] = {}
        self._last: dict[str, tuple[object, tuple[Use, ...]]] = {}
        self.is_ready = False
        """Whether all kinds have been listed: Events from then on are new."""

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    def changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """For the mirror."""
        obj = new or old
        assert obj
        if old and new and old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]:
            return  # the mirror lists again after an interruption
        if kind == PODS:
            self._pod(obj, gone=new is None)
        elif kind == CLAIMS:
            self._claim(obj, gone=new is None)
        elif kind == SLICES:
            node = self.nodes.get(obj["spec"].get("nodeName", ""))
            if node and obj["spec"]["driver"] == self._asked.driver:
                node.slices.append(slice_fact(self.now, obj, gone=new is None))
        elif kind == NODES and (node := self.nodes.get(obj["metadata"]["name"])):
            self._node(node, new)
        elif kind == EVENTS and new:
            self._event(new)
        self.changes.notify()

    def _pod(self, pod: Object, *, gone: bool) -> None:
        key = key_of(pod)
        node = self.nodes.get(pod["spec"].get("nodeName", ""))
        if gone:
            self._pods.pop(key, None)
            if node and self._last.pop(pod["metadata"]["uid"], None):
                node.gone[pod["metadata"]["uid"]] = self.now
            return
        self._pods[key] = pod
        if node:
            self._see(node, pod)

    def _claim(self, claim: Object, *, gone: bool) -> None:
        key = key_of(claim)
        if gone:
            self._claims.pop(key, None)
            return
        self._claims[key] = claim
        for pod in [one for (namespace, _), one in self._pods.items() if namespace == key[0]]:
            if (node := self.nodes.get(pod["spec"].get("nodeName", ""))) and pod["metadata"]["uid"] not in self._last:
                self._see(node, pod)

    def _see(self, node: NodeFacts, pod: Object) -> None:
        used = tuple(uses(pod, self._claims, self._asked.driver))
        if not used:
            return
        fact = pod_fact(self.now, pod, used)
        if self._last.get(fact.uid) != (fact.status, fact.uses):
            self._last[fact.uid] = (fact.status, fact.uses)
            node.pods.append(fact)

    def _node(self, node: NodeFacts, new: Object | None) -> None:
        status = (new or {}).get("status") or {}
        node.kubelet = (status.get("nodeInfo") or {}).get("kubeletVersion", node.kubelet)
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        if not ready and node.lost is None:
            node.lost = (self.now, f"node {node.node} " + ("is not Ready" if new else "was removed from the cluster"))

    def _event(self, new: Object) -> None:
        about = new.get("involvedObject") or {}
        key = about.get("namespace", ""), about.get("name", "")
        if not self.is_ready or new.get("type") != "Warning":
            return
        reason, own = new.get("reason", ""), key[0] == self._asked.namespace and key[1] in self.own
        pod = self._pods.get(key)
        name = pod["spec"].get("nodeName", "") if pod else ""
        node = self.nodes.get(self.own[key[1]] if own else name)
        ours = own or (pod is not None and pod["metadata"]["uid"] in self._last)
        if node and ours and reason in _OF_DEVICES:
            where = f"{about.get('kind', '')} {'/'.join(key)}"
            node.events.append(EventFact(self.now, where, reason, new.get("message", "")))

    def starting(self) -> dict[str, Object]:
        """The Pods of the observer that do not run yet, by name."""
        found = {name: self._pods.get((self._asked.namespace, name), {}) for name in self.own}
        return {name: pod for name, pod in found.items() if (pod.get("status") or {}).get("phase") != "Running"}


# The course of an observation.


async def observe(
    api: KubeClient, asked: Asked, notify: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
) -> Observation:
    """Makes the Pods, watches, and removes the Pods. Cancelled: returns what was seen, as interrupted.

    Raises HarnessError or ConfigurationError if it cannot start.
    """
    try:
        limits, namespace = await _limits(api, asked)
        names, device_class = await _places(api, asked)
        await _remove_expired(api, asked)
    except ApiError as error:
        raise HarnessError(f"the API server answered: {one_line(str(error), 300)}", _hint(error)) from None
    watch = _Watch(asked, names, clock)
    seen = Observation(watch.nodes, limits=limits)
    kinds = (CLAIMS, PODS, SLICES, NODES, EVENTS)
    mirror = Mirror(api, kinds, watch.changed, again=after(_AGAIN), namespace=namespace)
    run = f"drahealth-observe-{time.time_ns() % 10**9:x}"
    try:
        async with in_background(mirror.run(), name="mirror of the cluster"):
            await _until_listed(mirror)
            watch.is_ready = True
            for number, node in enumerate(names):
                watch.own[f"{run}-{number}"] = node
            notify(f"starting a Pod on each of {len(names)} nodes")
            await _create(api, asked, watch, device_class)
            await watch.changes.until_within(lambda: not watch.starting(), START_LIMIT, SYSTEM_CLOCK)
            _note_starting(watch)
            notify(f"watching for {asked.seconds:g} s")
            await asyncio.sleep(asked.seconds)
            seen.seconds = watch.now
            if not mirror.whole.is_set():
                raise HarnessError("the API server was not reachable at the end of the observation", "try again")
    except asyncio.CancelledError:
        seen.seconds, seen.interrupted = watch.now, True
        if task := asyncio.current_task():
            task.uncancel()
    finally:
        await _remove(api, asked.namespace, list(watch.own))
    return seen


def _hint(error: ApiError) -> str:
    if error.status == 404:
        return "observe needs Kubernetes 1.34 or newer, which serves resource.k8s.io/v1"
    return "check the address and the rights in the kubeconfig"


async def _limits(api: KubeClient, asked: Asked) -> tuple[list[str], str | None]:
    """What cannot be seen for want of permissions, and the only namespace of Pods; None for all.

    Raises HarnessError for a permission that is needed.
    """
    missing = await missing_permissions(api, PERMISSIONS, asked.namespace)
    if needed := [(one, verb) for one, verb in missing if not one.optional]:
        rights = ", ".join(f"{verb} {one.kind.plural}" for one, verb in needed)
        raise HarnessError(f"missing permissions in namespace {asked.namespace}: {rights}", _HINT)
    if missing:
        what = ", ".join(dict.fromkeys(one.kind.plural for one, _ in missing))
        return [
            f"Pods of other namespaces were not judged: no permission to list and watch {what} there"
        ], asked.namespace
    return [], None


async def _places(api: KubeClient, asked: Asked) -> tuple[list[str], str]:
    """The nodes with the driver, and the DeviceClass for claims."""
    slices = await api.list(SLICES)
    mine = [one for one in slices if one["spec"]["driver"] == asked.driver]
    if not mine:
        drivers = sorted({one["spec"]["driver"] for one in slices})
        hint = near(asked.driver, drivers) if drivers else "no driver publishes devices"
        raise ConfigurationError(f"no ResourceSlice is of the driver {asked.driver}", hint)
    nodes = {one["spec"]["nodeName"] for one in mine if one["spec"].get("nodeName")}
    if not nodes:
        raise HarnessError(f"the devices of {asked.driver} belong to no node", "observe judges devices of nodes")
    try:
        known = await api.selecting(labels=asked.node_selector).list(NODES)
    except ApiError as error:
        if error.status != 400:
            raise
        raise ConfigurationError(
            f"--node-selector: {one_line(error.message, 200)}", "such as gpu=true,zone=a"
        ) from None
    found = sorted(nodes & {one["metadata"]["name"] for one in known})
    if not found:
        raise ConfigurationError(
            f"no node with the labels {asked.node_selector!r} has devices of {asked.driver}"
            if asked.node_selector
            else f"the nodes with devices of {asked.driver} are not in the cluster",
            f"nodes with devices: {', '.join(sorted(nodes)[:5])}",
        )
    return found, class_for(asked.driver, await api.list(DEVICE_CLASSES), asked.device_class)


async def _until_listed(mirror: Mirror) -> None:
    try:
        async with asyncio.timeout(START_LIMIT):
            await mirror.whole.wait()
    except TimeoutError:
        raise HarnessError("the API server does not answer lists of Pods, claims and slices", "try again") from None


async def _create(api: KubeClient, asked: Asked, watch: _Watch, device_class: str) -> None:
    """Makes all Pods, and then their claims: a claim belongs to its Pod, so it goes with it."""
    expires = time.time() + asked.seconds + START_LIMIT + _MARGIN
    try:
        for name, node in watch.own.items():
            pod = await api.create(PODS, pod_on(node, name, asked, expires))
            await api.create(CLAIMS, claim_of(pod, asked, device_class))
    except ApiError as error:
        if error.status == 404:
            raise ConfigurationError(
                f"namespace {asked.namespace} does not exist", "create it, or choose another --namespace"
            ) from None
        raise HarnessError(
            f"a Pod in namespace {asked.namespace} was rejected: {one_line(str(error), 300)}",
            "a quota, an admission policy or Pod Security can reject it; choose another --namespace",
        ) from None


def _note_starting(watch: _Watch) -> None:
    for name, pod in watch.starting().items():
        facts = watch.nodes[watch.own[name]]
        why = _why_pending(pod)
        facts.own_problem = f"the Pod of the observer did not run within {START_LIMIT:g} s: {one_line(why, 200)}"


def _why_pending(pod: Object) -> str:
    return (status_seen(pod).pending if pod.get("metadata") else "") or "no reason in its status"


async def _remove_expired(api: KubeClient, asked: Asked) -> None:
    """Removes Pods of observers that were killed."""
    for pod in await api.selecting(labels=LABEL).list(PODS, asked.namespace):
        expires = (pod["metadata"].get("annotations") or {}).get(EXPIRES, "")
        if expires.isdecimal() and int(expires) < time.time():
            await _remove(api, asked.namespace, [pod["metadata"]["name"]])


async def _remove(api: KubeClient, namespace: str, names: Sequence[str]) -> None:
    """Deletes the Pods and their claims, and waits until the Pods are gone."""
    for name in names:
        for kind in (PODS, CLAIMS):
            with suppress(ApiError):
                await api.delete(kind, name, namespace, grace=0 if kind == PODS else None)

    async def gone() -> bool:
        left = await api.selecting(labels=LABEL).list(PODS, namespace)
        return not set(names) & {one["metadata"]["name"] for one in left}

    with suppress(ApiError):
        await poll(gone, _AGAIN, _REMOVED)
