"""Inventories from files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.inventory import Device, Inventory
from drahealth.fakes.inventory_file import load_inventory
from drahealth.fakes.user_files import FileError

HEAD = "format: inventory/v1\n"


def loaded(tmp_path: Path, text: str) -> Inventory:
    path = tmp_path / "devices.yaml"
    path.write_text(text)
    return load_inventory(path)


def test_groups_become_devices_with_partitions_and_links(tmp_path: Path) -> None:
    groups = "[{name: gpu, count: 2, model: H100, partitions: [{name: mig, memory: 10Gi}]}, {name: spare}]"
    found = loaded(tmp_path, f"{HEAD}devices: {groups}")
    assert found.devices == (
        Device("gpu-0", "H100", link="gpu"),
        Device("gpu-0/mig", memory="10Gi"),
        Device("gpu-1", "H100", link="gpu"),
        Device("gpu-1/mig", memory="10Gi"),
        Device("spare"),
    )


def test_thousands_of_devices_are_read(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"{HEAD}devices: [{{name: gpu, count: 10000, linked: false}}]")
    assert (len(found.devices), found.devices[-1].path) == (10000, "gpu-9999")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: not an inventory: it begins with `format: inventory/v1`"),
        (f"{HEAD}devices: []\n", "line 2: devices: tuple should have at least 1 item"),
        (f"{HEAD}devices:\n- {{model: H100}}\n", "line 3: devices.0.name: it is missing"),
        (f"{HEAD}devices:\n- {{name: GPU}}\n", "line 3: devices.0.name: string should match pattern"),
        (
            f"{HEAD}devices:\n- {{name: gpu, cuont: 8}}\n",
            "line 3: devices.0.cuont: nothing is called so here, did you mean",
        ),
        (f"{HEAD}devices:\n- {{name: gpu}}\n- {{name: gpu}}\n", "line 2: devices: two devices have one name: gpu"),
        (
            f"{HEAD}devices:\n- {{name: gpu, count: 99999, partitions: [{{name: a, count: 9}}]}}",
            "line 2: devices: these are",
        ),
    ],
)
def test_what_is_no_inventory_is_told_by_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        loaded(tmp_path, text)
    assert str(error.value.problems[0]).startswith(problem)


@given(text=st.text(max_size=100))
def test_whatever_the_file_it_is_an_inventory_or_a_file_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    try:
        found = loaded(tmp_path_factory.mktemp("inventory"), f"{HEAD}devices: {text}")
    except FileError:
        return
    assert found.devices
