"""Edited certificates and manipulated runs: none is a success."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.commands.certificate_files import FILES, STATEMENT
from drahealth.suites.driver_checks.summary import CUT_SHORT
from drahealth.suites.report.result_files import EVIDENCE, REPORT
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND, Done
from drahealth.suites.unit.driver_checks.certificates import core_run, written
from drahealth.suites.unit.driver_checks.test_check_command import environments
from drahealth.suites.unit.driver_checks.test_sandbox import WITHOUT_NAMESPACES
from drahealth.suites.unit.report.reports import leave_sockets

Edit = Callable[[dict[str, Any]], object]
ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        time.sleep(600)
    os._exit(0)
os.wait()
"""
"""A program that starts a daemon by two forks, and exits."""


def drahealth(*arguments: str | Path) -> Done:
    return command_process.run(COMMAND, *map(str, arguments))


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """The certificate of a driver that violates PLUGIN-18."""
    written(tmp_path / "failed", core_run(leave_sockets))
    return tmp_path / "failed"


def edit_report(folder: Path, *edits: Edit) -> None:
    report = json.loads((folder / REPORT).read_text())
    for edit in edits:
        edit(report)
    (folder / REPORT).write_text(json.dumps(report))


def requirement(report: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in report["requirements"] if one["id"] == "PLUGIN-18")
    return found


def pass_it(report: dict[str, Any]) -> None:
    """Turns the violation into a pass, everywhere."""
    requirement(report)["verdict"] = "PASS"
    for finding in requirement(report)["findings"]:
        finding["verdict"] = "PASS"
    report["counts"] = {k: v + (k == "PASS") for k, v in report["counts"].items() if k != "FAIL"}


def certify_it(report: dict[str, Any]) -> None:
    """Turns the words into those of a certificate."""
    text = report["certificate"]["text"].replace("not certified core (fails)", "certified core")
    report["certificate"] |= {"certified": True, "text": text}
    report |= {"verdict": text, "exit_code": 0, "reasons": []}


def remove_it(report: dict[str, Any]) -> None:
    report["requirements"].remove(requirement(report))
    report["counts"].pop("FAIL")


def other_ledger(report: dict[str, Any]) -> None:
    report["certificate"]["ledger_sha256"] = "00" * 32


@pytest.mark.parametrize("edits", [(pass_it, certify_it), (remove_it, certify_it), (pass_it,), (certify_it,)])
def test_edited_report_is_not_verified(failed: Path, edits: tuple[Edit, ...]) -> None:
    edit_report(failed, *edits)
    assert drahealth("verify", failed / REPORT, failed / EVIDENCE).returncode == 1


def test_report_of_another_ledger_without_a_requirement_is_not_verified(failed: Path) -> None:
    edit_report(failed, remove_it, certify_it, other_ledger)
    assert drahealth("verify", failed / REPORT, failed / EVIDENCE).returncode == 4


def test_evidence_of_another_driver_is_not_verified_with_its_digest(failed: Path, tmp_path: Path) -> None:
    written(tmp_path / "healthy", core_run())
    other = tmp_path / "healthy" / EVIDENCE
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    edit_report(failed, lambda report: report["certificate"].update(evidence_sha256=digest))
    assert drahealth("verify", failed / REPORT, other).returncode == 1


@pytest.mark.parametrize(
    "edit",
    [
        lambda report: report["certificate"].update(certified=True),
        lambda report: report.update(verdict="certified core"),
        lambda report: report["certificate"].update(judged="2020-01-01"),
        lambda report: report.update(exit_code=0),
        certify_it,
    ],
)
def test_report_that_contradicts_itself_has_no_page(failed: Path, edit: Edit, tmp_path: Path) -> None:
    edit_report(failed, edit)
    done = drahealth("report", failed / REPORT, f"--html={tmp_path / 'a.html'}", f"--badge={tmp_path / 'a.svg'}")
    assert (done.returncode, len(done.stderr.splitlines()), list(tmp_path.glob("a.*"))) == (2, 1, []), done.stderr


def test_run_without_its_end_is_not_certified_in_its_report(tmp_path: Path) -> None:
    written(tmp_path / "healthy", core_run())
    edit_report(tmp_path / "healthy", lambda report: report.update(complete=False))
    done = drahealth("report", tmp_path / "healthy" / REPORT, f"--badge={tmp_path / 'a.svg'}")
    assert (done.returncode, (tmp_path / "a.svg").exists()) == (2, False)


def cut(file: Path) -> None:
    """Removes the last line."""
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


