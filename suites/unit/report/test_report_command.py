"""`drahealth report` as a process."""

import json
from pathlib import Path

import pytest

from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import report_schema, to_json
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND, Done
from drahealth.suites.unit.report.html_parts import Parts
from drahealth.suites.unit.report.reports import RERUN, failing


def drahealth_report(*arguments: str) -> Done:
    return command_process.run(COMMAND, "report", *arguments)


@pytest.fixture
def result(tmp_path: Path) -> str:
    path = tmp_path / "result.json"
    path.write_text(to_json(check_report(*failing(), RERUN)))
    return str(path)


def test_report_writes_page_badge_and_text_of_a_result(result: str, tmp_path: Path) -> None:
    html, badge, text = (tmp_path / name for name in ("a.html", "a.svg", "a.md"))
    done = drahealth_report(result, f"--html={html}", f"--badge={badge}", f"--summary={text}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "not judged again" in done.stdout
    assert [one.text.split()[-1] for one in Parts(html.read_text()).of("h1")] == ["fails"]
    assert (badge.read_text().startswith("<svg"), "PLUGIN-18" in text.read_text()) == (True, True)


def test_schema_is_printed() -> None:
    assert json.loads(drahealth_report("--schema").stdout) == report_schema()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--html=/no/such/folder/a.html"],
        ["/no/such/result.json", "--html={tmp}/a.html"],
        ["{result}.copy", "--badge={tmp}/a.svg"],
        ["{result}.copy", "--summary={tmp}/a.md"],
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(result: str, tmp_path: Path, options: list[str]) -> None:
    Path(f"{result}.copy").write_text(Path(result).read_text())
    done = drahealth_report(result, *(option.format(tmp=tmp_path, result=result) for option in options))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_report_without_a_result_is_a_usage_error() -> None:
    done = drahealth_report("--html=a.html")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
