"""docs/mutants.md: what the scenarios notice, by part of a kubelet's work, by operator and by requirement. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from drahealth.suites.mutation.hand import HandMutant
from drahealth.suites.mutation.hanging import LIMITS
from drahealth.suites.mutation.left_out import RULES
from drahealth.suites.mutation.modules import LEFT_OUT
from drahealth.suites.mutation.operators import OPERATORS, Mutation
from drahealth.suites.mutation.score import CAUGHT, INVALID, C, Score, summary


def page(hand: Score[HandMutant], automatic: Score[Mutation], about: str, names: Iterable[str]) -> str:
    """The documentation page. `about`: which automatic changes were tried; `names`: all requirements."""
    lines = [_HEADER, "## Outcomes\n", *_table(("outcome", "meaning", "counts as caught"), _OUTCOMES), ""]
    lines += ["## Modules without changes\n", _MODULES, *_table(("module", "reason"), _left_out_rows()), ""]
    lines += ["## Changes that were written by hand\n", _HAND, f"{summary(hand)}.\n", *_by_part(hand), ""]
    lines += ["## Automatic changes\n", _AUTOMATIC, *_table(("rule", "left out"), RULES.items()), ""]
    lines += [f"Tried: {about}. {summary(automatic)}.\n"]
    lines += [*_by_operator(automatic), ""]
    lines += ["## By requirement\n", _BY_REQUIREMENT, *_by_requirement(hand, automatic, names)]
    lines += ["", "## Survivors\n", "Changes by hand that survived:\n", *_list(hand.survivors()), ""]
    lines += [
        "Automatic changes that survived, or that no scenario covers:\n",
        *(f"- `{one}`" for one in automatic.survivors()),
    ]
    lines += ["", "## Equivalent changes\n", *(_equivalent(hand) + _equivalent(automatic) or ["None."])]
    return "\n".join(lines) + "\n"


def _left_out_rows() -> list[tuple[str, str]]:
    return [(f"`{path}`", reason) for path, reason in LEFT_OUT.items()]


def _list(mutants: Sequence[HandMutant]) -> list[str]:
    return [f"- `{one.name}`: {one.part}" for one in mutants] or ["None."]


def _equivalent(score: Score[C]) -> list[str]:
    equal = [one for one in score.changes if score.outcome(one) == "equivalent"]
    return [f"- `{one.key}`: {score.equivalent[one.key]}" for one in equal]


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
    return _table(("part of the kubelet", "caught", "of"), rows)


def _by_operator(score: Score[Mutation]) -> list[str]:
    caught = _counted(score, lambda one: one.operator)
    rows = [(name, text, *map(str, caught[name])) for name, text in OPERATORS.items()]
    return _table(("operator", "change", "caught", "of"), rows)


def _by_requirement(hand: Score[HandMutant], automatic: Score[Mutation], names: Iterable[str]) -> list[str]:
    kills, more = hand.by_requirement(), automatic.by_requirement()
    rows = [(name, str(kills.get(name, 0)), str(more.get(name, 0))) for name in names]
    table = _table(("requirement", "by hand", "automatic"), rows)
    unproven = [name for name, *counts in rows if counts == ["0", "0"]]
    return [*table, "", f"Not proven by these changes: {', '.join(unproven) or 'none'}."]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


_HEADER = """\
# The mutation score of the scenarios

<!-- written by ci/mutants --hand --sample N --write -->

The mutation score shows how many wrong kubelets the scenarios detect. `ci/mutants` makes one small change to the
reference, its API server or its pod worker, and runs the scenarios that execute the changed lines. Only a scenario or
an invariant can detect the change; unit tests do not run.
A survivor is a change that no scenario detects. Either a scenario is missing, or the change has no effect that a
client can see.

[wrong-kubelets.md](wrong-kubelets.md) has real kubelets with one bug each.
"""
_HANGS = (
    f"A scenario does not end: it computes for {LIMITS.more:g} s more than {LIMITS.times:g} times its usual processor "
    f"time, or it waits for {LIMITS.waiting:g} s without computing."
)
_OUTCOMES = (
    ("killed", "A scenario or one of its invariants fails.", "yes"),
    ("error", "The changed reference stops working before a scenario can judge it.", "yes"),
    ("hangs", _HANGS, "yes"),
    ("survived", "All scenarios that run the changed lines pass.", "no"),
    ("not covered", "No scenario runs the changed lines.", "no"),
    ("equivalent", "No client can see the change, or the texts allow it; the reason is listed below.", "not counted"),
    ("no import", "The changed module cannot be imported, so it is no kubelet.", "not counted"),
    ("does not apply", "The module no longer contains the text that the change replaces.", "not counted"),
)
_MODULES = """\
The changes are in the modules of `manager/` and `fakes/cluster/pod_worker/`, and in `gates.py` and `pod_validation.py`
of `fakes/cluster/api_server/`. No change is made in these modules:
"""
_HAND = """\
Each change is one plausible error of a kubelet. We chose the errors from the texts of the KEP, not from the scenarios.
The files in `ci/hand-mutants` describe each error in one sentence.
"""
_AUTOMATIC = """\
An operator is a rule for one kind of change. No operator changes these parts of the code:
"""
_BY_REQUIREMENT = """\
A change counts for each requirement that its first failing scenario reports as violated. If a requirement has 0
in both columns, the changes do not prove that the scenarios of the requirement can fail. Another
test proves this: `suites/unit/suites/test_mutants.py` has a wrong reference for each requirement.
"""
