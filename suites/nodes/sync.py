"""Nodes, Pods and drivers for tests without asyncio: the same methods, which return when the work is done.

The asynchronous objects live in the event loop of another thread (`anyio.from_thread`). The methods here are made from
theirs, with the same arguments, so each is written once.
"""

import functools
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.commands import DriverDevices, DriverLife, StreamControl
from drahealth.fakes.control.definition import Command, SyncControl
from drahealth.fakes.control.remote import ControlFailed, RemoteDriver
from drahealth.fakes.control.without_subcommand import DriverClaims, DriverQuestions, DriverRegistration, DriverReports
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.inventory.devices import Inventory
from drahealth.manager.profile import Profile
from drahealth.proto.events import StatusSeen
from drahealth.proto.values import ResourceHealth
from drahealth.suites.errors import HarnessError
from drahealth.suites.nodes.node import Node, Pod
from drahealth.suites.nodes.running_node import SharedNode

P = ParamSpec("P")
T = TypeVar("T")

_LIBRARIES = {*sys.stdlib_module_names, "aiohttp", "anyio", "drahealth", "tenacity"}
"""The packages in whose frames an error is no error of the user's code."""


class _Sync(Protocol):
    """An object whose asynchronous counterpart lives in the loop of the portal."""

    @property
    def _of(self) -> Any: ...

    @property
    def _portal(self) -> BlockingPortal: ...


class _Waits(Generic[P, T]):
    """A method like that of the asynchronous object, which waits for the result."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: _Sync, kind: type) -> Callable[P, T]: ...
    def __get__(self, owner: _Sync | None, kind: type) -> Any:
        if owner is None:
            return self

        @functools.wraps(self._method)
        def method(*args: P.args, **named: P.kwargs) -> T:
            __tracebackhide__ = True
            of = getattr(owner._of, self._method.__name__)  # that of a subclass
            result: T = _call(owner._portal, functools.partial(of, *args, **named))
            return result

        return method


def _call(portal: BlockingPortal, method: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs the method in the loop of the portal. Its error has the frames of the caller, not those of the loop.

    An error of the user's own code, such as the condition of `wait_until`, keeps all frames.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    try:
        result: T = portal.call(method)
    except (HarnessError, ControlFailed, ApiError, TimeoutError, ValueError) as error:
        if any(_is_of_user(frame) for frame, _ in walk_tb(error.__traceback__)):
            raise
        raise error.with_traceback(None) from error.__cause__
    return result


def _is_of_user(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES


class SyncPod:
    """A Pod for tests without asyncio. Timeouts are in seconds; by default the longest that a correct kubelet needs."""

    def __init__(self, of: Pod, portal: BlockingPortal) -> None:
        self._of = of
        self._portal = portal

    @property
    def name(self) -> str:
        """The name of the Pod."""
        return self._of.name

    @property
    def namespace(self) -> str:
        """The namespace of the Pod."""
        return self._of.namespace

    @property
    def uid(self) -> str:
        """The UID of the Pod."""
        return self._of.uid

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses until now; the newest status is the last one."""
        return self._of.statuses

    @property
    def status(self) -> StatusSeen | None:
        """The newest status; None before the first status arrives."""
        return self._of.status

    @property
    def device(self) -> str:
        """The name of the only device of the Pod, such as `gpu-0`. Raises ValueError if it has several or none."""
        return self._of.device

    def devices(self) -> list[ResourceHealth]:
        """The devices in the newest status, each with its resource ID, health and message."""
        return self._of.devices()

    wait_for_health = _Waits(Pod.wait_for_health)
    wait_running = _Waits(Pod.wait_running)
    wait_until = _Waits(Pod.wait_until)
    wait_deleted = _Waits(Pod.wait_deleted)
    exit = _Waits(Pod.exit)
    delete = _Waits(Pod.delete)
    object = _Waits(Pod.object)


