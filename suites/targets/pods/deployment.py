"""The fake driver on every node of a cluster: its objects, its deployment, and the connection to it."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from drahealth.fakes.cluster.api import EVENTS, NAMESPACES, PODS, Api, ApiError, Kind, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import ExecStream
from drahealth.fakes.cluster.pods import on_nodes
from drahealth.fakes.control.remote import Connect, RemoteHost
from drahealth.fakes.control.wire import LINE_LIMIT, Writer
from drahealth.fakes.waiting import poll
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.pods import KUBELET_DIR, NAMESPACE
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.target import PART_OF

# The objects that run the fake driver on every node of a cluster: the chart, rendered by ci/deploy/render.

NAME = "drahealth-driver"
SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "drahealth"}
"""The labels of the driver's pods and of their other objects."""
PULL_SECRET = "drahealth-pull"
"""The name of the Secret with which the images are pulled."""
CONTROL_SOCKET = "/run/drahealth/control.sock"
"""The control socket of the driver, in its pod."""

_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_POLICY = "ValidatingAdmissionPolicy"
SERVICE_ACCOUNTS = Kind("ServiceAccount", "serviceaccounts", "v1", namespaced=True)
CLUSTER_ROLES = Kind("ClusterRole", "clusterroles", _RBAC, namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind("ClusterRoleBinding", "clusterrolebindings", _RBAC, namespaced=False)
DAEMON_SETS = Kind("DaemonSet", "daemonsets", "apps/v1", namespaced=True)
POLICIES = Kind(_POLICY, "validatingadmissionpolicies", _ADMISSION, namespaced=False)
POLICY_BINDINGS = Kind(f"{_POLICY}Binding", "validatingadmissionpolicybindings", _ADMISSION, namespaced=False)
KINDS = (SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, DAEMON_SETS, POLICIES, POLICY_BINDINGS)
"""The kinds of the objects that the chart renders."""
_KINDS = {kind.kind: kind for kind in KINDS}
SECRETS = Kind("Secret", "secrets", "v1", namespaced=True)


_NAMED = ("namespace: {}\n", "{}:" + NAME, NAME + ".{}")
"""Where the rendered objects have the name of their namespace."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is deployed, and where."""

    image: str = ""
    namespace: str = NAMESPACE
    kubelet_dir: str = KUBELET_DIR
    """The root directory of the kubelets."""
    nodes: Sequence[str] = ()
    """The names of the nodes; empty for all nodes."""
    docker_config: str = ""
    """JSON text with credentials of registries; empty without."""

    def manifests(self) -> list[tuple[Kind, Object]]:
        """All objects, in the order in which they are made."""
        labels = {**SELECTOR, "pod-security.kubernetes.io/enforce": "privileged"}
        namespace: Object = {"metadata": {"name": self.namespace, "labels": labels}}
        secrets = [(SECRETS, pull_secret(self.namespace, self.docker_config))] if self.docker_config else []
        text = Path(__file__).with_name("manifests.yaml").read_text(encoding="utf-8").replace("IMAGE:TAG", self.image)
        for rendered in _NAMED:
            text = text.replace(rendered.format(NAMESPACE), rendered.format(self.namespace))
        objects = filter(None, YAML(typ="safe", pure=True).load_all(text.replace(KUBELET_DIR, self.kubelet_dir)))
        found = [(_KINDS[obj["kind"]], obj) for obj in objects]
        for daemon_set in (obj for kind, obj in found if kind == DAEMON_SETS):
            spec = daemon_set["spec"]["template"]["spec"]
            spec |= {"affinity": on_nodes(self.nodes)} if self.nodes else {}
            spec |= {"imagePullSecrets": [{"name": PULL_SECRET}]} if self.docker_config else {}
        return [(NAMESPACES, namespace), *secrets, *found]


def pull_secret(namespace: str, docker_config: str) -> Object:
    """The Secret with which a kubelet pulls images (Kubernetes: Pull an Image from a Private Registry)."""
    return {
        "metadata": {"name": PULL_SECRET, "namespace": namespace, "labels": SELECTOR},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(docker_config.encode()).decode()},
    }


# The command of a container that uses a device. `wait` is what a signal interrupts in every shell; a `read` is not.

