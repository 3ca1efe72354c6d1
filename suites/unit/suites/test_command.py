"""The `drahealth` command: its help, its exit codes, and its output files."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from drahealth.proto.events import StatusSeen
from drahealth.proto.history import read_history
from drahealth.suites import command
from drahealth.suites.commands.running import fitting
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND

LISTENING = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Processes that are started in the background ignore Ctrl-C, so reset its handler."""

BROKEN = """
from drahealth.suites.run.options import Options
from drahealth.manager.dra import DraManager
from drahealth.suites.targets.reference.target import ReferenceTarget

class Silent(DraManager):
    def _notify(self, devices): pass

windows = {"push": 0.2, "resync": 0.2, "start": 10, "restart": 10}
Options.make_target = lambda options, _: ReferenceTarget(options.profile, dra=Silent, windows=windows)
"""

NOWHERE = """
from drahealth.suites.run.options import Options
from drahealth.suites.errors import HarnessError

class Nowhere:
    async def start(self): raise HarnessError("no node came up", "see its log")
    async def stop(self): pass

Options.make_target = lambda *_: Nowhere()
"""


COUNTED = """
from drahealth.suites.run.options import Options

make = Options.make
Options.make = lambda given: print("options were made", flush=True) or make(given)
"""


def drahealth(*arguments: str, before: str = "", folder: Path | None = None) -> command_process.Done:
    """Run the command as a process. It runs the code `before` first."""
    return command_process.run(before + COMMAND, *arguments, folder=folder)


