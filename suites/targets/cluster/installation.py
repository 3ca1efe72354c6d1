"""What a run makes in a cluster of others, and removes at its end. One run at a time uses a cluster."""

import asyncio
import os
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SLICES,
    Api,
    ApiError,
    Object,
)
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.waiting import poll
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import run
from drahealth.suites.targets.cluster.facts import Facts, connected
from drahealth.suites.targets.cluster.options import ClusterOptions
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.permissions import Permission, missing_permissions
from drahealth.suites.targets.pods.deployment import (
    KINDS,
    SECRETS,
    SELECTOR,
    Deployment,
    deploy,
    find,
    remove,
)
from drahealth.suites.targets.pods.driver_image import ensure_image
from drahealth.suites.targets.pods.target import PreparedNodes, labelled, tidy
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.target import BELONGS, PART_OF

# Permissions.

_ALL = ("create", "get", "update", "delete")
_PERMISSIONS = (
    Permission(NAMESPACES, ("create", "get", "list", "update", "delete")),
    Permission(LEASES, _ALL),
    *(Permission(kind, _ALL) for kind in KINDS),
    Permission(NODES, ("get", "list")),
    Permission(NODES, ("get",), "proxy", optional=True),
    Permission(PODS, ("create", "get", "list", "watch", "delete")),
    Permission(PODS, ("create", "get"), "exec"),
    Permission(PODS, ("update", "patch"), "status"),
    Permission(PODS, ("update",), "resize"),
    Permission(PODS, ("update",), "ephemeralcontainers"),
    Permission(CLAIMS, ("create", "get", "list", "watch")),
    Permission(CLAIMS, ("update",), "status"),
    Permission(CLAIM_TEMPLATES, ("create",)),
    Permission(DEVICE_CLASSES, ("create", "get", "list", "update", "delete")),
    Permission(SLICES, ("create", "get", "list", "watch", "update", "delete")),
    Permission(REPLICA_SETS, ("create", "list", "delete")),
    Permission(EVENTS, ("list", "watch")),
)


def permissions(options: ClusterOptions) -> Iterator[Permission]:
    """The rights that a run uses, in all namespaces. A ClusterRole of the fake driver needs those that it has."""
    yield from _PERMISSIONS
    if options.pull_config:
        yield Permission(SECRETS, _ALL)


async def require_permissions(client: KubeClient, options: ClusterOptions) -> None:
    """Raises HarnessError, which names those that are missing."""
    found = await missing_permissions(client, permissions(options))
    missing = [f"{verb} {one.resource}" for one, verb in found if not one.optional]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise HarnessError(
            f"missing permissions in the cluster: {', '.join(missing[:5])}{more}", "--plan lists all of them"
        )


# The Lease of a run.

LEASE = "drahealth-run"
RENEWED = 10.0
"""Seconds between two renewals."""
EXPIRES = 60.0
"""Seconds after which a Lease that is not renewed is of a run that was killed."""
RUN = "drahealth/run"
"""The label of what the scenarios of a run make; the value is the namespace of its fake driver."""


def labels_of(namespace: str) -> dict[str, str]:
    """The labels of what the scenarios of a run make."""
    return {**BELONGS, RUN: namespace}


def holder() -> str:
    """This process: host, number, start, and where its number counts: this boot and this PID namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    space = Path("/proc/self/ns/pid").stat().st_ino
    return f"{socket.gethostname()}/{os.getpid()}/{_start_of(os.getpid())}/{boot}-{space}"


def _start_of(pid: int) -> str:
    """When a process started, in ticks since the boot (proc_pid_stat(5), field 22). Raises OSError if there is none."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]


def is_live(lease: Object, now: float) -> bool:
    """Whether the run with this Lease still exists. `now` is Unix time."""
    spec = lease.get("spec") or {}
    mine, theirs = holder().split("/"), str(spec.get("holderIdentity") or "").split("/")
    if len(theirs) == len(mine) and theirs[-1] == mine[-1]:
        with suppress(OSError, ValueError):
            return _start_of(int(theirs[1])) == theirs[2]
        return False
    renewed = datetime.fromisoformat(spec.get("renewTime") or "1970-01-01T00:00:00+00:00").timestamp()
    return now - renewed < EXPIRES


def _now() -> str:
    """As a Lease has it: RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _lease(namespace: str) -> Object:
    now = _now()
    spec = {"holderIdentity": holder(), "leaseDurationSeconds": int(EXPIRES), "acquireTime": now, "renewTime": now}
    return {"metadata": {"name": LEASE, "namespace": namespace, "labels": PART_OF}, "spec": spec}


class _Renewal:
    """Renews the Lease in a thread: the loop of a distributed run stands still between its beginning and its end."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._renew()), name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def end(self) -> None:
        self._ended.set()
        await asyncio.to_thread(self._thread.join)

    async def _renew(self) -> None:
        mine = holder()
        async with connected(self._options) as client:
            while not await asyncio.to_thread(self._ended.wait, RENEWED):
                with suppress(ApiError):  # the next one can succeed
                    lease = await client.get(LEASES, LEASE, self._options.namespace)
                    if lease["spec"].get("holderIdentity") != mine:
                        return  # this machine slept, and another run took the cluster
                    lease["spec"]["renewTime"] = _now()
                    await client.replace(LEASES, lease)


