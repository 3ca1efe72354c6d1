"""The experiment that plays a plan of faults: many devices, moments and changes in one driver process."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.manager.profile import KEP
from drahealth.manager.stream import advertised_health_api
from drahealth.proto.events import FaultGap, FaultStage
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import ClaimRef, DeviceHealth, Health
from drahealth.suites.driver_checks.claims_experiments import (
    EACH_SECONDS,
    Allocator,
    Calls,
    Hung,
    Published,
    allocator,
    claim_calls,
    reads_claim,
    shape_of,
)
from drahealth.suites.driver_checks.experiments import NotApplicable
from drahealth.suites.driver_checks.fault_plan import (
    AFTER_AGAIN,
    AGAIN,
    NO_API,
    PREPARE,
    SECOND,
    START,
    UNPREPARE,
    Act,
    FaultPlan,
    Gap,
    Stage,
    Target,
    plan,
    usable,
)
from drahealth.suites.driver_checks.faults_steps import Bench, FaultStreams, bench_of, expected
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_health import APART, FIRST_REPORT_WAIT
from drahealth.suites.driver_checks.registration_experiments import register_again, restarted
from drahealth.suites.driver_checks.scripted_kubelet import Subscriber, subscribed

HELD = 15.0
"""Seconds at most for which the faults of one stage last, so that each device is reported again without a change."""
_SILENT = "the driver advertises it, and does not report over it"
_BROKEN = "it was not healthy before the first fault"
_PREPARED_ONLY = "it lists only prepared devices, so the faults of a plan are not judged over it"
_SIDE_BY_SIDE = 8
"""Actions at the same time: a program for each of 32 devices would delay this machine."""
_MODELS = ("productname", "model", "type", "architecture")
"""Attributes that say which devices are alike, in lower case."""


async def fault_plan(lab: Lab) -> None:
    """Breaks each device at each moment, and changes the cause; streams of all health APIs are open meanwhile."""
    if not usable(lab.subject.faults):
        raise NotApplicable("each fault of the driver profile starts the driver again, or is never cleared")
    async with bench_of(lab) as bench, AsyncExitStack() as stack:
        published = await bench.published()
        targets, broken = await targets_of(bench, published)
        made = plan(lab.subject.faults, targets, lab.run.level, _blocked(lab, published), _once(lab))
        made = FaultPlan(made.stages, (*(Gap("device", str(one), _BROKEN) for one in broken), *made.gaps))
        if not made.stages:
            for gap in made.gaps:
                lab.record(FaultGap(lab.subject.label, gap.dimension, gap.value, gap.reason))
            raise NotApplicable("no fault of the driver profile breaks a device that drahealth can choose")
        claims = _Claims(lab, bench, published)
        if not {PREPARE, UNPREPARE}.isdisjoint(stage.moment for stage in made.stages):
            claims.made = await stack.enter_async_context(allocator(lab, bench.plugin))
        with suppress(Hung):  # the record shows it
            await _Player(lab, bench, claims, made).play()
    lab.subject.check_running()


async def targets_of(bench: Bench, published: Sequence[Published]) -> tuple[list[Target], list[Device]]:
    """The reported devices that are healthy, and the others: what they show is no effect of a fault.

    One that is in no ResourceSlice is left out if others are in one: a fault adapter may not know its name.
    """
    models = {Device(one.id.pool, one.id.device): _model(one) for one in published}
    reported = bench.streams.reported()
    mine = [one for one in reported if one in models] or reported

    def broken() -> list[Device]:
        return [one for one in mine if not bench.streams.all_show(one, expected(Health.HEALTHY))]

    await bench.settles(lambda: not broken())
    return [Target(one, models.get(one, "")) for one in mine if one not in broken()], broken()


def _model(one: Published) -> str:
    attributes = one.spec.get("attributes") or (one.spec.get("basic") or {}).get("attributes") or {}
    found = {name: value for name, value in attributes.items() if name.rpartition("/")[2].lower() in _MODELS}
    return ", ".join(f"{name}={value}" for name, value in sorted(found.items()))


def _blocked(lab: Lab, published: Sequence[Published]) -> dict[str, str]:
    """The moments that cannot be caused, with the reasons."""
    found = {}
    profile = lab.run.profile
    if not lab.subject.started_by_us:
        found[START] = "drahealth did not start the driver"
    if not profile.driver.command or profile.api_server_kind == "none":
        found[NO_API] = "drahealth does not control the API server of the driver"
    if lab.subject.api is None:
        found |= dict.fromkeys((PREPARE, UNPREPARE), "there is no API server")
    elif not published:
        found |= dict.fromkeys((PREPARE, UNPREPARE), "the driver publishes no device")
    elif NO_API in found:
        found[PREPARE] = "drahealth cannot delay the driver's read of the claim"
    return found


def _once(lab: Lab) -> dict[str, str]:
    """The moments that one stage causes, with the reasons."""
    return {START: "a Pod takes long to start, so the driver starts once"} if lab.subject.launch else {}


class _Claims:
    """The claim that the driver prepares and unprepares while devices break."""

    def __init__(self, lab: Lab, bench: Bench, published: Sequence[Published]) -> None:
        self.made: Allocator | None = None
        self._lab = lab
        self._bench = bench
        self._published = {Device(one.id.pool, one.id.device): one for one in published}
        self._count = 0
        self._ours = not lab.run.claim and lab.run.profile.claim.devices == 1

    @asynccontextmanager
    async def calls(self) -> AsyncGenerator[Calls, None]:
        """A connection to the present process."""
        async with claim_calls(self._lab, self._bench.plugin) as calls:
            yield calls

    async def claim(self, device: Device | None) -> ClaimRef:
        """A new claim, for this device if the user gave no claims."""
        assert self.made
        self._count += 1
        one = self._published.get(device) if device and self._ours else None
        return await self.made.claim(shape_of([one]) if one else self.made.shapes[0], f"plan-{self._count}")

    async def prepare_each(self, streams: FaultStreams) -> None:
        """Prepares and unprepares a claim for each healthy device without a taint, one after another.

        Claims of the user are not tried: which device breaks them is unknown.
        """
        if not self._ours:
            return
        clock = self._lab.subject.clock
        end = clock.now() + EACH_SECONDS
        sound = {Device(one.id.pool, one.id.device) for one in await self._bench.published() if not any(one.drawbacks)}
        async with self.calls() as calls:
            for device in streams.reported():
                if device in sound and streams.all_show(device, expected(Health.HEALTHY)) and clock.now() < end:
                    claim = await self.claim(device)
                    await calls.prepare(claim)
                    await calls.unprepare(claim)

    @asynccontextmanager
    async def pending(self, device: Device | None) -> AsyncGenerator[str, None]:
        """NodePrepareResources waits for the API server. Gives the reason if it does not."""
        claim = await self.claim(device)
        lab = self._lab
        async with self.calls() as calls:
            async with lab.subject.hold_claim_reads(claim.namespace, claim.name, claim.uid) as asked:
                pending = asyncio.create_task(calls.prepare(claim), name="prepare during a fault")
                try:
                    reads = await reads_claim(lab, asked, pending)
                    yield "" if reads else "the driver does not read the claim from the API server when it prepares it"
                except BaseException:
                    await cancel_and_wait(pending)
                    raise
            await pending
            api = HEALTH_APIS[self._lab.facts.health_apis.result()[0]]
            async with subscribed(self._bench.plugin, api, lab.subject.clock, lab.record) as stream:
                await stream.reported(FIRST_REPORT_WAIT)  # a prepared device can be broken, too
            await calls.unprepare(claim)

    @asynccontextmanager
    async def unpreparing(self, device: Device | None) -> AsyncGenerator[None, None]:
        """The claim is unprepared again and again, from the start of the block to its end."""
        claim = await self.claim(device)
        async with self.calls() as calls:
            await calls.prepare(claim)
            ends = asyncio.Event()

            async def repeat() -> None:
                await calls.unprepare(claim)
                while not ends.is_set():
                    await self._lab.subject.clock.sleep(0.05)
                    await calls.unprepare(claim)

            repeating = asyncio.create_task(repeat(), name="unprepare during a fault")
            try:
                yield
            except BaseException:
                await cancel_and_wait(repeating)
                raise
            ends.set()
            await repeating


class _Player:
    """Plays the stages of a plan."""

    def __init__(self, lab: Lab, bench: Bench, claims: _Claims, made: FaultPlan) -> None:
        self._lab = lab
        self._bench = bench
        self._claims = claims
        self._plan = made
        self._slots = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._lasting: dict[Device, list[Act]] = {}
        """The faults of each device that are not cleared."""
        self._failed: set[Device] = set()
        """The devices whose fault adapter failed."""
        self._taints = True
        """Whether the taints of all stages came in time: the stages do not wait for them again and again."""
        self._apis: tuple[HealthApi, ...] = bench.streams.apis
        self._held = next((one for one in made.stages if one.moment == SECOND), next(iter(made.stages), None))
        """The stage whose faults last until they are reported again."""

    async def play(self) -> None:
        """Plays all stages. After a stage that not all streams show, the others prove nothing: they are gaps."""
        for gap in self._plan.gaps:
            self._gap(gap)
        advertised = set(advertised_health_api(self._bench.plugin.versions, KEP))
        for api in sorted(advertised - set(self._apis), key=lambda one: one.name):
            self._gap(Gap("health API", api.name, _PREPARED_ONLY if api.prepared_only else _SILENT))
        for number, stage in enumerate(self._plan.stages):
            acts = [act for act in stage.acts if act.device not in self._failed]
            if not await self._stage(stage, acts):
                rest = len(self._plan.stages) - number - 1
                self._gap(Gap("stages", f"the last {rest} stages", "not all streams showed the stage before"))
                break
        for device, acts in list(self._lasting.items()):
            for act in acts:
                await self._bench.heals(act.fault, device)
        if self._claims.made and self._lasting:
            await self._claims.prepare_each(self._bench.streams)

    async def _stage(self, stage: Stage, acts: Sequence[Act]) -> bool:
        """Plays a stage; returns whether the driver reported all of it."""
        bench, closed = self._bench, stage.moment in (START, AGAIN)
        if closed:
            await bench.close()
        async with AsyncExitStack() as moment:
            await self._enter(stage, moment)
            subscribers = self._subscribers(stage.moment)
            self._lab.record(
                FaultStage(
                    self._lab.subject.label,
                    stage.moment,
                    tuple(str(act.device) for act in acts),
                    tuple(act.change for act in acts),
                    tuple(api.name for api in self._apis),
                    subscribers,
                )
            )
            before = {act.device: {(one.health, one.message) for one in bench.streams.of(act.device)} for act in acts}
            work = [self._act(act) for act in acts]
            if stage.moment == AGAIN:
                work.append(register_again(self._lab, bench.plugin))
            if closed:
                await asyncio.gather(*work, bench.open())
                shown = await self._shown(acts, before)
                await self._tainted(stage, acts)
            else:
                async with AsyncExitStack() as opened:
                    during = [await opened.enter_async_context(self._stream(api)) for api in self._apis]
                    await asyncio.gather(*work)
                    shown = await self._shown(acts, before)
                    await self._tainted(stage, acts)
                    await asyncio.gather(*(stream.reported(FIRST_REPORT_WAIT) for stream in during))
        await self._later(subscribers)
        if shown and stage is self._held:
            await bench.streams.follow(limit=HELD)
        self._lab.subject.check_running()
        return shown

    async def _enter(self, stage: Stage, moment: AsyncExitStack) -> None:
        """Causes the moment of a stage, until the end of the stack. The claim has a device that breaks."""
        begun = next((device for device, _ in stage.begins), None)
        if stage.moment == START:
            self._bench.plugin = await restarted(self._lab)
        elif stage.moment == PREPARE:
            if why := await moment.enter_async_context(self._claims.pending(begun)):
                self._gap(Gap("moment", PREPARE, why))
        elif stage.moment == UNPREPARE:
            await moment.enter_async_context(self._claims.unpreparing(begun))
        elif stage.moment == NO_API:
            await self._lab.subject.set_reachable(False)
            moment.push_async_callback(self._lab.subject.set_reachable, True)

    def _subscribers(self, moment: str) -> tuple[str, ...]:
        """When streams are opened. Only level full registers the driver again at each moment."""
        first = ("during",) if moment in (START, AGAIN) else ("before", "during")
        again = moment == AGAIN or self._lab.run.level == "full"
        return (*first, "after", "after a cancelled stream", *((AFTER_AGAIN,) if again else ()))

    async def _act(self, act: Act) -> None:
        device, left = act.device, self._lasting.setdefault(act.device, [])
        async with self._slots:
            if act.verb == "heal":
                shows = () if act.shows == (Health.HEALTHY,) else act.shows
                done = await self._bench.heals(act.fault, device, shows)
                left[:] = [one for one in left if one.fault is not act.fault and act.shows != (Health.HEALTHY,)]
            else:
                done = await self._bench.breaks(act.fault, device, change=act.verb == "change", shows=act.shows)
                left += [act] if act.verb == "break" else []
        if not done:
            self._failed.add(device)
            self._gap(Gap("device", str(device), f"fault {act.fault.name}: its action failed"))

    async def _shown(self, acts: Sequence[Act], before: dict[Device, set[tuple[Health, str]]]) -> bool:
        """Waits until all streams show all acts; returns whether they do. A changed cause may have the same message."""

        async def one(act: Act) -> bool:
            old = before[act.device] if act.verb == "change" else set()

            def shown(reported: DeviceHealth) -> bool:
                return reported.health in act.shows and (reported.health, reported.message) not in old

            await self._bench.shows(act.device, shown, act.fault, message=act.verb == "change")
            return act.verb == "change" or self._bench.streams.all_show(act.device, shown)

        return all(await asyncio.gather(*(one(act) for act in acts if act.device not in self._failed)))

    async def _tainted(self, stage: Stage, acts: Sequence[Act]) -> None:
        """Waits for the taints of devices that broke or recovered, and have no other fault."""
        if stage.moment in (START, NO_API):  # the driver can publish later
            return
        alone = [one for one in acts if one.device not in self._failed and len(self._lasting[one.device]) <= 1]
        due = [(one, one.verb == "break") for one in alone if one.verb == "break" or not self._lasting[one.device]]
        if self._taints:
            found = [self._bench.tainted(one.fault, one.device, so=broken) for one, broken in due]
            self._taints = all(await asyncio.gather(*found))

    async def _later(self, subscribers: Sequence[str]) -> None:
        """Opens a stream of each health API, and another one after it was cancelled, or after a registration."""

        async def first(api: HealthApi) -> None:
            async with self._stream(api) as stream:
                await stream.reported(FIRST_REPORT_WAIT)

        await asyncio.gather(*map(first, self._apis))
        if AFTER_AGAIN in subscribers:
            await register_again(self._lab, self._bench.plugin)
        await asyncio.gather(*map(first, self._apis))
        await self._lab.subject.clock.sleep(APART)

    def _stream(self, api: HealthApi) -> AbstractAsyncContextManager[Subscriber]:
        return subscribed(self._bench.plugin, api, self._lab.subject.clock, self._lab.record)

    def _gap(self, gap: Gap) -> None:
        self._lab.record(FaultGap(self._lab.subject.label, gap.dimension, gap.value, gap.reason))
