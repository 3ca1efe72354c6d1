"""IDs that `drahealth explain` accepts, and their explanations."""

import pytest

from drahealth.suites.checking import ledger as driver_ledger
from drahealth.suites.commands.explanations import explanations
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import every_known_issue, requirements
from drahealth.suites.judging.readings import readings

IDS = [*requirements(), *driver_ledger.requirements(), *{issue.id for issue in every_known_issue()}, *readings()]


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("STATUS-03", ["level", "source", "scenarios", "link"]),
        ("status-02", ["level", "source", "readings", "scenarios", "releases", "link"]),
        ("PLUGIN-05", ["level", "source", "releases", "judged by", "checks", "link"]),
        ("P-08", ["requirement", "assertion", "releases", "condition", "link"]),
        ("READ-01", ["texts", "our reading", "reason", "requirements"]),
    ],
)
def test_an_id_is_explained(name: str, titles: list[str]) -> None:
    (found,) = explanations(name)
    assert (found.id, list(found.details)) == (name.upper(), titles)


def test_a_requirement_names_its_known_issues_by_release() -> None:
    (found,) = explanations("STATUS-04")
    (issue,) = (issue for issue in every_known_issue() if issue.requirement == "STATUS-04")
    assert found.details["releases"] == (f"1.34, 1.35, 1.36, 1.37: {issue.id}, {issue.what}",)


def test_each_id_of_the_ledgers_is_explained_once() -> None:
    assert [len(explanations(name)) for name in IDS] == [1] * len(IDS)


def test_an_unknown_id_is_an_error_with_close_ones() -> None:
    with pytest.raises(ConfigurationError) as error:
        explanations("STATUS-033")
    assert error.value.hint.startswith("did you mean STATUS-03")
