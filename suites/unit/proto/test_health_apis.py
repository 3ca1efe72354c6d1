"""Encoding and decoding of the health APIs, including unusual messages."""

from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH, NODE_HEALTH_DRAFT, V1, V1ALPHA1, HealthApi, of_service
from drahealth.proto.values import DeviceHealth, DeviceId, Health, PreparedDevice

SECONDS = st.integers(-(2**63), 2**63 - 1)
DEVICES = st.builds(
    DeviceHealth, st.text(), st.text(), st.sampled_from(Health), st.text(), timeout=SECONDS, updated=SECONDS
)
every_health_api = pytest.mark.parametrize("health_api", HEALTH_APIS.values(), ids=HEALTH_APIS)


def over_the_wire(health_api: HealthApi, message: Any) -> tuple[DeviceHealth, ...]:
    return health_api.decode(health_api.method.response.FromString(message.SerializeToString()))


@every_health_api
@given(devices=st.lists(DEVICES, max_size=4))
def test_carried_fields_round_trip_and_other_fields_read_as_defaults(
    health_api: HealthApi, devices: list[DeviceHealth]
) -> None:
    lost: dict[str, Any] = {
        f.name: f.default for f in fields(DeviceHealth) if f.default is not MISSING and f.name not in health_api.carries
    }
    expected = tuple(replace(device, **lost) for device in devices)
    assert over_the_wire(health_api, health_api.encode(devices)) == expected
    assert tuple(map(health_api.as_carried, devices)) == expected


@pytest.mark.counterpart(
    "TestNodeWatchResourcesResponseToV1Alpha1", "TestConversionFidelity", "TestHealthStatusValuesMatch"
)
@pytest.mark.parametrize(("sent", "read"), [(V1, V1ALPHA1), (V1ALPHA1, V1)], ids=["v1", "v1alpha1"])
@given(devices=st.lists(DEVICES, max_size=4), number=st.integers(-(2**31), 2**31 - 1))
def test_report_is_equal_in_both_released_apis(
    sent: HealthApi, read: HealthApi, devices: list[DeviceHealth], number: int
) -> None:
    message = sent.encode(devices)
    message.devices.add(health=number)
    data = message.SerializeToString()
    there = read.method.response.FromString(data)
    assert (read.decode(there), there.SerializeToString()) == (sent.decode(message), data)


@pytest.mark.counterpart("TestConversionNilSafe")
@every_health_api
@pytest.mark.parametrize(("data", "devices"), [(b"", 0), (b"\x0a\x00", 1), (b"\x0a\x02\x0a\x00", 1)])
def test_empty_messages_are_decoded(health_api: HealthApi, data: bytes, devices: int) -> None:
    empty = DeviceHealth("", "", Health.UNKNOWN)
    assert health_api.decode(health_api.method.response.FromString(data)) == (empty,) * devices


def test_released_health_apis_carry_all_fields_and_drafts_carry_fewer() -> None:
    every = {field.name for field in fields(DeviceHealth)}
    assert {f.name: every - f.carries for f in HEALTH_APIS.values()} == {
        "v1.DRAResourceHealth": set(),
        "v1alpha1.DRAResourceHealth": set(),
        "v1alpha1.NodeHealth/WatchResources": {"message"},
        "v1alpha1.NodeHealth/WatchDevicesStatus": {"message", "timeout", "updated"},
    }


@every_health_api
def test_a_health_api_is_advertised_as_the_service_of_its_method(health_api: HealthApi) -> None:
    _, service, method = health_api.method.path.split("/")
    assert health_api.advertised == service
    assert health_api.name in (service, f"{service}/{method}")


def test_methods_of_one_service_are_listed_newest_first() -> None:
    assert of_service("v1alpha1.NodeHealth") == (NODE_HEALTH, NODE_HEALTH_DRAFT)
    assert [of_service(name) for name in ("v1.DRAResourceHealth", "v9.Health")] == [(V1,), ()]


@pytest.mark.counterpart("TestToDeviceHealthStatus")
@pytest.mark.parametrize("health_api", [V1, V1ALPHA1], ids=lambda health_api: health_api.name)
@pytest.mark.parametrize(
    ("number", "health"), [(1, "Healthy"), (2, "Unhealthy"), *((n, "Unknown") for n in (0, 3, 99, -1))]
)
def test_a_number_outside_the_enum_shows_unknown(health_api: HealthApi, number: int, health: str) -> None:
    message = health_api.method.response(devices=[{"health": number}])
    assert over_the_wire(health_api, message) == (DeviceHealth("", "", Health(health)),)


@pytest.mark.parametrize("word", ["", "healthy", "HEALTHY", "Sick"])
@pytest.mark.parametrize(("health_api", "field"), [(NODE_HEALTH, "health_status"), (NODE_HEALTH_DRAFT, "health")])
def test_unrecognized_health_string_shows_unknown(health_api: HealthApi, field: str, word: str) -> None:
    message = health_api.method.response(devices=[{field: word}])
    assert over_the_wire(health_api, message) == (DeviceHealth("", "", Health.UNKNOWN),)


def test_first_draft_encodes_request_names_and_cdi_ids() -> None:
    gpu = PreparedDevice(DeviceId("d", "p", "gpu-0"), ("one", "two"), ("d/gpu=gpu-0",))
    devices = [DeviceHealth("p", "gpu-0", Health.UNHEALTHY), DeviceHealth("p", "gpu-1", Health.HEALTHY)]
    sick, well = NODE_HEALTH_DRAFT.encode(devices, {("p", "gpu-0"): gpu}).devices
    assert (list(sick.request_names), list(sick.cdi_device_ids), sick.health) == (
        ["one", "two"],
        ["d/gpu=gpu-0"],
        "Unhealthy",
    )
    assert (list(well.request_names), list(well.cdi_device_ids), well.health) == ([], [], "Healthy")


@every_health_api
@given(data=st.binary(max_size=60))
def test_any_bytes_decode_to_a_report_or_fail_to_parse(health_api: HealthApi, data: bytes) -> None:
    try:
        message = health_api.method.response.FromString(data)
    except DecodeError:
        return
    assert all(device.health in Health for device in health_api.decode(message))


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
