"""`drahealth explain ID --reproduce`: known issues that nobody has reported to Kubernetes, each with a bug report."""

import re
import subprocess
from pathlib import Path

import pytest

from drahealth.manager.releases import for_release
from drahealth.suites.commands.reproduce import HISTORY, REPORT, SCENARIO, SCRIPT, files_of, write
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.judging.reproductions import reproductions, unreported
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.unit.command_process import COMMAND, run

HEADINGS = (
    "What happened?",
    "What did you expect to happen?",
    "How can we reproduce it (as minimally and precisely as possible)?",
    "Anything else we need to know?",
    "Kubernetes version",
    "Cloud provider",
    "OS version",
    "Install tools",
    "Container runtime (CRI) and version (if applicable)",
    "Related plugins (CNI, CSI, ...) and versions (if applicable)",
)
"""The labels of .github/ISSUE_TEMPLATE/bug-report.yaml of kubernetes/kubernetes."""
TITLES = {one.name: one.title for one in scenarios()}


def test_each_issue_without_a_report_upstream_has_a_reproduction_and_no_other_one() -> None:
    assert list(reproductions()) == list(unreported())


@pytest.mark.parametrize("name", unreported())
def test_the_ledger_has_what_was_recorded(name: str) -> None:
    found = reproductions()[name]
    profile = for_release(found.release)
    assert profile
    mine = [one for one in known_issues(profile.name) if one.id == name]
    title = TITLES[found.scenario]
    checks = [(one.requirement, one.assertion) for one in found.checks]
    assert [one for one in checks if not any(issue.covers(*one, title) for issue in mine)] == []
    assert bool(mine)


def test_each_issue_that_the_newest_release_always_shows_has_observed_values() -> None:
    newest = max(one.release for one in reproductions().values())
    without = [name for name, one in reproductions().items() if one.release == newest and not one.checks]
    always = [name for name in without if any(issue.happens == "always" for issue in unreported()[name])]
    assert (newest, always) == ("1.37.2", [])


@pytest.mark.parametrize("name", ["B-05", "P-12"])
def test_the_report_has_the_form_of_a_bug_report_of_kubernetes(name: str) -> None:
    report = files_of(name)[REPORT]
    assert tuple(re.findall(r"^### (.*)$", report, re.MULTILINE)) == HEADINGS


def test_the_report_has_the_observed_and_the_expected_status_and_the_source_lines() -> None:
    report = files_of("B-05")[REPORT]
    assert all(check.seen in report and check.expected in report for check in reproductions()["B-05"].checks)
    assert "blob/v1.37.2/pkg/kubelet/cm/dra/manager.go#L512-L517 (truncateHealthMessage)" in report


def test_the_files_are_a_script_a_report_the_scenario_and_the_history() -> None:
    assert list(files_of("B-05")) == [SCRIPT, REPORT, SCENARIO, HISTORY]
    assert list(files_of("P-12")) == [SCRIPT, REPORT, SCENARIO]
    compile(files_of("B-05")[SCENARIO], SCENARIO, "exec")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "--kubernetes 1.37.2 --fixed B-05 -k"),
        ({"KUBELET": "my kubelet", "KUBERNETES": "1.37.0"}, "--kubernetes 1.37.0 --kubelet my kubelet --fixed B-05 -k"),
    ],
)
def test_the_script_runs_the_scenario_as_if_the_issue_was_fixed(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    (folder,) = write(["b-05"], tmp_path)
    done = subprocess.run(
        [folder / SCRIPT, "-x"], env={"DRAHEALTH": "echo", **environment}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"run --target kubelet {words} {reproductions()['B-05'].scenario} -x"


@pytest.mark.parametrize("name", unreported())
def test_a_written_script_is_accepted_by_run(name: str, tmp_path: Path) -> None:
    (folder,) = write([name], tmp_path)
    done = subprocess.run(["sh", "-n", folder / SCRIPT], capture_output=True, check=False)
    assert (done.returncode, files_of(name)[SCRIPT].count(name)) == (0, 2)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("B-01", "B-01 has a report upstream: https://github.com/kubernetes/kubernetes/issues/142293"),
        ("STATUS-01", "STATUS-01 is no known issue"),
        ("moon", "MOON is no known issue"),
    ],
)
def test_another_id_is_rejected_with_the_reason(name: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        write([name], tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_other_files_of_the_user_are_not_mixed_with_a_reproduction(tmp_path: Path) -> None:
    (tmp_path / "B-05").mkdir()
    (tmp_path / "B-05" / "mine").touch()
    with pytest.raises(ConfigurationError, match="has other files, such as mine"):
        write(["B-05"], tmp_path)


def test_explain_writes_the_directory_below_out(tmp_path: Path) -> None:
    done = run(COMMAND, "explain", "B-05", "B-08", "--reproduce", "--out", str(tmp_path / "bugs"))
    assert (done.returncode, {path.name for path in (tmp_path / "bugs").iterdir()}) == (0, {"B-05", "B-08"})


@pytest.mark.parametrize("words", [["--reproduce", "--json"], ["--out=x"]])
def test_options_that_do_not_go_together_get_one_sentence(words: list[str]) -> None:
    done = run(COMMAND, "explain", "B-05", *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
