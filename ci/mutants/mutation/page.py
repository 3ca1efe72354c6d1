"""The mutation score, what is kept of it, and its page."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Generic, TypeVar

from mutation.faults import Fault, every_fault
from mutation.hand import LEFT_OUT, HandMutant
from mutation.operators import OPERATORS, RULES
from mutation.running import LIMITS, Trial, Tried

# The mutation score: what the results of trials say of the scenarios. Pure.

C = TypeVar("C", bound=Tried)

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


# Why faults of the model survive (survivors.toml). Pure.


class RuleError(ValueError):
    """An invalid list of rules; the message names the rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason why faults survive."""

    parts: Mapping[str, Collection[str]]
    """The texts that it names, by the part of a fault: `seam`, `what`, `which`, `moment` or `change`."""
    reason: str

    def covers(self, fault: Fault) -> bool:
        """Whether the fault has one of the texts of each part."""
        return all(getattr(fault, part) in texts for part, texts in self.parts.items())


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a file, in its order. Raises RuleError."""
    try:
        entries = tomllib.loads(text).get("rule", [])
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"invalid TOML: {error}") from None
    names = [part.name for part in fields(Fault)]
    known = dict(zip(names, map(set, zip(*map(astuple, every_fault()), strict=True)), strict=True))
    found = []
    for number, entry in enumerate(entries, start=1):
        reason, parts = entry.get("reason"), {part: texts for part, texts in entry.items() if part != "reason"}
        if not isinstance(reason, str) or not reason:
            raise RuleError(f"rule {number}: must have the text `reason`")
        for part, texts in parts.items():
            if part not in known:
                raise RuleError(f"rule {number}: unknown key `{part}`")
            if not isinstance(texts, list) or not known[part].issuperset(texts):
                raise RuleError(f"rule {number}: `{part}` must be a list of texts of the model")
        found.append(Rule(parts, reason))
    return tuple(found)


def why_survives(fault: Fault, rules: Iterable[Rule]) -> str:
    """The reason of the first rule that covers the fault; empty if there is none."""
    return next((rule.reason for rule in rules if rule.covers(fault)), "")


