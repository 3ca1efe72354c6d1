"""Minimization of a script that shows a difference: remove one part at a time, and play it again."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from differential.script import (
    Claim,
    Driver,
    DriverStep,
    Held,
    ListDevices,
    Plugin,
    PluginStep,
    Pod,
    PodStep,
    Reading,
    Report,
    Script,
    Silence,
    Step,
    Use,
    find_error,
)

T = TypeVar("T")


async def shrink(script: Script, differs: Callable[[Script], Awaitable[bool]], plays: int) -> Script:
    """The smallest script found for which `differs` is true, with at most `plays` calls."""
    is_smaller = True
    while is_smaller and plays > 0:
        is_smaller = False
        for candidate in smaller(script):
            if plays <= 0:
                break
            plays -= 1
            if await differs(candidate):
                script, is_smaller = candidate, True
                break
    return script


def smaller(script: Script) -> Iterator[Script]:
    """Valid scripts with one part less. Those with much less come first."""
    seen = {script}
    for candidate in _candidates(script):
        if candidate not in seen and not find_error(candidate):
            seen.add(candidate)
            yield candidate


def _candidates(script: Script) -> Iterator[Script]:
    yield from _fewer_steps(script)
    for number in range(len(script.pods)):
        yield _without_pod(script, number)
    for number in range(len(script.claims)):
        yield _without_claim(script, number)
    for number in range(len(script.drivers)):
        yield _without_driver(script, number)
    for number in range(len(script.plugins)):
        yield _without_plugin(script, number)
    for number, step in enumerate(script.steps):
        for simpler in _simpler_step(step):
            yield replace(script, steps=_put(script.steps, number, simpler))
    for number, pod in enumerate(script.pods):
        for simpler_pod in _simpler_pod(pod):
            yield replace(script, pods=_put(script.pods, number, simpler_pod))
    for number, claim in enumerate(script.claims):
        for simpler_claim in _simpler_claim(claim):
            yield replace(script, claims=_put(script.claims, number, simpler_claim))
    for number, driver in enumerate(script.drivers):
        for simpler_driver in _simpler_driver(driver):
            yield replace(script, drivers=_put(script.drivers, number, simpler_driver))
    for number, plugin in enumerate(script.plugins):
        for simpler_plugin in _simpler_plugin(plugin):
            yield replace(script, plugins=_put(script.plugins, number, simpler_plugin))


def _fewer_steps(script: Script) -> Iterator[Script]:
    steps = script.steps
    half = len(steps) // 2
    if half > 1:
        yield replace(script, steps=steps[:half])
        yield replace(script, steps=steps[half:])
    for number in reversed(range(len(steps))):
        yield replace(script, steps=_left(steps, number))


def _without_pod(script: Script, number: int) -> Script:
    steps = [s for s in script.steps if not (isinstance(s, PodStep) and s.pod == number)]
    moved = [replace(s, pod=s.pod - 1) if isinstance(s, PodStep) and s.pod > number else s for s in steps]
    return replace(script, pods=_left(script.pods, number), steps=tuple(moved))


def _without_claim(script: Script, number: int) -> Script:
    def without(use: Use | Held) -> Iterator[Use | Held]:
        if isinstance(use, Held):
            yield use
        elif use.claim != number:
            yield replace(use, claim=use.claim - (use.claim > number))

    return replace(script, claims=_left(script.claims, number), pods=_with_uses(script, without))


def _without_plugin(script: Script, number: int) -> Script:
    def without(use: Use | Held) -> Iterator[Use | Held]:
        if isinstance(use, Use):
            yield use
        elif use.plugin != number:
            yield replace(use, plugin=use.plugin - (use.plugin > number))

    steps = [s for s in script.steps if not (isinstance(s, PluginStep) and s.plugin == number)]
    moved = [replace(s, plugin=s.plugin - 1) if isinstance(s, PluginStep) and s.plugin > number else s for s in steps]
    pods = _with_uses(script, without)
    return replace(script, plugins=_left(script.plugins, number), pods=pods, steps=tuple(moved))


def _with_uses(script: Script, change: Callable[[Use | Held], Iterator[Use | Held]]) -> tuple[Pod, ...]:
    """The pods, with `change` of each use in place of it."""
    return tuple(
        replace(pod, containers=tuple(tuple(n for use in c for n in change(use)) for c in pod.containers))
        for pod in script.pods
    )


def _without_driver(script: Script, number: int) -> Script:
    """Also without its requests. A claim without other requests makes the script invalid."""
    claims = tuple(
        Claim(
            tuple(
                replace(request, driver=request.driver - (request.driver > number))
                for request in claim.requests
                if request.driver != number
            )
        )
        for claim in script.claims
    )
    steps = [s for s in script.steps if not (isinstance(s, DriverStep) and s.driver == number)]
    moved = [replace(s, driver=s.driver - 1) if isinstance(s, DriverStep) and s.driver > number else s for s in steps]
    return replace(script, drivers=_left(script.drivers, number), claims=claims, steps=tuple(moved))


def _simpler_step(step: Step) -> Iterator[Step]:
    if isinstance(step, Report):
        for number in range(len(step.says)):
            yield replace(step, says=_left(step.says, number))
        yield replace(step, pause=0.0)
        for number, reading in enumerate(step.says):
            for simpler in _simpler_reading(reading):
                yield replace(step, says=_put(step.says, number, simpler))
    elif isinstance(step, Silence):
        yield replace(step, seconds=0.0)
    elif isinstance(step, ListDevices):
        for number, listed in enumerate(step.devices):
            yield replace(step, devices=_left(step.devices, number))
            if listed.health not in ("Healthy", "Unhealthy"):
                yield replace(step, devices=_put(step.devices, number, replace(listed, health="Unhealthy")))


def _simpler_reading(reading: Reading) -> Iterator[Reading]:
    """Each candidate has less of one property and more of none, so minimization ends."""
    yield replace(reading, count=1)
    yield replace(reading, timeout=0, updated=0)
    yield replace(reading, timeout=0)
    yield replace(reading, updated=0)
    yield replace(reading, health=2)
    yield replace(reading, identified=True)
    message = reading.message
    for shorter in ("", "m" if message else "", message[: len(message) // 2], message[:-1]):
        yield replace(reading, message=shorter)


def _simpler_pod(pod: Pod) -> Iterator[Pod]:
    for number, container in enumerate(pod.containers):
        if len(pod.containers) > 1:
            yield replace(pod, containers=_left(pod.containers, number))
        for place, use in enumerate(container):
            yield replace(pod, containers=_put(pod.containers, number, _left(container, place)))
            if isinstance(use, Held) and use.count > 1:
                fewer = _put(container, place, replace(use, count=1))
                yield replace(pod, containers=_put(pod.containers, number, fewer))


def _simpler_claim(claim: Claim) -> Iterator[Claim]:
    for number, request in enumerate(claim.requests):
        yield replace(claim, requests=_left(claim.requests, number))
        yield replace(claim, requests=_put(claim.requests, number, replace(request, count=1)))


def _simpler_plugin(plugin: Plugin) -> Iterator[Plugin]:
    yield replace(plugin, directory=False)
    for number in range(len(plugin.devices)):
        yield replace(plugin, devices=_left(plugin.devices, number))


def _simpler_driver(driver: Driver) -> Iterator[Driver]:
    plain = Driver(driver.devices)
    for name in ("pool", "advertised", "served", "cdi_ids", "greets", "timeout"):
        yield replace(driver, **{name: getattr(plain, name)})
    for number, device in enumerate(driver.devices):
        yield replace(driver, devices=_left(driver.devices, number))
        yield replace(driver, devices=_put(driver.devices, number, replace(device, returned=None)))
        for place, odd in enumerate(device.returned or ()):
            fewer = _left(device.returned or (), place)
            yield replace(driver, devices=_put(driver.devices, number, replace(device, returned=fewer)))
            for simpler in (replace(odd, requests=None), replace(odd, cdi_ids=()), replace(odd, share_id="")):
                one = replace(device, returned=_put(device.returned or (), place, simpler))
                yield replace(driver, devices=_put(driver.devices, number, one))


def _left(items: tuple[T, ...], number: int) -> tuple[T, ...]:
    return items[:number] + items[number + 1 :]


def _put(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
