"""The half of the device manager for dynamic resource allocation: the registered drivers, claims, and health."""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakValueDictionary

from drahealth.manager import checkpoint
from drahealth.manager.cache import HealthCache, Reading, Update
from drahealth.manager.calls import Context, notify_each, path_text
from drahealth.manager.checkpoint import Checkpoint, HealthFile
from drahealth.manager.claims import Claims, PreparedClaim
from drahealth.manager.device_status import MAP_SLOTS, entries, is_shown, turned
from drahealth.manager.plugin import DraPlugin, PluginError
from drahealth.manager.registration import Candidate, Refused, Socket
from drahealth.proto.events import (
    DeviceChanged,
    HealthRestored,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    ReportSummary,
    ignore,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE
from drahealth.proto.values import (
    AllocatedClaim,
    AllocatedResources,
    ClaimUse,
    DeviceHealth,
    DeviceId,
    PodClaims,
    PreparedDevice,
    Report,
    ResourceStatus,
)

# The registered plugin instances: the newest of each driver, and the watched ones.

log = logging.getLogger(__name__)


class Plugins:
    """All instances, by driver in the order of their registration.

    During a rolling update a driver has two instances. The newest prepares claims (W-20). The profile decides whether
    only the newest is watched (KEP-4680, "Kubelet Integration") or all are (B-02). None is watched while the gate is
    disabled. `on_report(driver, report)` and `on_end(driver)` receive the watched streams. `on_connection(driver)` is
    called when `connected(driver)` may have changed.
    """

    def __init__(
        self,
        context: Context,
        *,
        on_report: Callable[[str, Report], None],
        on_end: Callable[[str], None],
        on_connection: Callable[[str], None],
    ) -> None:
        self._context = context
        self._profile, self._observe = context.profile, context.observe
        self._watching = context.gates.resource_health_status
        self._on_report = on_report
        self._on_end = on_end
        self._on_connection = on_connection
        self._instances: dict[str, dict[Socket, DraPlugin]] = {}

    def newest(self, driver: str) -> DraPlugin:
        """The last registered instance of the driver. Raises PluginError if there is none."""
        instances = self._instances.get(driver)
        if not instances:
            raise PluginError(f"no plugin is registered for driver {one_line(driver)}")
        return list(instances.values())[-1]

    def connected(self, driver: str) -> bool:
        """Whether an instance of the driver is registered and its connection is open."""
        return any(plugin.connected for plugin in self._instances.get(driver, {}).values())

    def register(self, candidate: Candidate) -> None:
        """Adds an instance and watches it.

        Raises Refused if it supports no version of the node service, or its endpoint is already registered (W-15).
        """
        if not any(version in PREPARE for version in candidate.versions):
            versions = one_line(str(list(candidate.versions)))
            raise Refused(f"versions must include one of {list(PREPARE)}, got {versions}")
        instances = self._instances.setdefault(candidate.name, {})
        if any(plugin.endpoint == candidate.endpoint for plugin in instances.values()):
            raise Refused(f"driver {one_line(candidate.name)} is already registered with endpoint {candidate.endpoint}")
        older = list(instances.values())
        plugin = instances[candidate.socket] = self._plugin(candidate)
        log.info("plugin %s registered, %s", plugin, f"advertises {plugin.health_api or 'no health API'}")
        self._observe(PluginRegistered(plugin.driver, path_text(plugin.endpoint), plugin.health_api))
        plugin.connect()
        self._on_connection(plugin.driver)
        if self._watching:
            self._watch(plugin, older)

    async def deregister(self, socket: Socket) -> None:
        """Removes the instance of this socket, if there is one; the previous instance is watched again."""
        for driver, instances in list(self._instances.items()):
            if socket not in instances:
                continue
            plugin = instances.pop(socket)
            await plugin.close()
            log.info("plugin %s deregistered", plugin)
            self._observe(PluginDeregistered(plugin.driver, path_text(plugin.endpoint)))
            self._on_connection(driver)
            if instances and self._watching:
                self.newest(driver).watch()

    async def attempted(self) -> None:
        """Waits until all running attempts to connect have ended."""
        for plugin in self._all():
            await plugin.attempted()

    async def close(self) -> None:
        """Ends all streams and connections, without clearing health."""
        plugins = self._all()
        self._instances.clear()
        for plugin in plugins:
            plugin.replaced()
            await plugin.close()

    def _all(self) -> list[DraPlugin]:
        return [plugin for instances in self._instances.values() for plugin in instances.values()]

    def _plugin(self, candidate: Candidate) -> DraPlugin:
        driver = candidate.name
        return DraPlugin(
            driver,
            candidate.endpoint,
            candidate.versions,
            self._context,
            on_report=lambda report: self._on_report(driver, report),
            on_end=lambda: self._on_end(driver),
            on_connection=lambda: self._on_connection(driver),
        )

    def _watch(self, plugin: DraPlugin, older: list[DraPlugin]) -> None:
        if self._profile.watches == "newest":
            for old in older:
                old.replaced()
            if older and not plugin.is_asked:
                self._on_end(plugin.driver)  # nobody says any more how its devices are
        plugin.watch()


# The half of the device manager for dynamic resource allocation: prepares claims, receives and stores health.
#
# It joins the pure modules (`cache`, `claims`, `status`) with the I/O (`Plugins`, `checkpoint`).


Notify = Callable[[frozenset[str]], None]
NotifyConnection = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Device:
    """A reported device. `age`: seconds since its last report; `stale`: whether `age` exceeds its timeout."""

    id: DeviceId
    reading: Reading
    age: float
    stale: bool


class PrepareError(Exception):
    """A pod's claims could not be prepared or unprepared; the message names the claim and the reason. Retry it."""


class DraManager:
    """Claims, the plugins that prepare them, and the reported health.

    `register` and `deregister` add and remove plugins (a `registration.Handler`). `root` has its checkpoints.
    """

    def __init__(self, root: Path, context: Context) -> None:
        self.profile, self.gates = context.profile, context.gates
        self._clock, self._observe = context.clock, context.observe
        self._cache = HealthCache(self.profile)
        health = Checkpoint(root / checkpoint.HEALTH_FILE, self._observe)
        self._health_file = HealthFile(health, self._cache, self._clock)
        self._claims_file = Checkpoint(root / checkpoint.CLAIMS_FILE, self._observe)
        self._claims = Claims()
        self._uses: dict[str, PodClaims] = {}
        self._final: dict[str, AllocatedResources] = {}
        self._subscribers: list[Notify] = []
        self._connection_subscribers: list[NotifyConnection] = []
        self._overfull: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._plugins = Plugins(
            context,
            on_report=self._reported,
            on_end=self._ended,
            on_connection=lambda driver: notify_each(self._connection_subscribers, driver),
        )

    def load(self) -> None:
        """Loads the checkpoints."""
        self._health_file.load()
        if self._observe is not ignore:
            self._observe_restored()
        restored = checkpoint.load_claims(self._claims_file.read())
        self._claims = Claims(replace(claim, restored=True) for claim in restored)

    async def settled(self) -> None:
        """Waits until all attempts to connect have ended, and the checkpoint has all changes of health."""
        await self._plugins.attempted()
        await self._health_file.written()

    def abandon(self) -> None:
        """Writes no health any more, as after a kill."""
        self._health_file.abandon()

    async def close(self) -> None:
        """Ends all streams and connections. The checkpoints keep the state."""
        try:
            await self._plugins.close()
        finally:
            await self._health_file.close()

    # -- plugins

    async def register(self, candidate: Candidate) -> None:
        """Adds a plugin instance. Raises Refused."""
        self._plugins.register(candidate)

    async def deregister(self, socket: Socket) -> None:
        """Removes the instance of that registration socket, if there is one."""
        await self._plugins.deregister(socket)

    def connected(self, driver: str) -> bool:
        """Whether an instance of the driver is registered and its connection is open."""
        return self._plugins.connected(driver)

    def subscribe_to_connections(self, notify: NotifyConnection) -> Callable[[], None]:
        """Calls `notify(driver)` when `connected(driver)` may have changed; `notify` must not block.

        Returns the function that ends it.
        """
        self._connection_subscribers.append(notify)
        return lambda: self._connection_subscribers.remove(notify)

    # -- claims

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepares the claims of a pod, except prepared ones. Raises PrepareError.

        Returns the devices by claim UID, with the CDI ids for the containers.
        """
        async with self._locked(claim.ref.uid for claim in claims):
            for claim in claims:
                known = self._claims.get(claim.ref.uid)
                if known is None or not known.complete or self._is_due_again(known, pod_uid):
                    await self._prepare(claim, known or PreparedClaim(claim.ref, (), ()), pod_uid)
                elif pod_uid not in known.pods:
                    self._claims.hold(claim.ref.uid, pod_uid)
                    self._save_claims()
        return {claim.ref.uid: self._claims.devices(claim.ref.uid) for claim in claims}

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepares claims that no other pod holds. Raises PrepareError; then the pod still holds these claims.

        The profile decides whether the pod's status keeps its devices.
        """
        held = {claim.ref.uid for claim in self._claims.held_by(pod_uid)}
        async with self._locked(held):
            for claim in self._claims.held_by(pod_uid):  # anew: while we waited, another pod may have taken one
                if pod_uid not in claim.pods:
                    continue  # somebody else's call was faster
                if claim.pods == {pod_uid}:
                    await self._unprepare(claim)
                self._keep_final_status(pod_uid)
                self._claims.release(claim.ref.uid, pod_uid)
                self._save_claims()

    def pods(self) -> frozenset[str]:
        """The UIDs of all pods that hold claims."""
        return frozenset(uid for claim in self._claims for uid in claim.pods)

    def forget(self, pod_uid: str) -> None:
        """Removes a deleted pod."""
        self._final.pop(pod_uid, None)
        self._uses.pop(pod_uid, None)

    async def _prepare(self, claim: AllocatedClaim, known: PreparedClaim, pod_uid: str) -> None:
        """Calls the drivers one after the other. Each called driver will be called to unprepare, whatever its
        answer.
        """
        devices = list(known.devices) if self.profile.prepares_again == "appends" else []
        pods = {pod_uid, *known.pods}
        for number, driver in enumerate(claim.drivers, start=1):
            try:
                plugin = self._plugins.newest(driver)
                asked = claim.drivers[: max(number, len(known.drivers))]
                self._claims.add(PreparedClaim(claim.ref, asked, (), pods, complete=False))
                self._save_claims()
                devices += (await plugin.prepare([claim.ref]))[claim.ref.uid]
            except PluginError as error:
                raise PrepareError(str(error)) from None
        self._claims.add(PreparedClaim(claim.ref, claim.drivers, tuple(devices), pods))
        self._save_claims()

    def _is_due_again(self, known: PreparedClaim, pod_uid: str) -> bool:
        """Whether the profile prepares a claim again when a pod uses it after a restart."""
        return self.profile.prepares_again != "never" and known.restored and pod_uid not in known.pods

    async def _unprepare(self, claim: PreparedClaim) -> None:
        for driver in claim.drivers:
            try:
                await self._plugins.newest(driver).unprepare([claim.ref])
            except PluginError as error:
                raise PrepareError(str(error)) from None

    def _save_claims(self) -> None:
        self._claims_file.write(checkpoint.dump_claims(self._claims))

    def _keep_final_status(self, pod_uid: str) -> None:
        if self.profile.final_status == "kept" and pod_uid in self._uses:
            self._final[pod_uid] = self.allocated_resources_status(pod_uid, self._uses[pod_uid])

    @asynccontextmanager
    async def _locked(self, claim_uids: Iterable[str]) -> AsyncIterator[None]:
        """Locks each claim, so that two pods with the same claim do not prepare it twice."""
        async with AsyncExitStack() as stack:
            for uid in sorted(set(claim_uids)):
                await stack.enter_async_context(self._locks.setdefault(uid, asyncio.Lock()))
            yield

    # -- health

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        """The current entries of a pod's status; empty with the gate disabled.

        The caller knows the names in the pod and their claims; this class knows devices and health.
        """
        if not self.gates.resource_health_status:
            return AllocatedResources()
        if pod_uid in self._final:
            return self._final[pod_uid]
        self._uses[pod_uid] = uses
        users = uses.shown(self.profile.init_containers)
        found = {name: self._entries(used) for name, used in users.items()}
        pod = self._entries(uses.unused) if self.profile.pod_level else ()
        return AllocatedResources({name: shown for name, shown in found.items() if shown}, pod)

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """Calls `notify(pod_uids)` when the health of their devices has changed; `notify` must not block.

        Returns the function that ends it.
        """
        self._subscribers.append(notify)
        return lambda: self._subscribers.remove(notify)

    def devices(self) -> Iterator[Device]:
        """All reported devices with their current health."""
        now = self._clock.now()
        for device, entry in self._cache.entries():
            yield Device(device, self._cache.read(device, now), now - entry.updated, entry.stale(now))

    def _entries(self, uses: Sequence[ClaimUse]) -> tuple[ResourceStatus, ...]:
        now = self._clock.now()
        found = entries(
            [use for use in uses if is_shown(use, self._claims.name(use.claim_uid), self.profile)],
            self._claims.devices,
            lambda device: self._cache.read(device, now),
            self.profile,
            messages=self.gates.resource_health_status_message,
        )
        return found if self.profile.entries_ordered else turned(found, random.randrange(MAP_SLOTS))

    def _reported(self, driver: str, report: Report) -> None:
        now = self._clock.now()
        update = self._cache.update(driver, report, now)
        if self._observe is not ignore:
            self._observe_report(driver, report, update.changed, now)
        if update.refused and driver not in self._overfull:
            self._overfull.add(driver)
            log.error("driver %s reports too many devices, ignoring %d", one_line(driver), update.refused)
        self._notify(update.changed)
        self._save(driver, update)

    def _observe_report(self, driver: str, report: Report, changed: frozenset[DeviceId], now: float) -> None:
        self._observe(ReportSummary(driver, len(report), len(changed)))
        for device in changed:
            reads = self._cache.read(device, now)
            self._observe(DeviceChanged(driver, f"{device.pool}/{device.device}", str(reads.health), reads.message))

    def _observe_restored(self) -> None:
        now, found = self._clock.now(), defaultdict[str, list[DeviceHealth]](list)
        for device, entry in self._cache.entries():
            left = max(int(entry.timeout - (now - entry.updated)), 1)
            known = DeviceHealth(device.pool, device.device, entry.health, entry.message, left)
            found[device.driver].append(known)
        for driver, devices in found.items():
            self._observe(HealthRestored(driver, tuple(devices)))

    def _ended(self, driver: str) -> None:
        """The health becomes Unknown at each Pod's next sync (design document 3.1). The profile decides whether Pods
        are notified, and so sync at once.
        """
        self._overfull.discard(driver)
        lost = frozenset[DeviceId]()
        if self.profile.stream_end_notifies:
            lost = frozenset(device for device, _ in self._cache.entries() if device.driver == driver)
        if self._cache.clear(driver):
            self._save(driver, Update(frozenset(), dirty=True))
        self._notify(lost)

    def _save(self, driver: str, update: Update) -> None:
        if update.dirty:
            self._health_file.changed(driver)
        else:
            self._health_file.renewed(driver, update.renew_by)

    def _notify(self, devices: frozenset[DeviceId]) -> None:
        pods = self._claims.pods_with(devices)
        if pods:
            self._observe(PodsNotified(tuple(sorted(pods))))
            notify_each(self._subscribers, pods)