# What runs leave.

GONE_LIMIT = 120.0
"""Seconds for the namespaces to be deleted."""
_BEGINS = 15.0
"""Seconds after the creation of its namespace in which a run must have made its Lease."""
_ATTEMPTS = 4
_PAUSE = 2.0
"""Seconds between two attempts to remove everything."""


async def remove_left(api: Api, progress: Progress) -> list[str]:
    """Removes what runs that were killed have left. Returns the names of its namespaces.

    Raises HarnessError if a run uses the cluster. Raises ApiError.
    """
    drivers = await labelled(api, NAMESPACES, SELECTOR)
    young = await _young(api)
    for namespace in drivers:
        lease = await find(api, LEASES, LEASE, namespace)
        if lease is None and namespace in young:
            raise HarnessError("another run has just begun to use the cluster", "wait for its end, or try again")
        if lease is not None and is_live(lease, time.time()):
            host, process = (*str(lease["spec"].get("holderIdentity")).split("/"), "?")[:2]
            raise HarnessError(
                f"another run uses the cluster: process {process} on {host}",
                f"wait for its end; a run that was killed on another machine is noticed after {EXPIRES:g} s",
            )
    names = [*drivers, *await labelled(api, NAMESPACES, BELONGS)]
    await _remove(api, progress, list(drivers), BELONGS)
    return names


async def _young(api: Api) -> set[str]:
    """The namespaces in which a run can still be about to make its Lease."""
    now = time.time()
    made = {one["metadata"]["name"]: one["metadata"].get("creationTimestamp") for one in await api.list(NAMESPACES)}
    return {name for name, at in made.items() if at and now - datetime.fromisoformat(at).timestamp() < _BEGINS}


async def _remove(api: Api, progress: Progress, drivers: Sequence[str], labels: Mapping[str, str]) -> None:
    """Removes the fake drivers of these namespaces, and what scenarios made with these labels. Waits for the end.

    Tries again after an error of the API server. Raises ApiError, HarnessError.
    """
    namespaces = await labelled(api, NAMESPACES, labels)
    namespaces |= {name: uid for name, uid in (await labelled(api, NAMESPACES, SELECTOR)).items() if name in drivers}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await _remove_once(api, progress, drivers, labels)
            break
        except ApiError:
            if attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE)

    async def left() -> list[str]:
        there = {one["metadata"]["uid"] for one in await api.list(NAMESPACES)}
        return [name for name, uid in namespaces.items() if uid in there]

    async def are_gone() -> bool:
        return not await left()

    if not await poll(are_gone, 0.5, GONE_LIMIT):
        names = ", ".join(await left())
        raise HarnessError(f"not deleted after {GONE_LIMIT:g} s: the namespaces {names}", "see kubectl get namespaces")


async def _remove_once(api: Api, progress: Progress, drivers: Sequence[str], labels: Mapping[str, str]) -> None:
    classes = await labelled(api, DEVICE_CLASSES, labels)
    await tidy(api, labels)
    for namespace in drivers:
        await remove(api, progress, namespace)
    for one in await api.list(SLICES):  # a kubelet removes those of a killed driver after 30 s
        if one["spec"]["driver"] in classes:
            with suppress(ApiError):
                await api.delete(SLICES, one["metadata"]["name"])


# The installation.


