"""The readings, and the requirements that depend on them."""

from typing import Any

import pytest

from drahealth.suites.judging.ledger import Reading, readings, requirements

STATEMENT = {"text": "KEP", "section": "Proposal", "says": "Yes."}
ENTRY: dict[str, Any] = {
    "topic": "An answer",
    "statements": [STATEMENT, {**STATEMENT, "text": "design", "says": "No."}],
    "holds": "Yes.",
    "why": "The KEP is newer.",
    "requirements": ["STATUS-01"],
}


def test_readings_and_requirements_name_each_other() -> None:
    by_readings = {(reading.id, name) for reading in readings().values() for name in reading.requirements}
    by_requirements = {(reading, entry.id) for entry in requirements().values() for reading in entry.readings}
    assert by_readings == by_requirements


def test_each_reading_has_statements_of_two_places_that_differ() -> None:
    places = {r.id: [(one.text, one.section) for one in r.statements] for r in readings().values()}
    assert len(places) >= 20
    assert [name for name, found in places.items() if len(set(found)) != len(found)] == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"because": "it is newer"}, ("READ-99", "because")),
        ({"statements": [STATEMENT]}, ("READ-99", "2 statements", "got 1")),
        ({"statements": [STATEMENT, {**STATEMENT, "text": "RFC"}]}, ("READ-99", "'RFC'", "design")),
        ({"requirements": []}, ("READ-99", "1 requirement")),
    ],
)
def test_a_wrong_entry_is_rejected(wrong: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^READ-99") as refused:
        Reading.of("READ-99", ENTRY | wrong)
    assert [words for words in named if words not in str(refused.value)] == []
