"""The program `drahealth manager`: its options, checked before anything starts, and the node with manifests."""

import asyncio
import logging
import math
import os
import signal
import socket
import stat
import sys
from collections.abc import Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, ListWatch, Object
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.cluster.object_rules import is_name
from drahealth.fakes.cluster.pods import status_seen
from drahealth.fakes.program.log import log_to
from drahealth.fakes.program.private_files import BearerToken, TokenFileError
from drahealth.fakes.waiting import run_until_first
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import DEFAULT_VERSION, PROFILE_CHOICE, profile_named
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ManagerStarted, ManagerStopped, ManifestRejected, Observe, PodDeleted, StatusSeen
from drahealth.proto.sockets import PATH_LIMIT
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.manager_command.manifests import Applier
from drahealth.suites.manager_command.output import Observers, StatusFiles, check_history_file, history_file
from drahealth.suites.output_paths import check_output_folder
from drahealth.suites.targets.api_servers import (
    ApiServerProcess,
    MemoryApiServer,
    data_folder,
    field_rules,
    objects_folder,
)
from drahealth.suites.targets.option import API_SERVER, ApiServerKind
from drahealth.suites.targets.reference.target import ReferenceCluster
from drahealth.suites.targets.versions import parse_version, profile_of

if TYPE_CHECKING:
    from drahealth.fakes.program.metrics_server import MetricsServer

ROOM_FOR_NAMES = 52
"""Bytes of a socket's path that are left for `/plugins_registry/DRIVER-reg.sock`, so a driver's name may have 25."""

METRICS_TOKEN = "metrics-token"
"""Name of the file in the root directory with the bearer token of the metrics."""


@dataclass(frozen=True, slots=True)
class Options:
    """Absolute paths; `resync` in seconds; `metrics_port` None for no metrics, 0 for any free port.

    `history` is a file that does not exist yet; None for none. `kubernetes` is the release of a real API server.
    """

    root: Path
    pods: Path
    profile: Profile
    node_name: str
    resync: float
    gates: Gates
    metrics_port: int | None
    json: bool
    history: Path | None = None
    api_server: ApiServerKind = "memory"
    kubernetes: str | None = None

    @classmethod
    def make(
        cls,
        *,
        root_dir: Path,
        pods: Path | None,
        profile: str | None,
        node_name: str | None,
        resync: float,
        feature_gates: str | None,
        metrics_port: int | None,
        json: bool,
        history: Path | None = None,
        api_server: str = "memory",
        kubernetes: str | None = None,
    ) -> "Options":
        """The options from the command's flags; creates the directories. Raises ConfigurationError."""
        kind = API_SERVER.value(api_server)
        kubernetes = kubernetes and parse_version(kubernetes)
        behavior = _profile(profile, kind, kubernetes)
        if not 0 < resync < math.inf:
            raise ConfigurationError(
                f"--resync must be a number of seconds above 0, got {resync:g}", "the default is 60"
            )
        if metrics_port is not None and not 0 <= metrics_port < 1 << 16:
            raise ConfigurationError(
                f"--metrics-port must be between 0 and 65535, got {metrics_port}", "0 selects a free port"
            )
        name = node_name or socket.gethostname().lower()
        if not is_name(name):
            raise ConfigurationError(f"invalid node name {name!r}", "pass --node-name, such as node-a")
        gates = gates_of(feature_gates or "")
        root = root_dir.absolute()
        _check_place(root)
        _check_length(root)
        _make_private(root)  # the first change of a file: a rejected value leaves no directory
        folder = (pods or root / "pods").absolute()
        for path in (root, folder):
            check_output_folder(str(path))
        _check_owner(root)
        record = history.absolute() if history else None
        if record:
            check_history_file(record)
        return cls(root, folder, behavior, name, resync, gates, metrics_port, json, record, kind, kubernetes)


def _profile(name: str | None, kind: ApiServerKind, kubernetes: str | None) -> Profile:
    """By default kep, and with a real API server that of its release."""
    chosen = None if name is None else profile_named(name)
    if name is not None and chosen is None:
        raise ConfigurationError(f"unknown profile {name!r}", f"choose {PROFILE_CHOICE}")
    if kind == "memory":
        if kubernetes is not None:
            raise ConfigurationError("--kubernetes needs --api-server real", "the API server in memory has no release")
        return chosen or KEP
    version = kubernetes or DEFAULT_VERSION
    release = profile_of(version)
    if chosen is None:
        return release
    if chosen is KEP:
        raise ConfigurationError(
            "--profile kep needs --api-server memory: a real API server rejects names that only the KEP has",
            f"pass --profile {release.name}",
        )
    if chosen.release != release.release:
        raise ConfigurationError(
            f"--profile {name} does not match the API server of Kubernetes {version}",
            f"pass --profile {release.name}, or --kubernetes with a release of {chosen.release}",
        )
    return chosen


