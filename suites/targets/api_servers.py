"""API servers for the reference and for driver checks: in memory, or a real kube-apiserver; and their directory."""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drahealth.fakes.cluster.access import port_in, static_kubeconfig
from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    ControlPlaneApi,
)
from drahealth.fakes.cluster.api_server.pod_statuses import KEP_RULES, FieldRules
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.storage import ObjectFiles
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.program.private_files import replace_file
from drahealth.manager.profile import Gates, Profile
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, StatusWritten, ignore
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.sandbox import sandbox, ways
from drahealth.suites.targets.audit import AuditLog
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.control_plane import DELETION_ONLY, ControlPlane
from drahealth.suites.targets.kubelet.ensure import ensure
from drahealth.suites.targets.kubelet.layout import ADMIN_USER, CONTROLLER_MANAGER, Layout, keep_admin, kubeconfig
from drahealth.suites.targets.kubelet.processes import ApiProbe, Process, Reservation, check, until
from drahealth.suites.targets.option import ApiServerKind
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.run_directory import RunDirectory, lock
from drahealth.suites.targets.versions import feature_gates, profile_of

if TYPE_CHECKING:
    from drahealth.fakes.cluster.api_server.http import Credentials, HttpApi

# Where API servers keep their data below a root directory, and the port in its kubeconfig.


def objects_folder(root: Path) -> Path:
    """The objects of a server in memory."""
    return root / "api"


def data_folder(root: Path) -> Path:
    """The data, keys and logs of a real server."""
    return root / "control-plane"


# The interface of an API server that this process runs.

ALL_ON = Gates()


class ApiServerProcess(Protocol):
    """One API server with its store; `api` and `kubeconfig` work from `start` to `stop`."""

    @property
    def api(self) -> ControlPlaneApi:
        """A client of it, with all permissions. `stop` closes it."""

    async def kubeconfig(self) -> Path:
        """A kubeconfig with all permissions, readable by its owner only. The server listens on loopback."""

    async def start(self) -> None:
        """Returns when it is ready. Raises HarnessError."""

    async def stop(self) -> None:
        """Ends it; its data stay. Harmless on a server that never started."""

    async def wait(self) -> None:
        """Raises HarnessError when it has ended unexpectedly; never returns."""

    def check(self) -> None:
        """Raises HarnessError if it has ended unexpectedly."""

    def status_writes(self, namespace: str) -> list[StatusWritten]:
        """The writes of Pod statuses in this namespace since the last call for it. A server that sends each write to
        an observer returns none.
        """

    async def down(self) -> None:
        """Ends all watches and refuses all calls until `up`. Harmless on a server that is down."""

    async def up(self) -> None:
        """Serves the same data again; returns when it is ready. Harmless on a server that is up."""

    async def restart(self, gates: Gates) -> None:
        """Ends all watches, and serves the same data with these feature gates."""


# The API server in memory, served over HTTPS when a kubeconfig is needed.

KEPT = (NAMESPACES, NODES, DEVICE_CLASSES, CLAIM_TEMPLATES, CLAIMS, PODS)
"""Kinds whose objects outlive the server; a kubelet that starts removes its ResourceSlices anyway (W-30)."""


