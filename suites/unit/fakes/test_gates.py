"""The feature gates of the in-memory API server under each set of rules."""

from dataclasses import replace

import pytest

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.api_server.pod_statuses import KEP_RULES, FieldRules, HealthFields
from drahealth.fakes.cluster.api_server.server import ApiServer

OFF = {"ResourceHealthStatus": False, "ResourceHealthStatusMessage": False}
MESSAGE_OFF = {"ResourceHealthStatusMessage": False}
ON = {"ResourceHealthStatus": True}

DROPS = replace(KEP_RULES, filters_reads=False)
KEEPS = replace(DROPS, keeps_what_was_there=True)

RESOURCE = {"resourceID": "driver/pool/gpu-0", "health": "Unhealthy", "message": "hot"}
FIELD = [{"name": "claim:gpu", "resources": [RESOURCE]}]
WITHOUT_MESSAGE = [{"name": "claim:gpu", "resources": [{"resourceID": "driver/pool/gpu-0", "health": "Unhealthy"}]}]
CONTAINER: Object = {"name": "main", "image": "training", "resources": {"claims": [{"name": "gpu"}]}}
CLAIMS: list[Object] = [{"name": "gpu", "resourceClaimName": "gpu"}]
POD: Object = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"containers": [CONTAINER], "resourceClaims": CLAIMS},
}


