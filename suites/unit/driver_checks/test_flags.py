"""The flags of `drahealth check`: wrong ones are rejected before anything starts."""

import math
import socket
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.program.errors import CommandError
from drahealth.suites.commands.check_run import experiments_for, rerun_command, run_of
from drahealth.suites.driver import options
from drahealth.suites.driver_checks.driver_run import DriverRun, plan
from drahealth.suites.driver_checks.experiments import NOT_ASKED
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit import command_process


def run(*words: str, **given: Any) -> DriverRun:
    return run_of({"command": words, **given})


def test_positional_arguments_are_the_driver_command() -> None:
    assert run("true", "--dir={registry_dir}").profile.driver.command == ("true", "--dir={registry_dir}")


def test_a_socket_is_a_running_driver(tmp_path: Path) -> None:
    path = tmp_path / "reg.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        found = run(str(path))
    running = found.profile.driver.running
    assert running
    assert (found.profile.driver.command, running.socket) == ((), path)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {}),
        (["true"], {"registry_dir": Path("/")}),
        (["true"], {"kubeconfig": Path("k")}),
        (["true"], {"node_name": "node-a"}),
        (["true"], {"cdi_dir": [Path("/a")]}),
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
        run(*words, **given)


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
    assert [one["kind"] for one in run("true", claim=path).claim] == ["ResourceClaim"]


def test_node_can_have_the_name_of_a_default() -> None:
    running = run(registry_dir=Path("/"), node_name="memory", api_server="memory").profile.driver.running
    assert running
    assert running.node_name == "memory"


def test_missing_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no socket"):
        run(str(tmp_path / "reg.sock"))


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
        "--sequential",
        "--deadline=60",
        "--",
        "true",
    ]
    assert rerun_command(run("true", **given)).split()[4:] == words


def test_release_without_a_real_api_server_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="--api-server real"):
        run("true", kubernetes="1.37.1")


def test_rerun_command_of_a_running_driver_has_its_directories() -> None:
    given = {
        "registry_dir": Path("/tmp"),
        "cdi_dir": [Path("/a"), Path("/b")],
        "node_name": "n",
        "kubeconfig": Path("k"),
    }
    words = ["--registry-dir=/tmp", "--kubeconfig=k", "--node-name=n", "--cdi-dir=/a", "--cdi-dir=/b"]
    assert rerun_command(run(**given)).split()[4:] == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Pod\nmetadata: {name: a}\n", None),
        ("kind: ResourceClaim\n", 1),
        (CLAIM.format("v1", "[]"), 4),
        (CLAIM.format("v1", "[{name: a}]"), 4),
        (CLAIM.format("v1", "[{exactly: {deviceClassName: a}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: a, count: two}}]"), 4),
        (CLAIM.format("v1", "[{name: a, exactly: {deviceClassName: a, selectors: [a]}}]"), 4),
        (CLAIM.format("v2", "[{name: a, deviceClassName: a}]"), 1),
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec:\n", 4),
        ("kind: DeviceClass\nmetadata: {name: a}\n", None),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n- 1\n", 5),
        ("{", None),
        ("", None),
    ],
)
def test_invalid_claim_file_is_rejected(tmp_path: Path, text: str, line: int | None) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        run("true", claim=path)
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
    reasons = {one.name: reason for one, reason in plan(run(registry_dir=Path("/")))}
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
        {one.name for one, reason in plan(run(registry_dir=Path("/"), **more)) if not reason}
        for more in ({}, {"kubeconfig": Path("k")})
    )
    assert given - without == {"claims", "slices"}


def test_running_driver_has_default_or_given_cdi_directories() -> None:
    profiles = [run(registry_dir=Path("/"), cdi_dir=given).profile for given in ((), (Path("/a"), Path("/b")))]
    found = [one.driver.running.cdi_dirs for one in profiles if one.driver.running]
    assert found == [(Path("/etc/cdi"), Path("/var/run/cdi")), (Path("/a"), Path("/b"))]


