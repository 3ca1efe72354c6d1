"""CDI specifications of fake devices."""

import json
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.inventory import devices
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

KIND = devices.kind_of(DRIVER)


def test_specification_has_every_cdi_id_of_the_driver(tmp_path: Path) -> None:
    devices.write(tmp_path, KIND, DRIVER, "", {"gpu-0": None, "gpu-1": None})
    (file,) = tmp_path.iterdir()
    written = json.loads(file.read_text())
    ids = {f"{written['kind']}={device['name']}" for device in written["devices"]}
    assert ids == {devices.cdi_id(DRIVER, "gpu-0"), devices.cdi_id(DRIVER, "gpu-1")}
    assert [d["containerEdits"]["env"] for d in written["devices"]] == [
        [f"DRAHEALTH_GPU_0={DRIVER}"],
        [f"DRAHEALTH_GPU_1={DRIVER}"],
    ]


def test_an_older_instance_leaves_the_specification_to_the_newer(tmp_path: Path) -> None:
    devices.write(tmp_path, KIND, DRIVER, "a", {"gpu-0": None})
    devices.write(tmp_path, KIND, DRIVER, "ab", {"gpu-0": None})
    devices.remove(tmp_path, KIND, "a")
    assert [file.name for file in tmp_path.iterdir()] == [f"{DRIVER}-gpu.json"]
    devices.remove(tmp_path, KIND, "ab")
    devices.remove(tmp_path, KIND, "ab")
    assert list(tmp_path.iterdir()) == []


def test_foreign_specification_is_kept(tmp_path: Path) -> None:
    (tmp_path / f"{DRIVER}-gpu.json").write_text("{")
    devices.remove(tmp_path, KIND, "")
    assert len(list(tmp_path.iterdir())) == 1


async def test_specification_exists_from_driver_start_to_retirement(rig: Rig, tmp_path: Path) -> None:
    driver = rig.here(cdi_dir=str(tmp_path / "cdi"))
    there = []
    for step in (driver.start, driver.crash, driver.start, driver.stop, driver.retire):
        await step()
        there.append(len(list((tmp_path / "cdi").iterdir())))
    assert there == [1, 1, 1, 1, 0]


async def test_retired_driver_leaves_no_files_without_the_api_server(rig: Rig, tmp_path: Path) -> None:
    driver = rig.here(cdi_dir=str(tmp_path / "cdi"), data_dir=str(tmp_path / "data"))
    await driver.start()
    rig.api.down()
    with pytest.raises(ApiError):
        await driver.retire()
    rig.api.up()
    assert (list((tmp_path / "cdi").iterdir()), (tmp_path / "data").exists()) == ([], False)
