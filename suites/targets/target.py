"""The interface between scenarios and what they run on.

A scenario uses a target through the objects of a story (`node`), and never asks which target it is. The profile of a
target says what its kubelet does; its windows say how long things take.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from drahealth.fakes.cluster.api import ControlPlaneApi, Object
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, Record

PART_OF = {"app.kubernetes.io/part-of": "drahealth"}
"""The label of all our objects, also of a fake driver that a user has installed."""
BELONGS = {**PART_OF, "app.kubernetes.io/component": "scenario"}
"""The labels of the namespaces of scenarios, and of what scenarios make outside of them."""

Window = Literal["push", "resync", "start", "restart"]
"""What a wait is for.

- push: a change that the kubelet is notified of
- resync: a change that waits for the next sync of a pod
- start: the start of a pod or driver
- restart: a restart of the kubelet or the API server
"""


class Placement(NamedTuple):
    """What a cluster asks of the objects of a scenario."""

    prefix: str = "scenario-"
    """How the names of namespaces begin."""
    pod: Mapping[str, Any] = MappingProxyType({})
    """Fields of the spec of each Pod, such as tolerations."""
    labels: Mapping[str, str] = MappingProxyType(BELONGS)
    """Labels of namespaces, and of objects outside of them."""


class Opened(NamedTuple):
    """An open window: the wait in real seconds, and the seconds that the node's clock jumped."""

    wait: float
    jumped: float = 0.0
    longest: float = 0.0
    """The longest wait in all, in real seconds, if the machine is slow (`History.until`); 0 if none is prolonged."""


class NodeTarget(Protocol):
    """A node with a control plane."""

    @property
    def profile(self) -> Profile:
        """The known behaviour of the kubelet."""

    @property
    def node_name(self) -> str: ...

    @property
    def api(self) -> ControlPlaneApi: ...

    @property
    def windows(self) -> Mapping[Window, float]:
        """The longest wait for each, in real seconds."""

    @property
    def registry_dir(self) -> Path:
        """The folder where the kubelet finds registration sockets."""

    @property
    def plugins_dir(self) -> Path:
        """The folder for the sockets of drivers."""

    @property
    def device_plugins_dir(self) -> Path:
        """The folder for the sockets of device plugins; it also has that of the kubelet."""

    @property
    def workload(self) -> Mapping[str, Any]:
        """The image and the command of a pod's containers, which run until they are stopped. The image has a shell."""

    async def start(self) -> None:
        """Returns once the node is Ready. Raises HarnessError."""

    async def stop(self) -> None:
        """Removes everything that `start` made; harmless on a target that never started."""

    async def advance_time(self, seconds: float) -> float:
        """Returns when `seconds` have passed for the node and its drivers: how many of them the clock jumped."""

    async def restart_kubelet(self) -> None:
        """Kills the kubelet and starts it with the same files; returns when the node is Ready."""

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        """Makes a running container exit with this code."""

    def check(self) -> None:
        """Raises HarnessError if a component of the target has died. No requirement fails for that."""


class Target(NodeTarget, Protocol):
    """A node for scenarios, with fake hardware on it."""

    @property
    def placement(self) -> Placement:
        """What its cluster asks of the objects of scenarios."""

    async def on(self, node: str, profile: Profile) -> "Target":
        """The same target on another one of its nodes, whose kubelet has this profile. The target must be started."""

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        """A scenario begins. It shares the node with scenarios of other workers, or waits until it is
        `alone` there. A kubelet that reports what it sees of plugins sends it to `observe`, and to no other observer.
        """

    async def prepare_namespace(self, namespace: str) -> None:
        """Prepares a new namespace so that pods can be made in it."""

    async def observe_writes(self, namespace: str, observe: Observe) -> None:
        """Sends the writes of Pod statuses in this namespace to `observe`, unless they were sent at once. Targets that
        do not see them send none.
        """

    async def leave(self) -> None:
        """The scenario has ended."""

    async def open_window(self, window: Window) -> Opened:
        """Starts a window."""

    def timers(self) -> frozenset[int] | None:
        """The numbers of all timers of the node and its drivers, never used again; None if they are not known."""

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        """A fake driver on the node, not started."""

    async def start_device_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        """A fake device plugin on the node, not started."""

    async def drop_driver(self, driver: DriverControl | PluginControl) -> None:
        """Releases a driver or device plugin that was made."""

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        """Kills the kubelet, or lets it stop in an orderly way; containers keep running. Harmless on a stopped one."""

    async def start_kubelet(self) -> None:
        """Starts a stopped kubelet with the same files; returns when the node is Ready."""

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        """Sets the feature gates of device health on the API server and on the kubelet, and restarts both. `dra` is
        the gate DynamicResourceAllocation of the kubelet, `messages` its gate ResourceHealthStatusMessage.
        """

    async def stop_api_server(self) -> None:
        """Kills the API server: its watches end, and calls fail until it is started."""

    async def start_api_server(self) -> None:
        """Starts a stopped API server with the same store; returns when it is ready. Harmless on a running one."""

    async def add_static_pod(self, manifest: Object) -> None:
        """Gives the kubelet the manifest of a static pod. Raises HarnessError if the target has none."""

    async def remove_static_pod(self, manifest: Object) -> None:
        """Removes this manifest; the kubelet ends the pod. Harmless if the kubelet does not have it."""

    def cdi_devices(self, pod_uid: str, container: str) -> tuple[str, ...]:
        """The CDI devices that the container runtime received with the newest container of this name. Raises
        UnknownIdError if there was none.
        """

    async def log_tail(self) -> str:
        """The last log lines of its components, for the report of a failure; empty if there are none."""


class LocalTarget(NodeTarget, Protocol):
    """A node whose kubelet registers drivers of any process on this machine: for the tests of users."""

    @property
    def clock(self) -> Clock:
        """The clock of the node."""

    async def kubeconfig(self) -> Path:
        """A kubeconfig for a driver in another process; its API server listens on loopback."""
