"""The devices of fakes: inventory, health and taints, and the options that an inventory gives."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.control.commands import Reset, TaintDevices, UntaintDevices
from drahealth.fakes.control.definition import handles
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions
from drahealth.fakes.control.taint import Taint
from drahealth.fakes.control.without_subcommand import GetDevices, SelectDevices, SetHealth
from drahealth.fakes.faults.catalogue import policy
from drahealth.fakes.hardware.failing import DeviceState, FailingDevices, FaultHandlers, Machine
from drahealth.fakes.inventory import devices
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.file import FoundPart, load_file
from drahealth.fakes.kubelet_plugin import Pool
from drahealth.fakes.kubelet_plugin.health_table import HealthTable, healthy
from drahealth.fakes.program.user_files import FileError, Problem
from drahealth.proto.clock import Clock
from drahealth.proto.values import DeviceHealth, DeviceId, Health, Report

# Create options of drivers and device plugins from an inventory.
#
#     gpus = load_inventory(Path("devices.yaml"))
#     driver_options(gpus, name="gpu.example.com", node="node-a", registry_dir=..., data_dir=...)
#     plugin_options(gpus, "example.com/gpu", plugins_dir=...)
#     fakes_of(Path("devices.yaml"), node="node-a", registry_dir=..., plugins_dir=..., device_plugins_dir=...)
#
# A divided device is not allocatable; its partitions are.

DRIVER = "gpu.example.com"
"""Default driver name for a file with `devices` only."""


def driver_options(inventory: Inventory, **options: Any) -> DriverOptions:
    """Options of a driver with these devices and other fields of DriverOptions. Raises ValueError if invalid."""
    return DriverOptions(devices=inventory.leaves, inventory=inventory.devices, **options)


def plugin_options(inventory: Inventory, resource: str, **options: Any) -> PluginOptions:
    """Options of a device plugin with these devices and other fields of PluginOptions. Raises ValueError if invalid."""
    ids = tuple(inventory[path].name for path in inventory.leaves)
    return PluginOptions(resource=resource, devices=ids, inventory=inventory.devices, **options)


@dataclass(frozen=True, slots=True)
class Fakes:
    """The drivers and device plugins of a file."""

    drivers: tuple[DriverOptions, ...]
    plugins: tuple[PluginOptions, ...]


def fakes_of(
    path: Path,
    *,
    node: str,
    registry_dir: Path,
    plugins_dir: Path,
    device_plugins_dir: Path,
    driver: str = DRIVER,
    **options: Any,
) -> Fakes:
    """The drivers and device plugins of a file, in order, each with its own folder in `plugins_dir`.

    `driver` is the driver name for a file with `devices` only. `options` are defaults of DriverOptions and, as far as
    they exist, of PluginOptions. Raises FileError for an invalid file, OSError for an unreadable one.
    """
    file, problems = load_file(path), list[Problem]()
    drivers, plugins, kinds = list[DriverOptions](), list[PluginOptions](), dict[str, str]()
    for found in file.drivers:
        name = found.name or driver
        where = {"node": node, "registry_dir": str(registry_dir), "data_dir": str(plugins_dir / name)}
        kinds[devices.file_name(devices.kind_of(name))] = f"driver {name}"
        try:
            drivers.append(driver_options(found.inventory, **{**options, **found.options, "name": name, **where}))
        except ValueError as error:
            problems += found.error(str(error)).problems
    shared = {key: value for key, value in options.items() if key in PluginOptions.__slots__}
    for found in file.plugins:
        data_dir = plugins_dir / found.name.replace("/", "_")
        where = {"plugins_dir": str(device_plugins_dir), "registry_dir": str(registry_dir), "data_dir": str(data_dir)}
        try:
            _record_kind(found, kinds)
            plugins.append(_plugin(found, {**shared, **where}))
        except FileError as error:
            problems += error.problems
        except ValueError as error:
            problems += found.error(str(error)).problems
    if problems:
        raise FileError(str(path), problems)
    return Fakes(tuple(drivers), tuple(plugins))


def _plugin(found: FoundPart, options: Mapping[str, Any]) -> PluginOptions:
    fields = dict(found.options)
    if "preferred" in fields:
        fields["preferred"] = tuple(name.replace("/", "-") for name in fields["preferred"])
    return plugin_options(found.inventory, found.name, **{**options, **fields})


def _record_kind(plugin: FoundPart, kinds: dict[str, str]) -> None:
    """Records the CDI kind of a plugin. Raises FileError if it is already used."""
    if kind := plugin.options.get("cdi_kind"):
        file = devices.file_name(kind)
        if file in kinds:
            raise plugin.error(f"CDI kind {kind} is already used by {kinds[file]}", "cdi_kind")
        kinds[file] = f"device plugin {plugin.name}"


def inventory_of(options: DriverOptions) -> Inventory:
    """The inventory of a driver: its devices, and the devices that its partitions belong to."""
    known = {device.path: device for device in options.inventory}
    link = "linked" if options.linked else ""
    wholes = dict.fromkeys(
        (known[path].parent or path) if path in known else path.partition("/")[0] for path in options.devices
    )
    parts = [Device(path) for path in options.devices if "/" in path and path not in known]
    return Inventory([*known.values(), *(Device(path, link=link) for path in wholes if path not in known), *parts])


# The devices of a driver, shared by its instances: inventory, health, taints and faults.

Taints = tuple[Taint, ...]


class Devices:
    """The devices in `options`; all are Healthy at the start."""

    def __init__(self, options: DriverOptions, clock: Clock) -> None:
        self.inventory = inventory_of(options)
        self.allocatable = tuple(self.inventory[path] for path in options.devices)
        """The allocatable devices; the partitions of a divided device."""
        self._allocatable = frozenset(options.devices)
        self.taints: dict[str, Taints] = {}
        """Taints by device path."""
        self.published_taints: Mapping[str, Taints] = {}
        """Taints at the last successful publish."""
        self._driver = options.name
        self._pool = options.pool_name
        self._timeout = options.timeout
        self._unhealthy_taint = Taint.parse(options.unhealthy_taint) if options.unhealthy_taint else None
        well = (healthy(self.pool_of(device), device.name, options.timeout) for device in self.allocatable)
        now = int(clock.wall())
        self.table = HealthTable(options.name, [replace(device, updated=now) for device in well])
        machine = Machine(self.inventory, options.catalogue, policy(options.policy))
        self._clock = clock
        self.failing = FailingDevices(machine, options.devices, seed=options.seed, clock=clock, on_change=self._report)

    def set_health(self, command: SetHealth) -> None:
        """Sets the health of devices, in one report. Raises ValueError for an unknown device."""
        now, changed = int(self._clock.wall()), list[DeviceHealth]()
        for device in self.named(command.device):
            old = self.table.get(self.pool_of(device), device.name)
            health, message = command.health or old.health, old.message if command.message is None else command.message
            timeout = old.timeout if command.timeout is None else command.timeout
            changed.append(replace(old, health=health, message=message, timeout=timeout, updated=now))
        self.table.set(*changed)

    def reset(self) -> None:
        """Makes all devices Healthy, without faults, with the timeout of the start."""
        self.failing.reset()
        now = int(self._clock.wall())
        devices = ((old, healthy(old.pool, old.device, self._timeout)) for old in self.table.all())
        if well := [replace(new, updated=now) for old, new in devices if replace(old, updated=new.updated) != new]:
            self.table.set(*well)

    def named(self, devices: str | Sequence[str]) -> list[Device]:
        """The devices of `Inventory.named`; for a divided device its partitions. Raises ValueError."""
        inside = (path for named in self.inventory.named(devices) for path in self.inventory.reached(named, "device"))
        return [self.inventory[path] for path in dict.fromkeys(inside) if path in self._allocatable]

    def selected(self, query: SelectDevices) -> list[str]:
        """The paths of the devices that a query selects. Raises ValueError if there are none."""
        attributes = {key: value for key, value in (("rack", query.rack), ("zone", query.zone)) if value}
        return self.inventory.selected(query.device, query.node, attributes, percent=query.percent, seed=query.seed)

    def pool_of(self, device: Device) -> str:
        """The pool of a device."""
        return device.pool or self._pool

    def ids(self) -> frozenset[DeviceId]:
        """The allocatable devices as claims name them."""
        return frozenset(DeviceId(self._driver, self.pool_of(device), device.name) for device in self.allocatable)

    def pools(self) -> dict[str, Pool]:
        """The pools to publish."""
        pools: dict[str, list[Object]] = {} if self.allocatable else {self._pool: []}
        sick = self.tainted_by_health()
        for device in self.allocatable:
            published = published_device(device, self._taints_of(device, sick=device.path in sick))
            pools.setdefault(self.pool_of(device), []).append(published)
        return {name: Pool(devices) for name, devices in pools.items()}

    def tainted_by_health(self) -> frozenset[str]:
        """The devices that have the taint of the option `unhealthy_taint` now."""
        if self._unhealthy_taint is None:
            return frozenset()
        sick = {(one.pool, one.device) for one in self.table.all() if one.health is Health.UNHEALTHY}
        return frozenset(one.path for one in self.allocatable if (self.pool_of(one), one.name) in sick)

    def _taints_of(self, device: Device, *, sick: bool) -> Taints:
        """Those of commands, and the one of an Unhealthy device, unless a command gave one with its key and effect."""
        own, more = self.taints.get(device.path, ()), self._unhealthy_taint
        if more is None or not sick:
            return own
        return own if (more.key, more.effect) in {(one.key, one.effect) for one in own} else (*own, more)

    def tainted(self, command: TaintDevices) -> dict[str, Taints]:
        """The taints of all devices after the command. Raises ValueError for an unknown device."""
        taint = Taint(command.key, command.value, command.effect)
        after = dict(self.taints)
        for device in self.named(command.device):
            there = after.get(device.path, ())
            after[device.path] = (*(t for t in there if (t.key, t.effect) != (taint.key, taint.effect)), taint)
        return after

    def untainted(self, command: UntaintDevices) -> tuple[dict[str, Taints], list[str]]:
        """The taints of all devices after the command, and the devices that had such a taint. Raises ValueError."""
        after, had = dict(self.taints), list[str]()
        for device in self.named(command.device):
            there = after.get(device.path, ())
            kept = tuple(t for t in there if t.key != command.key or command.effect not in ("", t.effect))
            had += [device.path] if kept != there else []
            after[device.path] = kept
        return {path: there for path, there in after.items() if there}, had

    def accepted_taints(self) -> dict[str, Taints]:
        """The current taints that the API server has accepted."""
        accepted = {
            p: tuple(t for t in there if t in self.published_taints.get(p, ())) for p, there in self.taints.items()
        }
        return {path: there for path, there in accepted.items() if there}

    def _report(self, states: Mapping[str, DeviceState]) -> None:
        """Reports the changed devices in one report."""
        listed, final, now = list[DeviceHealth](), list[DeviceHealth](), int(self._clock.wall())
        for path, state in states.items():
            device = self.inventory[path]
            pool = self.pool_of(device)
            timeout = self.table.get(pool, device.name).timeout
            health = DeviceHealth(pool, device.name, state.health, state.message, timeout, now)
            (listed if state.listed else final).append(health)
        self.table.set(*listed, final=final)


def published_device(device: Device, taints: Sequence[Taint] = ()) -> Object:
    """The device with its model, memory, parent device, other attributes and taints."""
    whole = device.path_on_node.rpartition("/")[0]
    parent = {"parent": whole.replace("/", "-")} if whole else {}
    attributes = {"model": device.model, **parent, **device.attributes}
    return {
        "name": device.name,
        "attributes": {name: _attribute(value) for name, value in attributes.items()},
        "capacity": {"memory": {"value": device.memory}},
        **({"taints": [_taint(taint) for taint in taints]} if taints else {}),
    }


def _attribute(value: str | int | bool) -> Object:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def _taint(taint: Taint) -> Object:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


class DeviceHandlers(FaultHandlers, ABC):
    """Handlers of the commands for the devices of a driver, on one node or on many: faults, health and taints."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self.failing = devices.failing
        self._tainting = asyncio.Lock()

    @abstractmethod
    async def _publish(self) -> None:
        """Writes the ResourceSlices. Raises ApiError or ValueError."""

    @abstractmethod
    def _publish_later(self) -> None:
        """The same soon, without an error."""

    @handles(SetHealth)
    async def _set_health(self, command: SetHealth) -> None:
        self._devices.set_health(command)

    @handles(TaintDevices)
    async def _taint(self, command: TaintDevices) -> None:
        async with self._tainting:
            await self._set_taints(self._devices.tainted(command))

    @handles(UntaintDevices)
    async def _untaint(self, command: UntaintDevices) -> Sequence[str]:
        async with self._tainting:
            left, had = self._devices.untainted(command)
            await self._set_taints(left)
        return had

    @handles(Reset)
    async def _reset(self, command: Reset) -> None:
        self._devices.reset()
        async with self._tainting:
            await self._set_taints({})

    @handles(GetDevices)
    async def _get_devices(self, query: GetDevices) -> tuple[DeviceHealth, ...]:
        return self._devices.table.all()

    @handles(SelectDevices)
    async def _select(self, query: SelectDevices) -> Sequence[str]:
        return self._devices.selected(query)

    async def _set_taints(self, taints: Mapping[str, Taints]) -> None:
        """Publishes the taints; restores the previous ones after an error. The caller holds `_tainting`."""
        before, desired = self._devices.taints, {path: there for path, there in taints.items() if there}
        if desired == before:
            return
        self._devices.taints = desired
        try:
            await self._publish()
        except (ApiError, ValueError):
            self._devices.taints = before
            self._publish_later()
            raise


class TaintsByHealth:
    """Publishes the devices when one becomes Unhealthy or stops being so. It is a `HealthReporter`."""

    def __init__(self, devices: Devices, publish_later: Callable[[], None]) -> None:
        self._devices = devices
        self._publish_later = publish_later
        self._last = devices.tainted_by_health()

    def report_changes(self, changed: Report, *, coalesces: bool) -> None:
        """A report of some devices."""
        self.report_all()

    def report_all(self) -> None:
        """A report of all devices."""
        now = self._devices.tainted_by_health()
        if now != self._last:
            self._last = now
            self._publish_later()