WORKLOAD = """\
trap 'exit 143' TERM
mkfifo /tmp/exit 2> /dev/null
while :; do
  cat /tmp/exit > /tmp/told &
  wait $!
  read -r code < /tmp/told
  [ -n "$code" ] && exit "$code"
  [ -p /tmp/exit ] || sleep 0.05 # a plain file was there first
done
"""
"""It ends with the exit code that is written to /tmp/exit, or on SIGTERM with 143."""


# The readiness of a deployment, and the reason if it is not ready. Pure functions over its objects.

_HOPELESS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Reasons of a waiting container that do not pass by waiting."""

_EVENTS = 3
_LONGEST = 400


def is_rolled_out(daemon_set: Object) -> bool:
    """Whether every node has a Ready pod of the newest template."""
    status = daemon_set.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    seen = status.get("observedGeneration", 0) >= daemon_set["metadata"].get("generation", 0)
    return bool(seen and wanted) and all(
        status.get(count, 0) == wanted for count in ("updatedNumberScheduled", "numberReady", "numberAvailable")
    )


def by_node(pods: Iterable[Object]) -> dict[str, str]:
    """The names of the pods by their nodes; only those that are Ready and not being deleted."""
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and _condition(pod, "Ready").get("status") == "True"
    }


def hopeless(pods: Iterable[Object]) -> str:
    """Why one of the pods cannot start, as a clause; empty if all may."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            waiting = status.get("state", {}).get("waiting", {})
            if waiting.get("reason") in _HOPELESS:
                return f"{_place(pod)}: {'; '.join(_waiting(status))}"
    return ""


def missing(daemon_set: Object, pods: Sequence[Object], events: Iterable[Object]) -> str:
    """Why the deployment is not ready, as a clause, from conditions and events."""
    names = {daemon_set["metadata"]["name"], *(pod["metadata"]["name"] for pod in pods)}
    found = [*_conditions(pods)] or [f"{len(pods)} pods there"]
    warned = [e for e in events if e.get("type") == "Warning" and e.get("involvedObject", {}).get("name") in names]
    warnings = dict.fromkeys(str(event.get("message", "")) for event in warned)
    return _short("; ".join([*found, *list(warnings)[-_EVENTS:]]))


def gone(pod: Object | None, name: str) -> str:
    """Why the pod no longer runs, as a sentence; empty if it runs. None stands for a missing pod."""
    if pod is None:
        return f"the pod {name} of the driver was deleted"
    status = pod.get("status", {})
    if status.get("reason") == "Evicted":
        return _short(
            f"the pod {name} of the driver was evicted from {_node(pod)}: {status.get('message', 'no reason given')}"
        )
    if "deletionTimestamp" in pod["metadata"]:
        why = _condition(pod, "DisruptionTarget").get("message", "")
        return _short(f"the pod {name} of the driver is being deleted{': ' if why else ''}{why}")
    if status.get("phase") in ("Failed", "Succeeded"):
        why = status.get("message") or "; ".join(_ends(pod)) or "no reason given"
        return _short(f"the pod {name} of the driver has ended: {why}")
    return ""


def _conditions(pods: Iterable[Object]) -> Iterator[str]:
    for pod in pods:
        scheduled = _condition(pod, "PodScheduled")
        waits = [text for s in pod.get("status", {}).get("containerStatuses", []) for text in _waiting(s)]
        if scheduled.get("status") == "False":
            yield f"{_place(pod)} cannot be scheduled: {scheduled.get('message', '')}"
        elif waits:
            yield f"{_place(pod)}: {'; '.join(waits)}"
        elif _condition(pod, "Ready").get("status") != "True":
            yield f"{_place(pod)} is {pod.get('status', {}).get('phase', 'Pending')} and not Ready"


