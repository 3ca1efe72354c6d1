"""A driver under test, as experiments see it: start and end it, and control its surroundings."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from drahealth.fakes.cluster.api import ListWatch
from drahealth.fakes.waiting import within
from drahealth.manager.profile import Profile
from drahealth.manager.registration import Socket, find_sockets
from drahealth.proto.clock import Clock
from drahealth.proto.events import (
    ApiServerSwitched,
    ChildrenEnded,
    ClaimReadHeld,
    Event,
    OutputMeasured,
    ProcessExited,
    ProcessStarted,
    SignalSent,
)
from drahealth.proto.package import environment_of_others
from drahealth.suites.driver_checks.experiments import Incomplete, Process
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.profile.faults import Action, Fault
from drahealth.suites.driver_checks.subject.driver_pod import KILLED, DriverPod
from drahealth.suites.driver_checks.subject.gateway import Gateway
from drahealth.suites.driver_checks.subject.helper_process import Helpers
from drahealth.suites.driver_checks.subject.places import Places, filled, placeholders_in, socket_files
from drahealth.suites.processes.child import Child
from drahealth.suites.processes.sandbox import RunningSandbox
from drahealth.suites.targets.api_servers import ApiServerProcess

# What experiments need of fault adapters. `fault_adapters` has the adapters.


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the adapters of a driver process work with."""

    clock: Clock
    api: ListWatch | None = None
    """A client of the driver's API server; None without one."""
    folder: Path | None = None
    """Where commands run, and relative paths start; None for the present folder."""
    entry: tuple[str, ...] = ()
    """Words before a command that run it in the driver's sandbox; empty without one."""
    outside: Callable[[Path], Path] = Path
    """Where a path that the driver names is outside of its sandbox."""


class ActionFailed(Exception):
    """An action of a fault adapter was not done; the message says why."""

    def __init__(self, problem: str, *, timed_out: bool = False) -> None:
        super().__init__(problem)
        self.timed_out = timed_out


class Adapters(Protocol):
    """The fault adapters of one driver process."""

    async def start(self, faults: Sequence[Fault], values: Mapping[str, str]) -> None:
        """Starts the scripted backends of the faults, with the values of placeholders. Raises ConfigurationError."""

    async def move(
        self,
        faults: Sequence[Fault],
        values: Mapping[str, str],
        api: ListWatch | None,
        outside: Callable[[Path], Path],
    ) -> None:
        """Starts the backends again for a driver that got other directories and another API server.

        Raises ConfigurationError.
        """

    async def perform(self, action: Action, values: Mapping[str, str], limit: float) -> None:
        """Does one action within `limit` seconds. Raises ActionFailed."""

    async def kill_backend(self, script: Path) -> None:
        """Kills a scripted backend."""

    async def restart_backend(self, script: Path) -> None:
        """Starts a killed backend again. Raises ActionFailed."""

    async def close(self) -> None:
        """Ends all backends."""


AdaptersOf = Callable[[Surroundings], Adapters]
"""Makes the adapters of a driver process."""


# What an experiment needs to run a kubelet for a driver process. A value.


@dataclass(frozen=True, slots=True)
class KubeletSetup:
    """The API server of a driver process, and what another API server needs to take its place."""

    server: ApiServerProcess | None
    """The running API server; None if the kubelet brings its own."""
    profile: Profile
    """What a reference with this API server behaves as."""
    objects: Sequence[Mapping[str, Any]]
    """The user's objects, for another API server."""
    hide: Callable[[str], None]
    """Keeps a secret out of the evidence."""
    sandbox: RunningSandbox | None = None
    """The sandbox of the driver process."""


# A driver under test, as experiments see it: start and end it, and control its access to the API server.

Launch = Callable[[], Awaitable[DriverPod]]
"""Starts a driver in a Pod."""
CHILDREN_LIMIT = 10.0
"""Seconds that the children of a terminated driver have to end after it."""


