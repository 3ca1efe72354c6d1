"""The device list of a device plugin, in order, with the health of each device. Pure.

The list omits a device after the command `remove`, or while it has a fault that makes devices vanish.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from drahealth.fakes.control.replies import ListedDevice
from drahealth.fakes.hardware.machine import DeviceState
from drahealth.fakes.hints import near
from drahealth.proto.extended_resources import PluginDevice

Response = tuple[PluginDevice, ...]
"""The devices of one ListAndWatch response."""


class PluginList:
    """The devices of one device plugin; all are Healthy at the start."""

    def __init__(self, resource: str, ids: Iterable[str]) -> None:
        self._resource = resource
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in ids}
        self._removed: set[str] = set()
        self._vanished: set[str] = set()

    def all(self) -> tuple[ListedDevice, ...]:
        """All devices with their health, including devices that are not listed."""
        return tuple(self._devices.values())

    def response(self) -> Response:
        """The ListAndWatch response with the listed devices."""
        return tuple(PluginDevice(device.device, device.health) for device in self.all() if device.listed)

    def set(self, health: str, *devices: str) -> None:
        """Sets the health of devices. ValueError for an unknown device."""
        self._devices |= {device: replace(self.known(device), health=health) for device in devices}

    def remove(self, *devices: str) -> None:
        """Removes devices from the list. ValueError for an unknown device, and for one that is not listed."""
        if out := [device for device in devices if not self.known(device).listed]:
            raise ValueError(f"device plugin {self._resource} does not list {', '.join(out)}")
        self._removed.update(devices)
        self._update(*devices)

    def restore(self, *devices: str) -> None:
        """Lists devices again. ValueError for an unknown device, and for one that is listed."""
        if there := [device for device in devices if self.known(device).listed]:
            raise ValueError(f"device plugin {self._resource} already lists {', '.join(there)}")
        self._removed.difference_update(devices)
        self._vanished.difference_update(devices)
        self._update(*devices)

    def reset(self) -> bool:
        """Lists all devices as Healthy; returns whether anything changed."""
        before = self.all()
        self._removed.clear()
        self._vanished.clear()
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in self._devices}
        return before != self.all()

    def change(self, states: Mapping[str, DeviceState]) -> Response:
        """Applies the states of devices after a change of their faults. Returns the next response.

        A device that vanishes is in this response, and omitted from the following ones.
        """
        for device, state in states.items():
            self.set(str(state.health), device)
            self._vanished.discard(device)
            self._update(device)
        last = self.response()
        for device in (device for device, state in states.items() if not state.listed):
            self._vanished.add(device)
            self._update(device)
        return last

    def known(self, device: str) -> ListedDevice:
        """The device with this id. Raises ValueError for an unknown device."""
        if device not in self._devices:
            hint = near(device, self._devices)
            raise ValueError(f"unknown device {device!r} of device plugin {self._resource}; {hint}")
        return self._devices[device]

    def _update(self, *devices: str) -> None:
        out = self._removed | self._vanished
        self._devices |= {device: replace(self._devices[device], listed=device not in out) for device in devices}