def _waiting(status: Object) -> Iterator[str]:
    waiting = status.get("state", {}).get("waiting")
    if waiting:
        yield _short(": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))))
    if ended := status.get("lastState", {}).get("terminated"):
        yield f"it ended before: {_ended(ended)}"


def _ends(pod: Object) -> Iterator[str]:
    for status in pod.get("status", {}).get("containerStatuses", []):
        if ended := status.get("state", {}).get("terminated"):
            yield _ended(ended)


def _ended(terminated: Object) -> str:
    """The exit code, and the last line of output."""
    lines = str(terminated.get("message", "")).strip().splitlines()
    words = f"exit code {terminated.get('exitCode', '?')} ({terminated.get('reason', 'no reason')})"
    return _short(f"{words}: {lines[-1]}" if lines else words)


def _condition(pod: Object, kind: str) -> Object:
    conditions = pod.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _place(pod: Object) -> str:
    return f"pod {pod['metadata']['name']} on {_node(pod)}"


def _node(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "no node yet")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# Deploys the fake driver to every node of a cluster, waits for its pods, and removes it again.

START_LIMIT = 90.0
"""Seconds for the pods to be Ready, and for the objects of an earlier deployment to be deleted."""
_INTERVAL = 0.25
_BEAT = 6.0
"""Seconds between two lines about a stage."""
_PATIENCE = 5.0
"""Seconds that a container may wait for a hopeless reason: later events often give a better one."""


async def deploy(api: Api, deployment: Deployment, progress: Progress) -> dict[str, str]:
    """Makes or replaces all objects. Returns the names of the pods by their nodes, once each node has a Ready one.

    Raises HarnessError if a pod cannot start, or if the cluster rejects an object. Makes nothing and raises it if an
    object of others has the name of one of ours.
    """
    try:
        async with _shown(progress, f"Deploying the fake driver ({deployment.image})"):
            namespace = deployment.namespace
            if not await poll(lambda: _is_free(api, namespace), _INTERVAL, START_LIMIT):
                raise HarnessError(
                    f"the namespace {namespace} of an earlier deployment is not deleted after {START_LIMIT:g} s",
                    f"see why: kubectl get namespace {namespace} -o yaml",
                )
            objects = deployment.manifests()
            await _refuse_to_take_over(api, objects)
            for kind, obj in objects:
                await _apply(api, kind, obj)
        return await _until_ready(api, namespace, progress)
    except ApiError as error:
        raise HarnessError(
            f"cannot deploy the fake driver: {error}", "the user of the kubeconfig must be an administrator"
        ) from error


async def remove(api: Api, progress: Progress = silent, namespace: str = NAMESPACE) -> None:
    """Removes all our objects and returns when they are gone; harmless without any. Raises HarnessError.

    It never removes objects of others. It does not wait for the empty namespace: a controller takes at least 5 s.
    """
    try:
        async with _shown(progress, "Removing the fake driver"):
            for kind, obj in reversed(Deployment(namespace=namespace).manifests()):
                found = await find(api, kind, *_named(obj))
                if found is not None and _is_ours(found):
                    await delete(api, kind, *_named(obj))
            if not await poll(lambda: _is_empty(api, namespace), _INTERVAL, START_LIMIT):
                raise HarnessError(
                    f"the namespace {namespace} has pods after {START_LIMIT:g} s",
                    f"see why: kubectl get pods -n {namespace} -o yaml",
                )
    except ApiError as error:
        raise HarnessError(
            f"cannot remove the fake driver: {error}", f"delete the namespace {namespace} yourself"
        ) from error


async def why_gone(api: Api, pod: str, namespace: str = NAMESPACE) -> str:
    """Why the pod of a driver no longer runs, as a sentence; empty if it runs. Raises ApiError."""
    try:
        return gone(await api.get(PODS, pod, namespace), pod)
    except ApiError as error:
        if error.status != 404:
            raise
        return gone(None, pod)


@asynccontextmanager
async def _shown(progress: Progress, stage: str) -> AsyncIterator[None]:
    """Shows a stage, and then its seconds while it lasts."""

    async def beat() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_BEAT)
            progress(f"{stage} ({time.monotonic() - began:.0f} s)")

    progress(stage)
    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


async def _refuse_to_take_over(api: Api, objects: Iterable[tuple[Kind, Object]]) -> None:
    for kind, obj in objects:
        name = obj["metadata"]["name"]
        found = await find(api, kind, *_named(obj))
        if found is not None and not _is_ours(found):
            delete = f"kubectl delete {kind.kind.lower()} {name}"
            within = f" -n {obj['metadata']['namespace']}" if "namespace" in obj["metadata"] else ""
            label = "=".join(*PART_OF.items())
            raise HarnessError(
                f"the cluster has another {kind.kind} {name}, without the label {label}",
                f"use another cluster, or remove it: {delete}{within}",
            )


