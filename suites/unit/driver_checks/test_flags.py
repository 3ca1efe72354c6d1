"""The flags of `drahealth check`: wrong ones are rejected before anything starts."""

import math
import socket
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.commands.check_run import experiments_for, rerun_command, settings_of
from drahealth.suites.driver_checks.claim_file import read_claim_file
from drahealth.suites.driver_checks.settings import NOT_ASKED, Settings, plan
from drahealth.suites.errors import ConfigurationError


def settings(*words: str, **given: Any) -> Settings:
    return settings_of(words, **given)


def test_positional_arguments_are_the_driver_command() -> None:
    assert settings("true", "--dir={registry_dir}").command == ("true", "--dir={registry_dir}")


def test_a_socket_is_a_running_driver(tmp_path: Path) -> None:
    path = tmp_path / "reg.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        found = settings(str(path))
    assert (found.command, found.socket) == ((), path)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {}),
        (["true"], {"registry_dir": Path("/")}),
        (["true"], {"kubeconfig": Path("k")}),
        (["true"], {"node_name": "node-a"}),
        (["true"], {"api_server": "etcd"}),
        (["true"], {"deadline": 0.0}),
        (["true"], {"deadline": math.nan}),
        (["true"], {"deadline": math.inf}),
        (["true"], {"env": ["NAME"]}),
        (["true", "{registry}"], {}),
        ([], {"registry_dir": Path("/no/such/dir")}),
        ([], {"registry_dir": Path("/"), "driver_name": "gpu.example.com"}),
        (["true"], {"claim": Path("/no/such/file")}),
    ],
)
def test_contradictory_flags_are_rejected(words: list[str], given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        settings(*words, **given)


CLAIM = """apiVersion: resource.k8s.io/{}
kind: ResourceClaim
metadata: {{name: a}}
spec: {{devices: {{requests: {}}}}}
"""


def test_claim_file_with_an_allocation_is_read(tmp_path: Path) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(
        CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: gpu, count: 2}}]")
        + "status: {allocation: {devices: {results: [{request: a, driver: d, pool: p, device: g}]}}}\n"
    )
    assert [one["kind"] for one in read_claim_file(path)] == ["ResourceClaim"]


def test_missing_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no socket"):
        settings(str(tmp_path / "reg.sock"))


def test_rerun_command_has_all_options_but_hides_environment_values(tmp_path: Path) -> None:
    claim = tmp_path / "claim.yaml"
    claim.write_text(CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: gpu}}]"))
    given = {"env": ["KEY=s3cr3t"], "claim": claim, "sequential": True, "deadline": 60.0}
    given |= {"api_server": "real", "kubernetes": "1.37.1"}
    words = [
        "--env=KEY=...",
        "--api-server=real",
        "--kubernetes=1.37.1",
        f"--claim={claim}",
        "--deadline=60",
        "--sequential",
        "--",
        "true",
    ]
    assert rerun_command(settings("true", **given)).split()[4:] == words


def test_release_without_a_real_api_server_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="--api-server real"):
        settings("true", kubernetes="1.37.1")


def test_rerun_command_of_a_running_driver_has_its_directories() -> None:
    given = {
        "registry_dir": Path("/tmp"),
        "cdi_dirs": [Path("/a"), Path("/b")],
        "node_name": "n",
        "kubeconfig": Path("k"),
    }
    words = ["--registry-dir=/tmp", "--kubeconfig=k", "--node-name=n", "--cdi-dir=/a", "--cdi-dir=/b"]
    assert rerun_command(settings(**given)).split()[4:] == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Pod\nmetadata: {name: a}\n", 1),
        ("kind: ResourceClaim\n", 1),
        (CLAIM.format("v1", "[]"), 4),
        (CLAIM.format("v1", "[{name: a}]"), 4),
        (CLAIM.format("v1", "[{exactly: {deviceClassName: a}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: a, count: two}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: a, selectors: [a]}}]"), 4),
        (CLAIM.format("v1beta1", "[{name: a, deviceClassName: a}]"), 1),
        ("kind: DeviceClass\nmetadata: {name: a}\nspec:\n", 3),
        ("kind: DeviceClass\nmetadata: {name: a}\n", None),
        ("kind: Namespace\nmetadata: {name: a}\n---\n- 1\n", 4),
        ("{", None),
        ("", None),
    ],
)
def test_invalid_claim_file_is_rejected(tmp_path: Path, text: str, line: int | None) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        read_claim_file(path)
    assert line is None or raised.value.message.startswith(f"{path}, line {line}: ")


def test_experiments_of_a_requirement_include_those_before_them() -> None:
    assert experiments_for(["PLUGIN-03"]) == {"refused-registration"}
    assert experiments_for(["HEALTH-15"]) == {"registration", "services"}
    at_any_level = {"slice-deletion", "faults", "fault-during-kubelet-restart", "idle"}
    assert experiments_for(["HEALTH-06"]) - at_any_level == {
        "registration",
        "services",
        "watch",
        "subscribers",
        "slices",
    }


def test_running_driver_is_neither_started_nor_ended() -> None:
    reasons = {one.name: reason for one, reason in plan(settings(registry_dir=Path("/")))}
    assert [name for name, reason in reasons.items() if not reason] == [
        "registration",
        "services",
        "watch",
        "subscribers",
        "slow-subscriber",
        "reregistration",
    ]


def test_api_server_of_a_running_driver_allows_claims_and_slices() -> None:
    without, given = (
        {one.name for one, reason in plan(settings(registry_dir=Path("/"), **more)) if not reason}
        for more in ({}, {"kubeconfig": Path("k")})
    )
    assert given - without == {"claims", "slices"}


def test_running_driver_has_default_or_given_cdi_directories() -> None:
    found = [settings(registry_dir=Path("/"), cdi_dirs=given).cdi_dirs for given in ((), (Path("/a"), Path("/b")))]
    assert found == [(Path("/etc/cdi"), Path("/var/run/cdi")), (Path("/a"), Path("/b"))]


def test_partial_run_plans_only_what_is_needed() -> None:
    reasons = {one.name: reason for one, reason in plan(settings("true", requirements=["PLUGIN-03"]))}
    assert [name for name, reason in reasons.items() if reason != NOT_ASKED] == ["refused-registration"]
