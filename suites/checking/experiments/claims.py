"""The experiments of claims: prepare and unprepare, once and again, several at once, and slowly."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import uuid4

from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.values import ClaimRef
from drahealth.suites.checking.experiments.allocating import NAMESPACE, Allocator, allocator, unpublished
from drahealth.suites.checking.experiments.first_steps import known
from drahealth.suites.checking.experiments.watching import health_apis
from drahealth.suites.checking.kubelet.cdi_specs import read_specs
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.dra_calls import Called, DraCalls, preferred_version
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.subscriber import subscribed
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.streams import FIRST_REPORT_WAIT
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable

CALL_LIMIT = 30.0
"""Seconds for one call. A kubelet waits 45 s (W-09)."""
READ_LIMIT = 23.0
"""Seconds until a driver reads the claim that it prepares: the first report must also come within the call."""


HOLD_SECONDS = 12.0
"""Seconds for which a claim stays prepared, if health is reported only for prepared devices: time for reports."""


class Hung(Exception):
    """A call did not end within its limit; its record shows that, and further calls would hang, too."""


class Calls:
    """The claim calls of an experiment."""

    def __init__(self, calls: DraCalls, lab: Lab) -> None:
        self._calls = calls
        self._lab = lab

    async def prepare(self, *claims: ClaimRef) -> Called:
        """Prepares claims in one call. Raises Hung, and Incomplete if the driver has ended."""
        return self._checked(await self._calls.prepare(*claims, limit=CALL_LIMIT))

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
    lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
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
        lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
        await calls.unprepare(a, b)


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
    """Opens a health stream while the driver waits for the API server in Prepare."""
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
            except BaseException:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
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
        await within(lab.subject.clock, READ_LIMIT, _first({reading, pending}))
    except TimeoutError:
        return False
    finally:
        reading.cancel()
    return asked.is_set()


async def _first(tasks: "set[asyncio.Task[Any]]") -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