def summary(score: Score[Any]) -> str:
    """The figures in one line."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(score.counts.items()))
    return f"{len(score.changes)} changes: {counts}. Caught: {score.caught} of {score.judged} ({score.share:.1%})"


# What is kept of a run (score.json), and mutants.md of the evidence, which is written from it. Pure.


def kept(score: Score[C], group: Callable[[C], str]) -> dict[str, Any]:
    """The figures of a score, as JSON: by outcome, by group (caught and counted), by requirement, and the survivors."""
    groups: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in score.changes:
        if (outcome := score.outcome(one)) not in ("equivalent", "missing", *INVALID):
            groups[group(one)][0] += outcome in CAUGHT
            groups[group(one)][1] += 1
    return {
        "outcomes": dict(sorted(score.counts.items())),
        "groups": groups,
        "requirements": score.by_requirement(),
        "survivors": [one.name if isinstance(one, HandMutant) else str(one) for one in score.survivors()],
    }


def caught_of(found: Mapping[str, Any]) -> tuple[int, int]:
    """How many changes were caught, and how many count, by the figures of a score."""
    groups = found["groups"].values()
    return sum(caught for caught, _ in groups), sum(counted for _, counted in groups)


def page(found: Mapping[str, Any], names: Iterable[str], rules: Sequence[Rule]) -> str:
    """The page of the evidence, from the content of score.json. `names`: all requirements."""
    hand, automatic, model = found["hand"], found["automatic"], found["faults"]
    left_out = [(f"`{path}`", reason) for path, reason in LEFT_OUT.items()]
    parts = [(part, *map(str, numbers)) for part, numbers in hand["groups"].items()]
    operators = [(name, text, *map(str, automatic["groups"].get(name, (0, 0)))) for name, text in OPERATORS.items()]
    lines = [_HEADER, "## Outcomes\n", *_table(("outcome", "meaning", "counts as caught"), _OUTCOMES), ""]
    lines += ["## Modules without changes\n", _MODULES, *_table(("module", "reason"), left_out), ""]
    lines += ["## Changes that were written by hand\n", _HAND, f"{_summary(hand)}.\n"]
    lines += [*_table(("part of the kubelet", "caught", "counted"), parts), ""]
    lines += ["## Automatic changes\n", _AUTOMATIC, *_table(("subject", "what operators do not change"), RULES.items())]
    lines += ["", f"Tried: {found['tried']}. {_summary(automatic)}.\n"]
    lines += [*_table(("operator", "change", "caught", "counted"), operators), ""]
    seams = [(seam, *map(str, numbers)) for seam, numbers in model["groups"].items()]
    lines += ["## Faults of the model\n", _MODEL, f"Tried: a sample with seed {model['seed']}. {_summary(model)}.\n"]
    lines += [*_table(("place", "caught", "counted"), seams), ""]
    lines += ["## By requirement\n", _BY_REQUIREMENT, *_by_requirement(hand, automatic, model, names)]
    lines += ["", "## Survivors\n", "Survivors that were written by hand:\n"]
    lines += [f"- `{name}`" for name in hand["survivors"]] or ["None."]
    lines += ["", "Automatic changes that survived or that no scenario covers:\n"]
    lines += [f"- `{one}`" for one in automatic["survivors"]] or ["None."]
    lines += ["", "Faults of the model that survived:\n"]
    lines += [f"- {one}. {why_survives(Fault.of(one), rules)}" for one in model["survivors"]] or ["None."]
    return "\n".join(lines) + "\n"


def _summary(found: Mapping[str, Any]) -> str:
    outcomes, (caught, counted) = found["outcomes"], caught_of(found)
    counts = ", ".join(f"{number} {name}" for name, number in outcomes.items())
    return f"{sum(outcomes.values())} changes: {counts}. Caught: {caught} of {counted}"


def _by_requirement(
    hand: Mapping[str, Any], automatic: Mapping[str, Any], model: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    rows = [(name, *(str(each["requirements"].get(name, 0)) for each in (hand, automatic, model))) for name in names]
    unproven = [name for name, *counts in rows if set(counts) == {"0"}]
    table = _table(("requirement", "by hand", "automatic", "fault of the model"), rows)
    return [*table, "", f"Requirements with 0 in all columns: {', '.join(unproven) or 'none'}."]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


_HEADER = """\
# The mutation score of the scenarios

The mutation score shows how many wrong kubelets the scenarios detect. A wrong kubelet on this page is the reference
with one small change. `ci/mutants/run` makes the change in the device manager, the pod worker or the API server of the
reference. Then it runs the scenarios that execute the changed lines. A failed scenario or a violated invariant
detects the change. Unit tests do not run.

A survivor is a change that no scenario detects. Either a scenario is missing, or the change belongs in
`ci/mutants/equivalent.toml`: no client can see it, or the texts allow it. A client is a program outside the kubelet: a
driver, a device plugin, or a client of the API server.
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
`ci/mutants/run` changes the modules of `manager/` and `manager/pod_worker/`. It also changes
`pod_statuses.py` of `fakes/cluster/api_server/`. It does not change these modules:
"""
_HAND = """\
Each change is one plausible error of a kubelet. We chose the errors from the texts of the KEP, and not from the
scenarios. The files in `ci/mutants/hand` describe each error in one sentence.
"""
_AUTOMATIC = """\
An operator makes one kind of change. No operator changes the parts of the code in this table:
"""
_MODEL = """\
Nobody wrote these errors. A fault model of a kubelet (`ci/mutants/mutation/faults.py`) lists what can happen to health
at each place that takes, keeps or shows it. An error is one such event, for one kind of object, at one moment and one
kind of change. The sample draws each kind of event equally often. All scenarios run, until the first one fails.
`ci/mutants/survivors.toml` has the reasons why faults survive.
"""
_BY_REQUIREMENT = """\
The columns have the number of changes that violate each requirement. `ci/mutants/run` tries a change until the first
scenario fails. The change counts for each requirement that this scenario reports as violated. If a requirement has 0
in all columns, the changes do not prove that the scenarios of the requirement can fail. Another
test proves this: `suites/unit/suites/test_mutants.py` has a wrong reference for each requirement.
"""
