"""Names of fake devices, and the devices that a fault affects."""

import pytest

from drahealth.fakes.inventory.devices import Device, Inventory

TWO = Inventory.of(2, partitions=2)


def test_devices_and_partitions_have_paths_and_names() -> None:
    assert [(d.path, d.name, d.parent) for d in TWO.devices[:3]] == [
        ("gpu-0", "gpu-0", ""),
        ("gpu-0/mig-0", "gpu-0-mig-0", "gpu-0"),
        ("gpu-0/mig-1", "gpu-0-mig-1", "gpu-0"),
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("all", ["gpu-0", "gpu-1"]),
        ("gpu-*", ["gpu-0", "gpu-1"]),
        ("gpu-1/mig-*", ["gpu-1/mig-0", "gpu-1/mig-1"]),
        ("*/mig-0", ["gpu-0/mig-0", "gpu-1/mig-0"]),
        ("gpu-1", ["gpu-1"]),
    ],
)
def test_a_pattern_names_devices_of_its_own_level(pattern: str, found: list[str]) -> None:
    assert list(TWO.matching(pattern)) == found


@pytest.mark.parametrize(
    ("device", "reach", "reached"),
    [
        ("gpu-0/mig-1", "instance", ["gpu-0/mig-1"]),
        ("gpu-0", "instance", ["gpu-0", "gpu-0/mig-0", "gpu-0/mig-1"]),
        ("gpu-0", "device", ["gpu-0", "gpu-0/mig-0", "gpu-0/mig-1"]),
        ("gpu-0/mig-1", "parent", ["gpu-0", "gpu-0/mig-0", "gpu-0/mig-1"]),
        ("gpu-0/mig-1", "peers", [d.path for d in TWO.devices]),
        ("gpu-1", "node", [d.path for d in TWO.devices]),
    ],
)
def test_fault_affects_the_devices_in_its_reach(device: str, reach: str, reached: list[str]) -> None:
    assert list(TWO.reached(device, reach)) == reached


def test_a_device_without_links_has_no_peers() -> None:
    assert list(Inventory.of(2, linked=False).reached("gpu-0", "peers")) == ["gpu-0"]


def test_unknown_device_is_reported_with_known_names() -> None:
    with pytest.raises(ValueError, match="no device matches 'gpu-7'; valid: gpu-0, gpu-1"):
        Inventory.of(2).matching("gpu-7")


@pytest.mark.parametrize(
    "devices", [("a", "a"), ("a", "a/b", "a-b"), ("a/b",)], ids=["one path", "one name", "no parent"]
)
def test_invalid_device_combination_is_rejected(devices: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"duplicate device name|unknown parent device"):
        Inventory(map(Device, devices))
