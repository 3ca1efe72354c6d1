"""The mutation score: what the results of trials say of the scenarios. Pure."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drahealth.suites.mutation.operators import OPERATORS, Mutation
from drahealth.suites.mutation.running import Trial

CAUGHT = ("killed", "error", "hangs", "no import")
"""Outcomes of changes that a user of the scenarios would notice."""


class EquivalentError(ValueError):
    """An invalid list of equivalent changes; the message names the entry."""


@dataclass(frozen=True, slots=True)
class Score:
    """The results of a run."""

    trials: Mapping[str, Trial]
    """By key."""
    mutations: tuple[Mutation, ...]
    equivalent: Mapping[str, str]
    """Reasons by key."""

    @property
    def counts(self) -> Counter[str]:
        """The number of changes by outcome; `missing` for those without a result."""
        return Counter(self.outcome(one) for one in self.mutations)

    def outcome(self, mutation: Mutation) -> str:
        """The outcome of a change. One in the list is equivalent, unless a scenario failed for it."""
        trial = self.trials.get(mutation.key)
        found = trial.outcome if trial else "missing"
        return "equivalent" if found in ("survived", "not covered") and mutation.key in self.equivalent else found

    @property
    def share(self) -> float:
        """The share of changes that were caught, of those that are judged and not equivalent."""
        counts = self.counts
        caught = sum(counts[name] for name in CAUGHT)
        judged = sum(counts.values()) - counts["equivalent"] - counts["missing"]
        return caught / judged if judged else 0.0

    def survivors(self) -> list[Mutation]:
        """The changes that no scenario noticed."""
        return [one for one in self.mutations if self.outcome(one) in ("survived", "not covered")]

    def by_requirement(self) -> dict[str, int]:
        """How many changes each requirement caught."""
        killed = (self.trials[one.key] for one in self.mutations if self.outcome(one) == "killed")
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


def summary(score: Score) -> str:
    """The figures in one line."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(score.counts.items()))
    return f"{len(score.mutations)} changes: {counts}. Caught: {score.share:.1%}"


def page(score: Score, about: str, requirements: Iterable[str]) -> str:
    """The documentation page."""
    lines = [_HEADER, f"{about} {summary(score)} of those that are not equivalent.\n"]
    lines += ["## By operator\n", *_table(("operator", "change", "caught", "of"), _by_operator(score)), ""]
    lines += ["## By requirement\n", _BY_REQUIREMENT]
    kills = score.by_requirement()
    lines += _table(("requirement", "changes"), [(name, str(kills.get(name, 0))) for name in requirements])
    lines += ["", "## Survivors\n", *(f"- `{one}`" for one in score.survivors())]
    lines += ["", "## Equivalent changes\n"]
    equal = [one for one in score.mutations if score.outcome(one) == "equivalent"]
    lines += [f"- `{one}`: {score.equivalent[one.key]}" for one in equal] or ["None."]
    return "\n".join(lines) + "\n"


def _by_operator(score: Score) -> list[Sequence[str]]:
    caught: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in score.mutations:
        if (outcome := score.outcome(one)) not in ("equivalent", "missing"):
            caught[one.operator][0] += outcome in CAUGHT
            caught[one.operator][1] += 1
    return [(name, text, *map(str, caught[name])) for name, text in OPERATORS.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


_HEADER = """\
# The mutation score of the scenarios

<!-- written by ci/mutants --write -->

A conformance suite is worth what it catches. `ci/mutants` changes the reference in one place, as an implementer could
get it wrong, and runs the scenarios that run the changed line. Only scenarios and invariants count, never unit tests.
A change that no scenario notices is a survivor: a hole in the scenarios, or a change without an effect that a client
can see.
"""
_BY_REQUIREMENT = """\
The requirements that the first failing scenario judged as violated. If the number is 0, no change of the sample proves
the requirement; `suites/unit/suites/test_mutants.py` has a wrong reference for each requirement.
"""
