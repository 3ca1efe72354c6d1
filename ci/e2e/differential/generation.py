"""Scripts from a seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from differential import plugin_generation
from differential import script as wire
from differential.script import (
    Claim,
    DeletePod,
    Device,
    Driver,
    EndStream,
    Garbage,
    Held,
    Pod,
    Reading,
    Report,
    Request,
    RestartKubelet,
    Script,
    Silence,
    Start,
    StartPod,
    Step,
    Stop,
    Use,
    find_error,
    held_plugins,
)
from drahealth.fakes.control.fake_options import Returned
from drahealth.manager.releases import NEWEST
from drahealth.proto.health_apis import RELEASED as APIS

# Reports at the limit of devices of a driver (H-13): one that fills the list, and others that replace names in it.

MOST = NEWEST.devices_per_driver or 0
TIMEOUT = 10
"""Seconds: longer than the handling of a full report."""
_POOL = "full"
_FULL_TIMEOUTS = (0, 0, 3600, TIMEOUT)


@st.composite
def readings(draw: st.DrawFn, held: Sequence[tuple[str, str]], is_full: bool) -> tuple[Reading, ...]:
    """A report with about as many devices as the limit. `held` are the pools and names of devices that pods can hold.

    In a list that is full already, it has other names in place of some earlier ones.
    """
    new = draw(st.sampled_from((1, 2, 300))) if is_full else 0
    kept = MOST - new - draw(st.sampled_from((0, 0, 1, 2, 5)))
    timeout = draw(st.sampled_from(_FULL_TIMEOUTS))
    says = [Reading(_POOL, "kept", draw(st.sampled_from((1, 2))), timeout=timeout, count=kept)]
    if new:
        says.append(Reading(_POOL, draw(st.sampled_from(("new", "newer"))), 1, timeout=timeout, count=new))
    for pool, name in held:
        if draw(st.booleans()):
            says.append(Reading(pool, name, draw(st.sampled_from((1, 2, 2))), draw(st.sampled_from(("", "hot")))))
    return tuple(draw(st.permutations(says)))


def pause(says: Sequence[Reading]) -> float:
    """Seconds until the short timeouts of the report are over."""
    return TIMEOUT + 1.0 if any(reading.timeout == TIMEOUT for reading in says) else 0.0


# Scripts from a seed. The same seed and number give the same script with the same version of Hypothesis.
#
# Each step depends on the state after the earlier steps: running instances are stopped, open streams are ended, a
# report may repeat an earlier one. Timeouts either end within the step, which waits for them, or after the script.

_BATCH = 100
"""Scripts that are drawn together. Hypothesis spreads its choices over a batch, and repeats some."""
RESTARTS = 15
"""One in this number of scripts restarts the kubelet."""

_SHORT = (1, 2, 3)
_AFTER = 1.0
"""Seconds to wait after the last short timeout of a report."""
_TIMEOUTS = (0, 0, 0, 0, 0, 2, 2, 3, 1, 60, 3600, -1, -(2**63), 2**31, 9223372036, 9223372037, 2**62, 2**63 - 1)
_HEALTHS = (1, 1, 1, 2, 2, 2, 2, 0, 3, 99, -1, 2**31 - 1)
_UPDATED = (0, 0, 1, -1, 1767225600, 2**63 - 1, -(2**63))
_COUNTS = (1,) * 40 + (3, 200, 3000, 16500)
_CODES = ("OK", "OK", "UNAVAILABLE", "INTERNAL", "CANCELLED", "RESOURCE_EXHAUSTED", "UNKNOWN", "UNIMPLEMENTED")
_POOLS = ("p", "p/q", "", "ü", "x" * 300)
_NAMES = ("r", "q/r", "", "a/b", "gpu-0 ", "名前", "\n", "x" * 300)
_CDI_IDS = ("vendor.example.com/gpu=x", "vendor.example.com/gpu=y", "no CDI id", "")
_GARBAGE = ("ff", "0a", "0a05", "0affffffff0f", "0a020aff", "00", "0a0612020aff1001")


@dataclass
class _State:
    """The state of a script after its steps so far."""

    script: Script
    running: set[tuple[int, int]]
    open: set[tuple[int, int]]
    pods: set[int]
    later: set[int]
    reports: list[Report] = field(default_factory=list)
    plugins: plugin_generation.State = field(default_factory=plugin_generation.State)
    fills: bool = False
    """Whether the script has reports near the limit of devices."""
    full: set[int] = field(default_factory=set)
    """The drivers that have sent such a report."""


def messages() -> st.SearchStrategy[str]:
    """Short messages, and messages near the limit of 1024 bytes, with multi-byte characters at the limit."""
    long = st.builds(
        lambda char, before, size: "x" * before + char * ((size - before) // len(char.encode()) + 1),
        st.sampled_from(("a", "é", "€", "😀")),
        st.integers(0, 4),
        st.sampled_from((1019, 1022, 1023, 1024, 1025, 1030, 2000)),
    )
    odd = st.text(st.characters(codec="utf-8"), max_size=8)
    return st.one_of(st.just(""), st.sampled_from(("hot", "ecc", "fallen off the bus")), odd, long)


@st.composite
def _drivers_and_claims(draw: st.DrawFn) -> tuple[tuple[Driver, ...], tuple[Claim, ...]]:
    number = draw(st.sampled_from((1, 1, 1, 2)))
    claims = tuple(
        Claim(
            tuple(
                Request(f"r{place}", draw(st.integers(0, number - 1)), draw(st.sampled_from((1, 1, 2))))
                for place in range(draw(st.sampled_from((1, 1, 2))))
            )
        )
        for _ in range(draw(st.sampled_from((1, 1, 2, 3))))
    )
    wanted = [sum(r.count for claim in claims for r in claim.requests if r.driver == n) for n in range(number)]
    return tuple(draw(_driver(max(count, 1))) for count in wanted), claims


@st.composite
def _driver(draw: st.DrawFn, devices: int) -> Driver:
    advertised = draw(st.sampled_from((APIS,) * 9 + (APIS[:1], APIS[1:], ())))
    served = draw(st.sampled_from((None,) * 12 + ((), APIS[1:])))
    odd = draw(st.sampled_from((False, False, True)))
    return Driver(
        tuple(
            Device(f"gpu-{number}", draw(st.one_of(st.none(), _returned())) if odd else None)
            for number in range(devices)
        ),
        pool=draw(st.sampled_from(("pool", "pool", "node-a", "a.example.com/b"))),
        advertised=advertised,
        served=served,
        cdi_ids=draw(st.booleans()),
        greets=draw(st.sampled_from((True, True, False))),
        timeout=draw(st.sampled_from((0, 0, 600))),
    )


def _returned() -> st.SearchStrategy[tuple[Returned, ...]]:
    device = st.builds(
        Returned,
        st.sampled_from((*_POOLS[:3], "pool")),
        st.sampled_from((*_NAMES[:4], "gpu-0")),
        st.sampled_from((None, None, (), ("r0",), ("r1", "r0"), ("other",))),
        st.lists(st.sampled_from(_CDI_IDS), max_size=2).map(tuple),
        st.sampled_from(("", "", "0a1b2c3d-0000-4000-8000-000000000001")),
    )
    return st.lists(device, max_size=3).map(tuple)


@st.composite
def _pod(draw: st.DrawFn, claims: Sequence[Claim], plugins: int, later: bool) -> Pod:
    containers = []
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        uses: list[Use | Held] = draw(plugin_generation.uses(plugins))
        for number, claim in enumerate(claims):
            names = [request.name for request in claim.requests]
            how = draw(st.sampled_from(("all", "all", "requests", "not")))
            if how == "all":
                uses.append(Use(number))
            elif how == "requests":
                uses += [Use(number, name) for name in draw(st.lists(st.sampled_from(names), min_size=1, unique=True))]
        containers.append(tuple(uses))
    return Pod(tuple(containers), later)


def _held(driver: Driver) -> list[tuple[str, str]]:
    """The pools and names of the devices that pods can hold."""
    held = [(driver.pool, device.name) for device in driver.devices if device.returned is None]
    return held + [(odd.pool, odd.device) for device in driver.devices for odd in device.returned or ()]


@st.composite
def _reading(draw: st.DrawFn, script: Script, number: int) -> Reading:
    held = _held(script.drivers[number])
    names = st.tuples(st.sampled_from(_POOLS), st.sampled_from(_NAMES))
    if held:
        names = st.one_of(*[st.sampled_from(held)] * 5, names)
    pool, device = draw(names)
    count = draw(st.sampled_from(_COUNTS))
    return Reading(
        pool,
        device,
        draw(st.sampled_from(_HEALTHS)),
        draw(messages()) if count == 1 else draw(st.sampled_from(("", "m" * (1000 if count == 3000 else 1)))),
        draw(st.sampled_from(_TIMEOUTS)) if count == 1 else 0,
        draw(st.sampled_from(_UPDATED)),
        count,
        identified=draw(st.sampled_from((True,) * 20 + (False,))),
    )


@st.composite
def _report(draw: st.DrawFn, state: _State, instance: tuple[int, int]) -> Report:
    before = [report for report in state.reports if report.driver == instance[0]]
    if before and draw(st.sampled_from((True, False, False))):
        says = draw(st.sampled_from(before)).says
    else:
        says = tuple(draw(st.lists(_reading(state.script, instance[0]), max_size=4)))
        if any(reading.count > 1 for reading in says):  # a large report takes longer than a short timeout
            says = tuple(replace(reading, timeout=0) if reading.timeout in _SHORT else reading for reading in says)
    short = [reading.timeout for reading in says if reading.timeout in _SHORT]
    report = Report(instance[0], says, _side(instance[1]), pause=max(short) + _AFTER if short else 0.0)
    state.reports.append(report)
    return report


@st.composite
def _full_report(draw: st.DrawFn, state: _State, instance: tuple[int, int]) -> Report:
    number, side = instance
    says = draw(readings(_held(state.script.drivers[number]), number in state.full))
    state.full.add(number)
    return Report(number, says, _side(side), pause=pause(says))


@st.composite
def _garbage(draw: st.DrawFn, script: Script, driver: int) -> str:
    """Bytes that are not a message, or a message with one wrong byte or without its end. Some are still readable."""
    if draw(st.booleans()):
        return draw(st.sampled_from(_GARBAGE))
    reading = replace(draw(_reading(script, driver)), timeout=0, count=1)
    data = bytearray(wire.encode((reading, replace(reading, health=1))))
    place = draw(st.integers(0, len(data) - 1))
    if draw(st.booleans()):
        return data[:place].hex()
    data[place] = draw(st.integers(0, 255))
    return data.hex()


@st.composite
def _step(draw: st.DrawFn, state: _State) -> Step:
    kinds = ["report"] * 12 + ["end", "end", "garbage"] if state.open else []
    kinds += ["full report"] * 20 if state.open and state.fills else []
    kinds += ["silence"]
    kinds += ["stop"] if state.running else []
    stopped = [(d, i) for d in range(len(state.script.drivers)) for i in (0, 1) if (d, i) not in state.running]
    kinds += ["start"] * 2 if stopped else []
    kinds += ["plugin"] * 4 * len(state.script.plugins)
    all_run = {driver for driver, _ in state.running} == set(range(len(state.script.drivers)))
    ready = sorted(pod for pod in state.later if not held_plugins(state.script, pod) & state.plugins.changed)
    kinds += ["start pod"] * 3 if ready and all_run else []
    kinds += ["delete pod"] if state.pods and all_run else []
    match draw(st.sampled_from(kinds)):
        case "report":
            return draw(_report(state, draw(st.sampled_from(sorted(state.open)))))
        case "full report":
            return draw(_full_report(state, draw(st.sampled_from(sorted(state.open)))))
        case "end":
            driver, side = draw(st.sampled_from(sorted(state.open)))
            code = draw(st.sampled_from(_CODES))
            if code == "UNIMPLEMENTED":
                state.open.discard((driver, side))
            return EndStream(driver, code, _side(side))
        case "garbage":
            driver, side = draw(st.sampled_from(sorted(state.open)))
            return Garbage(driver, draw(_garbage(state.script, driver)), _side(side))
        case "stop":
            driver, side = draw(st.sampled_from(sorted(state.running)))
            state.running.discard((driver, side))
            state.open.discard((driver, side))
            return Stop(driver, _side(side))
        case "start":
            driver, side = draw(st.sampled_from(stopped))
            state.running.add((driver, side))
            if _is_served(state.script.drivers[driver]):
                state.open.add((driver, side))
            return Start(driver, _side(side))
        case "plugin":
            return draw(plugin_generation.step(state.plugins, state.script.plugins))
        case "start pod":
            pod = draw(st.sampled_from(ready))
            state.later.discard(pod)
            state.pods.add(pod)
            return StartPod(pod)
        case "delete pod":
            pod = draw(st.sampled_from(sorted(state.pods)))
            state.pods.discard(pod)
            return DeletePod(pod)
    return Silence(draw(st.sampled_from((0.0, 1.0, 4.0))), looks=draw(st.booleans()))


def _side(number: int) -> Literal[0, 1]:
    return 1 if number else 0


def _is_served(driver: Driver) -> bool:
    """Whether the kubelet's stream to this driver stays open."""
    served = driver.advertised if driver.served is None else driver.served
    called = next((api for api in APIS if api in driver.advertised), None)
    return called in served


