"""Comparison of two plays of a script. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drahealth.suites.differential.observation import Played, PodShown, Snapshot

_LONGEST = 60
_NONE = "nothing"

Facts = dict[str, str]
"""The contents of a snapshot: value by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs between the plays."""

    step: int
    moment: str
    what: str
    reference: str
    kubelet: str

    @property
    def kind(self) -> tuple[str, ...]:
        """The part that it shares with the same difference in a smaller script: the moment and both values."""
        return self.moment, *(text.split(" ")[0] for text in (self.reference, self.kubelet))

    def __str__(self) -> str:
        when = f"step {self.step}, {self.moment}" if self.step >= 0 else "at the start"
        return f"{when}: {self.what}: reference {_short(self.reference)}, kubelet {_short(self.kubelet)}"


def compare(references: Sequence[Played], kubelet: Played) -> list[Difference]:
    """The values of the kubelet's play that no reference's play has, in the order of time.

    There are several references if the profile has several valid outcomes.
    """
    ours = [_facts_by_moment(reference) for reference in references]
    theirs = _facts_by_moment(kubelet)
    moments = dict.fromkeys(moment for play in (theirs, *ours) for moment in play)
    return [
        Difference(*moment, what, a, b)
        for moment in sorted(moments, key=lambda moment: moment[0])  # stable: keeps the order within a step
        for what, a, b in _differing([play.get(moment) for play in ours], theirs.get(moment))
    ]


def _facts_by_moment(played: Played) -> dict[tuple[int, str], Facts]:
    return {(seen.step, seen.moment): dict(_facts(seen)) for seen in played.snapshots}


def _differing(ours: Sequence[Facts | None], theirs: Facts | None) -> Iterator[tuple[str, str, str]]:
    known = [facts for facts in ours if facts is not None]
    if theirs is None or not known:
        yield "the moment", "comes" if known else "does not come", "does not come" if theirs is None else "comes"
        return
    for what in dict.fromkeys([*theirs, *(what for facts in known for what in facts)]):
        if all(facts.get(what) != theirs.get(what) for facts in known):
            outcomes = dict.fromkeys(facts.get(what, _NONE) for facts in known)
            yield what, " or ".join(outcomes), theirs.get(what, _NONE)


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The contents of a snapshot, as pairs of name and value."""
    for instance, opened in snapshot.streams.items():
        yield f"streams opened on {instance}", str(opened)
    for name, pod in snapshot.pods.items():
        yield from ((f"{name} {what}", value) for what, value in _pod_facts(pod))


def _pod_facts(pod: PodShown) -> Iterator[tuple[str, str]]:
    yield "phase", pod.phase
    yield "status", "refused" if pod.stuck else "taken"
    for container, entries in pod.containers.items():
        yield f"{container} field", "there" if entries is not None else _NONE
        for entry, readings in (entries or {}).items():
            for resource, (health, message) in readings.items():
                yield f"{container} {entry} {resource!r}", f"{health} {message!r}" if message else health


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 12]}...{text[-8:]} ({len(text.encode())} bytes)"
