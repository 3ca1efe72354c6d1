"""The manifests of `drahealth manager`: the fields that drahealth reads, and the objects of a file."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.api_server import strategies
from drahealth.fakes.cluster.api_server.body_decoding import unknown_fields
from drahealth.fakes.cluster.api_server.metadata_validation import is_name
from drahealth.fakes.program.errors import plain
from drahealth.proto.quoting import one_line
from drahealth.suites.yaml_tree import Malformed, documents, get, items, line_of, text

# The schema of manifests: the fields that drahealth reads, by kind.
#
# Other fields of the API have no effect. Fields that the API does not have are rejected. Source: the Pod
# API (core/v1) and resource.k8s.io/v1.

Name = Annotated[str, Field(min_length=1, max_length=253)]
Names = dict[str, str]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Metadata(_Part):
    name: Name
    namespace: Name = "default"
    labels: Names = {}
    annotations: Names = {}
    finalizers: list[str] = []


class _ClaimUse(_Part):
    name: Name
    request: str = ""


class _Resources(_Part):
    claims: list[_ClaimUse] = []
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class _Container(_Part):
    name: Name
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _PodClaim(_Part):
    name: Name
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class _PodSpec(_Part):
    containers: Annotated[list[_Container], Field(min_length=1)]
    init_containers: list[_Container] = []
    resource_claims: list[_PodClaim] = []
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    termination_grace_period_seconds: Annotated[int, Field(ge=0)] = 30
    node_name: str = ""
    node_selector: Names = {}


class _Cel(_Part):
    expression: str = ""


class _Selector(_Part):
    cel: _Cel = _Cel()


class _Toleration(_Part):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Exactly(_Part):
    device_class_name: str = ""
    selectors: list[_Selector] = []
    allocation_mode: str = ""
    count: Annotated[int, Field(ge=0, le=2**31)] = 0
    admin_access: bool = False
    tolerations: list[_Toleration] = []


class _SubRequest(_Exactly):
    name: Name


class _Request(_Part):
    name: Name
    exactly: _Exactly | None = None
    first_available: list[_SubRequest] = []


class _Config(_Part):
    requests: list[str] = []


class _Devices(_Part):
    requests: list[_Request] = []
    constraints: list[_Part] = []
    config: list[_Config] = []


class _ClaimSpec(_Part):
    devices: _Devices = _Devices()


class _Result(_Part):
    request: Name
    driver: Name
    pool: Name
    device: Name
    admin_access: bool = False


class _Results(_Part):
    results: Annotated[list[_Result], Field(min_length=1)]
    config: list[_Config] = []


class _FieldTerm(_Part):
    values: list[str] = []


class _NodeTerm(_Part):
    match_fields: list[_FieldTerm] = []


class _NodeSelector(_Part):
    node_selector_terms: list[_NodeTerm] = []


class _Allocation(_Part):
    devices: _Results
    node_selector: _NodeSelector | None = None


class _ClaimStatus(_Part):
    allocation: _Allocation | None = None


class _TemplateSpec(_Part):
    metadata: "_TemplateMetadata | None" = None
    spec: _ClaimSpec


class _TemplateMetadata(_Part):
    labels: Names = {}
    annotations: Names = {}


class _ClassSpec(_Part):
    selectors: list[_Selector] = []
    config: list[_Config] = []


class PodManifest(_Part):
    """A Pod. Its status is ignored."""

    metadata: _Metadata
    spec: _PodSpec


class ClaimManifest(_Part):
    """A ResourceClaim; with `status.allocation` it is already allocated."""

    metadata: _Metadata
    spec: _ClaimSpec
    status: _ClaimStatus = _ClaimStatus()


class TemplateManifest(_Part):
    """A ResourceClaimTemplate."""

    metadata: _Metadata
    spec: _TemplateSpec


class ClassManifest(_Part):
    """A DeviceClass."""

    metadata: _Metadata
    spec: _ClassSpec = _ClassSpec()


class NamespaceManifest(_Part):
    """A Namespace. Its spec and status are ignored."""

    metadata: _Metadata


SCHEMAS: dict[Kind, type[_Part]] = {
    NAMESPACES: NamespaceManifest,
    DEVICE_CLASSES: ClassManifest,
    CLAIM_TEMPLATES: TemplateManifest,
    CLAIMS: ClaimManifest,
    PODS: PodManifest,
}
"""By kind, in the order in which objects are made."""


# Reads the objects of a manifest file. Pure; all objects of a file or none.
#
# YAML 1.2, which includes JSON, with any number of documents.

FILE, DIGEST = "drahealth/manifest-file", "drahealth/manifest-digest"
"""Annotations of objects that came from a manifest: the name of its file, and a digest of its content."""

_SERVERS_OWN = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"),
)
"""Fields of metadata that a manifest from a cluster contains and that the server sets for a new object."""

Key = tuple[Kind, str, str]
"""Kind, namespace ("" for kinds without one) and name."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file; `object` has no status."""

    kind: Kind
    object: Object
    allocation: Object | None = None
    """Of a claim that is allocated already."""

    @property
    def key(self) -> Key:
        metadata = self.object["metadata"]
        return self.kind, metadata.get("namespace", ""), metadata["name"]

    @property
    def digest(self) -> str:
        """A digest that changes with the manifest."""
        text = json.dumps([self.object, self.allocation], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def annotated(self, file: str) -> Object:
        """The object with annotations that name its origin."""
        metadata = self.object["metadata"]
        annotations = {**metadata.get("annotations", {}), FILE: file, DIGEST: self.digest}
        return {**self.object, "metadata": {**metadata, "annotations": annotations}}

    def __str__(self) -> str:
        return described(self.key)


def described(key: Key) -> str:
    """A short description of the object."""
    kind, namespace, name = key
    return f"{kind.kind} {namespace}/{name}" if namespace else f"{kind.kind} {name}"


def parse(data: bytes, node_name: str) -> tuple[Manifest, ...]:
    """The objects of a file, for the node with this name. Raises Malformed for an invalid or empty file."""
    try:
        found = documents(data.decode())
        if not found:
            raise Malformed("the file is empty; to delete its objects, delete the file", 1)
        manifests = [_manifest(document, node_name) for document in found]
    except UnicodeDecodeError as error:
        raise Malformed("it is not UTF-8", data.count(b"\n", 0, error.start) + 1) from None
    except RecursionError:
        raise Malformed("it is nested too deeply", 1) from None
    for index, (manifest, document) in enumerate(zip(manifests, found, strict=True)):
        if manifest.key in [other.key for other in manifests[:index]]:
            raise Malformed(f"duplicate object {manifest}", line_of(document))
    return tuple(manifests)


def _manifest(document: Node, node_name: str) -> Manifest:
    if not isinstance(document, MappingNode):
        raise Malformed("a manifest must be a mapping with apiVersion, kind, metadata and spec", line_of(document))
    kind = _kind(document)
    obj: Object = value_of(document)
    try:
        SCHEMAS[kind].model_validate(obj)
    except ValidationError as error:
        raise _explained(document, kind, error) from None
    status = obj.pop("status", {})
    allocation = status.get("allocation") if kind == CLAIMS else None
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS_OWN}
    metadata |= {"namespace": metadata.get("namespace", "default")} if kind.namespaced else {}
    if not kind.namespaced:
        metadata.pop("namespace", None)
    obj |= {"metadata": metadata, "spec": obj.get("spec", {})}
    if kind == PODS:
        _check_node(document, obj, node_name)
    if kind == NAMESPACES:
        _check_namespace(document, kind, metadata)
    _check_fields(document, kind, obj)
    try:
        strategies.created(kind, obj, strategies.ServerFields("", ""))
    except ApiError as error:
        raise Malformed(error.message, line_of(document)) from None
    _check_namespace(document, kind, metadata)
    return Manifest(kind, obj, allocation)