class SyncDriver(
    SyncControl,
    DriverLife,
    DriverDevices,
    StreamControl,
    DriverClaims,
    DriverRegistration,
    DriverReports,
    DriverQuestions,
):
    """A fake driver for tests without asyncio, with one method for each command, as in docs/reference/commands.md."""

    def __init__(self, of: FakeDriver | RemoteDriver, portal: BlockingPortal) -> None:
        self._of = of
        self._portal = portal

    @property
    def name(self) -> str:
        """The name of the driver, which is also the name of its DeviceClass."""
        return self._of.name

    async def do(self, command: Command[T]) -> T:
        return await self._of.do(command)

    def wait_for(self, done: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine in the event loop of the driver, and waits for its result."""

        async def wait() -> T:
            return await done

        __tracebackhide__ = True
        return _call(self._portal, wait)


class SyncNode:
    """A node for tests without asyncio: `with SyncNode(ReferenceNode()) as node`. It runs in a thread of this process.

    Its API server answers all clients, such as the official Python client with `kubeconfig()`.
    """

    def __init__(self, node: Node, portal: BlockingPortal | None = None, **driver: Any) -> None:
        """`node` is a ReferenceNode, a LocalNode or a RunningNode that is not entered.

        `portal` has an event loop in another thread; default: a new one. `driver` are fields of DriverOptions for
        `SyncNode.driver`.
        """
        self._of = node
        self._opened: BlockingPortal | None = None
        self._driver_options = driver
        self._given = portal
        self._driver: SyncDriver | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Start all of it; return when the node is Ready. Raises HarnessError, ConfigurationError."""
        with ExitStack() as stack:
            portal = self._given or stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(self._of))
            self._opened = portal
            self._closing = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver = self._opened = None
        self._closing.__exit__(kind, error, trace)

    @property
    def _portal(self) -> BlockingPortal:
        if self._opened is None:
            raise RuntimeError("the node is not running; enter it first: with node: ...")
        return self._opened

    @property
    def node(self) -> Node:
        """The asynchronous node, for code that runs in its event loop."""
        return self._of

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self._of.name

    @property
    def namespace(self) -> str:
        """The namespace of objects whose manifest names none."""
        return self._of.namespace

    @property
    def profile(self) -> Profile:
        """The profile of the reference, or for a real kubelet the profile of its release."""
        return self._of.profile

    @property
    def registry_dir(self) -> Path:
        """The directory `plugins_registry` of the kubelet, in which drivers create their registration sockets."""
        return self._of.registry_dir

    @property
    def plugins_dir(self) -> Path:
        """The directory `plugins` of the kubelet, in which drivers create their other sockets."""
        return self._of.plugins_dir

    @property
    def device_plugins_dir(self) -> Path:
        """The directory in which device plugins find `kubelet.sock`."""
        return self._of.device_plugins_dir

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses of all Pods until now; the newest status is the last one."""
        return self._of.statuses

    @property
    def driver(self) -> SyncDriver:
        """The fake driver of this node object, with its own devices. The first use starts it."""
        if self._driver is None:
            self._driver = self.add_driver(**self._driver_options)
        return self._driver

    def add_driver(self, devices: Sequence[str] | Inventory | None = None, **options: Any) -> SyncDriver:
        """Start another fake driver, with these devices, as `Node.add_driver` does."""
        __tracebackhide__ = True
        add = functools.partial(self._of.add_driver, devices, **options)
        return SyncDriver(_call(self._portal, add), self._portal)

    def run_pod(self, manifest: Mapping[str, Any], *, timeout: float | None = None) -> SyncPod:
        """Create a Pod from its manifest and wait until its containers run, as `Node.run_pod` does."""
        __tracebackhide__ = True
        run = functools.partial(self._of.run_pod, manifest, timeout=timeout)
        return SyncPod(_call(self._portal, run), self._portal)

    def run_pod_with_device(
        self, driver: SyncDriver | str | None = None, devices: int = 1, *, timeout: float | None = None
    ) -> SyncPod:
        """Run a Pod with one container that has this number of devices, and wait until it runs.

        `driver` is a driver of this node, the name of a DRA driver, or the name of an extended resource (the one with a
        slash); default: `SyncNode.driver`.
        """
        chosen = self.driver if driver is None else driver
        named = chosen.name if isinstance(chosen, SyncDriver) else chosen
        __tracebackhide__ = True
        run = functools.partial(self._of.run_pod_with_device, named, devices, timeout=timeout)
        return SyncPod(_call(self._portal, run), self._portal)

    def keep(self) -> bool:
        """Leave the namespace and its drivers at the end. False if the node itself ends."""
        if not isinstance(self._of, SharedNode):
            return False
        self._portal.call(self._of.keep)
        return True

    create = _Waits(Node.create)
    kubeconfig = _Waits(Node.kubeconfig)
    restart_kubelet = _Waits(Node.restart_kubelet)
    advance_time = _Waits(Node.advance_time)
