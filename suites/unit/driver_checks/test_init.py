"""`drahealth certify --init`: the file that it writes is a valid driver profile."""

import tomllib
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import SLICES
from drahealth.proto.services import GET_INFO
from drahealth.suites.commands.certify_init import describe, planned_requirements, write_profile, write_starting_profile
from drahealth.suites.driver_checks.experiments import NO_FAULTS
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.profile.model import DriverProfile, RunningDriver
from drahealth.suites.driver_checks.profile.starting import STARTING_PROFILES, driver_profile, starting_profile
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers import api_server
from drahealth.suites.unit.driver_checks.healthy_run import resource_slice
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, LabRig

COMMAND = ["./driver", 'a "quoted" word', "back\\slash", "--dir={driver_dir}", "é\x7f"]


def test_written_profile_starts_the_command(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    write_profile(COMMAND, registry_dir=None, kubeconfig=None, out=path)
    assert read_profile(path).profile.driver.command == tuple(COMMAND)


def test_template_without_a_command_is_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_profile([], registry_dir=None, kubeconfig=None, out=Path("-"))
    path = tmp_path / "gpu.toml"
    path.write_text(capsys.readouterr().out)
    assert read_profile(path).profile.driver.command


def test_init_writes_a_new_file_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_profile(COMMAND, registry_dir=None, kubeconfig=None, out=None) == Path("driver.toml")
    assert write_starting_profile("tpu", None) == Path("tpu.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["driver.toml", "tpu-node.yaml", "tpu.toml"]
    with pytest.raises(ConfigurationError, match=r"driver\.toml exists"):
        write_profile(COMMAND, registry_dir=None, kubeconfig=None, out=None)


def test_written_profile_of_a_running_driver_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(driver_profile({"driver": {"running": {"registry-dir": "/r", "kubeconfig": "/k"}}}, "Driver x."))
    running = read_profile(path).profile.driver.running
    assert running is not None
    assert (running.registry_dir, running.kubeconfig) == (Path("/r"), Path("/k"))


def test_every_key_has_a_comment_and_a_valid_example() -> None:
    lines = driver_profile({}).splitlines()
    keys = [line.removeprefix("# ") for line in lines if line.startswith("# ") and " = " in line]
    assert [key for key in keys if not tomllib.loads(key)] == []
    assert all(line.startswith("# ") and not line.startswith("# #") for line in lines if " = " in line[:1])
    assert "..." not in "".join(keys)


def test_required_keys_are_marked() -> None:
    lines = driver_profile({}).splitlines()
    marked = [after.split()[1] for line, after in pairwise(lines) if "Required." in line]
    assert marked == ["command", "name", "break", "heal"]


def test_every_section_of_the_model_is_in_the_template() -> None:
    text = driver_profile({})
    sections = [field.alias or name for name, field in DriverProfile.model_fields.items() if name != "format"]
    assert [name for name in sections if f"[{name}]" not in text] == []


@pytest.mark.parametrize("name", STARTING_PROFILES)
def test_starting_profile_is_accepted_by_plan_and_labelled(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_starting_profile(name, path)
    run = read_profile(path)
    reasons = {reason for one in planned_requirements(run) for reason in one.reasons}
    assert "Not verified here" in path.read_text()
    assert (bool(run.profile.fault), NO_FAULTS in reasons) == ((False, True) if name == "cpu" else (True, False))


@pytest.mark.parametrize("name", STARTING_PROFILES)
def test_each_fault_of_a_starting_profile_is_labelled(name: str) -> None:
    lines = next(iter(starting_profile(name).values())).splitlines()
    faults = [line for line in lines if line.startswith("[[fault]]")]
    assert [line for line in faults if not line.startswith("[[fault]] # not verified here")] == []


def test_existing_file_of_a_starting_profile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "tpu-node.yaml").touch()
    with pytest.raises(ConfigurationError, match="tpu-node"):
        write_starting_profile("tpu", tmp_path / "tpu.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["tpu-node.yaml"]


def running(**places: Path) -> RunningDriver:
    return RunningDriver.model_validate({key.replace("_", "-"): path for key, path in places.items()})


@pytest.fixture
async def rig() -> AsyncIterator[LabRig]:
    rig = LabRig()
    yield rig
    await rig.close()


async def test_description_of_a_running_driver_names_its_apis(rig: LabRig) -> None:
    await rig.driver()
    (found,) = await describe(running(registry_dir=rig.places.registry_dir))
    assert found.startswith(f"Driver {DRIVER}, which advertises v1.DRAPlugin")


async def test_several_running_drivers_need_a_socket(rig: LabRig) -> None:
    driver = await rig.driver()

    async def get_info(_: Any, __: Any) -> Any:
        return GET_INFO.response(type="DRAPlugin", name="nic.example.com")

    await rig.serve({GET_INFO: get_info})
    with pytest.raises(ConfigurationError, match="2 DRA drivers"):
        await describe(running(registry_dir=rig.places.registry_dir))
    assert len(await describe(running(socket=driver.sockets[1]))) == 1


async def test_directory_without_a_driver_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="0 DRA drivers"):
        await describe(running(registry_dir=tmp_path))


async def test_devices_of_a_running_driver_are_named(rig: LabRig, tmp_path: Path) -> None:
    await rig.driver()
    async with api_server("memory", tmp_path) as server:
        await server.api.create(SLICES, {**resource_slice("gpu-0", "gpu-1"), "metadata": {"name": "a"}})
        found = running(registry_dir=rig.places.registry_dir, kubeconfig=await server.kubeconfig())
        assert (await describe(found))[1:] == ["It publishes 2 devices: gpu-0, gpu-1."]