def _check_fields(document: Node, kind: Kind, obj: Object) -> None:
    if unknown := unknown_fields(kind, obj):
        listed = ", ".join(f'unknown field "{one_line(path)}"' for path in unknown)
        place = [int(part) if part.isdecimal() else part for part in re.split(r"[.\[\]]+", unknown[0])]
        raise Malformed(listed, _line(document, tuple(place)))


def _check_namespace(document: Node, kind: Kind, metadata: Object) -> None:
    key = "namespace" if kind.namespaced else "name"
    is_namespace = kind.namespaced or kind == NAMESPACES
    if is_namespace and ("." in metadata[key] or not is_name(metadata[key])):
        raise Malformed(f"invalid namespace {metadata[key]!r}", _line(document, ("metadata", key)))


def _kind(document: MappingNode) -> Kind:
    name, version = text(get(document, "kind")), text(get(document, "apiVersion"))
    for kind in SCHEMAS:
        if kind.kind == name:
            if kind.api_version != version:
                raise Malformed(
                    f"apiVersion of a {name} must be {kind.api_version}, got {version or 'none'!r}",
                    _line(document, ("apiVersion",)),
                )
            return kind
    kinds = ", ".join(kind.kind for kind in reversed(SCHEMAS))
    wrong = f"unsupported kind {name!r}" if name else "kind is missing"
    raise Malformed(f"{wrong}; supported kinds: {kinds}", _line(document, ("kind",)))