@st.composite
def scripts(draw: st.DrawFn, restarts: bool = False) -> Script:
    """A script. With `restarts`, it restarts the kubelet once."""
    drivers, claims = draw(_drivers_and_claims())
    later = draw(st.sampled_from(((False,), (False,), (False, False), (False, True), (True, False))))
    number = draw(plugin_generation.numbers())
    pods = tuple(draw(_pod(claims, number, is_later)) for is_later in later)
    plugins = draw(plugin_generation.plugins(number, pods))
    set_up = Script(drivers, claims, pods, plugins=plugins)
    instances = {(number, 0) for number in range(len(drivers))}
    state = _State(
        set_up,
        running=set(instances),
        open={instance for instance in instances if _is_served(drivers[instance[0]])},
        pods={number for number, is_later in enumerate(later) if not is_later},
        later={number for number, is_later in enumerate(later) if is_later},
        fills=draw(st.sampled_from((False,) * 11 + (True,))),
        plugins=plugin_generation.State({(number, 0) for number in range(len(plugins))}),
    )
    count = draw(st.sampled_from((3, 4, 5, 6, 7)))
    restart = draw(st.integers(0, count - 1)) if restarts else None
    steps: list[Step] = []
    for number in range(count):
        if number == restart:
            steps.append(RestartKubelet())
            state.open = {i for i in state.running if _is_served(drivers[i[0]])}
        else:
            steps.append(draw(_step(state)))
    script = replace(set_up, steps=tuple(steps))
    assert not find_error(script)
    return script


def generate(seed: int, count: int) -> list[Script]:
    """The first `count` scripts of the seed, including those that restart the kubelet."""
    ordinary, restarting = _drawn(seed, restarts=False), _drawn(seed, restarts=True)
    return [next(restarting if number % RESTARTS == RESTARTS - 1 else ordinary) for number in range(count)]


def _drawn(seed: int, restarts: bool) -> Iterator[Script]:
    batch = 0
    seen: set[str] = set()
    while True:
        for script in _batch(f"{seed}/{batch}/{restarts}", restarts):
            steps = str(script.steps)
            if steps not in seen:
                seen.add(steps)
                yield script
        batch += 1


@cache
def _batch(seed: str, restarts: bool) -> tuple[Script, ...]:
    found: list[Script] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=_BATCH,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(scripts(restarts))
    def collect(script: Script) -> None:
        found.append(script)

    collect()
    return tuple(found)
