"""The experiments of claims: allocated, prepared and unprepared, once and again, several at a time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from drahealth.fakes.cluster import allocation as claim_objects
from drahealth.fakes.cluster.allocation import UnschedulableError, allocate, pools_on, requests_of_claim
from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NAMESPACES, ApiError, Kind, ListWatch, Object
from drahealth.fakes.waiting import cancel_and_wait, within
from drahealth.proto.events import CdiSpecsRead, ClaimAllocated
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.values import ClaimRef, DeviceId
from drahealth.suites.driver_checks.cdi_specs import read_specs
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.health_experiments import health_apis
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed_health import FIRST_REPORT_WAIT
from drahealth.suites.driver_checks.registration_experiments import known, plugin_of_process, register_again, restarted
from drahealth.suites.driver_checks.scripted_kubelet import (
    Called,
    DraCalls,
    Plugin,
    connected,
    preferred_version,
    subscribed,
)
from drahealth.suites.driver_checks.slice_watch import newest, watched_slices

# Claims for experiments: created in the driver's API server, allocated, and deleted afterwards.

NAMESPACE = "default"
UNPUBLISHED = "drahealth-unpublished"
"""Name of a device that no driver publishes."""
_REQUEST = "device"
_PREVENTING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Shape:
    """A claim to be: the object without its identity, and its allocation."""

    claim: Object
    allocation: Object

    @property
    def devices(self) -> set[DeviceId]:
        """The allocated devices."""
        return claim_objects.devices_held({"status": {"allocation": self.allocation}})


@dataclass(frozen=True, slots=True)
class Published:
    """A published device."""

    id: DeviceId
    node: str
    """Name of the only node that can use it; empty for others."""
    spec: Mapping[str, Any]

    @property
    def drawbacks(self) -> tuple[bool, bool, bool]:
        """Why another device is a better choice, the worst reason first."""
        tainted = any(taint.get("effect") in _PREVENTING for taint in self.spec.get("taints") or ())
        return tainted, bool(self.spec.get("consumesCounters")), bool(self.spec.get("allowMultipleAllocations"))


class Allocator:
    """Makes claims, and records them. `shapes` has what can be allocated: at most two different claims.

    `others` has a claim for each other device that can be allocated alone, unless the user says what is claimed.
    """

    def __init__(self, lab: Lab, api: ListWatch, shapes: Sequence[Shape], others: Sequence[Shape] = ()) -> None:
        self._lab = lab
        self._api = api
        self._made: list[ClaimRef] = []
        self.shapes = shapes
        self.others = others

    async def claim(self, shape: Shape, letter: str, *, reserved: bool = True) -> ClaimRef:
        """Creates a claim and allocates it. Raises Incomplete if the API server rejects what is the user's.

        With `reserved` it is reserved for a Pod that does not exist; otherwise the scheduler reserves it for its Pod.
        """
        with _rejections(self._lab):
            made = await self._allocated(shape, letter, reserved)
        metadata = made["metadata"]
        ref = ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])
        results = made["status"]["allocation"]["devices"]["results"]
        self._lab.record(ClaimAllocated(ref.uid, ref.name, ref.namespace, tuple(results)))
        return ref

    async def each(self, shapes: Sequence[Shape], letter: str) -> AsyncGenerator[ClaimRef, None]:
        """A claim of each shape, one after another, until `EACH_SECONDS` have passed."""
        end = self._lab.subject.clock.now() + EACH_SECONDS
        for number, shape in enumerate(shapes):
            if self._lab.subject.clock.now() >= end:
                return
            yield await self.claim(shape, f"{letter}-{number}")

    async def delete_all(self) -> None:
        """Deletes all claims."""
        for ref in self._made:
            with suppress(ApiError):
                await self._api.delete(CLAIMS, ref.name, ref.namespace)

    async def _allocated(self, shape: Shape, letter: str, reserved: bool) -> Object:
        metadata = {
            key: shape.claim["metadata"][key] for key in ("labels", "annotations") if key in shape.claim["metadata"]
        }
        name = f"{shape.claim['metadata'].get('name') or 'drahealth-check'}-{letter}-{uuid4().hex[:5]}"
        namespace = shape.claim["metadata"].get("namespace") or NAMESPACE
        made = await self._api.create(
            CLAIMS, {"metadata": {**metadata, "name": name, "namespace": namespace}, "spec": shape.claim["spec"]}
        )
        self._made.append(ClaimRef(namespace, name, made["metadata"]["uid"]))
        made["status"] = {**(made.get("status") or {}), "allocation": shape.allocation}
        if reserved and not self._lab.subject.shares_api:
            # Some drivers look for the Pod of a claim. In the cluster of others, a controller would find that
            # the Pod does not exist, and deallocate the claim.
            pod = {"metadata": {"name": "drahealth-check", "uid": str(uuid4())}}
            made = claim_objects.reserved(made, pod)
        return await self._api.replace_status(CLAIMS, made)


@asynccontextmanager
async def allocator(lab: Lab, plugin: Plugin, named: Collection[str] = ()) -> AsyncGenerator[Allocator, None]:
    """Claims for what the driver publishes, or those of the claim file. Raises Incomplete if nothing can be allocated.

    Without claims of the user, claims for one device are for the devices with these names, if there are any. The claims
    are deleted at the end.
    """
    assert lab.subject.api, "the driver has no API server"
    async with watched_slices(lab, plugin.driver) as watched:
        devices = lab.run.profile.claim.devices
        count = 1 if devices == "all" else devices
        slices = await watched.complete(plugin.driver, devices=() if lab.run.claim else named, count=count)
    lab.subject.check_running()
    async with _surroundings(lab, lab.subject.api):
        others: list[Shape] = []
        if lab.run.claim:
            shapes = await _given(lab, lab.subject.api, slices)
        else:
            published = published_devices(slices)
            wanted = [one for one in published if one.id.device in named] if devices == 1 else []
            shapes = [shape_of([one]) for one in wanted] or shapes_of(published, devices)
            if devices == 1:
                used = {device for shape in shapes for device in shape.devices}
                others = [shape_of([one]) for one in published if one.id not in used and not any(one.drawbacks)]
        if not shapes:
            raise Incomplete("the driver publishes no device; pass a claim with --claim")
        made = Allocator(lab, lab.subject.api, shapes, others)
        try:
            yield made
        finally:
            await made.delete_all()


@asynccontextmanager
async def _surroundings(lab: Lab, api: ListWatch) -> AsyncGenerator[None, None]:
    """The Namespaces and DeviceClasses of the claim file; those that exist are used.

    The others are created. In the API server of others they are deleted at the end.
    """
    async with AsyncExitStack() as stack:
        for kind in (NAMESPACES, DEVICE_CLASSES):
            for one in lab.run.claim:
                if one["kind"] == kind.kind and await _is_created(lab, api, kind, one):
                    stack.push_async_callback(_delete, lab, api, kind, one["metadata"]["name"])
        yield


async def _delete(lab: Lab, api: ListWatch, kind: Kind, name: str) -> None:
    if lab.subject.shares_api:
        with suppress(ApiError):
            await api.delete(kind, name)


async def _is_created(lab: Lab, api: ListWatch, kind: Kind, given: Mapping[str, Any]) -> bool:
    """Creates the object; returns False if it exists. Raises Incomplete if the API server rejects it."""
    metadata = {key: given["metadata"][key] for key in ("name", "labels", "annotations") if key in given["metadata"]}
    spec = {"spec": given["spec"]} if "spec" in given else {}
    with _rejections(lab):
        try:
            await api.create(kind, {"metadata": metadata, **spec})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
    return True


@contextmanager
def _rejections(lab: Lab) -> Generator[None, None, None]:
    """Turns an ApiError into Incomplete, if the claim or the API server is the user's."""
    try:
        yield
    except ApiError as error:
        if lab.run.claim:
            raise Incomplete(f"the API server rejected an object of the claim file: {error}") from None
        if lab.subject.shares_api:
            raise Incomplete(f"the API server rejected the claim of drahealth: {error}") from None
        raise


