"""Messages as plain data keep all received fields."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.events import Undecoded
from drahealth.proto.health_apis import HEALTH_APIS, V1, HealthApi
from drahealth.proto.plain_messages import has_unknown_fields, plain, undecoded, undecoded_list
from drahealth.proto.services import LIST_AND_WATCH, PREPARE
from drahealth.proto.values import DeviceHealth, Health

HOT = DeviceHealth("node-a", "gpu-0", Health.UNHEALTHY, "hot", 7, 1_750_000_000)
FIELD_99 = b"\x9a\x06\x02hi"  # a string
FIELD_100 = b"\xa3\x06\x08\x01\xa4\x06"  # a group


def report(api: HealthApi, *devices: Message) -> Message:
    return api.method.response(devices=devices)  # type: ignore[no-any-return]


def device(more: bytes = b"", **fields: object) -> Message:
    """A device of the v1 API with more bytes behind it."""
    known = V1.encode([HOT]).devices[0]
    for name, value in fields.items():
        setattr(known, name, value)
    return type(known).FromString(known.SerializeToString() + more)  # type: ignore[no-any-return]


def more_of(message: Message) -> tuple[Undecoded, ...]:
    return undecoded(V1, message, V1.decode(message))


def test_plain_data_has_nested_messages_maps_and_lists() -> None:
    answer = PREPARE["v1.DRAPlugin"].response()
    answer.claims["uid"].devices.add(request_names=["a", "b"], pool_name="p", device_name="d")
    device = {"request_names": ["a", "b"], "pool_name": "p", "device_name": "d"}
    assert plain(answer) == {"claims": {"uid": {"devices": [device]}}}


def test_plain_data_has_unknown_fields() -> None:
    fields = plain(device(FIELD_99 + FIELD_100))
    assert fields["unknown"] == [[99, 2, b"hi".hex()], [100, 3, [[1, 0, 1]]]]


@pytest.mark.parametrize(
    "api", [api for api in HEALTH_APIS.values() if not api.prepared_only], ids=lambda api: api.name
)
@pytest.mark.parametrize("health", Health)
def test_ordinary_report_is_decoded_whole(api: HealthApi, health: Health) -> None:
    message = api.encode([DeviceHealth("p", "d", health, "", 5, 6)])
    assert undecoded(api, message, api.decode(message)) == ()


def test_unknown_health_is_kept_as_it_was_received() -> None:
    (more,) = more_of(report(V1, device(), device(health=7)))
    assert (more.device, more.fields["health"]) == (1, 7)


def test_unknown_field_of_a_device_is_kept() -> None:
    (more,) = more_of(report(V1, device(), device(FIELD_99)))
    assert (more.device, more.fields["unknown"]) == (1, [[99, 2, b"hi".hex()]])


def test_unknown_field_of_the_message_is_kept() -> None:
    message = V1.method.response.FromString(report(V1, device()).SerializeToString() + FIELD_99)
    assert more_of(message) == (Undecoded(-1, {"unknown": [[99, 2, b"hi".hex()]]}),)


def test_topology_of_a_listed_device_is_kept() -> None:
    listed = LIST_AND_WATCH.response(devices=[{"ID": "0", "health": "Healthy"}, {"ID": "1"}])
    listed.devices[1].topology.nodes.add(ID=3)
    assert undecoded_list(listed) == (Undecoded(1, {"ID": "1", "topology": {"nodes": [{"ID": 3}]}}),)


@given(st.binary(max_size=200))
def test_any_decoded_message_has_plain_data(data: bytes) -> None:
    try:
        message = V1.method.response.FromString(data)
    except Exception:
        return
    assert bool(plain(message)) == bool(message.ByteSize())
    assert isinstance(has_unknown_fields(message), bool)
    assert all(one.fields for one in more_of(message))
