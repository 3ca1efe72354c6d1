"""Checks of what a device plugin lists while drahealth breaks and heals a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drahealth.proto.events import FaultCleared, FaultInjected, ListReceived
from drahealth.proto.extended_resources import health_of
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.faults import MARGIN
from drahealth.suites.checking.observed.faults import Step, began, deadline, failed_adapter
from drahealth.suites.checking.verdicts import Finding, Verdict, failed, not_tested, passed, static, worst

_NAME = "plugin-faults"


@dataclass(frozen=True, slots=True)
class _Episode:
    """One fault, with the lists from before it until the next one."""

    broken: Observation[FaultInjected]
    healed: Observation[FaultCleared] | None
    before: Observation[ListReceived] | None
    """The last list before the break."""
    lists: tuple[Observation[ListReceived], ...]
    end: float
    """When the next fault began, or the last record."""

    @property
    def device(self) -> str:
        """The device that was broken."""
        return self.broken.what.device

    def health(self, listed: Observation[ListReceived]) -> Health | None:
        """The health of the device in a list; None if it is not in the list."""
        return next((health_of(one.health) for one in listed.what.devices if one.id == self.device), None)

    @property
    def wanted(self) -> Health:
        """The health of the device after the break. Device plugins have no other word for a broken device."""
        return Health.HEALTHY if self.broken.what.health == Health.HEALTHY else Health.UNHEALTHY

    def shown(self, step: Step, health: Health) -> Observation[ListReceived] | None:
        """The first list with this health after the step began."""
        later = (one for one in self.lists if one.at >= began(step))
        return next((one for one in later if self.health(one) is health), None)


_Judge = Callable[[_Episode], Finding]


def _episodes(evidence: Evidence) -> list[_Episode]:
    lists = list(evidence.of(ListReceived, _NAME))
    breaks = [one for one in evidence.of(FaultInjected, _NAME) if one.what.step == "break"]
    last = max((one.at for one in evidence.records if one.experiment == _NAME), default=0.0)
    found = []
    for number, broken in enumerate(breaks):
        end = began(breaks[number + 1]) if number + 1 < len(breaks) else last
        healed = (one for one in evidence.of(FaultCleared, _NAME) if broken.number < one.number and one.at <= end)
        mine = [one for one in lists if broken.what.pool in ("", one.what.driver)]
        before = [one for one in mine if one.at < began(broken)]
        during = tuple(one for one in mine if began(broken) <= one.at <= end)
        found.append(_Episode(broken, next(healed, None), before[-1] if before else None, during, end))
    return found


def _of_all_faults(evidence: Evidence, judge: _Judge) -> Finding:
    """The worst finding of all faults, with how they were caused."""
    found = [replace(judge(one), grade=one.broken.what.grade) for one in _episodes(evidence)]
    return worst(found) if found else not_tested("no fault was caused")


def _judged(episode: _Episode, step: Step, health: Health, until: float, unseen: str) -> Finding:
    """Whether a list shows the health in time; `until` is how long the lists were read."""
    about = f"{one_line(episode.device)}, fault {step.what.fault}"
    if problem := failed_adapter(step, about):
        return problem
    limit = deadline(step)
    shown = episode.shown(step, health)
    if shown and shown.at <= limit:
        return passed(f"{about}: {health} after {max(shown.at - step.at, 0):.1f} s", step.number, shown.number)
    expected = f"{health} in a list within {step.what.settle:g} s (plus {MARGIN:g} s for a busy machine)"
    if shown and shown.at <= until:
        seen = f"{about}: {health} only after {shown.at - step.at:.1f} s"
        return failed(expected, seen, step.number, shown.number)
    if until < limit:
        return not_tested(f"{about}: the lists were not read long enough", step.number)
    last = [episode.before] if episode.before else []
    last += [one for one in episode.lists if one.at <= until]
    state = episode.health(last[-1]) if last else None
    seen = f"{about}: {state or 'not'} in the last list"
    records: Sequence[int] = (step.number, *(one.number for one in last[-1:]))
    if unseen == "NOT_TESTED":
        return not_tested(seen, *records)
    return failed(expected, seen, *records)


@check(
    "DEVPLUGIN-25",
    _NAME,
    fix="Watch the health of the hardware. When it changes, send the list of all devices.",
)
def broken_device_is_listed_unhealthy(evidence: Evidence) -> Finding:
    """After the break a list has the device as Unhealthy within the settle time."""
    return _of_all_faults(evidence, _break)


def _break(episode: _Episode) -> Finding:
    broken, healed = episode.broken, episode.healed
    until = began(healed) if healed else episode.end
    return _judged(episode, broken, episode.wanted, until, broken.what.on_no_effect)


@check(
    "DEVPLUGIN-26",
    _NAME,
    fix="Watch a broken device until it recovers. When it is healthy, send the list of all devices.",
)
def healed_device_is_listed_healthy(evidence: Evidence) -> Finding:
    """After the heal a list has the device as Healthy within the settle time."""
    return _of_all_faults(evidence, _heal)


def _heal(episode: _Episode) -> Finding:
    if episode.healed is None:
        return static("the fault cannot be healed", episode.broken.number)
    if _break(episode).verdict is not Verdict.PASS:
        return not_tested(f"{one_line(episode.device)}: the break was not listed", episode.broken.number)
    shown = episode.shown(episode.broken, episode.wanted)
    later = tuple(one for one in episode.lists if shown is None or one.number > shown.number)
    return _judged(replace(episode, lists=later, before=shown), episode.healed, Health.HEALTHY, episode.end, "FAIL")


@check("DEVPLUGIN-27", _NAME, fix="Do not change the health of the other devices, and list all devices.")
def other_devices_stay_as_they_are(evidence: Evidence) -> Finding:
    """From the break until the device is listed as healthy again, the other devices do not change."""
    return _of_all_faults(evidence, _others)


def _others(episode: _Episode) -> Finding:
    if episode.before is None:
        return not_tested("there was no list before the fault", episode.broken.number)
    before = {one.id: one.health for one in episode.before.what.devices if one.id != episode.device}
    if not before:
        return static("the plugin lists one device", episode.before.number)
    if episode.shown(episode.broken, episode.wanted) is None:
        return not_tested(f"{one_line(episode.device)}: the break was not listed", episode.broken.number)
    for listed in episode.lists:
        now = {one.id: one.health for one in listed.what.devices}
        for name, health in before.items():
            if now.get(name) != health:
                seen = (
                    f"{one_line(name)}: {now.get(name, 'not in the list')}, while {one_line(episode.device)} was broken"
                )
                return failed(f"{one_line(name)} stays {health}", seen, episode.broken.number, listed.number)
    return passed(f"{len(before)} other devices stayed as they were", episode.broken.number)
