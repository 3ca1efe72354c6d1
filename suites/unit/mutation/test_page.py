"""What is kept of the mutation score, and the modules that it leaves out."""

import json

import pytest

from mutation.faults import Fault, every_fault
from mutation.hand import LEFT_OUT, ROOT, changed_modules, read_hand
from mutation.operators import OPERATORS
from mutation.page import RuleError, page, read_rules, why_survives

RULES = read_rules((ROOT / "ci" / "mutants" / "survivors.toml").read_text())
KEPT = json.loads((ROOT / "ci" / "mutants" / "score.json").read_text())


def test_the_kept_score_names_parts_and_operators_that_exist() -> None:
    parts = {one.part for one in read_hand(ROOT / "ci" / "mutants" / "hand")}
    assert (set(KEPT["hand"]["groups"]) - parts, set(KEPT["automatic"]["groups"]) - set(OPERATORS)) == (set(), set())


def test_the_page_has_the_figures_of_the_kept_score() -> None:
    assert "Caught: 248 of 251" in page(KEPT, ["STATUS-01"], RULES)


def test_every_kept_survivor_of_the_model_has_a_reason() -> None:
    assert [name for name in KEPT["faults"]["survivors"] if not why_survives(Fault.of(name), RULES)] == []


def test_the_page_gives_the_reason_of_each_survivor_of_the_model() -> None:
    name = "written health: it is Unknown; the second Pod, the second time, Healthy"
    kept = {**KEPT, "faults": {**KEPT["faults"], "survivors": [name]}}
    assert f"- {name}. Only one state of a device is wrong in the file" in page(kept, [], RULES)


def test_each_rule_gives_the_reason_of_a_fault() -> None:
    assert {rule.reason for rule in RULES} == {why_survives(fault, RULES) for fault in every_fault()} - {""}


def test_a_fault_that_always_happens_at_each_object_has_no_reason() -> None:
    assert why_survives(Fault("report of a driver", "it is lost", "any device", "always", "any change"), RULES) == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[rule", "invalid TOML"),
        ("[[rule]]\nmoment = ['always']", "rule 1: must have the text `reason`"),
        ("[[rule]]\nreason = 'a'\nwhen = ['always']", "rule 1: unknown key `when`"),
        ("[[rule]]\nreason = 'a'\nmoment = 'always'", "rule 1: `moment` must be a list of texts of the model"),
        ("[[rule]]\nreason = 'a'\nmoment = ['often']", "rule 1: `moment` must be a list of texts of the model"),
    ],
)
def test_a_wrong_rule_is_rejected(text: str, error: str) -> None:
    with pytest.raises(RuleError, match=error):
        read_rules(text)


def test_each_module_without_changes_exists_and_has_a_reason() -> None:
    assert [path for path, reason in LEFT_OUT.items() if not ((ROOT / path).is_file() and reason)] == []
    assert LEFT_OUT.keys() & set(changed_modules()) == set()
