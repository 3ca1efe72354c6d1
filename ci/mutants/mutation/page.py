"""The mutation score, and docs/mutants.md."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mutation.hand import LEFT_OUT, HandMutant
from mutation.operators import OPERATORS, RULES, Mutation
from mutation.running import LIMITS, Change, Trial

# The mutation score: what the results of trials say of the scenarios. Pure.

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


# docs/mutants.md: what the scenarios notice, by part of a kubelet's work, by operator and by requirement. Pure.


def page(hand: Score[HandMutant], automatic: Score[Mutation], about: str, names: Iterable[str]) -> str:
    """The documentation page. `about`: which automatic changes were tried; `names`: all requirements."""
    lines = [_HEADER, "## Outcomes\n", *_table(("outcome", "meaning", "counts as caught"), _OUTCOMES), ""]
    lines += ["## Modules without changes\n", _MODULES, *_table(("module", "reason"), _left_out_rows()), ""]
    lines += ["## Changes that were written by hand\n", _HAND, f"{summary(hand)}.\n", *_by_part(hand), ""]
    not_changed = _table(("subject", "what operators do not change"), RULES.items())
    lines += ["## Automatic changes\n", _AUTOMATIC, *not_changed, ""]
    lines += [f"Tried: {about}. {summary(automatic)}.\n"]
    lines += [*_by_operator(automatic), ""]
    lines += ["## By requirement\n", _BY_REQUIREMENT, *_by_requirement(hand, automatic, names)]
    lines += ["", "## Survivors\n", "Survivors that were written by hand:\n", *_list(hand.survivors()), ""]
    lines += [
        "Automatic changes that survived or that no scenario covers:\n",
        *(f"- `{one}`" for one in automatic.survivors()),
    ]
    return "\n".join(lines) + "\n"


def _left_out_rows() -> list[tuple[str, str]]:
    return [(f"`{path}`", reason) for path, reason in LEFT_OUT.items()]


def _list(mutants: Sequence[HandMutant]) -> list[str]:
    return [f"- `{one.name}`: {one.part}" for one in mutants] or ["None."]


def _counted(score: Score[C], group: Callable[[C], str]) -> dict[str, list[int]]:
    """The number of caught changes and of all, by group."""
    caught: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in score.changes:
        if (outcome := score.outcome(one)) not in ("equivalent", "missing", *INVALID):
            caught[group(one)][0] += outcome in CAUGHT
            caught[group(one)][1] += 1
    return caught


def _by_part(score: Score[HandMutant]) -> list[str]:
    caught = _counted(score, lambda one: one.part)
    rows = [(part, *map(str, caught[part])) for part in dict.fromkeys(one.part for one in score.changes)]
    return _table(("part of the kubelet", "caught", "counted"), rows)


def _by_operator(score: Score[Mutation]) -> list[str]:
    caught = _counted(score, lambda one: one.operator)
    rows = [(name, text, *map(str, caught[name])) for name, text in OPERATORS.items()]
    return _table(("operator", "change", "caught", "counted"), rows)


def _by_requirement(hand: Score[HandMutant], automatic: Score[Mutation], names: Iterable[str]) -> list[str]:
    kills, more = hand.by_requirement(), automatic.by_requirement()
    rows = [(name, str(kills.get(name, 0)), str(more.get(name, 0))) for name in names]
    table = _table(("requirement", "by hand", "automatic"), rows)
    unproven = [name for name, *counts in rows if counts == ["0", "0"]]
    return [*table, "", f"Requirements with 0 in both columns: {', '.join(unproven) or 'none'}."]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


_HEADER = """\
# The mutation score of the scenarios

<!-- written by ci/mutants/run --hand --sample N --write -->

The mutation score shows how many wrong kubelets the scenarios detect. A wrong kubelet on this page is the reference
with one small change. `ci/mutants/run` makes the change in the device manager, the pod worker or the API server of the
reference. Then it runs the scenarios that execute the changed lines. A failed scenario or a violated invariant
detects the change. Unit tests do not run.

A survivor is a change that no scenario detects. Either a scenario is missing, or the change belongs in
`ci/mutants/equivalent.toml`: no client can see it, or the texts allow it. A client is a program outside the kubelet: a
driver, a device plugin, or a client of the API server.

[wrong-kubelets.md](wrong-kubelets.md) lists real kubelets with one bug each.
"""
_HANGS = (
    f"A scenario does not end. It needs more processor time than {LIMITS.more:g} s plus {LIMITS.times:g} times its "
    f"usual time, or it waits for {LIMITS.waiting:g} s without computing."
)
_EQUIVALENT = "No client can see the change, or the texts allow it. `ci/mutants/equivalent.toml` gives the reason."
_OUTCOMES = (
    ("killed", "A scenario fails, or its history violates an invariant.", "yes"),
    ("error", "The changed reference stops working, so a scenario has no result.", "yes"),
    ("hangs", _HANGS, "yes"),
    ("survived", "All scenarios that run the changed lines pass.", "no"),
    ("not covered", "No scenario runs the changed lines.", "no"),
    ("equivalent", _EQUIVALENT, "not counted"),
    ("no import", "The changed module cannot be imported, so the reference cannot run.", "not counted"),
    ("does not apply", "The module no longer contains the text that the change replaces.", "not counted"),
)
_MODULES = """\
`ci/mutants/run` changes the modules of `manager/` and `fakes/cluster/pod_worker/`. It also changes
`pod_statuses.py` of `fakes/cluster/api_server/`. It does not change these modules:
"""
_HAND = """\
Each change is one plausible error of a kubelet. We chose the errors from the texts of the KEP, and not from the
scenarios. The files in `ci/mutants/hand` describe each error in one sentence.
"""
_AUTOMATIC = """\
An operator makes one kind of change. No operator changes the parts of the code in this table:
"""
_BY_REQUIREMENT = """\
The columns have the number of changes that violate each requirement. `ci/mutants/run` tries a change until the first
scenario fails. The change counts for each requirement that this scenario reports as violated. If a requirement has 0
in both columns, the changes do not prove that the scenarios of the requirement can fail. Another
test proves this: `suites/unit/suites/test_mutants.py` has a wrong reference for each requirement.
"""
