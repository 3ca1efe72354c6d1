"""The health APIs as codecs: what survives the wire, and how odd messages read."""

from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.flavours import FLAVOURS, NODE_HEALTH, V1, V1ALPHA1, Flavour
from drahealth.proto.values import DeviceHealth, Health

SECONDS = st.integers(-(2**63), 2**63 - 1)
DEVICES = st.builds(
    DeviceHealth, st.text(), st.text(), st.sampled_from(Health), st.text(), timeout=SECONDS, updated=SECONDS
)
every_flavour = pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=FLAVOURS)


def over_the_wire(flavour: Flavour, message: Any) -> tuple[DeviceHealth, ...]:
    return flavour.decode(flavour.method.response.FromString(message.SerializeToString()))


@every_flavour
@given(devices=st.lists(DEVICES, max_size=4))
def test_what_a_flavour_carries_survives_the_wire_and_the_rest_has_its_default(
    flavour: Flavour, devices: list[DeviceHealth]
) -> None:
    lost: dict[str, Any] = {
        f.name: f.default for f in fields(DeviceHealth) if f.default is not MISSING and f.name not in flavour.carries
    }
    expected = tuple(replace(device, **lost) for device in devices)
    assert over_the_wire(flavour, flavour.encode(devices)) == expected


@pytest.mark.counterpart(
    "TestNodeWatchResourcesResponseToV1Alpha1", "TestConversionFidelity", "TestHealthStatusValuesMatch"
)
@pytest.mark.parametrize(("sent", "read"), [(V1, V1ALPHA1), (V1ALPHA1, V1)], ids=["v1", "v1alpha1"])
@given(devices=st.lists(DEVICES, max_size=4), number=st.integers(-(2**31), 2**31 - 1))
def test_a_report_of_either_shipped_api_is_the_same_in_the_other(
    sent: Flavour, read: Flavour, devices: list[DeviceHealth], number: int
) -> None:
    message = sent.encode(devices)
    message.devices.add(health=number)
    data = message.SerializeToString()
    there = read.method.response.FromString(data)
    assert (read.decode(there), there.SerializeToString()) == (sent.decode(message), data)


@pytest.mark.counterpart("TestConversionNilSafe")
@every_flavour
@pytest.mark.parametrize(("data", "devices"), [(b"", 0), (b"\x0a\x00", 1), (b"\x0a\x02\x0a\x00", 1)])
def test_messages_with_nothing_in_them_are_read(flavour: Flavour, data: bytes, devices: int) -> None:
    empty = DeviceHealth("", "", Health.UNKNOWN)
    assert flavour.decode(flavour.method.response.FromString(data)) == (empty,) * devices


def test_only_the_drawn_api_has_no_message() -> None:
    every = {field.name for field in fields(DeviceHealth)}
    assert {f.name: every - f.carries for f in FLAVOURS.values()} == {
        "v1.DRAResourceHealth": set(),
        "v1alpha1.DRAResourceHealth": set(),
        "v1alpha1.NodeHealth": {"message"},
    }


@pytest.mark.counterpart("TestToDeviceHealthStatus")
@pytest.mark.parametrize("flavour", [V1, V1ALPHA1], ids=lambda flavour: flavour.name)
@pytest.mark.parametrize(
    ("number", "health"), [(1, "Healthy"), (2, "Unhealthy"), *((n, "Unknown") for n in (0, 3, 99, -1))]
)
def test_a_number_outside_the_enum_reads_unknown(flavour: Flavour, number: int, health: str) -> None:
    message = flavour.method.response(devices=[{"health": number}])
    assert over_the_wire(flavour, message) == (DeviceHealth("", "", Health(health)),)


@pytest.mark.parametrize("word", ["", "healthy", "HEALTHY", "Sick"])
def test_a_word_outside_the_drawn_apis_three_reads_unknown(word: str) -> None:
    message = NODE_HEALTH.method.response(devices=[{"health_status": word}])
    assert over_the_wire(NODE_HEALTH, message) == (DeviceHealth("", "", Health.UNKNOWN),)


def test_an_earlier_drafts_resource_name_is_ignored() -> None:
    name = b"gpu.example.com/node-a/gpu-0"
    device = b"\x0a\x06node-a\x12\x05gpu-0\x1a\x07Healthy\x20\x07" + bytes([0x2A, len(name)]) + name
    response = NODE_HEALTH.method.response.FromString(bytes([0x0A, len(device)]) + device)
    assert NODE_HEALTH.decode(response) == (DeviceHealth("node-a", "gpu-0", Health.HEALTHY, updated=7),)


@pytest.mark.counterpart("TestConversionNilSafe")
def test_a_device_without_an_identifier_has_empty_names() -> None:
    assert over_the_wire(V1, V1.method.response(devices=[{"health": 2}])) == (DeviceHealth("", "", Health.UNHEALTHY),)


def test_a_report_of_an_older_driver_reads_with_defaults() -> None:
    message = V1ALPHA1.method.response(devices=[{"device": {"pool_name": "p", "device_name": "d"}, "health": 1}])
    assert over_the_wire(V1ALPHA1, message) == (DeviceHealth("p", "d", Health.HEALTHY, message="", timeout=0),)