def refused(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command that fails, in this process."""
    monkeypatch.setattr(sys, "argv", ["drahealth", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_run_makes_its_options_once() -> None:
    done = drahealth("run", "--profile", "v1.36.4", "-k", "UPDATE-01", "-n", "1", before=COUNTED)
    assert ("profile v1.36.4" in done.stdout, done.stdout.count("options were made")) == (True, 1)


def test_the_installed_command_is_ours() -> None:
    (script,) = entry_points(group="console_scripts", name="drahealth")
    assert script.value == "drahealth.suites.__main__:main"


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "drahealth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("drahealth ")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run",),
        ("scenarios",),
        ("doctor",),
        ("manager",),
        ("binaries",),
        *(("binaries", w) for w in ("ensure", "list", "remove")),
    ],
    ids=" ".join,
)
def test_everything_has_help(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(command.app, [*words, "--help"])
    assert shown.exit_code == 0
    assert " ".join(("Usage: drahealth", *words)) in shown.stdout


@pytest.mark.parametrize("words", [(), ("play",), ("ctl", "inject"), ("ctl", "stream")], ids=" ".join)
def test_help_has_no_python_types_of_flags_and_arguments(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(command.app, [*words, "--help"]).stdout
    assert re.findall(r"<(bool|str|list|file).*?>", shown) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "moon"), "--target must be one of reference, kubelet, kind, cluster, got 'moon'"),
        (("--report", "/"), "cannot write /: Is a directory"),
        (("--junitxml", "/dev/null/j"), "cannot write /dev/null/j: Not a directory"),
        (("--histories", "/dev/null"), "cannot write "),
    ],
)
def test_an_invalid_option_gives_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert refused(monkeypatch, "run", *arguments) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err.startswith(f"drahealth: {sentence}")) == ("", 1, True)


@pytest.mark.parametrize("version", ["1.20.0", "1.20"])
def test_binaries_of_a_release_without_a_profile_are_rejected(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    assert refused(monkeypatch, "binaries", "ensure", "--kubernetes", version) == 2


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--of-no-such-option")
    before = dict(os.environ)
    assert (refused(monkeypatch, "run", "-k", "nothing_like_it"), dict(os.environ)) == (2, before)


ONE = "recovered and not v1alpha1"
"""A basic scenario, over the default health API alone."""


def test_a_passed_run_writes_its_report_results_and_history(tmp_path: Path) -> None:
    ran = drahealth(
        *("run", "-k", ONE, "--report", "r.json", "--junitxml", "j.xml", "--histories", "h"), folder=tmp_path
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("the reference, profile kep, 1 scenario\n\nPASS ")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["exit_code"], [s["name"] for s in report["scenarios"]]) == (
        0,
        ["test_a_recovered_device_shows_healthy_again"],
    )
    properties = ElementTree.parse(tmp_path / "j.xml").iterfind(".//testcase//property")
    assert [(p.get("name"), p.get("value")) for p in properties] == [
        ("requirement", "STATUS-03"),
        ("requirement", "STATUS-15"),
    ]
    (history,) = (tmp_path / "h").iterdir()
    assert any(isinstance(record.what, StatusSeen) for record in read_history(history).records)
    assert report["scenarios"][0]["history_file"] == f"h/{history.name}"
    done = drahealth("report", "r.json", "--html", "r.html", folder=tmp_path)
    assert (done.returncode, '<details class="scenario"' in (tmp_path / "r.html").read_text()) == (0, True)


def test_a_failure_of_the_subject_exits_with_1(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", ONE, "--report", "r.json", before=BROKEN, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    assert lines[2].split()[0] == "FAIL"
    assert (
        "STATUS-03 (MUST, kubelet): If the driver reports a device as Healthy again, the status shows Healthy again."
        in lines
    )
    assert lines[-4] == "rerun: drahealth run --target reference -k test_a_recovered_device_shows_healthy_again"
    assert (lines[-2].partition(" in ")[0], lines[-1].partition(":")[0]) == ("1 failed", "causes of the failures")
    report = json.loads((tmp_path / "r.json").read_text())
    assert {r["id"] for r in report["requirements"] if r["verdict"] != "NOT_TESTED"} == {"STATUS-03", "STATUS-15"}


def test_a_node_that_does_not_start_exits_with_3_and_is_tried_once(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "two_devices or recovered", before=NOWHERE, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (3, "")
    assert ran.stdout.splitlines()[2:] == ["No scenario ran: no node came up; see its log"]


def test_a_run_stops_at_the_first_failure_and_the_next_one_plays_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path / "cache"))
    two = ("run", "-k", "STATUS-03 and not v1alpha1 and not several", "--report", "r.json")
    ran = drahealth(*two, "-x", before=BROKEN, folder=tmp_path)
    assert (ran.returncode, ran.stdout.splitlines()[-3].partition(" in ")[0]) == (1, "1 failed")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["complete"], report["planned"], report["run"], report["exit_code"]) == (False, 2, 1, 1)
    again = drahealth(*two, "--last-failed", folder=tmp_path)
    assert (again.returncode, again.stdout.splitlines()[-1].partition(" in ")[0]) == (0, "1 passed")


def test_a_run_with_several_processes_has_all_rows_and_one_report(tmp_path: Path) -> None:
    ran = drahealth(
        "run", "-n", "2", "-k", "STATUS-03 and not v1alpha1 and not several", "--report", "r.json", folder=tmp_path
    )
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "the reference, profile kep, 2 scenarios")
    assert [line.split()[0] for line in ran.stdout.splitlines()[2:4]] == ["PASS", "PASS"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["planned"], report["run"], report["conditions"]["options"]["n"]) == (2, 2, "2")


def test_several_processes_need_pytest_xdist(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xdist", None)
    assert refused(monkeypatch, "run", "-n", "2") == 2
    assert capfd.readouterr().err.startswith("drahealth: -n needs the package pytest-xdist; ")


@pytest.mark.parametrize(
    ("node", "available", "count"), [(700, 900, 1), (700, 4300, 3), (700, 64000, 4), (0, 64000, 1)]
)
def test_as_many_nodes_run_as_fit_into_half_of_the_memory(node: int, available: int, count: int) -> None:
    assert fitting(node, available) == count


def test_the_list_of_scenarios_as_json_has_the_ids_of_reports() -> None:
    found = json.loads(drahealth("scenarios", "--json").stdout)["scenarios"]
    assert [one["id"] for one in found] == [f"drahealth.kep::{one.name}" for one in scenarios()]


def test_an_expression_without_matches_exits_with_2(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "no_such_word", folder=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith("drahealth: no scenario matches -k 'no_such_word'")


def test_an_invalid_expression_exits_with_2(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "(two words", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.strip().count("\n") == 0
    assert "two_words: at column 12" in ran.stderr


def test_pytest_settings_and_plugins_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    ran = drahealth("run", "-k", "resource_id", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conftest.py", "pytest.ini"]


def test_the_list_of_scenarios_has_all_requirements() -> None:
    ran = drahealth("scenarios")
    names = [line for line in ran.stdout.splitlines() if not line.startswith(" ")]
    assert (ran.returncode, names) == (0, [found.name for found in scenarios()])
    assert f"  TIMEOUT-02  MUST   {requirements()['TIMEOUT-02'].sentence}" in ran.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_run_stops_its_processes(tmp_path: Path, how: signal.Signals) -> None:
    words = [sys.executable, "-c", LISTENING + COMMAND, "run", "--profile", "v1.34", "-k", "own_timeout"]
    words += ["--report", str(tmp_path.with_suffix(".json")), "--junitxml", str(tmp_path.with_suffix(".xml"))]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout
        assert run.stdout.readline().startswith("the reference")
        run.send_signal(how)
        _, said = run.communicate(timeout=240)
    assert (run.returncode, said.splitlines()[-1]) == (3, "drahealth: interrupted")
    report = json.loads(tmp_path.with_suffix(".json").read_text())
    assert (report["complete"], report["interrupted"], report["exit_code"]) == (False, True, 3)
    (*_, last) = ElementTree.parse(tmp_path.with_suffix(".xml")).iterfind(".//error/..")
    assert last.get("name") == "complete run"
    assert list(tmp_path.iterdir()) == []
