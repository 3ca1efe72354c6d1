"""How a fake device plugin is made, and its control surface."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drahealth.fakes.control.commands.life import DevicePluginLife
from drahealth.fakes.control.commands.plugin_devices import ListedDevices
from drahealth.fakes.control.commands.questions import DevicePluginQuestions
from drahealth.fakes.control.driver import check_instance
from drahealth.fakes.faults.catalogue import catalogue, policy
from drahealth.fakes.inventory.cdi import check_kind
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.proto.device_plugin import KUBELET_SOCKET
from drahealth.proto.extended_resources import is_extended_resource

KEPT = 100
"""Calls whose devices are remembered, of each kind; all are counted."""
Registration = Literal["kubelet.sock", "plugins_registry"]


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Options of a fake device plugin. Paths are as the kubelet and the plugin see them.

    Raises ValueError for wrong options.
    """

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
    cdi_dir: str = ""
    """Where a CDI specification of that kind is written, for a real container runtime; empty: nowhere."""
    catalogue: str = "nvidia"
    """What the faults are called that the devices can have (`faults.catalogue`)."""
    policy: str = "nvidia-catalogue"
    """Which of them make a device Unhealthy."""
    seed: int = 0
    """Seed of the times of recoveries."""
    inventory: tuple[Device, ...] = ()
    """What is known of its devices, by the names that are their ids, and of those that they are parts of."""

    def __post_init__(self) -> None:
        if not is_extended_resource(self.resource):
            raise ValueError(f"{self.resource!r} is not the name of an extended resource, such as example.com/gpu")
        check_instance(self.instance)
        if self.registration == "plugins_registry" and not (self.registry_dir and self.data_dir):
            raise ValueError("registration in plugins_registry needs registry_dir and data_dir; set both")
        if self.socket_name == KUBELET_SOCKET:
            raise ValueError(f"socket must not be {KUBELET_SOCKET}")
        if self.cdi_dir and self.cdi_kind:
            check_kind(self.cdi_kind)
        catalogue(self.catalogue)
        policy(self.policy)
        self.all_devices  # noqa: B018  ValueError where two have one name

    @property
    def socket_name(self) -> str:
        """What its sockets are called."""
        instance = f"-{self.instance}" if self.instance else ""
        return f"{self.resource.replace('/', '_')}{instance}.sock"

    @property
    def sockets(self) -> tuple[Path, ...]:
        """Where it is reached while it runs: the plugin's own, and that of its registration if it waits to be found."""
        if self.registration == "kubelet.sock":
            return (Path(self.plugins_dir) / self.socket_name,)
        return Path(self.data_dir) / self.socket_name, Path(self.registry_dir) / self.socket_name

    @property
    def ids(self) -> dict[str, str]:
        """Its devices' ids by their paths, in which faults think; one of which nothing is known is a whole device."""
        known = {device.name: device.path for device in self.inventory}
        return {known.get(id_, _path(id_)): id_ for id_ in self.devices}

    @property
    def all_devices(self) -> Inventory:
        """Its devices, and those that they are parts of."""
        return Inventory((*self.inventory, *self._unknown()))

    def _unknown(self) -> tuple[Device, ...]:
        known = {device.name for device in self.inventory}
        return tuple(Device(_path(id_)) for id_ in dict.fromkeys(self.devices) if id_ not in known)


def _path(id_: str) -> str:
    """The path of a whole device of this id, which may be any text."""
    return id_.replace("/", "-")


class PluginControl(DevicePluginLife, ListedDevices, DevicePluginQuestions):
    """The control surface of a fake device plugin: a method for each of its commands (`commands`)."""