def published_devices(slices: Sequence[Object]) -> list[Published]:
    """The devices of the newest generation of each pool, in order."""
    return [
        Published(
            DeviceId(one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]),
            one["spec"].get("nodeName") or device.get("nodeName") or "",
            device,
        )
        for one in newest(slices)
        for device in one["spec"].get("devices") or ()
    ]


def chosen(devices: Sequence[Published]) -> list[Published]:
    """Up to two of the best devices. The first choice is not the first device: drivers treat that one specially."""
    best = min((device.drawbacks for device in devices), default=None)
    good = [device for device in devices if device.drawbacks == best]
    return good[1:3] if len(good) > 2 else good[::-1]


def shapes_of(devices: Sequence[Published], count: int | Literal["all"] = 1) -> list[Shape]:
    """Up to two claims without a common device, each for so many devices; or one claim for all.

    Raises Incomplete if the driver publishes fewer devices.
    """
    if count == "all":
        return [shape_of(devices)] if devices else []
    if count == 1:
        return [shape_of([device]) for device in chosen(devices)]
    if devices and len(devices) < count:
        raise Incomplete(f"a claim needs {count} devices; the driver publishes {len(devices)}")
    ordered = sorted(devices, key=lambda device: device.drawbacks)[::-1]
    groups = [ordered[max(0, end - count) : end] for end in (len(ordered), len(ordered) - count)]
    return [shape_of(group) for group in groups if len(group) == count]