class Subject:
    """One driver process with directories and API objects of its own.

    `record` receives what is done to it, `record_exit` what it does at any time, such as the end of its process.
    """

    def __init__(
        self,
        label: Process,
        places: Places,
        clock: Clock,
        record: Callable[[Event], None],
        *,
        record_exit: Callable[[Event], None] | None = None,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        api: ListWatch | None = None,
        gateway: Gateway | None = None,
        sandbox: RunningSandbox | None = None,
        helpers: Helpers | None = None,
        kubelet_setup: KubeletSetup | None = None,
        shares_api: bool = False,
        launch: Launch | None = None,
    ) -> None:
        self.label = label
        self.faults: tuple[Fault, ...] = ()
        """What its devices can be broken by."""
        self.adapters: Adapters | None = None
        """What breaks them; None without faults."""
        self.places = places
        self.clock = clock
        self.api = api
        """A client of its API server that does not pass the gateway; None without an API server."""
        self.shares_api = shares_api or not command
        """Whether its API server belongs to others, as that of a driver that was started by others."""
        self.launch = launch
        """Starts the driver in a Pod of a cluster; None for a program of this machine."""
        self.kept = AsyncExitStack()
        """What lives as long as the subject: closed after its process has ended."""
        self.record_for_all = record_exit or record
        """Records an event in each running experiment of the process."""
        self.kubelet_setup = kubelet_setup
        """What a kubelet for it needs; None for a driver that was started by others."""
        self._record = record
        self._command = tuple(command)
        self._environment = environment or {}
        self._folder = folder
        self._gateway = gateway
        self.entry = sandbox.entry if sandbox else ()
        """The words before a command that run it in the driver's sandbox; empty without one."""
        self.helpers = helpers or Helpers()
        """The programs that the driver dials."""
        self.kept.push_async_callback(self.helpers.close)
        self.foreign_sockets = frozenset[Path]()
        """Sockets that existed before the driver first started: of its helpers, of scripted backends, and of other
        drivers on its node."""
        self.others = frozenset[Socket]()
        """Registration sockets of other drivers on the node of a driver in a Pod."""
        self._process: Child | DriverPod | None = None
        self._exit: asyncio.Task[ProcessExited] | None = None
        self._children: asyncio.Task[None] | None = None
        self._began = 0.0
        self._signal: signal.Signals | None = None
        """The last signal that was sent to the process."""
        self._unexpected: asyncio.Future[ProcessExited] = asyncio.get_running_loop().create_future()

    @property
    def started_by_us(self) -> bool:
        """Whether drahealth starts and ends it."""
        return bool(self._command or self.launch)

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders in its command line and its variables."""
        return placeholders_in([*self._command, *self._environment.values()])

    @property
    def knows_cdi_dir(self) -> bool:
        """Whether its command names the directory of CDI specs, or its sandbox has a private one."""
        return "cdi_dir" in self.placeholders or self.places.inside(self.places.cdi_dir) != self.places.cdi_dir

    @property
    def running(self) -> bool:
        """Whether its process runs, until its exit is recorded; True for a driver that was started by others."""
        return not self._exit.done() if self._exit else not self.started_by_us

    def owns(self, resource_slice: Mapping[str, Any], driver: str) -> bool:
        """Whether a ResourceSlice can be of this process. The API server of others has other drivers."""
        node = resource_slice["spec"].get("nodeName")
        if self.shares_api and resource_slice["spec"].get("driver") != driver:
            return False
        if self.shares_api and self.started_by_us:
            return bool(node == self.places.node_name)
        return not node or not self.places.node_name or node == self.places.node_name

    def successor(self) -> "Subject":
        """The next instance of the driver, for a rolling update: in the same directories, and not started."""
        places = replace(self.places, instance=self.places.instance + 1)
        found = Subject(
            self.label,
            places,
            self.clock,
            self._record,
            record_exit=self.record_for_all,
            command=self._command,
            environment=self._environment,
            folder=self._folder,
            api=self.api,
            gateway=self._gateway,
            kubelet_setup=self.kubelet_setup,
        )
        found.entry, found.faults, found.adapters = self.entry, self.faults, self.adapters
        return found

    def move(self, places: Places, api: ListWatch) -> None:
        """Gives a driver that does not run yet the directories and the API server of another kubelet."""
        assert not self._process, "it was started"
        self.places, self.api = places, api
        self.helpers.move(places)

    async def start(self, more: Mapping[str, str] | None = None) -> None:
        """Starts the driver, also again after its end, with further variables; the first time, its helpers before it.

        Raises ConfigurationError if a command cannot be run, and HarnessError for a helper that fails.
        """
        assert not self._process or not self._process.running, "it already runs"
        await self.helpers.start()
        if not self._process:
            folders = (self.places.plugins_dir, self.places.device_plugins_dir)
            self.foreign_sockets = frozenset(path for folder in folders for path in socket_files(folder))
            if self.launch:
                self.others = frozenset(find_sockets(self.places.registry_dir))
        values = self.places.placeholders()
        argv = [filled(word, values) for word in self._command]
        process: Child | DriverPod
        if self.launch:
            process = await self.launch()
        else:
            given = {name: filled(value, values) for name, value in self._environment.items()}
            variables = {**environment_of_others(), **self.places.environment(), **given, **(more or {})}
            process = await Child.start(argv, variables, self._folder, entry=self.entry)
        self._process = process
        self._began = self.clock.now()
        self._signal = None
        self._record(ProcessStarted(self.label, process.pid, tuple(argv)))
        self._exit = asyncio.create_task(self._watch(process))

    async def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the driver's process. After SIGSTOP, waits until it has stopped or ended."""
        assert self._process, "it was not started"
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            self._signal = number
        self._record(SignalSent(self.label, number.name))
        if isinstance(self._process, DriverPod):
            await self._process.signal(number)
        else:
            self._process.signal(number)
            if number is signal.SIGSTOP:
                await self._process.stopped()

    async def exited(self) -> ProcessExited:
        """Waits until the driver's process has ended."""
        assert self._exit, "it was not started"
        return await asyncio.shield(self._exit)

    async def children_ended(self) -> None:
        """After a SIGTERM and the end of the driver's process: waits until its children have ended or were killed."""
        await self.exited()
        if self._children:
            await asyncio.shield(self._children)

    async def ended_unexpectedly(self) -> ProcessExited:
        """Waits for an end of the driver's process that no signal of ours caused."""
        return await asyncio.shield(self._unexpected)

    def check_running(self) -> None:
        """Raises Incomplete if the driver has ended."""
        if self._exit and self._exit.done():
            ended = self._exit.result()
            raise Incomplete(exit_text(ended))

    async def set_reachable(self, reachable: bool) -> None:
        """Makes the API server reachable or unreachable for the driver."""
        assert self._gateway, "it has no API server of ours"
        if reachable:
            await self._gateway.up()
        self._record(ApiServerSwitched(self.label, reachable))
        if not reachable:  # recorded before: a driver can end while its connections are closed
            await self._gateway.down()

    @asynccontextmanager
    async def hold_claim_reads(self, namespace: str, name: str, uid: str) -> AsyncGenerator[asyncio.Event, None]:
        """Holds back the driver's reads of a claim until the end. The event is set when the driver reads it."""
        assert self._gateway, "it has no API server of ours"
        try:
            async with self._gateway.hold(namespace, name) as asked:
                self._record(ClaimReadHeld(uid, held=True))
                yield asked
        finally:
            self._record(ClaimReadHeld(uid, held=False))

    def measure_output(self) -> None:
        """Records how much output its present process has written so far, if there is one."""
        if self._process:
            seconds = self.clock.now() - self._began
            self._record(OutputMeasured(self.label, self._process.pid, self._process.output_bytes, round(seconds, 3)))

    def output(self) -> tuple[str, ...]:
        """The first and the last lines of the output of its process."""
        return self._process.output() if self._process else ()

    async def close(self) -> None:
        """Kills the driver, if it still runs, with its descendants."""
        self._signal = signal.SIGKILL
        if self._process:
            await self._process.close()
        if self._exit:
            await self.children_ended()
        await self.kept.aclose()

    async def _watch(self, process: Child | DriverPod) -> ProcessExited:
        code, children = await process.exited()
        if isinstance(process, DriverPod):
            if code == KILLED and self._signal is signal.SIGTERM:  # by the kubelet, after the grace of the Pod
                self.record_for_all(SignalSent(self.label, signal.SIGKILL.name))
            await process.close()
        elif self._signal is signal.SIGTERM:
            self._children = asyncio.create_task(self._end_children(process, children))
        else:
            await process.close()
        ended = ProcessExited(self.label, process.pid, code, children, process.output())
        self.record_for_all(ended)
        if self._signal is None and not self._unexpected.done():
            self._unexpected.set_result(ended)
        return ended

    async def _end_children(self, process: Child, children: int) -> None:
        """Gives the children of a terminated driver time to end, and kills the others."""
        if children:
            with suppress(TimeoutError):
                await within(self.clock, CHILDREN_LIMIT, process.children_ended())
        self.record_for_all(ChildrenEnded(self.label, process.pid, await process.close()))
