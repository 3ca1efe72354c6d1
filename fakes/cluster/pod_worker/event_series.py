"""How events become objects: repeated ones are counted, similar ones combined, and a flood is cut off. Pure.

The rules are those of the recorder that kubelets use (client-go, tools/record):
- The same event again is the same object with a higher count.
- More than ten events of one reason in ten minutes that differ in their messages alone are one object from then on,
  whose message begins with "(combined from similar events): ".
- A pod has 25 events to spend, and one more every five minutes; what comes beyond is not written.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from drahealth.fakes.cluster.pod_worker.health_events import Told

COMBINED = "(combined from similar events): "
SIMILAR = 10
"""Different messages that are objects of their own, within `WITHIN` seconds."""
WITHIN = 600.0
BURST = 25
REFILL = 300.0
"""Seconds until a pod has one event more to spend."""
_REMEMBERED = 4096
"""Pods, reasons and events each; the longest unheard of is forgotten."""


@dataclass(frozen=True, slots=True)
class Written:
    """An event object to write: its `number`, its message, its count, and its first time."""

    number: int
    told: Told
    count: int
    first: float


@dataclass(slots=True)
class _Purse:
    left: float
    at: float


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    at: float = 0.0


class EventSeries:
    """Stores earlier events. Times are Unix seconds, and never decrease."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, Told], Written] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str, str], _Similar] = OrderedDict()
        self._purses: OrderedDict[str, _Purse] = OrderedDict()
        self._number = 0

    def take(self, pod_uid: str, told: Told, now: float) -> Written | None:
        """The object to write: a new one if the count is 1, an update otherwise; None for nothing."""
        if not self._pays(pod_uid, now):
            return None
        key = (pod_uid, self._combined(pod_uid, told, now))
        known = self._written.pop(key, None)
        if known is None:
            self._number += 1
            known = Written(self._number, told, 0, now)
        told = replace(told, message=COMBINED + told.message) if key[1] != told else told
        self._written[key] = written = replace(known, told=told, count=known.count + 1)
        _forget(self._written)
        return written

    def _pays(self, pod_uid: str, now: float) -> bool:
        purse = self._purses.pop(pod_uid, None) or _Purse(BURST, now)
        purse.left, purse.at = min(BURST, purse.left + (now - purse.at) / REFILL), now
        self._purses[pod_uid] = purse
        _forget(self._purses)
        if purse.left < 1:
            return False
        purse.left -= 1
        return True

    def _combined(self, pod_uid: str, told: Told, now: float) -> Told:
        """The event itself, or a combined event if there are too many similar ones."""
        key = (pod_uid, told.type, told.reason)
        similar = self._similar.pop(key, None)
        if similar is None or now - similar.at > WITHIN:
            similar = _Similar()
        similar.messages.add(told.message)
        similar.at = now
        self._similar[key] = similar
        _forget(self._similar)
        return told if len(similar.messages) <= SIMILAR else replace(told, message="")


def _forget(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
