"""A driver in a Pod of a cluster, as a process."""

import asyncio
import hashlib
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.mirror import Mirror, when_ready
from drahealth.fakes.waiting import Changes, cancel_and_wait, poll
from drahealth.proto.clock import Clock
from drahealth.suites.driver_checks.output_text import output_text
from drahealth.suites.driver_checks.profile.model import ClusterSection
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes.child import OUTPUT_LINES, KeptOutput
from drahealth.suites.targets.run_directory import is_unlocked

# The object with a driver's Pod, as drahealth creates it in a cluster: on one node, and with labels. Pure.

RUN_LABEL = "drahealth/run"
"""Label of all objects that drahealth creates in a cluster of others. Its value names the run."""
PROCESS_LABEL = "drahealth/process"
"""Label of the Pods of a driver. Its value is the label of the driver process."""
USUAL_GRACE = 30
"""Seconds from SIGTERM to SIGKILL of a Pod that does not say it. Source: Kubernetes API, PodSpec."""
_ONE = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True)
class InCluster:
    """A driver that drahealth starts as a Pod in a cluster, on a node whose directories it can reach."""

    workload: Mapping[str, Any]
    """The Pod, or the DaemonSet, Deployment, StatefulSet or Job that makes it. Texts may have placeholders."""
    cluster: ClusterSection
    """The cluster and the node."""
    container: str = ""
    """The container of the driver in the Pod; empty for the first one."""
    digest: str = ""
    """The SHA-256 digest of the image that the driver profile declares; empty without one."""

    @property
    def name(self) -> str:
        """Kind, namespace and name of the workload."""
        metadata = self.workload["metadata"]
        return f"{self.workload['kind']} {namespace_of(self.workload)}/{metadata.get('name')}"

    @property
    def grace(self) -> int:
        """Seconds from SIGTERM to SIGKILL of the Pod."""
        found = pod_spec(self.workload).get("terminationGracePeriodSeconds")
        return USUAL_GRACE if found is None else int(found)

    def places(self, driver_name: str) -> Places:
        """The directories of the node, as they are on this machine and as the driver sees them."""
        root = self.cluster.root
        kubelet = root / self.cluster.kubelet_dir.lstrip("/")
        # /var/run is a link to /run, which a path through /proc would follow on this machine.
        return Places(
            *(kubelet, kubelet / "plugins_registry", kubelet / "plugins", root / "run/cdi", None),
            self.cluster.node,
            driver_name,
            more_cdi_dirs=(root / "etc/cdi",),
            seen=((Path("/var/run"), root / "run"), (Path("/"), root)),
        )


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The namespace of a workload."""
    return str(obj["metadata"].get("namespace") or "default")


def pod_spec(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of the Pod in a workload; empty without one."""
    spec = workload.get("spec") or {}
    found: Mapping[str, Any] = (spec if workload["kind"] == "Pod" else (spec.get("template") or {}).get("spec")) or {}
    return found


def pinned(workload: Mapping[str, Any], node: str, labels: Mapping[str, str]) -> Object:
    """The workload with one Pod, on this node, and with these labels on itself and on its Pod."""
    found: Object = deepcopy(dict(workload))
    found["metadata"]["namespace"] = namespace_of(found)
    _add_labels(found, labels)
    if found["kind"] == "Pod":
        pod = found
    else:
        pod = found["spec"]["template"]
        _add_labels(pod, labels)
    if found["kind"] in _ONE:
        found["spec"]["replicas"] = 1
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**one, "matchFields": [*one.get("matchFields", ()), only]} for one in terms]
    return found


