"""`-k`: titles as printed, pytest expressions, and suggestions."""

from pathlib import Path

import pytest

from drahealth.suites.run.scenario import pytest_expression, scenarios, suggestions
from drahealth.suites.unit.suites.test_command import drahealth

NAMES = [scenario.title.replace(" ", "_") for scenario in scenarios()]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("STATUS-08", "STATUS-08"),
        ("not (STATUS-08 or CRASH-01)", "not (STATUS-08 or CRASH-01)"),
        ("A recovered device shows healthy again", "a_recovered_device_shows_healthy_again"),
        ("recovered device shows", "recovered_device_shows"),
        ("containers and sidecars show", "containers_and_sidecars_show"),
        ("recovered device or (rapid changes and not plugin)", "recovered_device or ( rapid_changes and not plugin )"),
        ("recovered device [v1alpha1.NodeHealth/X]", "recovered_device[v1alpha1.NodeHealth/X]"),
    ],
)
def test_words_side_by_side_are_a_part_of_a_name(text: str, expression: str) -> None:
    assert pytest_expression(text, NAMES) == expression


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("flapping", "rapid changes"),
        ("CrashLoopBackOff", "crash loop back off"),
        ("recoverd", "recovered"),
        ("mig devices", "partitions"),
        ("rolling upgrades", "rolling update"),
        ("truncated", "is cut"),
        ("feature gate disabled", "gate off"),
    ],
)
def test_first_suggestion_has_the_words_of_the_titles(text: str, word: str) -> None:
    assert word in suggestions(text, scenarios())[0]


def test_text_without_a_fitting_word_has_no_suggestion() -> None:
    assert [suggestions(text, scenarios()) for text in ("xyzzy", "", "the of")] == [[], [], []]


def test_every_title_selects_its_scenario() -> None:
    missed = [one.title for one in scenarios() if pytest_expression(one.title, NAMES) not in one.name]
    assert missed == []


def test_run_takes_a_title_and_suggests_titles(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "a recovered device shows healthy again", folder=tmp_path)
    missed = drahealth("run", "-k", "flapping", folder=tmp_path)
    assert (ran.returncode, missed.returncode) == (0, 2)
    assert "-k 'after rapid changes the status shows the latest health'" in missed.stderr
