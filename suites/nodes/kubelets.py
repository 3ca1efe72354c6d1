"""The reference as a kubelet alone, the reference as a node, and a real kubelet as a node."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Self

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.waiting import poll
from drahealth.manager.dra import Device
from drahealth.manager.manager import DeviceManager
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import DEFAULT_VERSION, PROFILE_CHOICE, profile_named
from drahealth.proto.events import Event, PluginDeregistered, PluginRegistered, RegistrationFailed
from drahealth.proto.values import AllocatedClaim, Health, PreparedDevice
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.nodes.node import Node, timed_out
from drahealth.suites.targets.kubelet.target import KubeletConfiguration
from drahealth.suites.targets.reference.target import ReferenceConfiguration
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.versions import parse_version, profile_of

# The reference as a kubelet alone: no pods, just what a driver under test registers with.

TIMEOUT = 30.0
"""Seconds that waiting takes at most by default."""

_INTERVAL = 0.02
"""Seconds between looks at the devices."""


class ReferenceKubelet:
    """The device manager of the reference, with an API server in memory; drivers under test register with it.

    Enter it with `async with`; its folder and sockets are gone afterwards. For pods take ReferenceNode.
    """

    name = "node-a"
    """The Node object's name."""

    def __init__(self, profile: Profile = KEP) -> None:
        self.profile = profile
        self.clock = JumpClock()
        self.api = ApiServer(clock=self.clock)
        self.events: list[Event] = []
        """What the kubelet has seen and done so far, each gRPC call included."""
        self._http = HttpApi(self.api)
        self._manager: DeviceManager | None = None
        self._root = Path()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start it; return when drivers may register. Raises HarnessError."""
        async with AsyncExitStack() as stack:
            folder = RunDirectory.create()
            stack.callback(folder.remove)
            stack.push_async_callback(self._http.stop)
            self._root = folder.path
            self.plugins_dir.mkdir()
            self._manager = await stack.enter_async_context(
                DeviceManager(folder.path, profile=self.profile, clock=self.clock, observe=self.events.append)
            )
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    @property
    def manager(self) -> DeviceManager:
        """The device manager. Raises RuntimeError outside of `async with`."""
        if self._manager is None:
            raise RuntimeError("the kubelet is not running; enter it first: async with kubelet: ...")
        return self._manager

    @property
    def registry_dir(self) -> Path:
        """The directory `plugins_registry`, in which drivers create their registration sockets."""
        return self._root / "plugins_registry"

    @property
    def plugins_dir(self) -> Path:
        """The directory `plugins`, in which drivers create their other sockets."""
        return self._root / "plugins"

    @property
    def device_plugins_dir(self) -> Path:
        """The directory in which device plugins find `kubelet.sock`."""
        return self._root / "device-plugins"

    async def kubeconfig(self) -> Path:
        """Path of a kubeconfig for a driver in another process. The first call starts the API server on loopback."""
        path = self._root / "kubeconfig"
        if not path.exists():
            await self._http.start()
            self._http.write_kubeconfig(path)
        return path

    @property
    def drivers(self) -> list[str]:
        """The DRA drivers and extended resources that are registered now."""
        instances: dict[tuple[str, str], None] = {}
        for event in self.events:
            if isinstance(event, PluginRegistered):
                instances[event.driver, event.endpoint] = None
            elif isinstance(event, PluginDeregistered):
                instances.pop((event.driver, event.endpoint), None)
        return list(dict.fromkeys(driver for driver, _ in instances))

    def devices(self) -> list[Device]:
        """All devices that drivers reported, with the health that a pod status shows now."""
        return list(self.manager.devices())

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepare the claims of a pod; returns the devices by claim UID. Raises PrepareError."""
        return await self.manager.prepare(pod_uid, claims)

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepare the claims of a pod. Raises PrepareError."""
        await self.manager.unprepare(pod_uid)

    async def advance_time(self, seconds: float) -> None:
        """Advance the clock of the kubelet and of its fakes by `seconds`, without waiting."""
        self.clock.jump(seconds)

    async def wait_registered(self, driver: str, *, timeout: float = TIMEOUT) -> None:
        """Wait until the DRA driver, or the device plugin of this resource, is registered.

        Raises TimeoutError with the drivers that are registered, and the registrations that failed.
        """

        def seen() -> str:
            failed = (
                f"{event.endpoint}: {event.problem}" for event in self.events if isinstance(event, RegistrationFailed)
            )
            return ", ".join((*self.drivers, *failed)) or "no driver"

        await self._wait(lambda: driver in self.drivers, timeout, f"driver {driver} is registered", seen)

    async def wait_for_health(
        self, device: str, health: Health | str, *, message: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        """Wait until the device, such as `gpu-0`, was reported with this health.

        `message` is a shell pattern, such as `XID 79*`. Raises ValueError for an unknown health, and TimeoutError with
        what was reported last.
        """
        wanted = Health(health)

        def shown() -> bool:
            found = [one.reading for one in self.devices() if device in (one.id.device, str(one.id))]
            return any(
                r.health is wanted and fnmatchcase(r.message, "*" if message is None else message) for r in found
            )

        await self._wait(shown, timeout, f"{device} is {wanted}", self._seen)

    def _seen(self) -> str:
        devices = (f"{one.id} {one.reading.health} {one.reading.message!r}" for one in self.devices())
        return ", ".join(devices) or "no device"

    async def _wait(self, true: Callable[[], bool], seconds: float, expected: str, seen: Callable[[], str]) -> None:
        if not await poll(true, _INTERVAL, seconds):  # staleness comes without an event
            raise timed_out(expected, seconds, seen())


# The reference as a node.


class ReferenceNode(Node):
    """The reference with an API server in memory, a scheduler and a fake container runtime, all in this process.

    It starts in milliseconds and needs only Python.
    """

    def __init__(self, profile: Profile | str = KEP) -> None:
        """`profile` is what it behaves as: kep, a release such as v1.37, or a patch level such as v1.36.5.

        Raises ConfigurationError for others.
        """
        found = profile if isinstance(profile, Profile) else profile_named(profile)
        if found is None:
            raise ConfigurationError(f"profile must be {PROFILE_CHOICE}, got {profile!r}")
        super().__init__(ReferenceConfiguration(found))


# A real kubelet as a node.


class LocalNode(Node):
    """A real kubelet and control plane on this machine, with a fake container runtime; no root, no container engine.

    It starts in about three seconds. Entering it downloads or builds the binaries of the release the first time, which
    takes minutes; `drahealth binaries ensure` does this beforehand, and `drahealth doctor` examines the machine.
    """

    def __init__(self, kubernetes: str = DEFAULT_VERSION) -> None:
        """`kubernetes` is a supported release, such as 1.37.2. Raises ConfigurationError for others."""
        version = parse_version(kubernetes)
        super().__init__(KubeletConfiguration(profile_of(version), version))
