"""Convert events to objects: count repeated events, combine similar ones, limit the rate. Pure.

The rules are those of the recorder that kubelets use (client-go, tools/record):
- The same event again is the same object with a higher count.
- More than ten events of one reason in ten minutes that differ in their messages alone are one object from then on,
  whose message begins with "(combined from similar events): ".
- A pod has 25 events to spend, and one more every five minutes; what comes beyond is not written.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from drahealth.manager.pod_worker.pod_status import PodEvent

COMBINED = "(combined from similar events): "
MAX_SIMILAR = 10
"""Different messages with their own objects, within `WITHIN` seconds; further ones are combined."""
WITHIN = 600.0
BURST = 25
REFILL = 300.0
"""Seconds after which a pod can record one more event, after `BURST` events."""
_MAX_ENTRIES = 4096
"""Maximum number of pods, of reasons and of events; the least recently used is removed."""


@dataclass(frozen=True, slots=True)
class EventWrite:
    """An event object to write: its `number`, its message, its count, and its first time."""

    number: int
    event: PodEvent
    count: int
    first: float


@dataclass(slots=True)
class _TokenBucket:
    left: float
    at: float


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    at: float = 0.0


class EventSeries:
    """Stores earlier events. Times are Unix seconds, and never decrease."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, PodEvent], EventWrite] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str, str], _Similar] = OrderedDict()
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()
        self._number = 0

    def add(self, pod_uid: str, event: PodEvent, now: float) -> EventWrite | None:
        """The object to write: a new one if the count is 1, an update otherwise; None for nothing."""
        if not self._take_token(pod_uid, now):
            return None
        key = (pod_uid, self._combined(pod_uid, event, now))
        known = self._written.pop(key, None)
        if known is None:
            self._number += 1
            known = EventWrite(self._number, event, 0, now)
        event = replace(event, message=COMBINED + event.message) if key[1] != event else event
        self._written[key] = written = replace(known, event=event, count=known.count + 1)
        _remove_oldest(self._written)
        return written

    def _take_token(self, pod_uid: str, now: float) -> bool:
        bucket = self._buckets.pop(pod_uid, None) or _TokenBucket(BURST, now)
        bucket.left, bucket.at = min(BURST, bucket.left + (now - bucket.at) / REFILL), now
        self._buckets[pod_uid] = bucket
        _remove_oldest(self._buckets)
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True

    def _combined(self, pod_uid: str, event: PodEvent, now: float) -> PodEvent:
        """The event itself, or a combined event if there are too many similar ones."""
        key = (pod_uid, event.type, event.reason)
        similar = self._similar.pop(key, None)
        if similar is None or now - similar.at > WITHIN:
            similar = _Similar()
        similar.messages.add(event.message)
        similar.at = now
        self._similar[key] = similar
        _remove_oldest(self._similar)
        return event if len(similar.messages) <= MAX_SIMILAR else replace(event, message="")


def _remove_oldest(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > _MAX_ENTRIES:
        memory.popitem(last=False)