def _add_labels(obj: Object, labels: Mapping[str, str]) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def why_not_ready(pod: Object | None) -> str:
    """What the status of a Pod says about its delay."""
    if pod is None:
        return "there is no Pod"
    status = pod.get("status") or {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, last = one.get("state") or {}, (one.get("lastState") or {}).get("terminated") or {}
        for found in (state.get("waiting"), state.get("terminated")):
            if found and found.get("reason") not in ("PodInitializing", "Completed", "ContainerCreating"):
                end = f"; it exited with code {last['exitCode']}" if "exitCode" in last else ""
                message = ": ".join(filter(None, (found.get("reason"), found.get("message"))))
                said = f": {last['message'].strip()}" if last.get("message") else ""
                return f"container {one['name']}: {message}{end}{said}"
    for one in status.get("conditions") or ():
        if one.get("status") == "False" and one.get("message"):
            return f"{one.get('reason') or one.get('type')}: {one['message']}"
    return f"its phase is {status.get('phase', 'unknown')}"


def is_hopeless(pod: Object) -> bool:
    """Whether a container cannot start, whatever time passes."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    reasons = {((one.get("state") or {}).get("waiting") or {}).get("reason") for one in statuses}
    return bool(reasons & {"CrashLoopBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"})


def is_ready(pod: Object) -> bool:
    """Whether its condition Ready is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Ready", "True") for one in conditions)


# Objects of killed runs in a cluster of others: each object that drahealth creates there has a label with its run.
#
# The run directory of a run is locked as long as the run lives. The next run on this machine removes the objects of
# runs without such a directory.

GONE_LIMIT = 120.0
"""Seconds until a deleted object must be gone: a Pod has its grace, and a Namespace its objects."""
_INTERVAL = 0.2
_NOT_FOUND = 404
_ALWAYS = (CLAIMS, PODS, DEVICE_CLASSES, NODES, NAMESPACES)
"""Kinds that runs create, besides those of the user's objects. Namespaces come last."""


class LabelledClient(KubeClient):
    """Creates all objects with the label of a run."""

    run = ""
    """Value of the label."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object, with the label."""
        metadata = obj.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), RUN_LABEL: self.run}
        return await super().create(kind, {**obj, "metadata": {**metadata, "labels": labels}})


def run_name(folder: Path) -> str:
    """The value of the label for a run with this run directory: this machine, and the name of the directory."""
    return f"{_machine(folder.parent)}.{folder.name}"


def _machine(base: Path) -> str:
    """A digest of this machine and of the place of its run directories."""
    found = base.stat()
    return hashlib.sha256(f"{gethostname()} {base} {found.st_dev} {found.st_ino}".encode()).hexdigest()[:12]


def is_left(label: str, base: Path) -> bool:
    """Whether an object with this label is of a run on this machine that has ended."""
    machine, _, name = label.partition(".")
    if machine != _machine(base) or not name or "/" in name:
        return False
    try:
        return is_unlocked(base / name)
    except FileNotFoundError:
        return True
    except OSError:
        return False


async def until_gone(api: KubeClient, kind: Kind, obj: Object) -> None:
    """Waits until a deleted object is gone. Raises HarnessError at the limit."""
    metadata = obj["metadata"]

    async def gone() -> bool:
        try:
            found = await api.get(kind, metadata["name"], metadata.get("namespace"))
        except ApiError as error:
            return error.status == _NOT_FOUND
        return bool(found["metadata"].get("uid") != metadata.get("uid"))

    if not await poll(gone, _INTERVAL, GONE_LIMIT):
        what = f"{kind.kind} {metadata['name']} is not deleted after {GONE_LIMIT:g} s"
        raise HarnessError(what, "look at its status and its finalizers")


async def remove_labelled(api: KubeClient, kinds: Iterable[Kind], wanted: Callable[[str], bool]) -> list[str]:
    """Deletes the objects with a wanted label, and the ResourceSlices of their Nodes. Returns kinds and names.

    `kinds` are those of the user's objects. Objects that cannot be listed or deleted stay. Raises HarnessError if one
    is not gone in time.
    """
    found: list[tuple[Kind, Object]] = []
    labelled = api.selecting(labels=RUN_LABEL)
    for kind in dict.fromkeys((*kinds, *_ALWAYS)):
        with suppress(ApiError):
            objects = await labelled.list(kind)
            found += ((kind, one) for one in objects if wanted(one["metadata"]["labels"].get(RUN_LABEL, "")))
    nodes = {one["metadata"]["name"] for kind, one in found if kind == NODES}
    if nodes:
        with suppress(ApiError):
            found[:0] = [(SLICES, one) for one in await api.list(SLICES) if one["spec"].get("nodeName") in nodes]
    for kind, one in found:
        with suppress(ApiError):
            await api.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace"))
    for kind, one in found:
        await until_gone(api, kind, one)
    return [f"{kind.kind} {one['metadata']['name']}" for kind, one in found]


