"""Options that the command rejects before it starts."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drahealth.manager.profile import Gates
from drahealth.manager.releases import DEFAULT_VERSION, MINORS, NEWEST, PROFILE_CHOICE
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.manager_command.program import Options, gates_of, make_server
from drahealth.suites.unit.suites.test_command import refused

OFF = "ResourceHealthStatus=false,ResourceHealthStatusMessage=false"
REAL = ("--api-server", "real")
RELEASES = f"{', '.join(MINORS[::-1])}"
NAMES = "a real API server rejects names that only the KEP has"
MISMATCH = f"does not match the API server of Kubernetes {DEFAULT_VERSION}"
THERE_ARE = "valid gates: ResourceHealthStatus, ResourceHealthStatusMessage"


@pytest.fixture
def root() -> Iterator[Path]:
    """With a short path."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--profile", "v0"), f"unknown profile 'v0'; choose {PROFILE_CHOICE}"),
        (
            (*REAL, "--profile", "v1.36.5"),
            f"--profile v1.36.5 {MISMATCH}; pass --profile {NEWEST.name}, or --kubernetes with a release of 1.36",
        ),
        (("--resync", "0"), "--resync must be a number of seconds above 0, got 0; the default is 60"),
        (("--metrics-port", "70000"), "--metrics-port must be between 0 and 65535, got 70000; 0 selects a free port"),
        (("--node-name", "Node A"), "invalid node name 'Node A'; pass --node-name, such as node-a"),
        (("--feature-gates", "Fast=true"), f"unknown feature gate 'Fast'; {THERE_ARE}"),
        (("--history", "/dev/null"), "--history /dev/null already exists; pass another file, or remove this file"),
        (("--history", "/none/h"), "cannot write /none/h: No such file or directory; choose another file"),
        (("--api-server", "etcd"), "--api-server must be one of memory, real, got 'etcd'"),
        (
            ("--kubernetes", DEFAULT_VERSION),
            "--kubernetes needs --api-server real; the API server in memory has no release",
        ),
        (
            (*REAL, "--kubernetes", "1.20.0"),
            f"drahealth does not support Kubernetes 1.20.0; choose a release of {RELEASES}",
        ),
        (
            (*REAL, "--profile", "kep"),
            f"--profile kep needs --api-server memory: {NAMES}; pass --profile {NEWEST.name}",
        ),
        (
            (*REAL, "--profile", "v1.36"),
            f"--profile v1.36 {MISMATCH}; pass --profile {NEWEST.name}, or --kubernetes with a release of 1.36",
        ),
        (("--root-dir", "/."), "--root-dir must not be /, the root of the file system; pass a new directory"),
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


def test_a_rejected_value_creates_no_directory(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    new = root / "new"
    for option in (
        ("--resync", "-1"),
        ("--metrics-port", "-1"),
        ("--node-name", "A b"),
        ("--feature-gates", "Fast=true"),
    ):
        assert refused(monkeypatch, "manager", "--root-dir", str(new), *option) == 2
    assert not new.exists()


def test_too_long_root_directory_path_is_rejected_and_not_created(
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
def test_feature_gates_use_the_kubelet_syntax(text: str, gates: Gates) -> None:
    assert gates_of(text) == gates


@pytest.mark.parametrize("text", ["ResourceHealthStatus=false", "ResourceHealthStatus", "ResourceHealthStatus=1,"])
def test_invalid_feature_gates_are_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError):
        gates_of(text)


@pytest.mark.parametrize(("version", "profile"), [(None, NEWEST.name), ("1.35.4", "v1.35")])
def test_a_real_api_server_has_the_profile_of_its_release(root: Path, version: str | None, profile: str) -> None:
    assert made(root, api_server="real", kubernetes=version).profile.name == profile


def test_a_root_directory_keeps_its_kind_of_api_server(root: Path) -> None:
    make_server(made(root))
    with pytest.raises(ConfigurationError, match="a manager with --api-server memory; pass --api-server memory"):
        make_server(made(root, api_server="real"))


def made(root: Path, **options: Any) -> Options:
    """The options of a command with only these flags."""
    rest = dict.fromkeys(("pods", "profile", "node_name", "feature_gates", "metrics_port"))
    return Options.make(**{**rest, "root_dir": root, "resync": 60.0, "json": True, "node_name": "node-a", **options})
