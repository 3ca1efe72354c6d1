"""The OpenAPI documents of the API server: just what clients need to ask for strict validation of fields. Pure data.

kubectl looks for the query parameter `fieldValidation` in the PATCH operation of a kind (k8s.io/cli-runtime,
`pkg/resource/query_param_verifier_v3.go`). There are no schemas.
"""

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.kind_registry import KindRegistry

ROOT = "/openapi/v3"


def openapi_documents(kinds: KindRegistry) -> dict[str, Object]:
    """The OpenAPI documents by their path."""
    found: dict[str, list[Kind]] = {}
    for served in kinds:
        found.setdefault(_group_path(served.kind.api_version), []).append(served.kind)
    listed = {path: {"serverRelativeURL": f"{ROOT}/{path}"} for path in found}
    return {ROOT: {"paths": listed}, **{f"{ROOT}/{path}": _document(inside) for path, inside in found.items()}}


def _group_path(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _document(kinds: list[Kind]) -> Object:
    paths = {kind.path("{namespace}", "{name}"): {"patch": _patch(kind)} for kind in kinds}
    return {"openapi": "3.0.0", "info": {"title": "drahealth", "version": "v1.37.0"}, "paths": paths}


def _patch(kind: Kind) -> Object:
    group, _, version = kind.api_version.rpartition("/")
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind.kind},
        "parameters": [parameter],
        "responses": {"200": {"description": "OK"}},
    }
