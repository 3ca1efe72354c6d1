"""The OpenAPI documents of the in-memory API server, as `kubectl explain` reads them."""

from typing import Any

from drahealth.fakes.cluster.api_server.served_kinds import ROOT, KindRegistry, openapi_documents

DOCUMENTS = openapi_documents(KindRegistry())


def schemas(path: str) -> Any:
    return DOCUMENTS[f"{ROOT}/{path}"]["components"]["schemas"]


def fields(schema: Any) -> Any:
    return schema["properties"]


def test_a_kind_has_its_fields_and_refers_to_those_inside() -> None:
    core = schemas("api/v1")
    pod, container = core["io.k8s.api.core.v1.Pod"], core["io.k8s.api.core.v1.Container"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert fields(pod)["spec"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}
    env = {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.EnvVar"}}
    assert (fields(container)["env"], fields(container)["image"]) == (env, {"type": "string"})


def test_maps_and_special_values_have_their_json_form() -> None:
    core = schemas("api/v1")
    data = {"type": "object", "additionalProperties": {"type": "string"}}
    assert fields(core["io.k8s.api.core.v1.ConfigMap"])["data"] == data
    times = fields(core["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"])["creationTimestamp"]
    assert times == {"type": "string", "format": "date-time"}


def test_each_reference_is_in_the_same_document() -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    found = [document["components"]["schemas"] for path, document in DOCUMENTS.items() if path != ROOT]
    assert [sorted(references(one) - one.keys()) for one in found] == [[]] * len(found)


def test_each_version_of_a_kind_has_a_schema() -> None:
    names = [f"io.k8s.api.resource.{version}.ResourceClaim" for version in ("v1", "v1beta2", "v1beta1")]
    assert [name in schemas(f"apis/resource.k8s.io/{name.split('.')[-2]}") for name in names] == [True] * 3
