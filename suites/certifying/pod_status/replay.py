"""Replays recorded reports as a kubelet of one release reads them. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drahealth.manager.cache import HealthCache
from drahealth.manager.profile import Profile
from drahealth.manager.status import entries
from drahealth.proto.events import ReportReceived
from drahealth.proto.values import ClaimUse, Health, PreparedDevice, ResourceHealth
from drahealth.suites.checking.evidence import Observation

_USE = ClaimUse("claim", "claim", listed=True)
_MOMENT = 1e-6
"""Seconds before a report: what was shown until then may have expired."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a Pod status shows of a device from a time on."""

    at: float
    """Seconds since the start of the run."""
    health: Health
    message: str = ""


def replay(
    profile: Profile,
    driver: str,
    devices: Sequence[PreparedDevice],
    reports: Iterable[Observation[ReportReceived]],
) -> Mapping[str, tuple[Seen, ...]]:
    """What the status of a Pod with all these devices shows over time, by resource ID.

    The status is read after each report, and just before the next one.
    """
    cache, shown = HealthCache(profile), dict[str, list[Seen]]()
    for report in reports:
        _read(profile, cache, devices, report.at - _MOMENT, shown)
        if report.what.size > profile.largest_report:
            cache.clear(driver)  # the stream ends
        else:
            cache.update(driver, report.what.devices, report.at)
        _read(profile, cache, devices, report.at, shown)
    if not shown:
        _read(profile, cache, devices, 0.0, shown)
    return {name: tuple(changes(found[1:] if len(found) > 1 else found)) for name, found in shown.items()}


def _read(
    profile: Profile,
    cache: HealthCache,
    devices: Sequence[PreparedDevice],
    now: float,
    shown: dict[str, list[Seen]],
) -> None:
    for one in _resources(profile, cache, devices, now):
        shown.setdefault(one.resource_id, []).append(Seen(now, one.health, one.message))


def _resources(
    profile: Profile, cache: HealthCache, devices: Sequence[PreparedDevice], now: float
) -> Iterator[ResourceHealth]:
    """The first device with each ID, as all releases show it."""
    found: dict[str, ResourceHealth] = {}
    composed = entries([_USE], lambda _: devices, lambda one: cache.read(one, now), profile, messages=profile.messages)
    for entry in composed:
        for resource in entry.resources:
            found.setdefault(resource.resource_id, resource)
    yield from found.values()


def changes(shown: Iterable[Seen]) -> Iterator[Seen]:
    """The first of equal ones."""
    last: Seen | None = None
    for one in shown:
        if last is None or (one.health, one.message) != (last.health, last.message):
            yield one
        last = one
