"""The program `drahealth manager`: the reference node with manifests as input."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, ListWatch, Object
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.cluster.pods import status_seen
from drahealth.fakes.program.log import log_to
from drahealth.fakes.program.private_files import BearerToken, TokenFileError
from drahealth.fakes.waiting import run_until_first
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ManagerStarted, ManagerStopped, ManifestRejected, Observe, PodDeleted, StatusSeen
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.manager_command.applier import Applier
from drahealth.suites.manager_command.options import METRICS_TOKEN, Options
from drahealth.suites.manager_command.output import Observers, StatusFiles, history_file
from drahealth.suites.targets.api_servers import (
    ApiServerProcess,
    MemoryApiServer,
    data_folder,
    field_rules,
    objects_folder,
)
from drahealth.suites.targets.reference.target import ReferenceCluster

if TYPE_CHECKING:
    from drahealth.fakes.program.metrics_server import MetricsServer


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