class MemoryApiServer:
    """Implements `server.ApiServerProcess`.

    With `keep` its objects, port and credentials are in the root directory, for the next one. Raises HarnessError if
    these cannot be read. `observe` gets an event for each write of a Pod status.
    """

    def __init__(
        self,
        root: Path,
        *,
        rules: FieldRules = KEP_RULES,
        gates: Gates = ALL_ON,
        clock: Clock | None = None,
        keep: bool = False,
        observe: Observe = ignore,
    ) -> None:
        self._path = root / "kubeconfig"
        self._keep = keep
        self._http: HttpApi | None = None
        try:
            files = ObjectFiles(objects_folder(root), KEPT) if keep else None
            self.api = ApiServer(rules=rules, gates=_by_name(gates), clock=clock, files=files, observe=observe)
        except OSError as error:
            raise HarnessError(f"the objects in {objects_folder(root)} cannot be read: {error.strerror}") from error

    async def kubeconfig(self) -> Path:
        if self._http is None:
            from drahealth.fakes.cluster.api_server.http import HttpApi  # only here: it brings a web server

            self._http = HttpApi(self.api, self._kept_credentials() if self._keep else None)
            try:
                await self._http.start(port_in(self._path) if self._keep else 0)
            except OSError:
                await self._http.start()
            try:
                self._http.write_kubeconfig(self._path)
            except OSError as error:
                raise HarnessError(f"{self._path} cannot be written: {error.strerror}") from error
        return self._path

    async def start(self) -> None:
        """Nothing: it has no process."""

    async def stop(self) -> None:
        http, self._http = self._http, None
        if http:
            await http.stop()

    async def wait(self) -> None:
        await asyncio.Event().wait()

    def check(self) -> None:
        """Nothing: it has no process."""

    def status_writes(self, namespace: str) -> list[StatusWritten]:
        return []

    async def down(self) -> None:
        self.api.down()

    async def up(self) -> None:
        self.api.up()

    async def restart(self, gates: Gates) -> None:
        self.api.restart(_by_name(gates))

    def _kept_credentials(self) -> "Credentials":
        from drahealth.fakes.cluster.api_server.http import Credentials

        path = self._path.with_name("credentials.json")
        try:
            return Credentials.kept_in(path)
        except OSError as error:
            raise HarnessError(f"{path} cannot be read or written: {error.strerror}") from error


def field_rules(profile: Profile) -> FieldRules:
    """What the API servers of a profile do with `allocatedResourcesStatus`."""
    return FieldRules(
        filters_reads=profile.api_filters_reads,
        keeps_what_was_there=profile.api_keeps_stored,
        has_pod_field=profile.pod_level,
        names_every_request=profile.whole_claim == "an entry for each request",
    )


def _by_name(gates: Gates) -> dict[str, bool]:
    return {STATUS_GATE: gates.resource_health_status, MESSAGE_GATE: gates.resource_health_status_message}


# A real kube-apiserver with etcd, below a root directory.
#
# It has no scheduler, no kubelet, and only the controllers that complete deletions. Its data, keys and logs are in
# `root/control-plane`, so the next one continues with them, at the same port if that is free.

START_LIMIT = 180.0
"""Seconds for the API server to become ready. An exit is noticed at once; this limit is for a hang."""
_LOCK_LIMIT = 10.0
"""Seconds for the processes of an earlier server, whose parent was killed, to end."""