def test_report_beside_evidence_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "healthy", core_run())
    cut(tmp_path / "healthy" / EVIDENCE)
    done = drahealth("report", tmp_path / "healthy", f"--badge={tmp_path / 'a.svg'}")
    assert (done.returncode, len(done.stderr.splitlines()), (tmp_path / "a.svg").exists()) == (2, 1, False)
    assert "cut short" in done.stderr


def test_report_beside_other_evidence_of_the_same_conditions_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "healthy", core_run())
    written(tmp_path / "other", core_run(leave_sockets))
    (tmp_path / "other" / EVIDENCE).rename(tmp_path / "healthy" / EVIDENCE)
    done = drahealth("report", tmp_path / "healthy", f"--badge={tmp_path / 'a.svg'}")
    assert (done.returncode, "digest" in done.stderr) == (2, True)


def test_verified_run_without_its_end_is_incomplete(tmp_path: Path) -> None:
    written(tmp_path / "interrupted", replace(core_run(), complete=False))
    done = drahealth("verify", tmp_path / "interrupted")
    assert (done.returncode, done.stdout.startswith("incomplete: "), CUT_SHORT in done.stdout) == (4, True, True)
    shown = drahealth("report", tmp_path / "interrupted", f"--badge={tmp_path / 'a.svg'}")
    assert (shown.returncode, "did not reach its end" in shown.stdout) == (0, True)


@pytest.mark.parametrize(("option", "code"), [([], 0), (["--require-certified"], 5)])
def test_valid_certificate_of_a_driver_that_is_not_certified(failed: Path, option: list[str], code: int) -> None:
    assert drahealth("verify", failed, *option).returncode == code


def test_certified_driver_meets_require_certified(tmp_path: Path) -> None:
    written(tmp_path / "healthy", core_run())
    assert drahealth("verify", tmp_path / "healthy", "--require-certified").returncode == 0


@pytest.mark.parametrize("server", [("--api-server=none",), ()])
def test_kubeconfig_without_an_api_server_is_wrong_usage(tmp_path: Path, server: tuple[str, ...]) -> None:
    file = profile(tmp_path, "/bin/true", "{kubeconfig}", more="" if server else '[api-server]\nkind = "none"\n')
    certified = drahealth("certify", file, *server)
    checked = drahealth("check", "--api-server=none", "--", "/bin/true", "{kubeconfig}")
    assert [(one.returncode, len(one.stderr.splitlines())) for one in (certified, checked)] == [(2, 1)] * 2


# -- runs


def profile(folder: Path, *command: str, more: str = "") -> Path:
    path = folder / "gpu.toml"
    path.write_text(f'format = "driver-profile/v1"\n[driver]\ncommand = {json.dumps(command)}\n{more}')
    return path


@pytest.mark.parametrize("sandbox", ["", '[sandbox]\nnamespaces = ["mount", "pid"]\n'])
def test_driver_that_escapes_by_forking_is_not_certified_and_ends(tmp_path: Path, sandbox: str) -> None:
    mark = f"mark-{tmp_path.name}"
    more = f'environment = {{ MARK = "{mark}" }}\n{sandbox}'
    file = profile(tmp_path, sys.executable, "-c", ESCAPES, more=more)
    done = drahealth("certify", file, "--deadline=3")
    assert done.returncode in (1, 4), done.stdout + done.stderr
    assert [one for one in environments() if mark.encode() in one] == []


def test_machine_without_namespaces_writes_no_certificate(tmp_path: Path) -> None:
    file = profile(tmp_path, "touch", str(tmp_path / "started"), more="[sandbox]\n")
    words = [*WITHOUT_NAMESPACES, sys.executable, "-c", COMMAND, "certify", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "namespaces" in done.stderr, [path.name for path in tmp_path.iterdir()]) == (
        *(3, True),
        ["gpu.toml"],
    )


def test_second_certification_in_a_directory_leaves_the_first_one_alone(tmp_path: Path) -> None:
    file = profile(tmp_path, sys.executable, "-c", "import time; time.sleep(600)")
    command = [sys.executable, "-c", COMMAND, "certify", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as first:
        assert first.stderr is not None
        first.stderr.readline()  # it has begun
        second = drahealth("certify", file, "--overwrite")
        first.terminate()
        first.communicate()
    assert (second.returncode, len(second.stderr.splitlines()), first.returncode) == (2, 1, 4), second.stderr
    assert {path.name for path in (tmp_path / "certificate").iterdir()} == set(FILES) - {STATEMENT}  # of Python
