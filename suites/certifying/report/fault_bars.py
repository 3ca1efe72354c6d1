"""The bars of faults: when drahealth broke each device, and when it cleared the fault. Pure."""

from collections.abc import Iterator

from drahealth.proto.events import FaultCleared, FaultInjected
from drahealth.suites.certifying.report.bars import Bar, Stretch
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device

_Key = tuple[str, Device]


def fault_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The process of the driver, the device, and its bar. A fault that is not cleared lasts until the end."""
    found: dict[_Key, list[Stretch]] = {}
    open_: dict[_Key, Observation[FaultInjected]] = {}
    for record in evidence.records:
        what = record.what
        if not isinstance(what, FaultInjected | FaultCleared) or what.outcome != "done":
            continue
        key = (what.process, Device(what.pool, what.device))
        if isinstance(what, FaultInjected):
            open_.setdefault(key, Observation(record.number, record.at, record.experiment, what))
        elif injected := open_.pop(key, None):
            found.setdefault(key, []).append(_stretch(injected, record.at))
    end = max((record.at for record in evidence.records), default=0.0)
    for key, injected in open_.items():
        found.setdefault(key, []).append(_stretch(injected, end))
    for (process, device), stretches in found.items():
        yield process, str(device), Bar("injected faults", (), faults=tuple(stretches))


def _stretch(injected: Observation[FaultInjected], end: float) -> Stretch:
    what = injected.what
    return Stretch(injected.at, end, f"fault {what.fault} ({what.grade}): {what.action}; expected {what.health}")
