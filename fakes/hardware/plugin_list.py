"""What a device plugin lists: its devices in their order with a word of health, and those that it leaves out. Pure.

A device is left out because somebody took it out, or because of a fault with which devices vanish.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from drahealth.fakes.control.device_plugin import ListedDevice
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

    def set(self, device: str, health: str) -> None:
        """It is in this health from now on, and told of so when it is listed. ValueError for no device of these."""
        self._devices[device] = replace(self.known(device), health=health)

    def take_out(self, device: str) -> None:
        """It is left out from now on. ValueError for no device of these, or one that is not listed."""
        if not self.known(device).listed:
            raise ValueError(f"the plugin of {self._resource} does not list {device} now")
        self._taken_out.add(device)
        self._decide(device)

    def put_back(self, device: str) -> None:
        """It is listed again, whyever it was not. ValueError for no device of these, or one that is listed."""
        if self.known(device).listed:
            raise ValueError(f"the plugin of {self._resource} lists {device} already")
        self._taken_out.discard(device)
        self._vanished.discard(device)
        self._decide(device)

    def heal(self) -> bool:
        """All are listed and Healthy; whether one was not."""
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
            self.set(device, str(state.health))
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

    def _decide(self, device: str) -> None:
        listed = device not in self._taken_out and device not in self._vanished
        self._devices[device] = replace(self._devices[device], listed=listed)
