"""The pytest suite for drivers: a run without a driver, or with wrong options, is a usage error and no pass."""

from pathlib import Path

import pytest

from drahealth.fakes.program.errors import CommandError
from drahealth.suites.driver.options import run_of
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit import command_process

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
    run = run_of("true --registrar '{registry_dir}'", flags, "evidence.jsonl")
    driver, api_server = run.asked.profile.driver, run.asked.profile.api_server
    assert (driver.command, driver.environment) == (("true", "--registrar", "{registry_dir}"), {"A": "b c"})
    assert (driver.name, api_server.kind, run.asked.evidence) == (
        "gpu.example.com",
        "none",
        Path("evidence.jsonl"),
    )
    assert [one.id for one in run.waivers] == ["PLUGIN-18"]


def test_running_driver_is_found_by_its_registration_directory(tmp_path: Path) -> None:
    running = run_of("", f"--registry-dir {tmp_path}").asked.profile.driver.running
    assert running
    assert running.registry_dir == tmp_path


@pytest.mark.parametrize("flags", ["--plan", "--report x", "--junitxml x", "--requirement PLUGIN-01", "--evidence x"])
def test_flags_that_pytest_replaces_are_rejected(flags: str) -> None:
    with pytest.raises(ConfigurationError, match=flags.split()[0]):
        run_of("true", flags)


@pytest.mark.parametrize(("command", "flags"), [("'", ""), ("true", "'"), ("true", "--deadline soon")])
def test_malformed_options_are_rejected(command: str, flags: str) -> None:
    with pytest.raises((ConfigurationError, CommandError)):
        run_of(command, flags)