# A driver in a Pod of a cluster, as a process: it is created with its workload, and ends when that is deleted.

KILLED = 128 + signal.SIGKILL
"""Exit code of a container that the kubelet or the kernel killed."""
_END_LIMIT = 60.0
"""Seconds beyond its grace until a deleted Pod must be gone."""
_RETRY = 0.5


class DriverPod:
    """One workload with a Pod, from `start` to `close`."""

    pid = 0
    """The process is not one of this machine."""

    def __init__(self, api: KubeClient, declared: InCluster, kind: Kind, workload: Object, clock: Clock) -> None:
        self._api = api
        self._declared = declared
        self._kind = kind
        self._workload = workload
        self._clock = clock
        self._changes = Changes()
        labels = workload["metadata"]["labels"]
        selector = ",".join(f"{name}={labels[name]}" for name in (RUN_LABEL, PROCESS_LABEL))
        self._pods = Mirror(api.selecting(labels=selector), [PODS], self._changed, again=when_ready(api))
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._restarts: dict[str, int] | None = None
        """The restarts of each container until the Pod was Ready; None before."""
        self._kept = KeptOutput()
        self.output_bytes = 0
        """The size of its log so far."""
        self._closing: asyncio.Task[int] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls, api: KubeClient, declared: InCluster, workload: Mapping[str, Any], labels: Mapping[str, str], clock: Clock
    ) -> "DriverPod":
        """Creates a workload with one Pod on the node, and waits until the Pod is Ready.

        Raises ConfigurationError if the API server rejects it, or if the Pod does not become Ready.
        """
        made = pinned(workload, declared.cluster.node, labels)
        try:
            kind = await api.kind_of(made)
            made = await api.create(kind, made)
        except ApiError as error:
            hint = "correct the manifest"
            if error.reason == "AlreadyExists":
                hint = "delete it: drahealth ends only what it created"
            raise ConfigurationError(f"the API server rejects {declared.name}: {error}", hint) from None
        found = cls(api, declared, kind, made, clock)
        try:
            found._begin(found._pods.run())
            await found._become_ready()
        except BaseException:
            await found.close()
            raise
        return found

    @property
    def running(self) -> bool:
        """Whether its container has not ended."""
        return not self._exit.done()

    async def signal(self, number: signal.Signals) -> None:
        """SIGTERM deletes the workload; returns when its Pod is being deleted. SIGKILL ends the grace of the Pod."""
        if number is signal.SIGTERM:
            await self._delete_workload()
            await self._within(_END_LIMIT, lambda: all(map(_is_ending, self._pods.objects(PODS))))
            return
        for one in self._pods.objects(PODS):
            with suppress(ApiError):  # it is gone
                await self._api.delete(PODS, one["metadata"]["name"], one["metadata"]["namespace"], grace=1)

    async def exited(self) -> tuple[int, int]:
        """Waits for the end of its container, or of the Pod. Returns the exit code, and no number of children."""
        return await asyncio.shield(self._exit), 0

    def output(self) -> tuple[str, ...]:
        """The first and the last lines of its log."""
        return self._kept.texts()

    async def close(self) -> int:
        """Deletes the workload, and waits until its Pods are gone. Returns no number of children.

        Raises HarnessError if they are not gone in time.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> int:
        try:
            await self._delete_workload()
            if not await self._within(self._declared.grace + _END_LIMIT, self._is_gone):
                names = ", ".join(one["metadata"]["name"] for one in self._pods.objects(PODS))
                what = f"Pod {names} of {self._declared.name} is not deleted"
                raise HarnessError(what, "look at its status; drahealth can remove it in the next run")
            await until_gone(self._api, self._kind, self._workload)
        finally:
            await cancel_and_wait(*self._tasks)
            self._tasks.clear()
            if not self._exit.done():
                self._exit.set_result(-signal.SIGKILL)
        return 0

    async def _become_ready(self) -> None:
        def is_decided() -> bool:
            return self._pods.whole.is_set() and any(is_ready(one) or is_hopeless(one) for one in self._listed())

        await self._within(self._declared.cluster.limit, is_decided)
        pod = next(iter(self._listed()), None)
        if pod is None or not is_ready(pod):
            where = f"no Pod of {self._declared.name} is Ready on node {self._declared.cluster.node}"
            hint = "correct the manifest, load the image into the cluster, or raise limit of [driver] cluster"
            said = await self._last_lines(pod) if pod else ()
            raise ConfigurationError(f"{where}: {why_not_ready(pod)}{output_text(said)}", hint)
        if other := other_image(pod, self._declared):
            raise ConfigurationError(
                f"the driver runs the image {other}, but `artifact` of [driver] has the digest {self._declared.digest}",
                "correct `artifact`, or write the image into the manifest with the digest of `artifact`",
            )
        self._restarts = {one["name"]: one.get("restartCount", 0) for one in _statuses(pod)}
        self._begin(self._read_log(pod["metadata"]["name"]))

    def _listed(self) -> list[Object]:
        return [one for one in self._pods.objects(PODS) if not _is_ending(one)]

    def _is_gone(self) -> bool:
        return self._pods.whole.is_set() and not self._pods.objects(PODS)

    async def _within(self, limit: float, condition: Callable[[], bool]) -> bool:
        return await self._changes.until_within(condition, limit, self._clock)

    async def _delete_workload(self) -> None:
        """Deletes it; its controller deletes the Pods. Without an effect if it is gone. Raises HarnessError."""
        metadata = self._workload["metadata"]
        path = self._kind.path(metadata["namespace"], metadata["name"])
        try:
            await self._api.connection.call("DELETE", path, body={"propagationPolicy": "Foreground"})
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise HarnessError(f"cannot delete {self._declared.name}: {error}", "delete it") from None

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod
        if self._restarts is not None and not self._exit.done():
            code = self._exit_code(pod)
            if code is None and new is None:
                code = -signal.SIGKILL
            if code is not None:
                self._exit.set_result(code)
        self._changes.notify()

    def _exit_code(self, pod: Object) -> int | None:
        """The exit code of a container that has ended since the Pod was Ready; None without one."""
        assert self._restarts is not None
        for one in _statuses(pod):
            states = [(one.get("state") or {}).get("terminated")]
            if one.get("restartCount", 0) > self._restarts.get(one["name"], 0):
                states.append((one.get("lastState") or {}).get("terminated"))
            if ended := next(filter(None, states), None):
                return int(ended.get("exitCode", 0))
        return None

    async def _last_lines(self, pod: Object) -> tuple[str, ...]:
        """The output of a Pod that is not Ready; empty if its container did not start."""
        await self._add_lines(pod["metadata"]["name"], {"tailLines": str(OUTPUT_LINES)})
        return self.output()

    async def _read_log(self, name: str) -> None:
        """Reads the log until its end."""
        await self._add_lines(name, {"follow": "true"})

    async def _add_lines(self, name: str, query: Mapping[str, str]) -> None:
        container = {"container": self._declared.container} if self._declared.container else {}
        path = f"{PODS.path(namespace_of(self._workload), name)}/log"
        with suppress(ApiError):  # there is no log, or the user cannot read it
            async with aclosing(self._api.connection.text_lines(path, {**query, **container})) as lines:
                async for line in lines:
                    self.output_bytes += len(line)
                    self._kept.add([line.rstrip(b"\n")])


def _is_ending(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def other_image(pod: Object, declared: InCluster) -> str:
    """The image that the driver's container runs, if it has another digest than the declared one; otherwise "".

    An image for several platforms has a digest of its index, and one for each platform. Container engines differ in
    the one that they show. So a manifest that asks for the declared digest is enough: the engine compares it.
    """
    container = declared.container or pod["spec"]["containers"][0]["name"]
    asked = next(str(one.get("image", "")) for one in pod["spec"]["containers"] if one["name"] == container)
    image = next((str(one.get("imageID", "")) for one in _statuses(pod) if one["name"] == container), "")
    _, has_digest, digest = image.rpartition("@sha256:")  # without a repository, it is the digest of the configuration
    is_declared = declared.digest in ("", digest) or asked.endswith(f"@sha256:{declared.digest}")
    return image if has_digest and not is_declared else ""


def _statuses(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())