def _is_ours(obj: Object) -> bool:
    return PART_OF.items() <= (obj["metadata"].get("labels") or {}).items()


async def _is_free(api: Api, namespace: str) -> bool:
    """False while an earlier namespace of ours is deleted, which accepts no new objects."""
    found = await find(api, NAMESPACES, namespace)
    return found is None or not _is_ours(found) or "deletionTimestamp" not in found["metadata"]


async def _is_empty(api: Api, namespace: str) -> bool:
    """Whether no pod of the driver is left."""
    found = await find(api, NAMESPACES, namespace)
    return found is None or not _is_ours(found) or not await _pods(api, namespace)


async def _apply(api: Api, kind: Kind, obj: Object) -> None:
    try:
        await api.create(kind, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        old = await api.get(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"))
        version = old["metadata"]["resourceVersion"]
        await api.replace(kind, {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})


async def _until_ready(api: Api, namespace: str, progress: Progress) -> dict[str, str]:
    """The names of the pods by their nodes. Raises HarnessError if they do not get Ready."""
    began = time.monotonic()
    hopeless_since: float | None = None
    pods: list[Object] = []

    async def is_ready() -> bool:
        nonlocal hopeless_since, pods
        daemon_set = await api.get(DAEMON_SETS, NAME, namespace)
        pods = await _pods(api, namespace)
        now = time.monotonic()
        if is_rolled_out(daemon_set):
            return True
        why = hopeless(pods)
        hopeless_since = (hopeless_since or now) if why else None
        if hopeless_since is not None and now - hopeless_since > _PATIENCE:
            raise HarnessError(
                f"the fake driver does not start: {why}", "check that the nodes of the cluster have its image"
            )
        if now - began > START_LIMIT:
            why = missing(daemon_set, pods, await api.list(EVENTS, namespace))
            raise HarnessError(
                f"the pods of the fake driver are not Ready after {START_LIMIT:g} s: {why}",
                f"see kubectl describe pods -n {namespace}",
            )
        progress(f"Waiting for the fake driver's pods ({now - began:.0f} s)")
        return False

    await poll(is_ready, _INTERVAL)
    return by_node(pods)


async def _pods(api: Api, namespace: str) -> list[Object]:
    found = await api.list(PODS, namespace)
    return [pod for pod in found if SELECTOR.items() <= pod["metadata"].get("labels", {}).items()]


def _named(obj: Object) -> tuple[str, str | None]:
    return obj["metadata"]["name"], obj["metadata"].get("namespace")


async def delete(api: Api, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
    """Deletes the object; harmless if there is none. Raises ApiError."""
    try:
        await api.delete(kind, name, namespace, grace)
    except ApiError as error:
        if error.status != 404:
            raise


async def find(api: Api, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
    """The object; None if there is none. Raises ApiError."""
    try:
        return await api.get(kind, name, namespace)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


# The connection to fake drivers in pods: one long exec stream to the pod of a node.

PATIENCE = 90.0
"""Seconds that a stream may be interrupted: it passes the API server and the kubelet, and either may restart."""
_HANDSHAKE = 10.0
_COMMAND = ("python", "-m", "drahealth.fakes.control.connect", CONTROL_SOCKET)

Gone = Callable[[], Awaitable[str]]
"""Returns why the pod is gone; empty if it runs."""


def connect_to(client: KubeClient, namespace: str, pod: str, gone: Gone) -> Connect:
    """Connects to the process of the drivers in the pod. Raises OSError for an error that is worth another try."""

    async def connect() -> tuple[asyncio.StreamReader, Writer]:
        try:
            async with asyncio.timeout(_HANDSHAKE):
                stream = await ExecStream.open(client.connection, namespace, pod, _COMMAND, limit=LINE_LIMIT)
        except ApiError as error:
            if reason := await _reason(gone):
                raise RuntimeError(reason) from error
            raise ConnectionError(str(error)) from error
        return stream.reader, stream

    return connect


async def _reason(gone: Gone) -> str:
    try:
        return await gone()
    except ApiError:
        return ""  # the API server is stopped as well


def host_in(client: KubeClient, namespace: str, pod: str, gone: Gone) -> RemoteHost:
    """The remote host that makes drivers in that pod."""
    return RemoteHost(connect_to(client, namespace, pod, gone), patience=PATIENCE)
