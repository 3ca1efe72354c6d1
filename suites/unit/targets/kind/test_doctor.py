"""The checks of a machine for the kind target."""

import shutil
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from drahealth.suites.command import app
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.registry import Check
from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


def examined(kubernetes: str = "1.37.1", image: str | None = None) -> Mapping[str, Check]:
    return {check.name: check for check in program.examine(kubernetes, image)}


def test_machine_with_engine_kind_image_and_disk_passes_all_checks(fake: FakeEngine) -> None:
    found = examined(image="here:1")
    assert list(found) == ["container engine", "kind", "node image", "disk of the engine"]
    assert all(check.ok for check in found.values())
    assert found["node image"].found == "here:1 is in the engine"


def test_missing_engine_and_kind_fail_their_checks_with_hints(fake: FakeEngine) -> None:
    fake.uninstall("docker")
    fake.uninstall("kind")
    assert [(name, check.ok, bool(check.hint)) for name, check in examined().items()] == [
        ("container engine", False, True),
        ("kind", False, True),
    ]


@pytest.mark.parametrize(("image", "wanted"), [(None, "kindest/node:v1.37.1"), ("theirs:1", "theirs:1")])
def test_a_missing_image_must_be_pulled(fake: FakeEngine, image: str | None, wanted: str) -> None:
    found = examined(image=image)["node image"]
    assert (found.ok, found.needed) == (False, False)
    assert found.found == f"{wanted} is not in the engine; kind will try to pull it"


def test_node_image_check_names_an_invalid_release(fake: FakeEngine) -> None:
    assert "'1.x'" in examined("1.x")["node image"].found


def test_full_disk_fails_its_check_with_the_free_space(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(fake.root)
    fake.install("docker", f"#!/bin/sh\necho {folder}\n")
    monkeypatch.setattr(program, "DISK_NEEDED", shutil.disk_usage("/").total + 1)
    check = examined(image="here:1")["disk of the engine"]
    assert (check.ok, check.found.endswith(f" free at {folder}")) == (False, True)


def test_a_remote_disk_is_not_checked(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2376")
    assert examined(image="here:1")["disk of the engine"].found == "AB:CD is not on this machine"


def test_the_command_shows_the_checks_and_what_can_run(fake: FakeEngine) -> None:
    shown = CliRunner().invoke(app, ["doctor", "--target", "kind"])
    lines = shown.stdout.splitlines()
    assert (shown.exit_code, lines[0], lines[-1]) == (
        0,
        "a kind cluster",
        "This machine can run the reference, a kind cluster.",
    )


def test_doctor_command_fails_if_the_target_cannot_run(fake: FakeEngine) -> None:
    fake.uninstall("kind")
    shown = CliRunner().invoke(app, ["doctor", "--target", "kind"])
    assert shown.exit_code == 3
    assert shown.stdout.splitlines()[-1] == "This machine can run the reference. It cannot run a kind cluster."