def shape_of(devices: Sequence[Published]) -> Shape:
    """A claim for these devices, which are of one driver."""
    driver, node = devices[0].id.driver, devices[0].node
    wanted: Object = {"deviceClassName": driver}
    if len(devices) > 1:
        wanted |= {"allocationMode": "ExactCount", "count": len(devices)}
    request = {"name": _REQUEST, "exactly": wanted}
    results = [
        {"request": _REQUEST, "driver": one.id.driver, "pool": one.id.pool, "device": one.id.device} for one in devices
    ]
    allocation: Object = {"devices": {"results": results}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return Shape({"metadata": {}, "spec": {"devices": {"requests": [request]}}}, allocation)


def unpublished(shape: Shape) -> Shape:
    """The same claim, allocated a device that does not exist."""
    results = [{**result, "device": UNPUBLISHED} for result in shape.allocation["devices"]["results"][:1]]
    return Shape(shape.claim, {**shape.allocation, "devices": {**shape.allocation["devices"], "results": results}})


async def _given(lab: Lab, api: ListWatch, slices: Sequence[Object]) -> list[Shape]:
    """The first two claims of the claim file. Raises Incomplete if the first one cannot be allocated."""
    with _rejections(lab):
        classes = {one["metadata"]["name"]: one for one in await api.list(DEVICE_CLASSES)}
    node = lab.subject.places.node_name or next((one["spec"].get("nodeName", "") for one in slices), "")
    found: list[Shape] = []
    for claim in [dict(one) for one in lab.run.claim if one.get("kind") == CLAIMS.kind][:2]:
        try:
            in_use = {device for shape in found for device in shape.devices}
            found.append(Shape(claim, _allocation(claim, classes, node, slices, in_use)))
        except UnschedulableError as error:
            if not found:
                raise Incomplete(str(error)) from None
    return found


def _allocation(
    claim: Object, classes: Mapping[str, Object], node: str, slices: Sequence[Object], in_use: Collection[DeviceId]
) -> Object:
    if claim_objects.is_allocated(claim):
        return dict(claim["status"]["allocation"])
    grants = allocate(requests_of_claim(claim, classes), pools_on(node, slices), in_use)
    if grants is None:
        raise UnschedulableError(f"claim {claim['metadata'].get('name')}: the driver publishes too few free devices")
    return claim_objects.allocation(claim, grants, classes, node)


# The experiments of claims: prepare and unprepare, once and again, several at once, and slowly.

CALL_LIMIT = 30.0
"""Seconds for one call. A kubelet waits 45 s (W-09)."""
READ_LIMIT = 23.0
"""Seconds until a driver reads the claim that it prepares: the first report must also come within the call."""


HOLD_SECONDS = 12.0
"""Seconds for which a claim stays prepared, if health is reported only for prepared devices: time for reports."""


EACH_SECONDS = 20.0
"""Seconds after which no claim for one more device is prepared: hardware can need a second for each call."""


class Hung(Exception):
    """A call did not end within its limit; its record shows that, and further calls would hang, too."""


class Calls:
    """The claim calls of an experiment."""

    def __init__(self, calls: DraCalls, lab: Lab) -> None:
        self._calls = calls
        self._lab = lab

    async def prepare(self, *claims: ClaimRef) -> Called:
        """Prepares claims in one call, and reads the CDI specs. Raises Hung, and Incomplete if the driver has ended."""
        called = self._checked(await self._calls.prepare(*claims, limit=CALL_LIMIT))
        if not all(map(called.problem_of, claims)):
            self._lab.record(CdiSpecsRead(read_specs(*self._lab.subject.places.cdi_dirs)))
        return called

    async def unprepare(self, *claims: ClaimRef) -> Called:
        """Unprepares claims in one call. Raises Hung, and Incomplete if the driver has ended."""
        return self._checked(await self._calls.unprepare(*claims, limit=CALL_LIMIT))

    def _checked(self, called: Called) -> Called:
        self._lab.subject.check_running()
        if called.timed_out:
            raise Hung
        return called


@asynccontextmanager
async def claim_calls(lab: Lab, plugin: Plugin) -> AsyncGenerator[Calls, None]:
    """A connection for claim calls. Raises Incomplete if the plugin advertises no DRA service."""
    version = preferred_version(plugin)
    if version is None:
        raise Incomplete("GetInfo advertises no DRA service")
    async with connected(plugin.endpoint) as channel:
        yield Calls(DraCalls(channel, lab.subject.clock, lab.record, plugin, version), lab)


async def claims(lab: Lab) -> None:
    """Prepares and unprepares claims. If the first one cannot be prepared, its record says so, and no other follows."""
    plugin = await known(lab.facts.plugin)
    async with allocator(lab, plugin) as made, claim_calls(lab, plugin) as calls:
        try:
            await _one_claim(lab, made, calls)
        except Hung:
            return


async def _one_claim(lab: Lab, made: Allocator, calls: Calls) -> None:
    a = await made.claim(made.shapes[0], "a")
    if (await calls.prepare(a)).problem_of(a):
        return
    await _watch_prepared_devices(lab)
    await calls.prepare(a)
    await calls.unprepare(a)
    await calls.unprepare(a)
    await calls.unprepare(ClaimRef(NAMESPACE, "drahealth-check-unknown", str(uuid4())))
    await _several_claims(lab, made, calls, a)


async def _several_claims(lab: Lab, made: Allocator, calls: Calls, a: ClaimRef) -> None:
    """A with a claim for an unpublished device; with one for the same device; with one for another device."""
    y = await made.claim(unpublished(made.shapes[0]), "unpublished")
    await calls.prepare(a, y)
    await calls.unprepare(y)
    await calls.prepare(a)
    t = await made.claim(made.shapes[0], "same-device")
    await calls.prepare(t)
    await calls.unprepare(t)
    await calls.unprepare(a)
    if len(made.shapes) > 1:
        b = await made.claim(made.shapes[1], "b")
        await calls.prepare(a, b)
        await calls.unprepare(a, b)
    await _each_device(made, calls)


class Claims:
    """The claims of an experiment about something else. A call that hangs is the last one: its record shows that."""

    def __init__(self, made: Allocator | None = None, calls: Calls | None = None) -> None:
        """Without `made` and `calls` there is nothing to claim, and the methods do nothing."""
        self._made = made
        self._calls = calls
        self._held: list[ClaimRef] = []
        self._count = 0

    async def try_some(self) -> None:
        """Prepares and unprepares up to two claims."""
        await self._prepare(each=False)
        await self.release()

    async def try_each(self) -> None:
        """Prepares and unprepares a claim for each device, one after another."""
        await self._prepare(each=True, holds=False)

    async def hold_some(self) -> None:
        """Prepares up to two claims, which stay prepared until `release`."""
        await self._prepare(each=False)

    async def hold_each(self) -> None:
        """Prepares a claim for each device; they stay prepared until `release`."""
        await self._prepare(each=True)

    async def release(self) -> None:
        """Unprepares the claims that are prepared."""
        while self._held and self._calls:
            await self._call(self._calls.unprepare, self._held.pop())

    async def _prepare(self, *, each: bool, holds: bool = True) -> None:
        if self._made is None:
            return
        shapes = (*self._made.shapes, *(self._made.others if each else ()))
        self._count += 1
        async for claim in self._made.each(shapes, f"beside-{self._count}"):
            called = await self._call(self._calls.prepare, claim) if self._calls else None
            if called and not called.problem_of(claim):
                self._held.append(claim)
                if not holds:
                    await self.release()

    async def _call(self, method: Callable[[ClaimRef], Awaitable[Called]], claim: ClaimRef) -> Called | None:
        try:
            return await method(claim)
        except Hung:
            self._calls = None
            return None


@asynccontextmanager
async def claims_beside(lab: Lab, plugin: Plugin) -> AsyncGenerator[Claims, None]:
    """Claims for the devices of the driver; none if it publishes nothing that can be allocated."""
    async with AsyncExitStack() as stack:
        found = Claims()
        with suppress(Incomplete):
            made = await stack.enter_async_context(allocator(lab, plugin))
            found = Claims(made, await stack.enter_async_context(claim_calls(lab, plugin)))
        yield found


async def _each_device(made: Allocator, calls: Calls) -> None:
    """A claim for each other device, alone: it is prepared once, and unprepared twice."""
    async for claim in made.each(made.others, "device"):
        await calls.prepare(claim)
        await calls.unprepare(claim)
        await calls.unprepare(claim)


async def _watch_prepared_devices(lab: Lab) -> None:
    """Opens a stream of each health API that reports only prepared devices: its reports list the prepared claim."""
    found, plugin, clock = lab.facts.health_apis, await known(lab.facts.plugin), lab.subject.clock
    if not found.done() or found.exception():
        return
    if apis := [HEALTH_APIS[name] for name in found.result() if HEALTH_APIS[name].prepared_only]:
        async with AsyncExitStack() as stack:
            for api in apis:
                await stack.enter_async_context(subscribed(plugin, api, clock, lab.record))
            await clock.sleep(HOLD_SECONDS)
        lab.subject.check_running()


async def slow_prepare(lab: Lab) -> None:
    """Opens a health stream, and registers the driver again, while it waits for the API server in Prepare."""
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    subject = lab.subject
    async with allocator(lab, plugin) as made, claim_calls(lab, plugin) as calls:
        claim = await made.claim(made.shapes[0], "slow")
        async with subject.hold_claim_reads(claim.namespace, claim.name, claim.uid) as asked:
            pending = asyncio.create_task(calls.prepare(claim), name="slow prepare")
            try:
                if not await reads_claim(lab, asked, pending):
                    raise NotApplicable("the driver does not read the claim from the API server when it prepares it")
                async with subscribed(plugin, apis[0], subject.clock, lab.record) as stream:
                    await stream.reported(FIRST_REPORT_WAIT)
                await register_again(lab, plugin)
            except BaseException:
                await cancel_and_wait(pending)
                raise
        try:
            await pending
            await calls.unprepare(claim)
        except Hung:
            return


async def reads_claim(lab: Lab, asked: asyncio.Event, pending: "asyncio.Task[Called]") -> bool:
    """Whether the driver reads the claim before it answers."""
    reading = asyncio.create_task(asked.wait())
    try:
        await within(
            lab.subject.clock, READ_LIMIT, asyncio.wait({reading, pending}, return_when=asyncio.FIRST_COMPLETED)
        )
    except TimeoutError:
        return False
    finally:
        reading.cancel()
    return asked.is_set()


async def driver_restart(lab: Lab) -> None:
    """Prepares a claim for each device, kills the driver and starts it again; prepares and unprepares each again."""
    plugin = await plugin_of_process(lab)
    async with allocator(lab, plugin) as made:
        prepared: list[ClaimRef] = []
        try:
            async with claim_calls(lab, plugin) as calls:
                async for claim in made.each((*made.shapes, *made.others), "restart"):
                    if not (await calls.prepare(claim)).problem_of(claim):
                        prepared.append(claim)
                    elif not prepared:
                        return  # the record shows why
            async with claim_calls(lab, await restarted(lab)) as calls:
                for claim in prepared:
                    await calls.prepare(claim)
                    await calls.unprepare(claim)
        except Hung:
            return
