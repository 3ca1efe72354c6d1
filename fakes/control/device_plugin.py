"""The options of a fake device plugin, and its control surface."""

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
"""Number of recorded calls of each kind. Later calls replace the oldest; all are counted."""
Registration = Literal["kubelet.sock", "plugins_registry"]


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Options of a fake device plugin. Paths are as the kubelet and the plugin see them.

    Raises ValueError for wrong options.
    """

    resource: str
    """The extended resource, such as example.com/gpu."""
    devices: tuple[str, ...]
    """IDs of the devices."""
    plugins_dir: str
    """Directory of the device plugins and of the kubelet's socket."""
    registry_dir: str = ""
    """Directory in which the kubelet looks for registration sockets."""
    data_dir: str = ""
    """Directory of the plugin's own socket, if it registers through `registry_dir`."""
    registration: Registration = "kubelet.sock"
    """`kubelet.sock`: the plugin calls the kubelet. `plugins_registry`: the kubelet finds the plugin's socket."""
    instance: str = ""
    """Instance ID, needed if two plugins have the same resource. It is part of the socket names."""
    preferred: tuple[str, ...] = ()
    """Devices for GetPreferredAllocation, best first; empty: the plugin does not offer the call."""
    pre_start: bool = False
    """Whether the kubelet calls PreStartContainer."""
    cdi_kind: str = ""
    """Kind of the CDI names of allocated devices; empty: none."""
    cdi_dir: str = ""
    """Directory for a CDI specification of that kind, for a real container runtime; empty: none is written."""
    catalogue: str = "nvidia"
    """Catalogue of the faults that the devices can have (`faults.catalogue`)."""
    policy: str = "nvidia-catalogue"
    """Policy that maps these faults to health."""
    seed: int = 0
    """Seed of the times of recoveries."""
    inventory: tuple[Device, ...] = ()
    """Details of the devices and of their parents; the names are the device IDs. Other devices have only a path."""

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
        """File name of its sockets."""
        instance = f"-{self.instance}" if self.instance else ""
        return f"{self.resource.replace('/', '_')}{instance}.sock"

    @property
    def sockets(self) -> tuple[Path, ...]:
        """Paths of its sockets: its own, and the registration socket if it registers through `plugins_registry`."""
        if self.registration == "kubelet.sock":
            return (Path(self.plugins_dir) / self.socket_name,)
        return Path(self.data_dir) / self.socket_name, Path(self.registry_dir) / self.socket_name

    @property
    def ids(self) -> dict[str, str]:
        """IDs of its devices by path, for faults. A device that is not in `inventory` is a whole device."""
        known = {device.name: device.path for device in self.inventory}
        return {known.get(id_, _path(id_)): id_ for id_ in self.devices}

    @property
    def all_devices(self) -> Inventory:
        """Its devices and their parents."""
        return Inventory((*self.inventory, *self._unknown()))

    def _unknown(self) -> tuple[Device, ...]:
        known = {device.name for device in self.inventory}
        return tuple(Device(_path(id_)) for id_ in dict.fromkeys(self.devices) if id_ not in known)


def _path(id_: str) -> str:
    """The path of a whole device with this ID, which can be any text."""
    return id_.replace("/", "-")


class PluginControl(DevicePluginLife, ListedDevices, DevicePluginQuestions):
    """Interface with one method for each command of a fake device plugin, as in docs/commands.md."""
