"""What the command refuses before anything is started."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.manager.gates import Gates
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.manager_command.options import gates_of
from drahealth.suites.unit.suites.test_command import refused

OFF = "ResourceHealthStatus=false,ResourceHealthStatusMessage=false"
THERE_ARE = "valid gates: ResourceHealthStatus, ResourceHealthStatusMessage"


@pytest.fixture
def root() -> Iterator[Path]:
    """With a short path."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--profile", "v0"), "unknown profile 'v0'; choose one of kep, v1.37, v1.36, v1.35, v1.34"),
        (("--resync", "0"), "--resync must be a number of seconds above 0, got 0; the default is 60"),
        (("--metrics-port", "70000"), "--metrics-port must be between 0 and 65535, got 70000; 0 selects a free port"),
        (("--node-name", "Node A"), "invalid node name 'Node A'; pass --node-name, such as node-a"),
        (("--feature-gates", "Fast=true"), f"unknown feature gate 'Fast'; {THERE_ARE}"),
        (("--history", "/dev/null"), "--history /dev/null already exists; name another file, or remove this one"),
        (("--history", "/none/h"), "cannot write /none/h: No such file or directory; choose another file"),
        (("--pods", "/dev/null"), "cannot write to folder /dev/null: File exists; choose another folder"),
    ],
)
def test_an_invalid_option_gives_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    root: Path,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    assert refused(monkeypatch, "manager", "--root-dir", str(root), *arguments) == 2
    assert capfd.readouterr() == ("", f"drahealth: {sentence}\n")


def test_a_root_directory_whose_path_is_too_long_for_sockets_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = tmp_path / ("x" * 60)
    assert refused(monkeypatch, "manager", "--root-dir", str(root)) == 2
    assert f"got {len(os.fsencode(root))}: {root}" in capfd.readouterr().err
    assert not root.exists()


@pytest.mark.parametrize(
    ("text", "gates"),
    [("", Gates(True, True)), ("ResourceHealthStatusMessage=False", Gates(True, False)), (OFF, Gates(False, False))],
)
def test_gates_are_given_as_to_a_kubelet(text: str, gates: Gates) -> None:
    assert gates_of(text) == gates


@pytest.mark.parametrize("text", ["ResourceHealthStatus=false", "ResourceHealthStatus", "ResourceHealthStatus=1,"])
def test_gates_that_a_kubelet_refuses_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        gates_of(text)
