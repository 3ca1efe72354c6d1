"""Inventories from files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.file import load_file, load_inventory
from drahealth.fakes.program.user_files import FileError

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
        ("", "line 1: invalid inventory: start it with `format: inventory/v1`"),
        (f"{HEAD}devices: []\n", "line 2: devices: must have at least 1 item"),
        (f"{HEAD}devices:\n- {{model: H100}}\n", "line 3: devices.0.name: this key is required"),
        (f"{HEAD}devices:\n- {{name: GPU}}\n", "line 3: devices.0.name: must have only lower-case letters"),
        (
            f"{HEAD}devices:\n- {{name: gpu, cuont: 8}}\n",
            "line 3: devices.0.cuont: unknown key; did you mean",
        ),
        (f"{HEAD}devices:\n- {{name: gpu}}\n- {{name: gpu}}\n", "line 4: devices.1: duplicate device name: gpu"),
        (
            f"{HEAD}devices:\n- {{name: gpu, count: 99999, partitions: [{{name: a, count: 9}}]}}",
            "line 2: devices: at most",
        ),
    ],
)
def test_invalid_inventory_is_reported_by_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        loaded(tmp_path, text)
    assert str(error.value.problems[0]).startswith(problem)


@given(text=st.text(max_size=100))
def test_any_file_is_an_inventory_or_a_file_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        found = loaded(tmp_path_factory.mktemp("inventory"), f"{HEAD}devices: {text}")
    except FileError:
        return
    assert found.devices


def places(path: Path, text: str) -> list[str]:
    """Where something is wrong."""
    path.write_text(text)
    with pytest.raises(FileError) as refused:
        load_file(path)
    return [problem.where for problem in refused.value.problems]


SEVERAL = """format: inventory/v1
drivers:
- {name: a, heartbeat: often, devices: [{name: gpu, count: 100000, memory: much}, {name: nic}, {name: nic}]}
- {name: a, policy: nvida, devices: [{name: gpu, count: some}, {name: gpu}]}
- {devices: [{name: gpu, partitions: [{name: A}, {name: b}, {name: b}]}]}
"""


def test_malformed_part_hides_no_other_error(tmp_path: Path) -> None:
    assert places(tmp_path / "several.yaml", SEVERAL) == [
        "drivers",
        "drivers.0.devices.0.memory",
        "drivers.0.devices.2",
        "drivers.0.heartbeat",
        "drivers.1",
        "drivers.1.devices.0.count",
        "drivers.1.policy",
        "drivers.2.devices.0",
        "drivers.2.devices.0.partitions.0.name",
        "drivers.2.name",
    ]


def test_devices_and_drivers_together_are_rejected(tmp_path: Path) -> None:
    text = "{format: inventory/v1, devices: [{name: A}], drivers: []}"
    assert places(tmp_path / "both.yaml", text) == ["", "devices.0.name", "drivers"]
    assert places(tmp_path / "typo.yaml", "{format: inventory/v1, device: []}") == ["device"]


FAULTS: dict[str, list[tuple[Any, str]]] = {
    "heartbeat": [("often", ""), (-1, ""), (float("inf"), "")],
    "timeout": [(1.5, ""), (2**63, "")],
    "catalogue": [("nvida", ""), (3, "")],
    "policy": [("nvida", "")],
    "health_apis": [(["v1.DRAResourceHealth", "v1alpha1.NodeHealth/WatchResources"], ".1"), ("v1", "")],
    "served_health_apis": [(["v9"], ".0")],
    "pool": [("My Pool", "")],
    "polcy": [("strict", "")],
    "devices": [
        ([{"name": "a"}, {"name": "a", "linked": True}], ".1"),
        ([{"name": "a-0"}, {"name": "b"}, {"name": "a", "count": 2}], ".2"),
        ([{"name": "a" * 40, "partitions": [{"name": "b" * 40}]}], ".0"),
        ([{"name": "a", "model": 3}], ".0.model"),
        ([], ""),
    ],
}
PLUGIN_FAULTS: dict[str, list[tuple[Any, str]]] = {
    "resource": [("gpu", ""), ("kubernetes.io/gpu", ""), (7, "")],
    "registration": [("never", ""), (["kubelet.sock"], "")],
    "preferred": [(["gpu", "gpu-7"], ".1"), ("gpu", ""), ([3], ".0")],
    "pre_start": [("often", "")],
    "cdi_kind": [("../x", ""), ("example.com", ""), (False, "")],
    "pool": [("shelf", "")],
    **{field: FAULTS[field] for field in ("catalogue", "policy")},
}


def faulty(faults: dict[str, list[tuple[Any, str]]]) -> st.SearchStrategy[list[dict[str, tuple[Any, str]]]]:
    """Drivers or plugins, each with some of these faults."""
    one = st.fixed_dictionaries({}, optional={field: st.sampled_from(found) for field, found in faults.items()})
    return st.lists(one, min_size=1, max_size=4)


@given(drivers=faulty(FAULTS), plugins=faulty(PLUGIN_FAULTS))
def test_each_error_of_a_file_is_reported_once(
    tmp_path_factory: pytest.TempPathFactory,
    drivers: list[dict[str, tuple[Any, str]]],
    plugins: list[dict[str, tuple[Any, str]]],
) -> None:
    assume(any(drivers) or any(plugins))
    gpu: list[Any] = [{"name": "gpu"}]
    said = {
        "drivers": [
            {"name": f"d{number}", "devices": gpu, **{field: value for field, (value, _) in driver.items()}}
            for number, driver in enumerate(drivers)
        ],
        "plugins": [
            {"resource": f"d{number}/gpu", "devices": gpu, **{field: value for field, (value, _) in plugin.items()}}
            for number, plugin in enumerate(plugins)
        ],
    }
    planted = {
        f"{key}.{number}.{field}{where}"
        for key, owners in (("drivers", drivers), ("plugins", plugins))
        for number, owner in enumerate(owners)
        for field, (_, where) in owner.items()
    }
    text = json.dumps({"format": "inventory/v1", **said}).replace("Infinity", ".inf")
    assert set(places(tmp_path_factory.mktemp("faulty") / "devices.yaml", text)) == planted
