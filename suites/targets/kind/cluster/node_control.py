"""Commands to the nodes of a kind cluster: restart kubelets, set feature gates, stop and audit the API server.

Kubelets and the API server are killed, as in a crash. A graceful end of the API server would take up to a minute.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, Kind
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.proto.events import StatusWritten
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.audit import POLICY, status_write
from drahealth.suites.targets.engine.engine import Engine
from drahealth.suites.targets.kind.cluster import node_files, node_scripts
from drahealth.suites.targets.node_readiness import speaks_since, takes_pods
from drahealth.suites.targets.polling import poll

LIMIT = 90.0
"""Seconds for a component to be ready again; it takes 2 to 6."""

_INTERVAL = 0.05
_CALL = 5.0
"""Seconds for one request to a server that may be starting or stopping."""
_LEASES = Kind("Lease", "leases", "coordination.k8s.io/v1", namespaced=True)
_LEADERS = node_scripts.LEADERS
_API_SERVER = "/metrics"
_CONFIG_HASH = "kubernetes.io/config.hash"

Condition = Callable[[], Awaitable[bool]]


class KindNodes:
    """The nodes by the names of their containers, which are also those of the Node objects. One change at a time."""

    def __init__(self, engine: Engine, control_plane: str, nodes: Sequence[str], client: KubeClient) -> None:
        self._engine = engine
        self._control_plane = control_plane
        self._nodes = list(nodes)
        self._client = client

    async def restart_kubelet(self, node: str) -> None:
        """Kills the kubelet, starts it, and returns when the node is Ready. Raises HarnessError."""
        since = float(await self._sh(node, node_scripts.RESTART))
        await self._until_served(node, since)

    async def stop_kubelet(self, node: str) -> None:
        """Kills the kubelet and keeps it stopped until `start_kubelet`."""
        await self._sh(node, node_scripts.STOP)

    async def start_kubelet(self, node: str) -> None:
        """Starts a stopped kubelet and returns when the node is Ready. Raises HarnessError."""
        if since := await self._sh(node, node_scripts.START):
            await self._until_served(node, float(since))

    async def set_gates(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool] | None = None) -> None:
        """Adds these gates to those of the API server and of all kubelets, and restarts them.

        `kubelet` are the gates of the kubelets, if they differ from those of the API server. A component that has its
        gates is not restarted. Raises ConfigurationError for a gate that the API server does not know.
        """
        kubelet = gates if kubelet is None else kubelet
        with _told("The feature gates cannot be set"):
            if await self._all_have(gates, kubelet):
                return
            await self._stage(gates, kubelet)
            await self._change(node_scripts.APPLY, self._nodes)
        has = partial(self._has, gates, _API_SERVER)
        await self._until(has, "the API server to have its gates", self._control_plane, api=True)
        for node in self._nodes:
            await self._until(partial(self._has, kubelet, _kubelet(node)), f"the kubelet of {node} to have them", node)

    async def audit_status_writes(self) -> None:
        """Adds an audit log of the writes of Pod statuses to the API server, and restarts it unless it has that log.

        Raises HarnessError.
        """
        manifest = await self.read(self._control_plane, node_files.API_SERVER_MANIFEST)
        if node_files.is_audited(manifest):
            return
        with _told("The audit log of the API server cannot be set up"):
            text = node_files.audited_manifest(manifest, await self._static_pod_uid())
            await self.write(self._control_plane, node_files.AUDIT_POLICY, json.dumps(POLICY))
            await self.write(self._control_plane, node_scripts.STAGED_MANIFEST, text)
            await self._change(node_scripts.APPLY, [self._control_plane])

    async def status_writes(self, namespace: str) -> list[StatusWritten]:
        """The writes of Pod statuses in this namespace by kubelets, as far as the audit log has them."""
        entries = await self._sh(self._control_plane, node_scripts.AUDIT_LOG, namespace)
        found: list[StatusWritten] = []
        for line in entries.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the API server is writing it
                found += status_write(json.loads(line))
        return found

    async def stop_api_server(self) -> None:
        """Removes its manifest and kills it. Pauses the scheduler and the controllers until it starts."""
        await self._sh(self._control_plane, node_scripts.TAKE_API_SERVER)

    async def start_api_server(self) -> None:
        """Restores the manifest and returns when API server, scheduler and controllers run; nothing if it was not
        stopped."""
        if not await self._sh(self._control_plane, node_scripts.GIVE_API_SERVER):
            return
        await self._until(self._ready, "the API server to be ready", self._control_plane, api=True)
        with _told("The scheduler and the controllers cannot be restarted"):
            await self._restart_leaders()

    async def restore(self) -> None:
        """Undoes changes of gates and of the audit log, by any process: restores the original files of the nodes."""
        with _told("The changes on the nodes cannot be undone"):
            await self._change(node_scripts.RESTORE, self._nodes)

    async def read(self, node: str, path: str) -> str:
        """The content of a file."""
        return await self._engine.run("exec", node, "cat", path)

    async def write(self, node: str, path: str, text: str) -> None:
        """Writes a file that only root can read, and the folders above it."""
        await self._sh(node, node_scripts.WRITE, path, stdin=text.encode())

    async def log_tail(self, node: str, *, api: bool = False) -> str:
        """The last lines of the node's kubelet, or of its API server."""
        try:
            return await self._sh(node, node_scripts.API_SERVER_LOG if api else node_scripts.KUBELET_LOG)
        except HarnessError as error:
            return f"(no log: {error})"

    async def _stage(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool]) -> None:
        uid = await self._static_pod_uid()
        manifest = await self.read(self._control_plane, node_files.API_SERVER_MANIFEST)
        text = node_files.api_server_manifest(manifest, gates, uid)
        await self.write(self._control_plane, node_scripts.STAGED_MANIFEST, text)
        for node in self._nodes:
            config = await self.read(node, node_files.KUBELET_CONFIG)
            await self.write(node, node_scripts.STAGED_CONFIG, node_files.kubelet_config(config, kubelet))

    async def _static_pod_uid(self) -> str:
        """The uid of the API server's static pod in the kubelet; its mirror pod in the API has another one."""
        pod = await self._client.get(PODS, f"{node_files.API_SERVER}-{self._control_plane}", "kube-system")
        try:
            return str(pod["metadata"]["annotations"][_CONFIG_HASH])
        except KeyError:
            raise HarnessError(
                f"the API server of {self._control_plane} is not a static pod", "use a cluster that kind made"
            ) from None

    async def _change(self, script: str, nodes: Sequence[str]) -> None:
        """Runs it on these nodes, and waits until those with a restarted component are Ready."""
        done = await asyncio.gather(*(self._sh(node, script) for node in nodes))
        changed = {node: float(since) for node, since in zip(nodes, done, strict=True) if since}
        for node, since in changed.items():
            await self._until_served(node, since)
        if self._control_plane in changed:
            await self._restart_leaders()

    async def _restart_leaders(self) -> None:
        """Restarts the scheduler and the controllers: each failed watch doubled the time until their next attempt, up
        to a minute. Without the removal of their leases they would wait 15 s."""
        leases = await self._client.list(_LEASES, "kube-system")
        old = {x["metadata"]["name"]: x["metadata"]["uid"] for x in leases if x["metadata"]["name"] in _LEADERS}
        await self._sh(self._control_plane, node_scripts.END_LEADERS)
        for name in old:
            await self._client.delete(_LEASES, name, "kube-system")
        await self._until(
            partial(self._elected, old), "the scheduler and the controllers to go on", self._control_plane, api=True
        )

    async def _until_served(self, node: str, since: float) -> None:
        await self._until(self._ready, "the API server to be ready", self._control_plane, api=True)
        await self._until(partial(self._served, node, since), f"the kubelet of {node} to be back", node)

    async def _ready(self) -> bool:
        return await self._client.connection.text("/readyz") == "ok"

    async def _served(self, node: str, since: float) -> bool:
        found = await self._client.get(NODES, node)
        lease = await self._client.get(_LEASES, node, "kube-node-lease")
        return takes_pods(found) and speaks_since(found, lease, since)

    async def _elected(self, old: Mapping[str, str]) -> bool:
        """Whether all of these have renewed their leases."""
        leases = await self._client.list(_LEASES, "kube-system")
        now = {x["metadata"]["name"]: x["metadata"]["uid"] for x in leases}
        return all(now.get(name, uid) != uid for name, uid in old.items())

    async def _has(self, gates: Mapping[str, bool], path: str) -> bool:
        return gates.items() <= node_files.enabled(await self._client.connection.text(path)).items()

    async def _all_have(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool]) -> bool:
        known = node_files.enabled(await self._client.connection.text(_API_SERVER))
        if unknown := ", ".join(sorted(gates.keys() - known.keys())):
            raise ConfigurationError(f"unknown feature gate of the API server: {unknown}", "use a gate of its release")
        wanted = {_API_SERVER: gates, **dict.fromkeys(map(_kubelet, self._nodes), kubelet)}
        return all([await self._has(these, path) for path, these in wanted.items()])

    async def _until(self, condition: Condition, what: str, node: str, *, api: bool = False) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                await poll(partial(_holds, condition), _INTERVAL)
        except TimeoutError:
            failure = HarnessError(
                f"timed out after {LIMIT:g} s waiting for {what}",
                "see the log below; check whether the machine is busy",
            )
            if api:
                failure.add_note(f"The last lines of {node_files.API_SERVER}:\n{await self.log_tail(node, api=True)}")
            # The kubelet runs the API server, so a fault of the kubelet may keep the API server stopped.
            failure.add_note(f"The last lines of the kubelet on {node}:\n{await self.log_tail(node)}")
            raise failure from None

    async def _sh(self, node: str, script: str, *arguments: str, stdin: bytes | None = None) -> str:
        options = ["-i"] if stdin is not None else []
        return (
            await self._engine.run("exec", *options, node, "sh", "-c", script, "sh", *arguments, stdin=stdin)
        ).strip()


async def _holds(condition: Condition) -> bool:
    """Also False while the server does not answer or is not ready."""
    with contextlib.suppress(ApiError, TimeoutError):
        async with asyncio.timeout(_CALL):
            return await condition()
    return False


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise HarnessError(f"{what}: {error}", "check that the cluster works") from error


def _kubelet(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/metrics"
