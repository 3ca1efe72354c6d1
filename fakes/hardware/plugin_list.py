"""What a device plugin lists: its devices in their order with a word of health, and those that it leaves out. Pure.

A device is left out because somebody took it out, or because of a fault with which devices vanish.
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
    """The devices of the plugin of a resource, all Healthy to begin with."""

    def __init__(self, resource: str, ids: Iterable[str]) -> None:
        self._resource = resource
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in ids}
        self._taken_out: set[str] = set()
        self._vanished: set[str] = set()

    def all(self) -> tuple[ListedDevice, ...]:
        """Each device, with what is said of it when it is listed."""
        return tuple(self._devices.values())

    def response(self) -> Response:
        """What is listed now."""
        return tuple(PluginDevice(device.device, device.health) for device in self.all() if device.listed)

    def set(self, health: str, *devices: str) -> None:
        """Lists devices with this health from now on. ValueError for an unknown device."""
        self._devices |= {device: replace(self.known(device), health=health) for device in devices}

    def take_out(self, *devices: str) -> None:
        """Leaves devices out from now on. ValueError for an unknown device, and for one that is not listed."""
        if out := [device for device in devices if not self.known(device).listed]:
            raise ValueError(f"the plugin of {self._resource} does not list {', '.join(out)} now")
        self._taken_out.update(devices)
        self._decide(*devices)

    def put_back(self, *devices: str) -> None:
        """Lists devices again. ValueError for an unknown device, and for one that is listed."""
        if there := [device for device in devices if self.known(device).listed]:
            raise ValueError(f"the plugin of {self._resource} lists {', '.join(there)} already")
        self._taken_out.difference_update(devices)
        self._vanished.difference_update(devices)
        self._decide(*devices)

    def reset(self) -> bool:
        """Lists all as Healthy; whether that changes anything."""
        before = self.all()
        self._taken_out.clear()
        self._vanished.clear()
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in self._devices}
        return before != self.all()

    def change(self, states: Mapping[str, DeviceState]) -> Response:
        """These are so for their faults, or for the lack of them. Returns what is to be listed once.

        Devices that vanish are in it, and not in what is listed after that.
        """
        for device, state in states.items():
            self.set(str(state.health), device)
            self._vanished.discard(device)
            self._decide(device)
        last = self.response()
        for device in (device for device, state in states.items() if not state.listed):
            self._vanished.add(device)
            self._decide(device)
        return last

    def known(self, device: str) -> ListedDevice:
        """Raises ValueError for no device of these."""
        if device not in self._devices:
            there = near(device, self._devices)
            raise ValueError(f"the plugin of {self._resource} has no such device {device}; {there}")
        return self._devices[device]

    def _decide(self, *devices: str) -> None:
        out = self._taken_out | self._vanished
        self._devices |= {device: replace(self._devices[device], listed=device not in out) for device in devices}
