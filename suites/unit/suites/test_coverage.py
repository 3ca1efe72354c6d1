"""The statements of the texts: each requirement, scenario and mutant that they name exists."""

from collections import Counter

import pytest

from drahealth.suites.driver_checks.verdicts import requirements as driver_requirements
from drahealth.suites.judging.ledger import JudgedStatement, readings, requirements, statements
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.unit.suites.test_mutants import CASES
from mutation.hand import ROOT, read_hand

ENTRY = {
    "text": "KEP",
    "section": "Proposal",
    "says": "Yes.",
    "verdict": "covered",
    "requirements": ["STATUS-01"],
    "scenarios": ["test_it"],
    "mutants": ["a-mutant"],
}
HAND = {mutant.name for mutant in read_hand(ROOT / "ci" / "mutants" / "hand")}
TRIED = {
    (wrong.__name__, case.story.__name__)
    for case in CASES
    for wrong in (case.manager, case.device_plugins, case.target)
}
"""The classes of wrong references, each with a scenario that must fail for it."""


def test_each_requirement_exists() -> None:
    named = {name for one in statements().values() for name in one.requirements}
    assert named - requirements().keys() - driver_requirements().keys() == set()


def test_each_scenario_exists() -> None:
    known = {scenario.name for scenario in scenarios()}
    assert {name for one in statements().values() for name in one.scenarios} - known == set()


def test_the_scenarios_of_a_covered_statement_judge_a_requirement_of_it() -> None:
    judged = {scenario.name: set(scenario.requirements) for scenario in scenarios()}
    invariants = {name for name, entry in requirements().items() if entry.judged == "invariant"}
    covered = [one for one in statements().values() if one.verdict == "covered"]
    judged_by = {one.id: invariants.union(*(judged[name] for name in one.scenarios)) for one in covered}
    assert [one.id for one in covered if not judged_by[one.id] & set(one.requirements)] == []


def test_each_mutant_is_tried() -> None:
    tried = HAND | {name for name, _ in TRIED}
    assert {name for one in statements().values() for name in one.mutants} - tried == set()


def test_each_class_of_wrong_references_is_tried_with_a_scenario_of_its_statement() -> None:
    classes = [(one, name) for one in statements().values() for name in one.mutants if name not in HAND]
    assert [(one.id, name) for one, name in classes if not TRIED & {(name, s) for s in one.scenarios}] == []


def test_each_test_and_each_reading_exists() -> None:
    files = {path for one in statements().values() for path in one.tests}
    words = {word.strip(".,:()") for one in statements().values() for word in one.why.split()}
    assert [path for path in files if not (ROOT / path).exists()] == []
    assert {word for word in words if word.startswith("READ-")} - readings().keys() == set()


def test_at_most_five_statements_are_weak() -> None:
    counts = Counter(one.verdict for one in statements().values())
    assert (counts["weak"] <= 5, len(statements())) == (True, 239)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"because": "it is newer"}, "because"),
        ({"text": "RFC"}, "'RFC'"),
        ({"verdict": "missing"}, "'missing'"),
        ({"mutants": []}, "`mutants`"),
        ({"verdict": "weak"}, "`why`"),
    ],
)
def test_a_wrong_entry_is_rejected(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=r"^TEXT-99") as refused:
        JudgedStatement.of("TEXT-99", ENTRY | wrong)
    assert named in str(refused.value)
