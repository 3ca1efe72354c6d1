"""Objects of a driver profile, of kinds that drahealth does not know: in memory, and on any API server of others."""

import pytest

from drahealth.fakes.cluster.api import CRDS, Kind, ListWatch, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.driver_checks.subject.gateway import create_objects
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.driver_checks.test_claim_experiments import PLACES

GADGETS = Kind("Gadget", "gadgets", "example.com/v1", namespaced=True, has_status=True)
GADGET: Object = {
    "apiVersion": "example.com/v1beta1",
    "kind": "Gadget",
    "metadata": {"name": "of-{node_name}"},
    "spec": {"size": 1},
    "status": {"ready": True},
}
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
VERSION = {"served": True, "schema": SCHEMA, "subresources": {"status": {}}}
DEFINITION: Object = {
    "apiVersion": CRDS.api_version,
    "kind": CRDS.kind,
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
        "versions": [
            {**VERSION, "name": "v1", "storage": True},
            {**VERSION, "name": "v1beta1", "storage": False},
        ],
    },
}
CONFIG: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gpus"},
    "data": {"node": "{node_name}"},
}
ACCOUNT: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gpus"}}


async def check_objects_of_any_kind(api: ListWatch) -> None:
    """A custom resource that comes before its definition, and kinds of Kubernetes."""
    await create_objects(api, [GADGET, CONFIG, ACCOUNT, DEFINITION], PLACES)
    gadget = await api.get(GADGETS, "of-node-a", "default")
    assert (gadget["spec"], gadget["status"]) == ({"size": 1}, {"ready": True})
    configs = await api.kind_of(CONFIG)
    assert (await api.get(configs, "gpus", "default"))["data"] == {"node": "node-a"}
    await create_objects(api, [CONFIG], PLACES)  # it exists


async def test_objects_of_any_kind_exist_in_memory() -> None:
    await check_objects_of_any_kind(ApiServer())


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMp", "metadata": {"name": "a"}}, "ConfigMp a"),
        ({**CONFIG, "metadata": {"name": "gpus", "namespace": "none"}}, "ConfigMap gpus"),
        ({**DEFINITION, "metadata": {"name": "gadgets"}}, "CustomResourceDefinition gadgets"),
    ],
)
async def test_rejected_object_is_named(obj: Object, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        await create_objects(ApiServer(), [obj], PLACES)
