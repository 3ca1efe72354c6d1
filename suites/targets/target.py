"""The target: the seam between scenarios and what they run on.

A scenario talks to a target through the story's handles (`node`) and never asks which one it is. A target says what a
device is called in the status there (its profile), and how long things take there (its windows).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, Record

Window = Literal["push", "resync", "start", "restart"]
"""How long a thing may take: what the kubelet is notified of, what waits for a pod's next sync, a pod's or driver's
start, a restart of the kubelet or the API server."""


class Opened(NamedTuple):
    """A window that was opened: real seconds to wait at most, and seconds that the node's clock jumped for it."""

    wait: float
    jumped: float = 0.0


@runtime_checkable
class ObservedKubelet(Protocol):
    """A target whose kubelet reports what it sees of plugins."""

    def observe_kubelet(self, observe: Observe) -> None:
        """From now on, that observer gets the events of the kubelet side, and no other one."""


class Target(Protocol):
    """A node with a control plane, and fake hardware on it."""

    @property
    def profile(self) -> Profile:
        """What the kubelet here is known to do."""

    @property
    def node_name(self) -> str: ...

    @property
    def api(self) -> ListWatch: ...

    @property
    def windows(self) -> Mapping[Window, float]:
        """Real seconds."""

    @property
    def registry_dir(self) -> Path:
        """Where the kubelet looks for registration sockets."""

    @property
    def plugins_dir(self) -> Path:
        """Where drivers put their own sockets."""

    @property
    def device_plugins_dir(self) -> Path:
        """Where device plugins find the kubelet's socket, and put their own."""

    @property
    def workload_image(self) -> str:
        """What a pod's containers run: without a command it runs until it is told to end. It has a shell."""

    async def start(self) -> None:
        """Returns once the node is Ready. Raises HarnessError."""

    async def stop(self) -> None:
        """Leaves nothing behind; harmless on a target that never started."""

    async def enter(self, *, alone: bool) -> None:
        """A scenario begins, and shares the node with those of other workers unless it must be alone there."""

    async def prepare_namespace(self, namespace: str) -> None:
        """Sees to all that a new namespace needs before a pod can be made in it."""

    async def leave(self) -> None:
        """It has ended."""

    async def open_window(self, window: Window) -> Opened:
        """Lets the window's time begin to pass."""

    async def advance_time(self, seconds: float) -> float:
        """Returns when `seconds` have passed for the node and its drivers, and how many of them were jumped over."""

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        """Makes a fake driver on the node; it is not started yet."""

    async def start_device_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        """Makes a fake device plugin on the node; it is not started yet."""

    async def drop_driver(self, driver: DriverControl | PluginControl) -> None:
        """Lets go of a driver or device plugin that was made, and of the process it may live in."""

    async def restart_kubelet(self) -> None:
        """Ends the kubelet at once and starts it again on the same files; returns when the node is served again."""

    async def stop_kubelet(self) -> None:
        """Ends the kubelet at once; what runs on its node runs on. Harmless on one that was stopped."""

    async def start_kubelet(self) -> None:
        """Starts it again on the same files, if it was stopped; returns when the node is served again."""

    async def set_gates(self, *, api_server: bool, kubelet: bool) -> None:
        """Sets the feature gates of device health on the API server and on the kubelet, restarting both."""

    async def stop_api_server(self) -> None:
        """Ends the API server at once: its watches end, and whoever calls is refused, until it is started again."""

    async def start_api_server(self) -> None:
        """Starts it again on the same store; returns when it serves. Harmless on one that was not stopped."""

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        """Lets a running container end with this exit code."""

    def check(self) -> None:
        """Raises HarnessError if a component of the target has died, so that its death is not the subject's fault."""

    async def log_tail(self) -> str:
        """The last lines of its components' logs, for the report of a failure; empty if there are none."""


class LocalTarget(Target, Protocol):
    """A target whose kubelet registers drivers of any process on this machine."""

    @property
    def clock(self) -> Clock:
        """The clock of the node."""

    async def kubeconfig(self) -> Path:
        """A kubeconfig for a driver in another process; its API server listens on loopback."""
