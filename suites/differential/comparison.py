"""Two plays of one script side by side: where they differ. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drahealth.suites.differential.observation import Played, PodShown, Snapshot

_LONGEST = 60
_NONE = "nothing"

Facts = dict[str, str]
"""All that a snapshot says, by what it says it of."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is so in one play and otherwise in the other."""

    step: int
    moment: str
    what: str
    reference: str
    kubelet: str

    @property
    def kind(self) -> tuple[str, ...]:
        """What it has in common with the same difference in a smaller script: when it shows, and from what to what."""
        return self.moment, *(text.split(" ")[0] for text in (self.reference, self.kubelet))

    def __str__(self) -> str:
        when = f"step {self.step}, {self.moment}" if self.step >= 0 else "at the start"
        return f"{when}: {self.what}: reference {_short(self.reference)}, kubelet {_short(self.kubelet)}"


def compare(references: Sequence[Played], kubelet: Played) -> list[Difference]:
    """All that is in the kubelet's play as it is in none of the references', in the order in which it came to be seen.

    There are several of those where the profile leaves something to chance.
    """
    ours = [_facts_by_moment(reference) for reference in references]
    theirs = _facts_by_moment(kubelet)
    moments = dict.fromkeys(moment for play in (theirs, *ours) for moment in play)
    return [
        Difference(*moment, what, a, b)
        for moment in sorted(moments, key=lambda moment: moment[0])  # stable: within a step as they came
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
    """All that a snapshot says, each with a name."""
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
