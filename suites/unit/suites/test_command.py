"""The command: its help, its exit codes, and what a run leaves behind."""

import json
import os
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
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND

LISTENING = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Where we run in the background, Ctrl-C is nothing to those we start."""

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


def drahealth(*arguments: str, before: str = "", folder: Path | None = None) -> command_process.Done:
    """The command in a process of its own; `before` is done in it first."""
    return command_process.run(before + COMMAND, *arguments, folder=folder)


def refused(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command that comes to nothing, in this process."""
    monkeypatch.setattr(sys, "argv", ["drahealth", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_installed_command_is_this_one() -> None:
    (script,) = entry_points(group="console_scripts", name="drahealth")
    assert script.value == "drahealth.suites.command:main"


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "moon"), "--target must be one of reference, kubelet, kind, got 'moon'"),
        (("--report", "/"), "/ cannot be written: Is a directory; name another file"),
        (("--junitxml", "/dev/null/j"), "/dev/null/j cannot be written: Not a directory; name another file"),
        (("--histories", "/dev/null"), "no files can be put into /dev/null: File exists; name another folder"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert refused(monkeypatch, "run", *arguments) == 2
    assert capfd.readouterr() == ("", f"drahealth: {sentence}\n")


def test_the_environment_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--of-no-such-option")
    before = dict(os.environ)
    assert (refused(monkeypatch, "run", "-k", "nothing_like_it"), dict(os.environ)) == (2, before)


def test_a_good_run_leaves_its_report_results_and_history(tmp_path: Path) -> None:
    ran = drahealth(
        *("run", "-k", "recovered", "--report", "r.json", "--junitxml", "j.xml", "--histories", "h"), folder=tmp_path
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("the reference in process, profile kep, 1 scenario\n\nPASS ")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["exit_code"], [s["name"] for s in report["scenarios"]]) == (
        0,
        ["test_a_recovered_device_shows_healthy_again"],
    )
    properties = ElementTree.parse(tmp_path / "j.xml").iter("property")
    assert [(p.get("name"), p.get("value")) for p in properties] == [
        ("requirement", "STATUS-03"),
        ("requirement", "STATUS-15"),
    ]
    (history,) = (tmp_path / "h").iterdir()
    assert any(isinstance(record.what, StatusSeen) for record in read_history(history).records)


def test_a_subject_that_is_at_fault_is_1(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "recovered", "--report", "r.json", before=BROKEN, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    assert lines[2].split()[0] == "FAIL"
    assert (
        "STATUS-03 (MUST, kubelet): If the driver reports a device as Healthy again, the status shows Healthy again."
        in lines
    )
    assert lines[-3] == "rerun: drahealth run --target reference -k test_a_recovered_device_shows_healthy_again"
    assert lines[-1].startswith("1 failed in ")
    report = json.loads((tmp_path / "r.json").read_text())
    assert {n for n, r in report["requirements"].items() if r["verdict"] != "NOT_TESTED"} == {"STATUS-03", "STATUS-15"}


def test_a_node_that_does_not_come_up_is_3_and_tried_once(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "two_devices or recovered", before=NOWHERE, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (3, "")
    assert ran.stdout.splitlines()[2:] == ["No scenario was run. no node came up; see its log"]


def test_a_word_that_nothing_matches_is_2(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "no_such_word", folder=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith("drahealth: no scenario matches 'no_such_word'; `drahealth scenarios` lists")


def test_an_expression_that_is_none_is_2(tmp_path: Path) -> None:
    ran = drahealth("run", "-k", "two words", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.strip().count("\n") == 0
    assert "two words: at column 5" in ran.stderr


def test_settings_and_plugins_that_are_around_have_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    ran = drahealth("run", "-k", "resource_id", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conftest.py", "pytest.ini"]


def test_the_list_of_scenarios_names_all_with_their_sentences() -> None:
    ran = drahealth("scenarios")
    names = [line for line in ran.stdout.splitlines() if not line.startswith(" ")]
    assert (ran.returncode, names) == (0, [found.name for found in scenarios()])
    assert f"  TIMEOUT-02  MUST   {requirements()['TIMEOUT-02'].sentence}" in ran.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_run_takes_down_what_it_started(tmp_path: Path, how: signal.Signals) -> None:
    words = [sys.executable, "-c", LISTENING + COMMAND, "run", "--profile", "v1.34", "-k", "own_timeout"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout
        assert run.stdout.readline().startswith("the reference in process")
        run.send_signal(how)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said.splitlines()[-1]) == (3, "drahealth: interrupted")
    assert list(tmp_path.iterdir()) == []
