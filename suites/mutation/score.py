"""The mutation score: what the results of trials say of the scenarios. Pure."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from drahealth.suites.mutation.running import Change, Trial

C = TypeVar("C", bound=Change)

CAUGHT = ("killed", "error", "hangs")
"""Outcomes of changes that the scenarios notice. With `error` or `hangs` no scenario passes or fails: the kubelet stops
working."""

INVALID = ("does not apply", "no import")
"""Outcomes of changes that are no kubelets; they count neither way."""


class EquivalentError(ValueError):
    """An invalid list of equivalent changes; the message names the entry."""


@dataclass(frozen=True, slots=True)
class Score(Generic[C]):
    """The results of a run."""

    trials: Mapping[str, Trial]
    """By key."""
    changes: tuple[C, ...]
    equivalent: Mapping[str, str]
    """Reasons by key."""

    @property
    def counts(self) -> Counter[str]:
        """The number of changes by outcome; `missing` for those without a result."""
        return Counter(self.outcome(one) for one in self.changes)

    def outcome(self, change: C) -> str:
        """The outcome of a change. One in the list is equivalent, unless a scenario failed for it. It need not be
        tried.
        """
        trial = self.trials.get(change.trial_key)
        found = trial.outcome if trial else "missing"
        is_unseen = found in ("survived", "not covered", "missing")
        return "equivalent" if is_unseen and change.key in self.equivalent else found

    @property
    def share(self) -> float:
        """The share of changes that were caught, of those that are judged and not equivalent."""
        return self.caught / self.judged if self.judged else 0.0

    @property
    def caught(self) -> int:
        """The number of changes that the scenarios notice."""
        return sum(self.counts[name] for name in CAUGHT)

    @property
    def judged(self) -> int:
        """The number of changes that count: valid, with a result, and not equivalent."""
        return sum(self.counts.values()) - sum(self.counts[name] for name in ("equivalent", "missing", *INVALID))

    def survivors(self) -> list[C]:
        """The changes that no scenario noticed."""
        return [one for one in self.changes if self.outcome(one) in ("survived", "not covered")]

    def invalid(self) -> list[C]:
        """The changes that are no kubelets."""
        return [one for one in self.changes if self.outcome(one) in INVALID]

    def by_requirement(self) -> dict[str, int]:
        """How many changes each requirement caught."""
        killed = (self.trials[one.trial_key] for one in self.changes if self.outcome(one) == "killed")
        return Counter(name for trial in killed for name in trial.requirements)


def read_equivalent(text: str) -> dict[str, str]:
    """The reasons of equivalent changes by key. Raises EquivalentError."""
    try:
        entries = tomllib.loads(text).get("mutation", [])
    except tomllib.TOMLDecodeError as error:
        raise EquivalentError(f"invalid TOML: {error}") from None
    found: dict[str, str] = {}
    for number, entry in enumerate(entries, start=1):
        if set(entry) != {"change", "reason"} or not all(isinstance(each, str) and each for each in entry.values()):
            raise EquivalentError(f"mutation {number}: must have the texts `change` and `reason`")
        found[entry["change"]] = entry["reason"]
    return found


def summary(score: Score[Any]) -> str:
    """The figures in one line."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(score.counts.items()))
    return f"{len(score.changes)} changes: {counts}. Caught: {score.caught} of {score.judged} ({score.share:.1%})"