def gates_of(text: str) -> Gates:
    """The gates of `NAME=true|false,...`, as a kubelet takes them. Raises ConfigurationError."""
    given = {STATUS_GATE: True, MESSAGE_GATE: True}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in given:
            raise ConfigurationError(f"unknown feature gate {name!r}", f"valid gates: {', '.join(given)}")
        if value.lower() not in ("true", "false"):
            raise ConfigurationError(f"feature gate {name} must be true or false, got {value!r}", f"write {name}=false")
        given[name] = value.lower() == "true"
    if given[MESSAGE_GATE] and not given[STATUS_GATE]:
        raise ConfigurationError(
            f"{MESSAGE_GATE} needs {STATUS_GATE}, which is off",
            f"write {STATUS_GATE}=false,{MESSAGE_GATE}=false",
        )
    return Gates(given[STATUS_GATE], given[MESSAGE_GATE])


def _check_place(root: Path) -> None:
    """The manager makes files in the directory, and a driver can remove sockets there."""
    if root.resolve() == Path(root.anchor):
        raise ConfigurationError(f"--root-dir must not be {root}, the root of the file system", "pass a new directory")


def _check_length(root: Path) -> None:
    room, size = PATH_LIMIT - ROOM_FOR_NAMES, len(os.fsencode(root))
    if size > room:
        raise ConfigurationError(
            f"--root-dir must be a path of at most {room} bytes, got {size}: {root}",
            f"it contains unix sockets, and the path of a unix socket has at most {PATH_LIMIT} bytes",
        )


def _make_private(root: Path) -> None:
    """Creates the directory for this user alone. An existing one keeps its mode."""
    with suppress(OSError):  # reported by the check whether it can be written
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700)


def _check_owner(root: Path) -> None:
    """Others could replace the kubeconfig and the sockets in a directory that they own or can write."""
    found, user = root.stat(), os.geteuid()
    if found.st_mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"every user can write in {root}", "pass another --root-dir, such as a subdirectory of it"
        )
    if user not in (found.st_uid, 0):
        raise ConfigurationError(f"{root} belongs to another user", "pass another --root-dir")


# The API server of `drahealth manager`, from its options.


def make_server(options: Options) -> ApiServerProcess:
    """The API server, not started; gets the programs of a real one first. Raises ConfigurationError, HarnessError.

    The state of the manager belongs to the objects of one server, so a root directory keeps its kind of server.
    """
    others = objects_folder(options.root) if options.api_server == "real" else data_folder(options.root)
    if others.exists():
        earlier = "memory" if options.api_server == "real" else "real"
        raise ConfigurationError(
            f"{options.root} is the root directory of a manager with --api-server {earlier}",
            f"pass --api-server {earlier}, or another --root-dir",
        )
    if options.api_server == "memory":
        rules = field_rules(options.profile)
        return MemoryApiServer(options.root, rules=rules, gates=options.gates, clock=SystemClock(), keep=True)
    from rich.console import Console

    from drahealth.suites.targets.api_servers import real_api_servers
    from drahealth.suites.targets.progress import StagePrinter

    progress = StagePrinter(Console(stderr=True, highlight=False))
    return real_api_servers(options.kubernetes, progress, options.gates)(options.root)


# Emits an event for every change of a pod's status, as a client of the API sees it.

_PAUSE = 0.5
"""Seconds until a watch that has ended is opened again."""


async def watch_pods(api: ListWatch, observe: Observe, files: StatusFiles) -> None:
    """Passes the events to the observer, and each change to the status files, until cancelled."""

    def changed(before: Object | None, pod: Object | None) -> None:
        if pod and (before is None or before.get("status") != pod.get("status")):
            files.change(pod)

    def saw(pod: Object, status: StatusSeen | None) -> None:
        if status is None:
            files.delete(pod)
        observe(status_of(pod) if status else pod_deleted(pod))

    await PodWatch(api, saw, again=after(_PAUSE), also={PODS: changed}).run()


def status_of(pod: Object) -> StatusSeen:
    """The event of a pod's new status."""
    return replace(status_seen(pod), namespace=pod["metadata"]["namespace"])


def pod_deleted(pod: Object) -> PodDeleted:
    """The event for a deleted pod."""
    metadata = pod["metadata"]
    return PodDeleted(metadata["name"], metadata["uid"], metadata["namespace"])


# The program `drahealth manager`: the reference node with manifests as input and statuses as output.
#
# Its state is in the root directory: the checkpoints of the manager, and the objects of its API server. So pods keep
# their identity, their claims and their restart counts after any end, also after kill -9, and nothing is prepared
# twice. The containers of the fake runtime start again.

log = logging.getLogger(__name__)


