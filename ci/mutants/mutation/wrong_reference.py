"""Makes the reference wrong by one fault of the model (`faults`): wraps the methods at its seam, in this process."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from drahealth.fakes.cluster.api_server.pod_statuses import FIELD
from drahealth.manager import checkpoint, device_plugins
from drahealth.manager.allocations import Allocation, Allocations
from drahealth.manager.cache import UNKNOWN, Entry, HealthCache, Reading
from drahealth.manager.calls import notify_each
from drahealth.manager.claims import Claims, PreparedClaim
from drahealth.manager.device_plugins import DevicePlugin, DevicePluginManager
from drahealth.manager.dra import DraManager, Plugins
from drahealth.manager.manager import DeviceManager
from drahealth.manager.plugin import DraPlugin
from drahealth.manager.pod_worker.pod_object import PodObject
from drahealth.manager.resources import Resources
from drahealth.proto.events import PodsNotified
from drahealth.proto.values import (
    DEFAULT_TIMEOUT,
    AllocatedResources,
    DeviceHealth,
    DeviceId,
    Health,
    PluginDevice,
    ResourceHealth,
    ResourceStatus,
)
from mutation import faults
from mutation.faults import Fault

LATE = 20.0
"""Real seconds: longer than each window of the reference."""


# What has happened on the node of a scenario, and the order in which its objects came.


def node_of(name: str) -> str:
    """The node of a driver or of a resource: the scenarios share a manager, but not the domains of their drivers."""
    return name.partition("/")[0].partition(".")[2]


@dataclass
class World:
    """What a fault may ask of the node. The wrapped methods keep it."""

    ranks: dict[tuple[str, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By node and kind of object: the objects in the order in which they came."""
    happened: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By node."""
    node_of_pod: dict[str, str] = field(default_factory=dict)
    registered: dict[str, int] = field(default_factory=dict)
    """By driver or resource: the kubelet's run in which it has registered last."""
    run: int = 0
    readings: dict[DeviceId, DeviceHealth] = field(default_factory=dict)
    """The last report of each device, as its driver sent it."""
    moves: dict[Hashable, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The changes in the last report or list, by device."""
    lists: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """The last list of each resource."""
    ended: set[str] = field(default_factory=set)
    """The resources whose list has ended: their devices show Unknown until the next list."""
    owners: dict[int, DeviceId] = field(default_factory=dict)
    """The device of an entry of the cache, by the id of the object."""
    dra: DraManager | None = None

    def rank(self, node: str, kind: str, name: str) -> int:
        """The place of an object among those of its kind; a new one is the last. A resource is no driver."""
        known = self._known(node, kind, name)
        return known.setdefault(name, len(known))

    def places(self, node: str, kind: str, name: str, noun: str) -> set[str]:
        """What an object is called, such as the second driver."""
        rank, count = self.rank(node, kind, name), len(self._known(node, kind, name))
        return _ordinal(rank, noun) | ({f"the last {noun}"} if 0 < rank == count - 1 else set())

    def next_of(self, node: str, kind: str, name: str) -> str | None:
        """The object after this one, in a circle; None if it is alone."""
        known = [*self._known(node, kind, name)]
        return known[(known.index(name) + 1) % len(known)] if len(known) > 1 else None

    def _known(self, node: str, kind: str, name: str) -> dict[str, int]:
        return self.ranks[node, f"{kind} with a slash" if "/" in name else kind]


def _ordinal(rank: int, noun: str) -> set[str]:
    return {f"the {('first', 'second')[rank]} {noun}"} if rank < 2 else set()


@dataclass(frozen=True, slots=True)
class Sight:
    """Something that passes the seam."""

    node: str
    which: Collection[str]
    changes: Collection[str] = (faults.ANY,)


class Trigger:
    """Whether the fault happens now."""

    def __init__(self, fault: Fault, world: World) -> None:
        self._fault, self._world = fault, world
        self._number: dict[str, int] = defaultdict(int)
        self._decided: dict[Hashable, bool] = {}

    def pulls(self, sight: Sight, once: Hashable = None) -> bool:
        """Whether the fault happens to this. The answer for the same `once` is the same."""
        if once is None:
            return self._decide(sight)
        if once not in self._decided:
            self._decided[once] = self._decide(sight)
        return self._decided[once]

    def _decide(self, sight: Sight) -> bool:
        fault = self._fault
        if fault.change not in sight.changes or not (fault.which.startswith("any ") or fault.which in sight.which):
            return False
        self._number[sight.node] += 1
        match fault.moment:
            case faults.ALWAYS:
                return True
            case faults.FIRST:
                return self._number[sight.node] == 1
            case faults.SECOND:
                return self._number[sight.node] == 2
        return fault.moment in self._world.happened[sight.node]


def _around(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replaces a method or function by what `make` makes of it."""
    right = getattr(owner, name)
    setattr(owner, name, wraps(right)(make(right)))


def _late(work: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(LATE, work)


def install(fault: Fault) -> None:
    """Makes the reference wrong, before it starts."""
    world = World()
    trigger = Trigger(fault, world)
    if fault.seam in INPUTS:
        INPUTS[fault.seam](fault, world, trigger)
    _follow(world)
    if fault.seam in PLACES:
        PLACES[fault.seam](fault, world, trigger)


# What the world learns from the right reference


def _follow(world: World) -> None:
    """Wraps the methods that tell the world what happens."""

    def registers(name: str) -> None:
        world.rank(node_of(name), "driver", name)
        if world.registered.get(name) == world.run:
            world.happened[node_of(name)].add(faults.REREGISTRATION)
        world.registered[name] = world.run

    def register(right: Any) -> Any:
        async def follow(manager: Any, candidate: Any) -> None:
            registers(candidate.name)
            await right(manager, candidate)

        return follow

    def register_plugin(right: Any) -> Any:
        async def follow(manager: Any, resource: str, *rest: Any) -> None:
            registers(resource)
            await right(manager, resource, *rest)

        return follow

    def load(right: Any) -> Any:
        def follow(manager: DraManager) -> None:
            world.run += 1
            for node in {node for node, _ in world.ranks}:
                world.happened[node].add(faults.RESTART)
            right(manager)
            world.dra = manager
            _know(world, manager._cache)

        return follow

    def ended(right: Any) -> Any:
        def follow(manager: DraManager, driver: str) -> None:
            right(manager, driver)
            world.happened[node_of(driver)].add(faults.STREAM_END)

        return follow

    def list_ended(right: Any) -> Any:
        def follow(manager: DevicePluginManager, plugin: DevicePlugin) -> None:
            right(manager, plugin)
            world.happened[node_of(plugin.resource)].add(faults.STREAM_END)

        return follow

    def plugin_ended(right: Any) -> Any:
        def follow(manager: DevicePluginManager, plugin: DevicePlugin) -> None:
            for device, health in world.lists[plugin.resource].items():
                world.moves[plugin.resource, device] = {faults.ANY, f"{health} to {Health.UNKNOWN}"}
            right(manager, plugin)
            if manager._resources.newest(plugin.resource) is None:
                world.ended.add(plugin.resource)

        return follow

    def hold(right: Any) -> Any:
        def follow(claims: Claims, claim: Any, pod: str = "") -> None:
            right(claims, claim, *([pod] if pod else []))
            found = claims.get(claim) if pod else claim
            _see_claim(world, found)

        return follow

    def allocate(right: Any) -> Any:
        def follow(allocations: Allocations, allocation: Allocation) -> None:
            right(allocations, allocation)
            node = world.node_of_pod[allocation.pod_uid] = node_of(allocation.resource)
            world.rank(node, "Pod", allocation.pod_uid)

        return follow

    def forget(right: Any) -> Any:
        def follow(manager: DeviceManager, pod: str) -> None:
            right(manager, pod)
            if pod in world.node_of_pod:
                world.happened[world.node_of_pod[pod]].add(faults.DELETED_POD)

        return follow

    def reported(right: Any) -> Any:
        def follow(manager: DraManager, driver: str, report: Sequence[DeviceHealth]) -> None:
            now = manager._clock.now()
            for one in report:
                device = DeviceId(driver, one.pool, one.device)
                world.rank(node_of(driver), f"device of {driver}", one.device)
                shown = manager._cache.read(device, now)
                world.moves[device] = _changes(shown, world.readings.get(device), one)
            right(manager, driver, report)
            world.readings |= {DeviceId(driver, one.pool, one.device): one for one in report}

        return follow

    def listed(right: Any) -> Any:
        def follow(manager: DevicePluginManager, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
            known = {} if plugin.resource in world.ended else world.lists[plugin.resource]
            listed = {one.id: one.health for one in devices}
            for device in listed:
                world.rank(node_of(plugin.resource), f"device of {plugin.resource}", device)
            for device in {**known, **listed}:
                before, now = (found.get(device, str(Health.UNKNOWN)) for found in (known, listed))
                moved = {f"{before} to {now}"} if before != now else set()
                world.moves[plugin.resource, device] = {faults.ANY, *moved}
            world.ended.discard(plugin.resource)
            right(manager, plugin, devices)
            world.lists[plugin.resource] = listed

        return follow

    def update(right: Any) -> Any:
        def follow(cache: HealthCache, driver: str, *rest: Any) -> Any:
            if any(entry.stale(rest[1]) for entry in cache.devices().get(driver, {}).values()):
                world.happened[node_of(driver)].add(faults.EXPIRY)
            found = right(cache, driver, *rest)
            _know(world, cache)
            return found

        return follow

    def read(right: Any) -> Any:
        def follow(cache: HealthCache, device: DeviceId, now: float) -> Reading:
            entry = cache.devices().get(device.driver, {}).get((device.pool, device.device))
            if entry and entry.stale(now):
                world.happened[node_of(device.driver)].add(faults.EXPIRY)
            found: Reading = right(cache, device, now)
            return found

        return follow

    for owner, name, make in (
        (DraManager, "register", register),
        (DevicePluginManager, "_register", register_plugin),
        (DraManager, "load", load),
        (DraManager, "_ended", ended),
        (DevicePluginManager, "_list_ended", list_ended),
        (DevicePluginManager, "_ended", plugin_ended),
        (Claims, "add", hold),
        (Claims, "hold", hold),
        (Allocations, "add", allocate),
        (DeviceManager, "forget", forget),
        (DraManager, "_reported", reported),
        (DevicePluginManager, "_listed", listed),
        (HealthCache, "update", update),
        (HealthCache, "read", read),
    ):
        _around(owner, name, make)


def _know(world: World, cache: HealthCache) -> None:
    world.owners = {id(entry): device for device, entry in cache.entries()}


def _see_claim(world: World, claim: PreparedClaim | None) -> None:
    if claim and claim.drivers:
        node = node_of(claim.drivers[0])
        world.rank(node, "claim", claim.ref.uid)
        for pod in claim.pods:
            world.node_of_pod[pod] = node
            world.rank(node, "Pod", pod)


def _changes(shown: Reading, before: DeviceHealth | None, now: DeviceHealth) -> set[str]:
    found = {faults.ANY}
    if shown.health != now.health:
        found.add(f"{shown.health} to {now.health}")
    elif shown.message != now.message:
        found.add(faults.MESSAGE)
    else:
        found.add(faults.SAME)
    old, new = (before and before.timeout) or 0, now.timeout
    if before and old != new:
        found.add(
            faults.NO_TIMEOUT if new <= 0 else faults.LONGER if new > (old or DEFAULT_TIMEOUT) else faults.SHORTER
        )
    return found


def _places(world: World, manager: DraManager | None, device: DeviceId) -> set[str]:
    """What a device of a driver is called."""
    node = node_of(device.driver)
    found = world.places(node, f"device of {device.driver}", device.device, "device")
    found |= world.places(node, "driver", device.driver, "driver")
    if manager is None:
        return found
    for claim in manager._claims:
        if all(one.id != device for one in claim.devices):
            continue
        found |= world.places(node, "claim", claim.ref.uid, "claim")
        for pod in claim.pods:
            found |= world.places(node, "Pod", pod, "Pod")
            uses = manager._uses.get(pod)
            for number, used in enumerate(uses.containers.values() if uses else ()):
                if any(use.claim_uid == claim.ref.uid for use in used):
                    found |= _ordinal(number, "container")
    return found


def _plugin_places(world: World, manager: DevicePluginManager, resource: str, device: str) -> set[str]:
    """What a device of a device plugin is called."""
    node = node_of(resource)
    found = world.places(node, f"device of {resource}", device, "device")
    found |= world.places(node, "driver", resource, "driver")
    for held in manager._allocations:
        if held.resource == resource and device in held.devices:
            found |= world.places(node, "Pod", held.pod_uid, "Pod") | _containers(manager._allocations, held)
    return found


def _containers(allocations: Iterable[Allocation], held: Allocation) -> set[str]:
    names = dict.fromkeys(one.container for one in allocations if one.pod_uid == held.pod_uid)
    return _ordinal([*names].index(held.container), "container")


def _driver_places(world: World, name: str) -> Sight:
    return Sight(node_of(name), world.places(node_of(name), "driver", name, "driver"))


# Reports and expiry


def _report(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def reported(manager: DraManager, driver: str, report: Sequence[DeviceHealth]) -> None:
            node, taken = node_of(driver), list[DeviceHealth]()
            unrenewed: dict[DeviceId, float] = {}
            omits = False
            for one in report:
                device = DeviceId(driver, one.pool, one.device)
                if not trigger.pulls(Sight(node, _places(world, manager, device), world.moves[device])):
                    taken.append(one)
                    continue
                if fault.what == "it does not renew the time of the last report":
                    unrenewed |= {known: e.updated for known, e in manager._cache.entries() if known == device}
                omits = omits or fault.what == "devices that it omits are forgotten"
                taken += _wrong_reading(fault.what, world, one, device, lambda *words: right(manager, *words))
            right(manager, driver, tuple(taken))
            named = {(one.pool, one.device) for one in report}
            for device, entry in list(manager._cache.entries()):
                if device in unrenewed:
                    entry.updated = unrenewed[device]
                if omits and device.driver == driver and (device.pool, device.device) not in named:
                    del manager._cache._drivers[driver][device.pool, device.device]

        return reported

    _around(DraManager, "_reported", make)


def _wrong_reading(
    what: str, world: World, one: DeviceHealth, device: DeviceId, report: Callable[[str, Sequence[DeviceHealth]], None]
) -> list[DeviceHealth]:
    """What the report has in place of this reading."""
    node, before = (
        node_of(device.driver),
        world.readings.get(device, DeviceHealth(one.pool, one.device, Health.UNKNOWN)),
    )
    next_name = world.next_of(node, f"device of {device.driver}", device.device)
    others = [r for d, r in world.readings.items() if (d.driver, d.device) == (device.driver, next_name)]
    other = others[0] if others else before
    match what:
        case "it is lost":
            return []
        case "the report before it counts":
            return [before]
        case "it counts 20 s late":
            _late(lambda: report(device.driver, (one,)))
            return []
        case "it counts for the next device":
            return [replace(one, device=next_name)] if next_name else []
        case "it counts for the next driver":
            if driver := world.next_of(node, "driver", device.driver):
                report(driver, (one,))
            return []
        case "its message is lost":
            return [replace(one, message="")]
        case "the message before it stays":
            return [replace(one, message=before.message)]
        case "an empty message does not replace the one before":
            return [replace(one, message=one.message or before.message)]
        case "it gets the message of the next device":
            return [replace(one, message=other.message)]
        case "its timeout is lost":
            return [replace(one, timeout=0)]
        case "the timeout before it stays":
            return [replace(one, timeout=before.timeout)]
        case "its timeout is twice as long":
            return [replace(one, timeout=2 * (one.timeout or DEFAULT_TIMEOUT))]
        case "it gets the timeout of the next device":
            return [replace(one, timeout=other.timeout)]
    as_health = what.removeprefix("it counts as ")
    return [replace(one, health=Health(as_health))] if as_health != what else [one]


def _expiry(fault: Fault, world: World, trigger: Trigger) -> None:
    """The trigger decides once for each last report of a device."""

    def happens(entry: Entry, device: DeviceId | None) -> bool:
        if device is None:
            return False
        changes = {faults.ANY, str(entry.health)}
        sight = Sight(node_of(device.driver), _places(world, world.dra, device), changes)
        return trigger.pulls(sight, (device, entry.updated))

    def expires(right: Any) -> Any:
        def stale(entry: Entry, now: float) -> bool:
            age, timeout = now - entry.updated, entry.timeout
            match fault.what:
                case "the device never expires":
                    wrong = False
                case "it expires after twice its timeout":
                    wrong = age > 2 * timeout
                case "it expires after half of its timeout":
                    wrong = age > timeout / 2
                case _:
                    return bool(right(entry, now))
            found = bool(right(entry, now))
            return wrong if found != wrong and happens(entry, world.owners.get(id(entry))) else found

        return stale

    def reads(right: Any) -> Any:
        def read(cache: HealthCache, device: DeviceId, now: float) -> Reading:
            found: Reading = right(cache, device, now)
            entry = cache.devices().get(device.driver, {}).get((device.pool, device.device))
            if entry is None or not entry.stale(now) or not happens(entry, device):
                return found
            match fault.what:
                case "it expires only at the next report":
                    return Reading(entry.health, entry.message)
                case "it keeps its message":
                    return Reading(UNKNOWN.health, entry.message)
                case "it shows Unhealthy":
                    return Reading(Health.UNHEALTHY)
            return found

        return read

    def updates(right: Any) -> Any:
        def update(cache: HealthCache, driver: str, report: Sequence[DeviceHealth], now: float) -> Any:
            was = {device: copy(entry) for device, entry in cache.entries() if entry.stale(now)}
            back = {
                device: one
                for one in report
                if (device := DeviceId(driver, one.pool, one.device)) in was and happens(was[device], device)
            }
            if fault.what == "the next report of the device is lost":
                report = tuple(one for one in report if one not in back.values())
            found = right(cache, driver, report, now)
            if fault.what == "nobody is told of the return of the same health":
                same = {device for device, one in back.items() if one.health == was[device].health}
                found = replace(found, changed=found.changed - same)
            return found

        return update

    _around(Entry, "stale", expires)
    _around(HealthCache, "read", reads)
    _around(HealthCache, "update", updates)


# Streams of drivers


def _stream_end(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def ended(manager: DraManager, driver: str) -> None:
            if not trigger.pulls(_driver_places(world, driver)):
                right(manager, driver)
                return
            node, known = node_of(driver), {**manager._cache.devices().get(driver, {})}
            other = world.next_of(node, "driver", driver)
            match fault.what:
                case "the health is cleared 20 s late":
                    _late(lambda: right(manager, driver))
                    return
                case "the health of the next driver is cleared instead":
                    if other:
                        right(manager, other)
                    return
                case "the health of the next driver is cleared, too":
                    right(manager, driver)
                    if other:
                        right(manager, other)
                    return
            right(manager, driver)
            if kept := dict(_kept(fault.what, list(known.items()), lambda entry: str(entry.health))):
                manager._cache._drivers[driver] = kept

        return ended

    _around(DraManager, "_ended", make)


def _kept(what: str, known: list[tuple[Any, Any]], health: Callable[[Any], str]) -> list[tuple[Any, Any]]:
    """The devices whose health stays after an end."""
    match what:
        case "the health stays":
            return known
        case "only the first device is cleared":
            return known[1:]
        case "the last device is not cleared":
            return known[-1:]
    return [(name, one) for name, one in known if what == f"{health(one)} devices stay"]


def _stream_start(fault: Fault, world: World, trigger: Trigger) -> None:
    ignored: dict[DraPlugin, int] = {}

    def starts(right: Any) -> Any:
        def run(plugin: DraPlugin, work: Any) -> None:
            is_start = getattr(work, "__name__", "") == "_read"
            if not is_start or not trigger.pulls(_driver_places(world, plugin.driver)):
                ignored.pop(plugin, None)
                right(plugin, work)
                return
            match fault.what:
                case "it is not opened":
                    work.close()
                case "it is opened 20 s late":
                    _late(lambda: right(plugin, work))
                case "its first report is ignored":
                    ignored[plugin] = 1
                    right(plugin, work)
                case "its second report is ignored":
                    ignored[plugin] = 2
                    right(plugin, work)

        return run

    def made(right: Any) -> Any:
        def make(plugin: DraPlugin, *words: Any, on_report: Callable[[Any], None], **more: Any) -> None:
            def report(report: Any) -> None:
                ignored[plugin] = ignored.get(plugin, 0) - 1
                if ignored[plugin] != 0:
                    on_report(report)

            right(plugin, *words, on_report=report, **more)

        return make

    _around(DraPlugin, "_run", starts)
    _around(DraPlugin, "__init__", made)


# Notifications


def _told(fault: Fault, pods: Sequence[str], tell: Callable[[Sequence[str]], None]) -> None:
    match fault.what:
        case "only the first Pod is synced":
            tell(pods[:1])
        case "only the last Pod is synced":
            tell(pods[-1:])
        case "the Pods are synced 20 s late":
            _late(lambda: tell(pods))


def _notify(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def notify(manager: DraManager, devices: frozenset[DeviceId]) -> None:
            def pulls(device: DeviceId) -> bool:
                return trigger.pulls(
                    Sight(node_of(device.driver), _places(world, manager, device), world.moves[device])
                )

            def tell(pods: Sequence[str]) -> None:
                if pods:
                    manager._observe(PodsNotified(tuple(sorted(pods))))
                    notify_each(manager._subscribers, frozenset(pods))

            hit = frozenset(device for device in sorted(devices) if pulls(device))
            right(manager, devices - hit)
            for device in sorted(hit):
                _told(fault, _by_rank(world, manager._claims.pods_with([device])), tell)

        return notify

    _around(DraManager, "_notify", make)


def _notify_plugins(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def notify(manager: DevicePluginManager, resource: str, devices: frozenset[str]) -> None:
            def pulls(device: str) -> bool:
                which, changes = _plugin_places(world, manager, resource, device), world.moves[resource, device]
                return trigger.pulls(Sight(node_of(resource), which, changes))

            def tell(pods: Sequence[str]) -> None:
                notify_each(manager._pod_subscribers, frozenset(pods))

            hit = frozenset(device for device in sorted(devices) if pulls(device))
            right(manager, resource, devices - hit)
            _told(fault, _by_rank(world, manager._allocations.holders(resource, hit)), tell)

        return notify

    _around(DevicePluginManager, "_notify", make)


def _by_rank(world: World, pods: Iterable[str]) -> list[str]:
    return sorted(pods, key=lambda pod: world.rank(world.node_of_pod.get(pod, ""), "Pod", pod))


# Statuses


def _entries(fault: Fault, world: World, trigger: Trigger) -> None:
    before: dict[tuple[str, str, str, str], list[ResourceHealth]] = defaultdict(list)

    def make(right: Any) -> Any:
        def status(manager: DeviceManager, pod: str, uses: Any) -> AllocatedResources:
            shown: AllocatedResources = right(manager, pod, uses)
            node = world.node_of_pod.get(pod, "")
            found: dict[str, list[ResourceStatus]] = {name: [] for name in (*uses.init_containers, *uses.containers)}
            names = [*found]
            for number, (container, entries) in enumerate(shown.containers.items()):
                which = world.places(node, "Pod", pod, "Pod") | _ordinal(number, "container")
                of_entry = 0
                for place, entry in enumerate(entries):
                    hits = []
                    for rank, one in enumerate(entry.resources):
                        key = (pod, container, entry.name, one.resource_id)
                        sight = Sight(
                            node,
                            which | _ordinal(place, "entry") | _ordinal(rank, "device"),
                            (faults.ANY, str(one.health)),
                        )
                        hits.append(trigger.pulls(sight, (*key, one.health, one.message, len(before[key]))))
                        if not before[key] or before[key][-1] != one:
                            before[key].append(one)
                    earlier = [before[pod, container, entry.name, one.resource_id][-2:][0] for one in entry.resources]
                    whole = any(hits)
                    entry = replace(entry, resources=_wrong_devices(fault.what, entry.resources, hits, earlier))
                    if whole and fault.what == "the entry is in the next container" and len(names) > 1:
                        found[names[(names.index(container) + 1) % len(names)]].append(entry)
                    elif not (whole and fault.what == "the entry is left out") and entry.resources:
                        found[container].append(entry)
                        if whole and fault.what == "the entry changes its place with the next one":
                            of_entry = place + 1
                if of_entry:
                    found[container] = [*found[container][1:], *found[container][:1]]
            return replace(shown, containers={name: tuple(one) for name, one in found.items() if one})

        return status

    _around(DeviceManager, "allocated_resources_status", make)


def _wrong_devices(
    what: str, right: Sequence[ResourceHealth], hits: Sequence[bool], earlier: Sequence[ResourceHealth]
) -> tuple[ResourceHealth, ...]:
    """The devices of an entry, wrong where the fault hits. `earlier`: what each showed before."""
    if what == "it changes its place with the next device" and any(hits):
        return (*right[1:], *right[:1])
    found = []
    for one, hit, before in zip(right, hits, earlier, strict=True):
        if hit and what == "the device is left out":
            continue
        found.append(_wrong_device(what, one, before, right[0]) if hit else one)
    return tuple(found)


def _wrong_device(what: str, one: ResourceHealth, before: ResourceHealth, first: ResourceHealth) -> ResourceHealth:
    match what:
        case "it shows its health before":
            return replace(one, health=before.health)
        case "its message is lost":
            return replace(one, message="")
        case "it shows its message before":
            return replace(one, message=before.message)
        case "it has the health of the first device of the entry":
            return replace(one, health=first.health)
    health = what.removeprefix("it shows ")
    return replace(one, health=Health(health)) if health in faults.HEALTHS else one


def _write(fault: Fault, world: World, trigger: Trigger) -> None:
    began: dict[Hashable, float] = {}

    def make(right: Any) -> Any:
        async def write(pod: PodObject, build: Callable[[Any], Any]) -> Any:
            node = world.node_of_pod.get(pod.uid, "")
            which = world.places(node, "Pod", pod.uid, "Pod")

            def wrong(old: Any) -> Any:
                status, stored = build(old), old.get("status") or {}
                for number, one in enumerate(status.get("containerStatuses") or ()):
                    known = [c for c in stored.get("containerStatuses") or () if c["name"] == one["name"]]
                    was, now = known[0].get(FIELD) if known else None, one.get(FIELD)
                    if was == now or now is None:
                        continue
                    key = (pod.uid, one["name"], repr(now))
                    changes = {faults.ANY, *_healths(now, was)}
                    if trigger.pulls(Sight(node, which | _ordinal(number, "container"), changes), key):
                        began.setdefault(key, asyncio.get_running_loop().time())
                        is_late = asyncio.get_running_loop().time() > began[key] + LATE
                        if fault.what == "the messages before are written":
                            one[FIELD] = _with_messages(now, was or [])
                        elif not (is_late and "late" in fault.what):
                            one[FIELD] = was
                            if was is None:
                                del one[FIELD]
                return status

            return await right(pod, wrong)

        return write

    _around(PodObject, "write_status", make)


def _healths(now: Any, was: Any) -> set[str]:
    """The healths that a container shows and did not show before."""
    old = {(entry["name"], one["resourceID"]): one for entry in was or () for one in entry["resources"]}
    return {
        one["health"]
        for entry in now
        for one in entry["resources"]
        if old.get((entry["name"], one["resourceID"])) != one
    }


def _with_messages(now: Any, was: Any) -> Any:
    old = {(entry["name"], one["resourceID"]): one.get("message") for entry in was for one in entry["resources"]}

    def wrong(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in one.items() if key != "message"}
        return {**kept, **({"message": message} if (message := old.get((name, one["resourceID"]))) else {})}

    return [{**entry, "resources": [wrong(entry["name"], one) for one in entry["resources"]]} for entry in now]


# Checkpoints


def _wrong_entry(
    fault: Fault, world: World, trigger: Trigger, devices: Sequence[tuple[DeviceId, Entry]], now: float
) -> list[tuple[DeviceId, Entry]]:
    found = []
    for number, (device, entry) in enumerate(devices):
        changes = {faults.ANY, str(entry.health)}
        sight = Sight(node_of(device.driver), _places(world, world.dra, device), changes)
        if not trigger.pulls(sight, (device, entry.health, entry.message, entry.updated, world.run)):
            found.append((device, entry))
            continue
        if fault.what == "it is left out":
            continue
        changed = copy(entry)
        match fault.what:
            case "its message is left out":
                changed.message = ""
            case "its timeout is left out":
                changed.timeout = float(DEFAULT_TIMEOUT)
            case "its time is that of now":
                changed.updated = now
            case "it has the health of the next device":
                changed.health = devices[(number + 1) % len(devices)][1].health
            case _:
                changed.health = Health(fault.what.removeprefix("it is "))
        found.append((device, changed))
    return found


def _written_health(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def text(driver: str, devices: Mapping[Any, Entry], now: float, wall: float) -> bytes:
            known = [(DeviceId(driver, *name), entry) for name, entry in devices.items()]
            wrong = _wrong_entry(fault, world, trigger, known, now)
            written: bytes = right(driver, {(d.pool, d.device): entry for d, entry in wrong}, now, wall)
            return written

        return text

    _around(checkpoint, "health_text", make)


def _read_health(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def restore(cache: HealthCache, entries: Iterable[tuple[DeviceId, Entry]]) -> None:
            now = world.dra._clock.now() if world.dra else 0.0
            right(cache, _wrong_entry(fault, world, trigger, list(entries), now))

        return restore

    _around(HealthCache, "restore", make)


def _read_claims(fault: Fault, world: World, trigger: Trigger) -> None:
    def wrong(claim: PreparedClaim) -> PreparedClaim | None:
        node, pods = node_of(claim.drivers[0]), _by_rank(world, claim.pods)
        which = world.places(node, "claim", claim.ref.uid, "claim")
        for kind, names in (("driver", claim.drivers), ("Pod", pods)):
            which = which.union(*(world.places(node, kind, name, kind) for name in names))
        if not trigger.pulls(Sight(node, which)):
            return claim
        match fault.what:
            case "it has only its first Pod":
                return replace(claim, pods=set(pods[:1]))
            case "it has only its last Pod":
                return replace(claim, pods=set(pods[-1:]))
            case "its last device is lost":
                return replace(claim, devices=claim.devices[:-1])
            case "its devices have another order":
                return replace(claim, devices=claim.devices[::-1])
            case "its requests are lost":
                return replace(claim, devices=tuple(replace(one, requests=()) for one in claim.devices))
        return None

    def make(right: Any) -> Any:
        def load(data: Any) -> list[PreparedClaim]:
            return [one for claim in right(data) if (one := wrong(claim) if claim.drivers else claim)]

        return load

    _around(checkpoint, "load_claims", make)


def _read_allocations(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def load(data: Any) -> tuple[list[Allocation], list[str]]:
            held, resources = right(data)
            return [one for each in held if (one := wrong(each, held))], resources

        return load

    def wrong(one: Allocation, held: Sequence[Allocation]) -> Allocation | None:
        node = node_of(one.resource)
        which = world.places(node, "driver", one.resource, "driver") | world.places(node, "Pod", one.pod_uid, "Pod")
        if not trigger.pulls(Sight(node, which | _containers(held, one))):
            return one
        match fault.what:
            case "its last device is lost":
                return replace(one, devices=one.devices[:-1])
            case "its devices have another order":
                return replace(one, devices=one.devices[::-1])
            case "the next container has it":
                names = [*dict.fromkeys(a.container for a in held if a.pod_uid == one.pod_uid)]
                return replace(one, container=names[(names.index(one.container) + 1) % len(names)])
        return None

    _around(device_plugins, "load_allocations", make)


# Registration


def _registration(fault: Fault, world: World, trigger: Trigger) -> None:
    def registers(right: Any) -> Any:
        async def register(manager: DraManager, candidate: Any) -> None:
            if not trigger.pulls(_driver_places(world, candidate.name)):
                await right(manager, candidate)

        return register

    def removes(right: Any) -> Any:
        async def deregister(plugins: Plugins, socket: Any) -> None:
            driver = next((name for name, known in plugins._instances.items() if socket in known), None)
            if driver is None or not trigger.pulls(_driver_places(world, driver)):
                await right(plugins, socket)
                return
            match fault.what:
                case "the next driver is removed instead":
                    other = world.next_of(node_of(driver), "driver", driver)
                    if others := [*plugins._instances.get(other or "", {})]:
                        await right(plugins, others[-1])
                case "after its removal the instance before it is not watched":
                    watching, plugins._watching = plugins._watching, False
                    with suppress(Exception):
                        await right(plugins, socket)
                    plugins._watching = watching
                case "after its removal the oldest instance is watched":
                    instances = plugins._instances[driver]
                    order = [key for key in instances if key != socket]
                    await right(plugins, socket)
                    if len(order) > 1:
                        instances[order[-1]].replaced()
                        instances[order[0]].watch()

        return deregister

    def watches(right: Any) -> Any:
        def watch(plugins: Plugins, plugin: DraPlugin, older: list[DraPlugin]) -> None:
            right(plugins, plugin, [] if older and trigger.pulls(_driver_places(world, plugin.driver)) else older)

        return watch

    if fault.what == "it is ignored":
        _around(DraManager, "register", registers)
    elif fault.what == "the instance before it stays watched, too":
        _around(Plugins, "_watch", watches)
    else:
        _around(Plugins, "deregister", removes)


def _plugin_registration(fault: Fault, world: World, trigger: Trigger) -> None:
    def registers(right: Any) -> Any:
        async def register(manager: DevicePluginManager, resource: str, *rest: Any) -> None:
            if not trigger.pulls(_driver_places(world, resource)):
                await right(manager, resource, *rest)

        return register

    def watches(right: Any) -> Any:
        def watch(plugin: DevicePlugin) -> None:
            if not trigger.pulls(_driver_places(world, plugin.resource)):
                right(plugin)

        return watch

    def removes(right: Any) -> Any:
        async def deregister(manager: DevicePluginManager, socket: Any) -> None:
            plugin = manager._sockets.get(socket)
            if plugin is None or not trigger.pulls(_driver_places(world, plugin.resource)):
                await right(manager, socket)

        return deregister

    match fault.what:
        case "it is ignored":
            _around(DevicePluginManager, "_register", registers)
        case "its list is not read":
            _around(DevicePlugin, "watch", watches)
        case _:
            _around(DevicePluginManager, "deregister", removes)


# Lists of device plugins


def _list(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def listed(manager: DevicePluginManager, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
            resource, known = plugin.resource, world.lists[plugin.resource]
            node, healths = node_of(resource), {one.id: one.health for one in devices}
            is_of_omitted = fault.what == "a device that it omits stays"
            hits = [
                one.id for one in devices if not is_of_omitted and pulls(manager, resource, one.id, changes(known, one))
            ]
            wrong = dict(healths)
            for name in hits:
                wrong[name] = wrong_health(healths, known, name)
            if is_of_omitted:
                omitted = [name for name in known if name not in healths]
                wrong |= {name: known[name] for name in omitted if pulls(manager, resource, name, {faults.ANY})}
            if hits and fault.what == "it counts for the next resource":
                other = world.next_of(node, "driver", resource)
                changed = {name: healths[name] for name in hits}
                for another in [p for p in manager._plugins.values() if p.resource == other]:
                    both = {**world.lists[another.resource], **changed}
                    right(manager, another, [PluginDevice(*one) for one in both.items()])
            right(manager, plugin, [PluginDevice(*one) for one in wrong.items()])
            if hits and fault.what == "it counts 20 s late":
                _late(lambda: right(manager, plugin, devices))

        return listed

    def changes(known: Mapping[str, str], one: PluginDevice) -> set[str]:
        before = known.get(one.id)
        return {faults.ANY, f"{before} to {one.health}"} if before != one.health else {faults.ANY}

    def pulls(manager: DevicePluginManager, resource: str, name: str, changes: Collection[str]) -> bool:
        return trigger.pulls(Sight(node_of(resource), _plugin_places(world, manager, resource, name), changes))

    def wrong_health(right: Mapping[str, str], known: Mapping[str, str], name: str) -> str:
        names = [*right]
        if fault.what == "its health is that of the next device":
            return right[names[(names.index(name) + 1) % len(names)]]
        as_health = fault.what.removeprefix("it counts as ")
        if as_health in faults.KNOWN:
            return as_health
        return right[name] if "omits" in fault.what else known.get(name, right[name])

    _around(DevicePluginManager, "_listed", make)


def _list_end(fault: Fault, world: World, trigger: Trigger) -> None:
    def make(right: Any) -> Any:
        def left(resources: Resources, name: str, plugin: Any, now: float) -> frozenset[str]:
            found = resources._resources[name]
            before = dict(found.devices)
            lost: frozenset[str] = right(resources, name, plugin, now)
            if found.devices or not trigger.pulls(_driver_places(world, name)):
                return lost
            other = world.next_of(node_of(name), "driver", name)
            if fault.what == "the next resource is cleared, too" and other in resources._resources:
                resources._resources[other].devices = {}
            elif fault.what == "the health is cleared 20 s late":
                found.devices = before
                _late(lambda: found.devices.clear())
            else:
                found.devices = dict(_kept(fault.what, list(before.items()), str))
            return lost - found.devices.keys()

        return left

    _around(Resources, "left", make)


INPUTS: Mapping[str, Callable[[Fault, World, Trigger], None]] = {
    "report of a driver": _report,
    "expiry": _expiry,
    "list of a device plugin": _list,
}
"""They are wrapped first, so that the world sees the right reports and lists."""

PLACES: Mapping[str, Callable[[Fault, World, Trigger], None]] = {
    "end of a health stream": _stream_end,
    "start of a health stream": _stream_start,
    "notification of claims": _notify,
    "notification of extended resources": _notify_plugins,
    "entries of a status": _entries,
    "write of a status": _write,
    "written health": _written_health,
    "read health": _read_health,
    "read claims": _read_claims,
    "read allocations": _read_allocations,
    "registration of a driver": _registration,
    "registration of a device plugin": _plugin_registration,
    "end of the list of a device plugin": _list_end,
}
