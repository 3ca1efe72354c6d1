"""The ledger and the checks in the code match."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from drahealth.manager.profile import KEP
from drahealth.manager.releases import FIXABLE, NEXT_NAME, OPEN_FIXES, PROFILES
from drahealth.proto.values import DeviceHealth
from drahealth.suites.judging import invariants
from drahealth.suites.judging.ledger import Requirement, every_known_issue, known_issues, requirements
from drahealth.suites.run.scenario import scenarios

SUITES = Path(__file__).resolve().parents[2]
FACTS = SUITES.parent / "docs" / "facts.md"
ISSUES = [issue for profile in PROFILES for issue in known_issues(profile)]


@cache
def judging(path: Path) -> list[tuple[str, str, str]]:
    """The `judging(requirement, assertion)` calls of a file with literal arguments, by function."""
    return [*_judging(ast.parse(path.read_text()))]


def _judging(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    for function in ast.walk(module):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            match call:
                case ast.Call(ast.Attribute(attr="judging"), [ast.Constant(str(name)), ast.Constant(str(words))]):
                    yield function.name, name, words


STORIES = [found for path in sorted((SUITES / "kep").glob("test_*.py")) for found in judging(path)]


def test_requirements_of_scenarios_are_named_by_scenarios() -> None:
    named = {name for scenario in scenarios() for name in scenario.requirements}
    assert named == {entry.id for entry in requirements().values() if entry.judged == "scenario"}


def test_invariants_are_checked_in_the_code() -> None:
    code = {*invariants.violations([], {}), *(name for _, name, _ in judging(SUITES / "story" / "node.py"))}
    assert code == {entry.id for entry in requirements().values() if entry.judged == "invariant"}


def test_a_story_checks_only_requirements_of_its_scenario() -> None:
    named = {scenario.name: scenario.requirements for scenario in scenarios()}
    checked = [
        (name, requirement)
        for path in sorted((SUITES / "kep").glob("test_*.py"))
        for name, functions in _reached(ast.parse(path.read_text())).items()
        for function, requirement, _ in judging(path)
        if name in named and function in functions
    ]
    assert len(checked) >= len(STORIES) > 5
    assert [found for found in checked if found[1] not in named[found[0]]] == []


def _reached(module: ast.Module) -> dict[str, set[str]]:
    """For each function of the module: itself, and the functions that it uses, also through others."""
    functions = {one.name: one for one in ast.walk(module) if isinstance(one, ast.AsyncFunctionDef)}
    uses = {
        name: {name, *(word.id for word in ast.walk(one) if isinstance(word, ast.Name) and word.id in functions)}
        for name, one in functions.items()
    }
    for _ in functions:
        uses = {name: set().union(*(uses[other] for other in found)) for name, found in uses.items()}
    return uses


def test_the_assertion_of_a_known_issue_occurs_in_the_code() -> None:
    throughout = [
        ("", name, "holds throughout") for name, entry in requirements().items() if entry.judged == "invariant"
    ]
    judged = [*STORIES, *judging(SUITES / "story" / "node.py"), *throughout]
    occurring = {(name, words) for _, name, words in judged}
    named = {(issue.requirement, issue.assertion): issue.id for issue in ISSUES}
    assert {assertion: name for assertion, name in named.items() if assertion not in occurring} == {}


def test_the_scenario_of_a_known_issue_exists() -> None:
    assert {issue.scenario for issue in ISSUES} - {""} <= {scenario.title for scenario in scenarios()}


def test_every_known_issue_and_each_issue_with_an_open_fix_has_a_fact() -> None:
    facts = {line.split("|")[1].strip() for line in FACTS.read_text().splitlines() if line.startswith("| ")}
    assert ({issue.id for issue in ISSUES} | {*FIXABLE}) - facts == set()


def test_a_known_issue_names_existing_releases_and_its_frequency() -> None:
    entries = tomllib.loads((SUITES / "judging" / "known_issues.toml").read_text())["issue"]
    assert [issue.id for issue in every_known_issue() if not issue.releases] == []
    levels = {version for entry in entries for version in entry.get("fixed_in", ())}
    assert {version for version in levels - {NEXT_NAME} if f"v{version}" not in PROFILES} == set()
    assert {entry["happens"] for entry in entries} <= {"always", "sometimes"}


def test_one_known_issue_covers_an_assertion_per_release() -> None:
    covered = [(profile, i.requirement, i.assertion, i.scenario) for profile in PROFILES for i in known_issues(profile)]
    assert len(covered) == len(set(covered))


def test_open_fixes_end_known_issues_and_are_in_their_threads() -> None:
    ended = {issue.id for issue in every_known_issue() if NEXT_NAME in issue.range.fixed_in}
    assert ended <= {*FIXABLE}
    numbers = {issue.id: [link.rpartition("/")[2] for link in issue.threads] for issue in every_known_issue()}
    lacking = [(fix.number, name) for fix in OPEN_FIXES for name in fix.issues if name in numbers]
    assert [one for one in lacking if str(one[0]) not in numbers[one[1]]] == []


def test_a_fixed_issue_with_an_open_fix_keeps_the_violations_that_remain() -> None:
    def violations(name: str, fixed: set[str]) -> set[str]:
        return {issue.requirement for issue in known_issues("v1.37", frozenset(fixed)) if issue.id == name}

    assert violations("B-26", {"B-26"}) == violations("B-26", set()) - {"INIT-02"}
    assert violations("B-05", {"B-05"}) == set()


def test_the_kep_has_no_known_issues() -> None:
    assert known_issues("kep") == ()


def test_the_columns_have_valid_values() -> None:
    entries = requirements().values()
    assert {entry.level for entry in entries} <= {"MUST", "SHOULD", "MAY"}
    assert {entry.judged for entry in entries} <= {"scenario", "invariant"}
    assert {entry.applies_to for entry in entries} <= {"kubelet", "api-server", "driver"}
    assert {need for entry in entries for need in entry.needs_fields} <= {field.name for field in fields(DeviceHealth)}


def test_released_health_apis_carry_all_needed_fields() -> None:
    shipped = set.intersection(*(set(health_api.carries) for health_api in KEP.called_apis[:2]))
    assert {need for entry in requirements().values() for need in entry.needs_fields} <= shipped


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"needs": ["message"]}, ("STATUS-99", "'message'", "stop-api-server", "`needs_fields`")),
        ({"not_on": {"kind": "it cannot"}}, ("STATUS-99", "`not_on`", "`needs`")),
    ],
)
def test_an_unknown_key_of_the_ledger_is_rejected_with_a_suggestion(
    entry: dict[str, object], named: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"^STATUS-99") as refused:
        Requirement.of("STATUS-99", entry)
    assert [words for words in named if words not in str(refused.value)] == []


def test_every_sentence_is_one_sentence_and_has_a_source() -> None:
    for entry in requirements().values():
        assert entry.sentence.endswith(".")
        assert "\n" not in entry.sentence
        assert entry.source.startswith(("KEP: ", "KEP (2025): ", "design: ", "kubeletplugin v", "ResourceClaim API, "))


def test_every_named_fact_has_a_row() -> None:
    root = SUITES.parent
    places = [path for top in ("proto", "manager", "fakes", "suites", "docs") for path in (root / top).rglob("*.*")]
    texts = [path.read_text() for path in places if path.suffix in {".py", ".toml", ".md"}]
    named = {fact for text in texts for fact in re.findall(r"\b[A-Z]-\d\d\b", text)}
    rows = re.findall(r"^\| ([A-Z]-\d\d) \|", FACTS.read_text(), re.MULTILINE)
    assert named - set(rows) == set()
    assert len(rows) == len(set(rows))
