"""IDs that `drahealth explain` accepts, and their explanations."""

import pytest

from drahealth.manager.releases import MINORS
from drahealth.suites.commands.ledger import explanations
from drahealth.suites.driver_checks import verdicts as driver_ledger
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import every_known_issue, readings, requirements

IDS = [*requirements(), *driver_ledger.requirements(), *{issue.id for issue in every_known_issue()}, *readings()]


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("STATUS-03", ["level", "source", "texts", "scenarios"]),
        ("status-02", ["level", "source", "texts", "readings", "scenarios", "releases"]),
        ("DP-05", ["level", "source", "scenarios", "releases", "link"]),
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
    assert found.details["releases"] == (f"{', '.join(MINORS)}: {issue.id}, {issue.what}",)


def test_each_id_of_the_ledgers_is_explained_once() -> None:
    assert [len(explanations(name)) for name in IDS] == [1] * len(IDS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("STATUS-033", "did you mean STATUS-03? Run `drahealth explain STATUS-03`"),
        ("B-1", "did you mean B-01? Run `drahealth explain B-01`"),
        ("status 1", "did you mean STATUS-01? Run `drahealth explain STATUS-01`"),
        ("read01", "did you mean READ-01? Run `drahealth explain READ-01`"),
        ("STATSU-01", "did you mean STATUS-01 or "),
        ("CACHE-99", "CACHE has the IDs CACHE-01, CACHE-02, CACHE-03; run `drahealth explain CACHE-01`"),
        ("XYZ-1", "docs/reference/requirements.md, "),
        ("", "docs/reference/requirements.md, "),
    ],
)
def test_an_unknown_id_is_an_error_that_says_how_to_see_a_close_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        explanations(name)
    assert error.value.hint.startswith(hint)