def test_partial_run_plans_only_what_is_needed() -> None:
    reasons = {one.name: reason for one, reason in plan(run("true", requirement=["PLUGIN-03"]))}
    assert [name for name, reason in reasons.items() if reason != NOT_ASKED] == ["refused-registration"]


# The pytest suite for drivers: a run without a driver, or with wrong options, is a usage error and no pass.

SUITE = ("-p", "no:cacheprovider", "--pyargs", "drahealth.suites.driver")
WAIVERS = """
[[waiver]]
id = "PLUGIN-18"
reason = "The vendor library removes its socket with the next release."
link = "https://example.com/issues/7"
owner = "gpu-team@example.com"
until = 2027-01-31
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--drahealth-check 'COMMAND'"),
        (("--drahealth-check=no-such-program",), "no-such-program"),
        (("--drahealth-check=true", "--drahealth-check-options=--no-such-flag"), "--no-such-flag"),
        (("--drahealth-check=true", "--drahealth-check-options=--api-server=x"), "--api-server"),
    ],
)
def test_run_without_a_driver_or_with_wrong_options_is_a_usage_error(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = command_process.run(command_process.PYTEST, *SUITE, *options, folder=tmp_path)
    assert (done.returncode, said in done.stderr) == (4, True), done


def test_distributed_run_without_a_driver_fails(tmp_path: Path) -> None:
    done = command_process.run(command_process.PYTEST, *SUITE, "-n1", "-q", "-k", "PLUGIN-01", folder=tmp_path)
    assert (done.returncode, "--drahealth-check 'COMMAND'" in done.stdout) == (1, True), done


def test_tests_can_be_listed_without_a_driver(tmp_path: Path) -> None:
    assert command_process.run(command_process.PYTEST, *SUITE, "--collect-only", "-q", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("flags", "first", "other"), [("", "PLUGIN-01", "DEVPLUGIN-01"), ("--device-plugin", "DEVPLUGIN-01", "HEALTH-01")]
)
def test_requirements_of_the_subject_are_the_tests(tmp_path: Path, flags: str, first: str, other: str) -> None:
    options = (f"--drahealth-check-options={flags}", "--drahealth-check=true", "--collect-only", "-q")
    done = command_process.run(command_process.PYTEST, *SUITE, *options, folder=tmp_path)
    found = [line.partition("[")[2].rstrip("]") for line in done.stdout.splitlines() if "test_driver_meets" in line]
    assert (done.returncode, found[:1], other in found) == (0, [first], False), done


def test_flags_of_check_describe_the_run(tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(WAIVERS)
    flags = f"--env 'A=b c' --driver-name gpu.example.com --api-server none --waivers {waivers}"
    run = options.run_of("true --registrar '{registry_dir}'", flags, "evidence.jsonl")
    driver, api_server = run.asked.profile.driver, run.asked.profile.api_server
    assert (driver.command, driver.environment) == (("true", "--registrar", "{registry_dir}"), {"A": "b c"})
    assert (driver.name, api_server.kind, run.asked.evidence) == (
        "gpu.example.com",
        "none",
        Path("evidence.jsonl"),
    )
    assert [one.id for one in run.waivers] == ["PLUGIN-18"]


def test_running_driver_is_found_by_its_registration_directory(tmp_path: Path) -> None:
    running = options.run_of("", f"--registry-dir {tmp_path}").asked.profile.driver.running
    assert running
    assert running.registry_dir == tmp_path


@pytest.mark.parametrize("flags", ["--plan", "--report x", "--junitxml x", "--requirement PLUGIN-01", "--evidence x"])
def test_flags_that_pytest_replaces_are_rejected(flags: str) -> None:
    with pytest.raises(ConfigurationError, match=flags.split()[0]):
        options.run_of("true", flags)


@pytest.mark.parametrize(("command", "flags"), [("'", ""), ("true", "'"), ("true", "--deadline soon")])
def test_malformed_options_are_rejected(command: str, flags: str) -> None:
    with pytest.raises((ConfigurationError, CommandError)):
        options.run_of(command, flags)
