"""The control surface of a fake device plugin, beside that of a driver (`control`): asynchronous calls, plain data."""

from dataclasses import dataclass
from typing import Literal, Protocol

from drahealth.proto.device_plugin import KUBELET_SOCKET
from drahealth.proto.extended_resources import is_extended_resource

Registration = Literal["kubelet.sock", "plugins_registry"]


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """How a fake device plugin is made. Paths are as the kubelet and the plugin see them. ValueError for what makes
    none."""

    resource: str
    """The extended resource that it has devices of, such as example.com/gpu."""
    devices: tuple[str, ...]
    """Their ids."""
    plugins_dir: str
    """The directory of the device plugins, where the kubelet's socket is."""
    registry_dir: str = ""
    """Where the kubelet looks for registration sockets."""
    data_dir: str = ""
    """Where a plugin that registers there puts its own socket."""
    registration: Registration = "kubelet.sock"
    """Whether it calls the kubelet, or waits to be found."""
    instance: str = ""
    """Tells two plugins of one resource apart; part of the socket names."""
    preferred: tuple[str, ...] = ()
    """The devices that it would rather give, the first first; none: it is not asked."""
    pre_start: bool = False
    """It wants to be told before a container starts."""
    cdi_kind: str = ""
    """Allocated devices come with a CDI name each, of this kind; empty: without."""

    def __post_init__(self) -> None:
        if not is_extended_resource(self.resource):
            raise ValueError(f"{self.resource!r} is not the name of an extended resource, such as example.com/gpu")
        if self.registration == "plugins_registry" and not (self.registry_dir and self.data_dir):
            raise ValueError("a plugin that waits to be found has a registry_dir and a data_dir")
        if self.socket_name == KUBELET_SOCKET:
            raise ValueError(f"no plugin's socket is called {KUBELET_SOCKET}")

    @property
    def socket_name(self) -> str:
        """What its sockets are called."""
        instance = f"-{self.instance}" if self.instance else ""
        return f"{self.resource.replace('/', '_')}{instance}.sock"


@dataclass(frozen=True, slots=True)
class PluginState:
    """What a fake device plugin knows of itself."""

    running: bool
    registered: bool
    """A kubelet has said so since the last start."""
    registration_error: str
    streams: int
    """Lists that a kubelet is being told now."""
    allocated: tuple[tuple[str, ...], ...]
    """The devices of each Allocate call, since it was made."""
    started: tuple[tuple[str, ...], ...]
    """The devices of each PreStartContainer call, since it was made."""
    listed: tuple[str, ...] = ()
    """The devices that it lists."""


class PluginControl(Protocol):
    """What one can tell a fake device plugin."""

    async def start(self) -> None:
        """Opens its socket and registers, now and whenever a kubelet starts anew. A running one stays as it is."""

    async def stop(self) -> None:
        """Ends in order: its sockets go, then its lists end."""

    async def crash(self) -> None:
        """Is gone at once, as after SIGKILL: its lists are cut, the socket files stay."""

    async def retire(self) -> None:
        """Stops for good."""

    async def wait_registered(self) -> None:
        """Returns once a kubelet has said that the plugin is registered, since its last start."""

    async def set_health(self, device: str, health: str) -> None:
        """From now on the device is listed so, in whatever word; told at once."""

    async def remove(self, device: str) -> None:
        """The device is listed no more; told at once."""

    async def restore(self, device: str) -> None:
        """A device that was removed is listed again, as it was; told at once."""

    async def state(self) -> PluginState:
        """What the plugin knows of itself now."""