class ClusterMaker:
    """The fake driver and all else that a run needs in the cluster."""

    def __init__(self, options: ClusterOptions, facts: Facts, progress: Progress) -> None:
        self._options = options
        self._facts = facts
        self._progress = progress
        self._is_ours = False
        self._ends = AsyncExitStack()

    async def up(self) -> PreparedNodes:
        """The nodes, ready. Raises HarnessError after it has removed everything."""
        try:
            return await self._up()
        except ApiError as error:
            await self.down()
            raise self._failed(error) from error
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """Removes everything."""
        try:
            await self._ends.aclose()
        except ApiError as error:
            raise self._failed(error) from error

    def _failed(self, error: ApiError) -> HarnessError:
        return HarnessError(
            f"{self._facts.server} answered: {one_line(str(error), 300)}",
            "`drahealth clean --target cluster` removes what may be left",
        )

    async def _up(self) -> PreparedNodes:
        o = self._options
        client = await self._ends.enter_async_context(connected(o))
        await require_permissions(client, o)
        image = await self._image()
        await remove_left(client, self._progress)
        await self._hold(client)
        config = o.docker_config(image)
        nodes = sorted(self._facts.kubelets)
        pods = await deploy(client, Deployment(image, o.namespace, o.kubelet_dir, nodes, config), self._progress)
        run = RunDirectory.create()
        self._ends.callback(run.remove)
        return PreparedNodes(
            folder=str(run.path),
            kubeconfig=str(o.path),
            context=o.context,
            namespace=o.namespace,
            pods={node: pod for node, pod in pods.items() if node in self._facts.kubelets},
            image=image,
            sync_frequency=self._facts.sync_frequency,
        )

    async def _hold(self, client: KubeClient) -> None:
        """Makes the namespace with the Lease."""
        name = self._options.namespace
        self._is_ours = True  # also if this process is stopped before the answer
        self._ends.push_async_callback(self._leave, client)
        try:
            await client.create(NAMESPACES, {"metadata": {"name": name, "labels": SELECTOR}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self._is_ours = False
            labels = (await client.get(NAMESPACES, name))["metadata"].get("labels") or {}
            if SELECTOR.items() <= labels.items():
                raise HarnessError("another run has just begun to use the cluster", "wait for its end") from None
            raise HarnessError(
                f"the cluster has another namespace {name}", "choose another one with --namespace"
            ) from None
        await client.create(LEASES, _lease(name))
        renewal = _Renewal(self._options)
        renewal.start()
        self._ends.push_async_callback(renewal.end)

    async def _leave(self, client: KubeClient) -> None:
        """Removes what this run made, unless another run took the cluster while this machine slept."""
        name = self._options.namespace
        lease = await find(client, LEASES, LEASE, name) if self._is_ours else None
        if lease is not None and lease["spec"].get("holderIdentity") != holder():
            self._progress("Another run has taken the cluster, and removed what this one made")
        elif self._is_ours:
            await _remove(client, self._progress, [name], labels_of(name))

    async def _image(self) -> str:
        """The name of the image in the cluster, which is built, pushed or loaded if that was asked for."""
        o = self._options
        if o.driver_image:
            return o.driver_image
        engine = await find_engine()
        built = await ensure_image(engine, named=None, base=o.driver_base, progress=self._progress)
        if o.push_to:
            return await self._push(engine, built, f"{o.push_to.rstrip('/')}/{built.rpartition('/')[2]}")
        assert o.load_command
        self._progress(f"Loading {built}")
        await _shell(f"{o.load_command} {shlex.quote(built)}", "--load-command", self._progress)
        return built

    async def _push(self, engine: Engine, built: str, name: str) -> str:
        self._progress(f"Pushing {name}")
        await engine.run("tag", built, name)
        try:
            await engine.run("push", name, limit=_COMMAND_LIMIT, on_line=lambda line: self._progress(f"Pushing {name}"))
        except HarnessError as error:
            raise HarnessError(f"cannot push {name}: {error.message}", "check --push-to, and log in first") from error
        return name


_COMMAND_LIMIT = 600.0


async def _shell(command: str, option: str, progress: Progress, **environment: str) -> None:
    """Runs a command of the user. Raises HarnessError."""
    try:
        done = await run(["sh", "-c", command], limit=_COMMAND_LIMIT, environment=environment)
    except TimeoutError:
        raise HarnessError(f"the command of {option} did not end within {_COMMAND_LIMIT:g} s", command) from None
    if done.code:
        said = one_line(done.stderr.strip() or done.stdout.strip() or "it printed nothing", 300)
        raise HarnessError(f"the command of {option} failed with exit code {done.code}: {said}", command)


async def restart_kubelet(client: KubeClient, options: ClusterOptions, node: str, limit: float) -> None:
    """Runs the command of the user, and returns when the kubelet has reported again. Raises HarnessError."""
    before = await _reported(client, node)
    assert options.restart_command
    await _shell(options.restart_command, "--restart-kubelet-command", lambda *_: None, NODE=node)

    async def is_back() -> bool:
        with suppress(ApiError):
            now = await _reported(client, node)
            return all(new > old for new, old in zip(now, before, strict=True))
        return False

    if not await poll(is_back, 0.1, limit):
        raise HarnessError(
            f"the kubelet of {node} did not report within {limit:g} s after --restart-kubelet-command",
            "check that the command restarts it",
        )


async def _reported(client: KubeClient, node: str) -> tuple[str, str]:
    """When the kubelet last wrote its Node and its Lease, as RFC 3339; empty while the Node is not Ready."""
    found, lease = await client.get(NODES, node), await client.get(LEASES, node, "kube-node-lease")
    ready: Object = next((one for one in found["status"]["conditions"] if one["type"] == "Ready"), {})
    if ready.get("status") != "True":
        return "", ""
    return str(ready.get("lastHeartbeatTime", "")), str(lease["spec"].get("renewTime", ""))