def _check_node(document: Node, pod: Object, node_name: str) -> None:
    """Checks that no node is set: the scheduler binds the pod, so that its claims are reserved for it."""
    spec = dict(pod["spec"])
    wanted = spec.pop("nodeName", node_name)
    if wanted not in ("", node_name):
        raise Malformed(
            f"nodeName must be {node_name}, got {wanted}; remove it",
            _line(document, ("spec", "nodeName")),
        )
    pod["spec"] = spec


def _explained(document: Node, kind: Kind, error: ValidationError) -> Malformed:
    """The first error, in words."""
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {len(others)} more)" if others else ""
    text = plain(first["msg"])
    return Malformed(f"{place} of a {kind.kind}: {text}{more}", _line(document, first["loc"]))


def _line(node: Node, path: tuple[int | str, ...]) -> int:
    """The line of the value at this path, or of its nearest existing parent."""
    for part in path:
        inner = dict(enumerate(items(node))).get(part) if isinstance(part, int) else get(node, part)
        if inner is None:
            break
        node = inner
    return line_of(node)


def value_of(node: Node) -> Any:
    """The JSON value of a YAML tree, without null values. Raises Malformed for values that JSON does not have."""
    if isinstance(node, MappingNode):
        return {key: value for key, value in _entries(node) if value is not None}
    if isinstance(node, SequenceNode):
        return [value_of(item) for item in node.value]
    assert isinstance(node, ScalarNode)
    return _scalar(node)


def _entries(node: MappingNode) -> Iterator[tuple[str, Any]]:
    for key, value in node.value:
        yield _text(key), value_of(value)


_CONSTRUCTOR = YAML(typ="safe", pure=True).constructor
_CONSTRUCT: Mapping[str, Callable[[ScalarNode], Any]] = {
    "tag:yaml.org,2002:int": _CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
    "tag:yaml.org,2002:bool": _CONSTRUCTOR.construct_yaml_bool,
}


def _scalar(node: ScalarNode) -> Any:
    tag = str(node.tag)
    if tag == "tag:yaml.org,2002:null":
        return None
    if tag in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp"):
        return _text(node)
    if tag not in _CONSTRUCT:
        raise Malformed(
            f"unsupported YAML tag {tag.replace('tag:yaml.org,2002:', '!!')}; use JSON values", line_of(node)
        )
    try:
        value = _CONSTRUCT[tag](node)
        json.dumps(value, allow_nan=False)
    except (ValueError, KeyError, OverflowError):
        raise Malformed(f"{node.value[:40]!r} is not a JSON number or boolean", line_of(node)) from None
    return value


def _text(node: ScalarNode) -> str:
    try:
        node.value.encode()  # an escape can spell half a character
    except UnicodeEncodeError:
        raise Malformed("invalid Unicode text", line_of(node)) from None
    return str(node.value)