async def write(server: ApiServer, field: list[Object]) -> Object:
    status = {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": field}]}
    return await server.replace_status(PODS, {**POD, "status": status})


async def read(server: ApiServer) -> list[Object] | None:
    """The field as reads and watches show it, which must agree."""
    got = await server.get(PODS, "train", "default")
    assert [got] == await server.list(PODS)
    assert (await anext(server.watch(PODS))).object == got
    (status,) = got["status"]["containerStatuses"]
    return status.get("allocatedResourcesStatus")  # type: ignore[no-any-return]


async def serving(rules: FieldRules, gates: dict[str, bool]) -> ApiServer:
    """A server that was written with the gates on and restarted with these."""
    server = ApiServer(rules=rules)
    await server.create(PODS, POD)
    await write(server, FIELD)
    server.restart(gates)
    return server


@pytest.mark.parametrize("gates", [{"ResourceHealthStatus": False}, {"ResourceHealthState": True}])
def test_invalid_gates_are_rejected_at_start(gates: dict[str, bool]) -> None:
    server = ApiServer()
    for start in (lambda: ApiServer(gates=gates), lambda: server.restart(gates)):
        with pytest.raises(ValueError, match="ResourceHealthStatus"):
            start()


@pytest.mark.counterpart("alpha2/e2e-gate-drops")
async def test_disabled_gate_of_the_kep_filters_reads_and_writes_drop_the_field() -> None:
    server = await serving(KEP_RULES, OFF)
    assert await read(server) is None
    server.restart(ON)
    assert await read(server) == FIELD
    server.restart(OFF)
    await write(server, FIELD)
    server.restart(ON)
    assert await read(server) is None


async def test_with_the_message_gate_off_the_kep_filters_messages() -> None:
    assert await read(await serving(KEP_RULES, MESSAGE_OFF)) == WITHOUT_MESSAGE


async def test_releases_do_not_filter_reads_and_keep_the_existing_field() -> None:
    server = await serving(KEEPS, OFF)
    assert await read(server) == FIELD
    changed = [{**FIELD[0], "resources": [{**RESOURCE, "message": "hotter"}]}]
    await write(server, changed)
    assert await read(server) == changed


async def test_releases_drop_a_new_field() -> None:
    server = await serving(KEEPS, OFF)
    await write(server, [])
    await write(server, FIELD)
    assert await read(server) is None


async def test_releases_drop_messages_unless_one_was_there() -> None:
    server = await serving(KEEPS, MESSAGE_OFF)
    await write(server, FIELD)
    assert await read(server) == FIELD
    await write(server, WITHOUT_MESSAGE)
    await write(server, FIELD)
    assert await read(server) == WITHOUT_MESSAGE


BARE: Object = {"name": "main"}
EMPTY: Object = {"name": "main", "allocatedResourcesStatus": []}
FULL: Object = {"name": "main", "allocatedResourcesStatus": FIELD}
MUTE: Object = {"name": "main", "allocatedResourcesStatus": WITHOUT_MESSAGE}


def pod_with(old: Object | None) -> Object | None:
    return old and {**POD, "status": {"containerStatuses": [old]}}


@pytest.mark.counterpart("TestDropDisabledPodStatusFields_ResourceHealthStatus")
@pytest.mark.parametrize(
    ("gate", "old", "new", "kept"),
    [
        (False, None, FULL, BARE),
        (False, BARE, FULL, BARE),
        (False, EMPTY, FULL, BARE),
        (False, FULL, FULL, FULL),
        (False, FULL, BARE, BARE),
        (True, BARE, FULL, FULL),
        (True, FULL, FULL, FULL),
    ],
)
def test_a_release_drops_the_field_by_gate_old_and_new_object(
    gate: bool, old: Object | None, new: Object, kept: Object
) -> None:
    fields = HealthFields.at_start(KEEPS, {} if gate else OFF)
    assert fields.written({**POD, "status": {"containerStatuses": [new]}}, pod_with(old)) == pod_with(kept)


@pytest.mark.counterpart("TestDropDisabledPodStatusFields_ResourceHealthStatusMessage")
@pytest.mark.parametrize(
    ("gate", "old", "new", "kept"),
    [
        (False, None, FULL, MUTE),
        (False, BARE, FULL, MUTE),
        (False, MUTE, FULL, MUTE),
        (False, FULL, FULL, FULL),
        (False, FULL, MUTE, MUTE),
        (True, MUTE, FULL, FULL),
        (True, FULL, FULL, FULL),
    ],
)
def test_a_release_drops_messages_by_gate_old_and_new_object(
    gate: bool, old: Object | None, new: Object, kept: Object
) -> None:
    fields = HealthFields.at_start(KEEPS, {} if gate else MESSAGE_OFF)
    assert fields.written({**POD, "status": {"containerStatuses": [new]}}, pod_with(old)) == pod_with(kept)


@pytest.mark.counterpart("TestResourceHealthStatusInUse", "TestResourceHealthStatusMessageInUse")
@pytest.mark.parametrize("place", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"])
@pytest.mark.parametrize(("found", "gates"), [(FULL, OFF), (FULL, MESSAGE_OFF)])
def test_field_in_one_container_keeps_the_fields_of_all(place: str, found: Object, gates: dict[str, bool]) -> None:
    new = {**POD, "status": {"containerStatuses": [FULL]}}
    fields = HealthFields.at_start(KEEPS, gates)
    assert fields.written(new, {**POD, "status": {place: [BARE, found]}}) == new
    assert fields.written(new, {**POD, "status": {place: [BARE, EMPTY]}}) != new
    assert fields.written(new, POD) != new


@pytest.mark.counterpart("alpha2/e2e-gate-drops")
async def test_old_releases_drop_the_field_at_any_update() -> None:
    server = await serving(DROPS, OFF)
    assert await read(server) == FIELD
    await server.replace(PODS, {**POD, "metadata": {**POD["metadata"], "labels": {"a": "b"}}})
    assert await read(server) is None


async def test_dropped_field_is_not_validated() -> None:
    server = ApiServer(gates=OFF)
    await server.create(PODS, POD)
    await write(server, [{"name": "no such resource"}])
    assert await read(server) is None


async def test_a_gate_is_read_at_the_start_of_a_watch() -> None:
    server = await serving(KEEPS, ON)
    watch = server.watch(PODS)
    await anext(watch)
    server.restart(OFF)
    assert [event async for event in watch] == []


@pytest.mark.parametrize(("gates", "shown"), [(ON, FIELD), (MESSAGE_OFF, WITHOUT_MESSAGE), (OFF, None)])
async def test_gates_apply_to_the_pods_own_field(gates: dict[str, bool], shown: list[Object] | None) -> None:
    server = ApiServer(gates=gates)
    await server.create(PODS, POD)
    stored = await server.replace_status(PODS, {**POD, "status": {"allocatedResourcesStatus": FIELD}})
    assert stored["status"].get("allocatedResourcesStatus") == shown


async def test_server_without_the_pods_own_field_drops_it_silently() -> None:
    server = ApiServer(rules=replace(KEP_RULES, has_pod_field=False))
    await server.create(PODS, POD)
    stored = await server.replace_status(PODS, {**POD, "status": {"allocatedResourcesStatus": [{"name": "anything"}]}})
    assert "allocatedResourcesStatus" not in stored["status"]
