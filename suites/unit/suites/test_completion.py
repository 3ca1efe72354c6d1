"""Shell completion: the suggestions of the command, and the script for bash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.manager.releases import PROFILES
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.unit.command_process import COMMAND, run

BASH = """
source <(drahealth --show-completion)
COMP_WORDS=(drahealth faults show xid/7) COMP_CWORD=3
_drahealth_completion drahealth
echo "${COMPREPLY[@]}"
"""


def words_after(monkeypatch: pytest.MonkeyPatch, *line: str) -> list[str]:
    """What can follow; the last word of the line is incomplete."""
    monkeypatch.setenv("_DRAHEALTH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("drahealth", *line)))
    monkeypatch.setenv("COMP_CWORD", str(len(line)))
    done = run(COMMAND)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert words_after(monkeypatch, "re") == ["report", "record"]


def test_subcommands_of_the_fakes_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert words_after(monkeypatch, "ctl", "inj") == ["inject"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("run", "--tar"), ["--target"]),
        (("run", "--target", "k"), ["kubelet", "kind"]),
        (("run", "--profile", "v1.3"), [name for name in PROFILES if name.startswith("v")]),
        (("run", "--health-api", "N"), ["NodeHealth"]),
        (("doctor", "--target", "ku"), ["kubelet"]),
        (("manager", "--profile", "k"), ["kep"]),
        (("faults", "diff", "str"), ["strict"]),
        (("init", ""), ["timeline", "inventory", "pod"]),
        (("ctl", "inject", "xid/7"), ["xid/74", "xid/79"]),
        (("ctl", "flap", "gpu-0", "--fault", "xid/7"), ["xid/74", "xid/79"]),
        (("ctl", "recover", "g"), ["gpu-reset"]),
    ],
)
def test_options_and_their_values_are_completed(
    monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...], words: list[str]
) -> None:
    assert sorted(words_after(monkeypatch, *line)) == sorted(words)


def test_the_ids_that_explain_knows_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    status = {name for one in scenarios() for name in one.requirements if name.startswith("STATUS-")}
    assert set(words_after(monkeypatch, "explain", "STATUS-")) >= status


def test_a_line_with_an_error_has_no_completions_and_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert words_after(monkeypatch, "nope", "--") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_with_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    done = subprocess.run(["bash", "-c", BASH], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["xid/74", "xid/79"], "")
