"""Claims of several devices, and objects in the API server before the driver starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NAMESPACES, NODES, PODS, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.proto.values import DeviceId
from drahealth.suites.driver_checks.claims import Published, shapes_of
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.subject.gateway import create_objects
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.errors import ConfigurationError

DEVICES = [Published(DeviceId("gpu.example.com", "pool", f"gpu-{number}"), "node-a", {}) for number in range(4)]
PLACES = Places(Path("/k"), Path("/k/r"), Path("/k/p"), Path("/c"), None, "node-a")
NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}


@pytest.mark.parametrize(
    ("published", "count", "expected"),
    [
        (4, 1, [{"gpu-1"}, {"gpu-2"}]),
        (4, 2, [{"gpu-0", "gpu-1"}, {"gpu-2", "gpu-3"}]),
        (4, 3, [{"gpu-0", "gpu-1", "gpu-2"}]),
        (3, "all", [{"gpu-0", "gpu-1", "gpu-2"}]),
        (0, "all", []),
        (0, 2, []),
    ],
)
def test_claims_have_the_devices_that_the_profile_asks_for(
    published: int, count: int | Literal["all"], expected: list[set[str]]
) -> None:
    shapes = shapes_of(DEVICES[:published], count)
    assert [{device.device for device in shape.devices} for shape in shapes] == expected


def test_claim_requests_as_many_devices_as_it_is_allocated() -> None:
    (shape,) = shapes_of(DEVICES[:2], "all")
    assert shape.claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


def test_driver_with_too_few_devices_is_incomplete() -> None:
    with pytest.raises(Incomplete):
        shapes_of(DEVICES, 5)


async def created(*objects: Mapping[str, Any]) -> ApiServer:
    api = ApiServer(clock=JumpClock())
    await create_objects(api, objects, PLACES)
    return api


async def test_objects_exist_with_their_placeholders_replaced() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver-on-{node_name}", "namespace": "system"},
        "spec": {"nodeName": "{node_name}", "containers": [{"name": "c", "image": "i"}]},
    }
    api = await created(pod, NAMESPACE)
    (found,) = await api.list(PODS)
    assert (found["metadata"]["name"], found["spec"]["nodeName"]) == ("driver-on-node-a", "node-a")
    assert [one["metadata"]["name"] for one in await api.list(NODES)] == ["node-a"]
    assert "system" in [one["metadata"]["name"] for one in await api.list(NAMESPACES)]


async def test_node_of_the_user_replaces_the_one_of_drahealth() -> None:
    api = await created(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{node_name}", "labels": {"gpu": "yes"}}}
    )
    assert [one["metadata"]["labels"]["gpu"] for one in await api.list(NODES)] == ["yes"]


async def test_rejected_object_is_an_error_of_the_profile() -> None:
    with pytest.raises(ConfigurationError, match="Pod p"):
        await created({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})