class Program:
    """The whole program with its API server, in one event loop."""

    def __init__(self, options: Options, observers: Observers, server: ApiServerProcess) -> None:
        self._options = options
        self._observe = observers
        self._server = server
        self.node = ReferenceCluster(
            options.root,
            server,
            profile=options.profile,
            clock=SystemClock(),
            name=options.node_name,
            resync=options.resync,
            gates=options.gates,
            observe=observers,
        )
        self._statuses = StatusFiles(options.pods, SystemClock())

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set, and stops in order. Raises HarnessError if it cannot start, or if a part of it
        fails.
        """
        with history_file(self._options.history, self._options.profile, SystemClock(), self._observe):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            metrics = await self._serve_metrics(stack)
            stack.push_async_callback(self._server.stop)
            await self._server.start()
            await self._check_name()
            await self._server.kubeconfig()
            stack.push_async_callback(self._write_last_statuses)
            self._statuses.sweep()
            applier = Applier(self.node.api, self._options.pods, self.node.name, self._refuse)
            await applier.start()
            stack.push_async_callback(self.node.stop)
            await self.node.start()
            self._observe(self._started(metrics))
            await self._work(stop, applier)
        self._observe(ManagerStopped())

    async def _work(self, stop: asyncio.Event, applier: Applier) -> None:
        """Runs all parts until the end, or until one of them fails."""
        parts: list[Coroutine[Any, Any, object]] = [applier.run()]
        parts += [
            watch_pods(self.node.api, self._observe, self._statuses),
            self._statuses.run(),
            self.node.wait(),
            stop.wait(),
        ]
        await run_until_first(*parts)

    async def _write_last_statuses(self) -> None:
        """Writes the statuses that the API server has at the end, because the watch can be late."""
        with suppress(ApiError):
            for pod in await self.node.api.list(PODS):
                self._statuses.change(pod)
        self._statuses.flush()

    def _refuse(self, file: str, line: int, problem: str) -> None:
        where = f"{file}, line {line}" if line else file
        log.error("%s: %s; its previous objects stay", where, problem)
        self._observe(ManifestRejected(file, line, problem))

    async def _check_name(self) -> None:
        names = [node["metadata"]["name"] for node in await self.node.api.list(NODES)]
        if names and self.node.name not in names:
            raise ConfigurationError(
                f"{self._options.root} is the root directory of node {names[0]}, not of {self.node.name}",
                f"pass --node-name {names[0]}, or another --root-dir",
            )

    async def _serve_metrics(self, stack: AsyncExitStack) -> "MetricsServer | None":
        port = self._options.metrics_port
        if port is None:
            return None
        from drahealth.suites.manager_command.output import Metrics  # only here: it brings the Prometheus client

        token = self._metrics_token()
        metrics = Metrics(self.node.manager.devices)
        self._observe.add(metrics)
        try:
            server = await metrics.serve(port, token)
        except OSError as error:
            raise HarnessError(
                f"metrics cannot be served on port {port}: {error.strerror}",
                "choose another --metrics-port; 0 selects a free port",
            ) from error
        stack.push_async_callback(server.stop)
        return server

    def _metrics_token(self) -> BearerToken:
        path = self._options.root / METRICS_TOKEN
        try:
            return BearerToken.kept_in(path)
        except TokenFileError as error:
            raise ConfigurationError(str(error)) from None
        except OSError as error:
            raise HarnessError(f"{path} cannot be read or written: {error.strerror}") from error

    def _started(self, metrics: "MetricsServer | None") -> ManagerStarted:
        root, options = self._options.root, self._options
        return ManagerStarted(
            root_dir=str(root),
            plugins_registry=str(root / "plugins_registry"),
            kubeconfig=str(root / "kubeconfig"),
            pods=str(options.pods),
            node=options.node_name,
            profile=options.profile.name,
            metrics=metrics.url if metrics else None,
        )


def serve(options: Options) -> None:
    """Runs the program in this process until SIGTERM or SIGINT. Raises HarnessError."""
    os.umask(0o077)  # no other user can open a file or a socket of the manager, whatever the mode of the root directory
    lock = FileLock(options.root / "lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise HarnessError(
            f"another drahealth manager uses {options.root}", "end that process, or pass another --root-dir"
        ) from None
    except OSError as error:
        raise HarnessError(f"{options.root / 'lock'} cannot be locked: {error.strerror}") from error
    with lock:
        server = make_server(options)  # before any loop runs: a build takes minutes, and Ctrl-C ends it at once
        asyncio.run(_serve(options, server))


async def _serve(options: Options, server: ApiServerProcess) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    observers = Observers()
    program = Program(options, observers, server)
    with _shown(options, observers, program):
        try:
            await program.run(stop)
        except HarnessError:
            raise
        except Exception as error:
            log.critical("an internal task failed", exc_info=error)
            raise HarnessError(
                f"internal error: {error!r}", "please report this error with the log lines above"
            ) from error


def _shown(options: Options, observers: Observers, program: Program) -> AbstractContextManager[object]:
    """The live table on a terminal, JSON lines otherwise."""
    if sys.stdout.isatty() and not options.json:
        from drahealth.suites.manager_command.output import LiveTable

        table = LiveTable(program.node.manager.devices)
        observers.add(table)
        return table.shown()
    from drahealth.suites.manager_command.output import JsonLines

    log_to(logging.StreamHandler(sys.stderr))
    lines = JsonLines(sys.stdout, SystemClock())
    observers.add(lines)
    return closing(lines)
