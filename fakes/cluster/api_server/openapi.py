"""The OpenAPI documents of the API server: the kinds with their fields, without descriptions. Pure data.

kubectl needs the schemas for `kubectl explain`. For strict validation of fields, it looks for the query parameter
`fieldValidation` in the PATCH operation of a kind (k8s.io/cli-runtime, `pkg/resource/query_param_verifier_v3.go`). The
fields come from the messages of the kinds. Other kinds have schemas without fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.field_types import fields_of_message
from drahealth.fakes.cluster.api_server.kind_registry import KindRegistry
from drahealth.fakes.cluster.api_server.protobuf_bodies import MESSAGES, is_map

ROOT = "/openapi/v3"

_SCHEMAS = "#/components/schemas/"
_STRING: Object = {"type": "string"}
_SPECIAL: Mapping[str, Object] = MappingProxyType(
    {
        "ExtraValue": {"type": "array", "items": _STRING},
        "FieldsV1": {"type": "object"},
        "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, _STRING]},
        "MicroTime": {**_STRING, "format": "date-time"},
        "Quantity": {"oneOf": [_STRING, {"type": "number"}]},
        "RawExtension": {"type": "object"},
        "Time": {**_STRING, "format": "date-time"},
    }
)
"""The schemas of messages with a JSON form of their own."""

_SCALARS: Mapping[int, Object] = MappingProxyType(
    {
        FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
        FieldDescriptor.TYPE_BYTES: {**_STRING, "format": "byte"},
        FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
        FieldDescriptor.TYPE_INT64: {"type": "integer", "format": "int64"},
        FieldDescriptor.TYPE_STRING: _STRING,
    }
)


def openapi_documents(kinds: KindRegistry) -> dict[str, Object]:
    """The OpenAPI documents by their path."""
    found: dict[str, list[Kind]] = {}
    for served in kinds:
        found.setdefault(_group_path(served.kind.api_version), []).append(served.kind)
    listed = {path: {"serverRelativeURL": f"{ROOT}/{path}"} for path in found}
    return {ROOT: {"paths": listed}, **{f"{ROOT}/{path}": _document(inside) for path, inside in found.items()}}


def _group_path(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _document(kinds: Sequence[Kind]) -> Object:
    paths = {kind.path("{namespace}", "{name}"): {"patch": _patch(kind)} for kind in kinds}
    schemas: Object = {}
    for kind in kinds:
        schemas |= _schemas_of(kind)
    head = {"openapi": "3.0.0", "info": {"title": "drahealth", "version": "v1.37.0"}}
    return {**head, "paths": paths, "components": {"schemas": schemas}}


def _schemas_of(kind: Kind) -> Object:
    """The schema of a kind and those that it refers to, by name."""
    message = MESSAGES.get((kind.api_version, kind.kind))
    group, _, version = kind.api_version.rpartition("/")
    own: Object = {"type": "object", "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}
    name = f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind.kind}"
    if message is None:
        return {name: {**own, "x-kubernetes-preserve-unknown-fields": True}}
    properties = {"apiVersion": _STRING, "kind": _STRING, **_schema(message)["properties"]}
    below = {_name(inner): _schema(inner) for inner in _reached(message)}
    return {**below, name: {**own, "properties": properties}}


@cache
def _reached(message: Descriptor) -> tuple[Descriptor, ...]:
    """All messages that the fields of a message reach."""
    found: dict[str, Descriptor] = {}
    waiting = [message]
    while waiting:
        for inner in _referred(waiting.pop()):
            if inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return tuple(found.values())


def _referred(message: Descriptor) -> Iterator[Descriptor]:
    for field in fields_of_message(message).values():
        inner = field.message_type
        if inner is not None and is_map(field):
            inner = inner.fields_by_name["value"].message_type
        if inner is not None and inner.name not in _SPECIAL:
            yield inner


@cache
def _schema(message: Descriptor) -> Object:
    properties = {name: _field(field) for name, field in sorted(fields_of_message(message).items())}
    return {"type": "object", "properties": properties}


def _field(field: FieldDescriptor) -> Object:
    if field.message_type is not None and is_map(field):
        return {"type": "object", "additionalProperties": _value(field.message_type.fields_by_name["value"])}
    return {"type": "array", "items": _value(field)} if field.default_value == [] else _value(field)


def _value(field: FieldDescriptor) -> Object:
    message = field.message_type
    if message is None:
        return _SCALARS[field.type]
    return _SPECIAL.get(message.name) or {"$ref": _SCHEMAS + _name(message)}


def _name(message: Descriptor) -> str:
    """The name of a message's schema, such as `io.k8s.api.core.v1.Container`."""
    group, _, version = message.file.package.rpartition(".")[2].partition("_")
    place = "apimachinery.pkg.apis.meta" if group == "meta" else f"api.{group}"
    return f"io.k8s.{place}.{version}.{message.name}"


def _group_version_kind(kind: Kind) -> Object:
    group, _, version = kind.api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind.kind}


def _patch(kind: Kind) -> Object:
    parameter = {"name": "fieldValidation", "in": "query", "schema": _STRING}
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _group_version_kind(kind),
        "parameters": [parameter],
        "responses": {"200": {"description": "OK"}},
    }