class RealApiServer:
    """Implements `server.ApiServerProcess`. Its processes end with `stop`, or when this process ends in any way.

    `audit` logs the writes of Pod statuses; only then `status_writes` returns any.
    """

    def __init__(self, binaries: Binaries, root: Path, gates: Gates = ALL_ON, *, audit: bool = False) -> None:
        self._binaries = binaries
        self._path = root / "kubeconfig"
        self._layout = Layout(data_folder(root))
        self._gates = gates
        self._audits = audit
        self._audit = AuditLog(self._layout.audit_log, ADMIN_USER)  # the only user, also of the reference
        self._is_down = False
        self._parts: tuple[ControlPlane, ApiProbe] | None = None
        self._client: KubeClient | None = None
        self._closing = AsyncExitStack()

    @property
    def api(self) -> KubeClient:
        assert self._client, "the API server is not started"
        return self._client

    async def kubeconfig(self) -> Path:
        return self._path

    async def start(self) -> None:
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except OSError as error:
                raise HarnessError(f"cannot write {self._layout.root}: {error.strerror}") from error
            self._closing = stack.pop_all()

    async def stop(self) -> None:
        self._client, self._parts = None, None
        await self._closing.aclose()

    async def wait(self) -> None:
        while True:
            running = [process.exited for process in self._processes()]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self.check()

    def check(self) -> None:
        check(self._processes())

    def status_writes(self, namespace: str) -> list[StatusWritten]:
        return self._audit.status_writes(namespace)

    async def down(self) -> None:
        if not self._is_down:
            self._is_down = True
            await self._started[0].stop_api_server()

    async def up(self) -> None:
        if self._is_down:
            control_plane, probe = self._started
            await control_plane.start_api_server(self._gates_by_name())
            self._is_down = False
            await until(probe.serving, self._processes(), "the API server to be ready again", START_LIMIT)
            await control_plane.start_clients()

    async def restart(self, gates: Gates) -> None:
        self._gates = gates
        await self.down()
        await self.up()

    async def _start(self, stack: AsyncExitStack) -> None:
        layout = self._layout
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = RunDirectory(layout.root, await _lock(layout.root / "lock"))
        stack.callback(run.release)
        layout.make(kubelet=False)
        port = Reservation(port_in(self._path))
        stack.callback(port.release)
        server, token = f"https://127.0.0.1:{port.port}", keep_admin(layout)
        manager = layout.kubeconfig(CONTROLLER_MANAGER)
        replace_file(manager, json.dumps(kubeconfig(server, token)).encode())
        programs = {self._binaries.kube_apiserver.parent, self._binaries.etcd.parent}
        programs |= {self._binaries.kube_controller_manager.parent}
        plan = layout.mount_plan(sorted(programs))
        running = await stack.enter_async_context(sandbox(ways(), plan, held=[run.lock]))
        probe = ApiProbe(server, token)
        stack.push_async_callback(probe.close)
        control_plane = ControlPlane(
            running, self._binaries, layout, port.port, clients=DELETION_ONLY, audit=self._audits
        )
        self._parts = control_plane, probe
        await control_plane.start(self._gates_by_name())
        await until(lambda: _ready(probe), self._processes(), "the API server to be ready", START_LIMIT)
        await control_plane.start_clients()
        authority = layout.server_certificate.read_text()
        replace_file(self._path, json.dumps(static_kubeconfig(server, token, authority), indent=1).encode())
        self._client = await KubeClient.from_kubeconfig(self._path)
        stack.push_async_callback(self._client.close)

    @property
    def _started(self) -> tuple[ControlPlane, ApiProbe]:
        assert self._parts, "the API server is not started"
        return self._parts

    def _processes(self) -> Sequence[Process]:
        return list(self._started[0].processes.values())

    def _gates_by_name(self) -> dict[str, bool]:
        """The gates that the release has; without the second one, messages are always served."""
        names = feature_gates(profile_of(self._binaries.version), self._gates.resource_health_status)
        if MESSAGE_GATE in names:
            names[MESSAGE_GATE] = self._gates.resource_health_status_message
        return names


def real_api_servers(
    kubernetes: str | None = None, progress: Progress = silent, gates: Gates = ALL_ON, *, audit: bool = False
) -> Callable[[Path], RealApiServer]:
    """Makes API servers of this release for a root directory each; None stands for the default.

    The programs come from the cache, or are downloaded or built first, which can take minutes. Raises
    ConfigurationError for an unknown release, HarnessError if the programs cannot be got.
    """
    binaries = ensure(kubernetes or DEFAULT_VERSION, progress)
    return lambda root: RealApiServer(binaries, root, gates, audit=audit)


async def _ready(probe: ApiProbe) -> bool:
    return await probe.ready() and await probe.has_namespace("default")


async def _lock(path: Path) -> int:
    """The locked file. Raises HarnessError if another server uses the directory."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(_LOCK_LIMIT):
            await lock(file, fcntl.LOCK_EX, interval=0.05)
    except BaseException as error:
        os.close(file)
        if isinstance(error, TimeoutError):
            raise HarnessError(
                f"another API server uses {path.parent}", "end its process, or pass another directory"
            ) from None
        raise
    return file


# An API server of either kind, for the time of a block.
#
# async with api_server("real", root) as server:
#     await server.api.list(SLICES)
#     ... "--kubeconfig", str(await server.kubeconfig()) ...


@asynccontextmanager
async def api_server(
    kind: ApiServerKind, root: Path, *, kubernetes: str | None = None, progress: Progress = silent
) -> AsyncIterator[ApiServerProcess]:
    """An API server of this kind while it is entered, with `root/kubeconfig`; nothing else stays running.

    A real one keeps its data in `root/control-plane`, and continues with them. `kubernetes` is its release; None for
    the default. Its programs are downloaded or built first if they are not in the cache; that blocks for minutes.
    Raises ConfigurationError for an unknown release, and HarnessError if it cannot be started.
    """
    server: ApiServerProcess = real_api_servers(kubernetes, progress)(root) if kind == "real" else MemoryApiServer(root)
    try:
        await server.start()
        await server.kubeconfig()
        yield server
    finally:
        await server.stop()
