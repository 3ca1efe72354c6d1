"""The manifests that a driver profile names: claims, objects for the API server, and the driver's Pod."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import NAMESPACE_DNS, uuid5

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, Object, is_of_kubernetes
from drahealth.fakes.cluster.api_server.served_kinds import SERVED, kinds_in
from drahealth.fakes.hints import near
from drahealth.fakes.program.user_files import Document, Place, documents, read, validated
from drahealth.suites.driver_checks.subject.sandbox import Volume, check_private

# Claims, and the objects that they need. The models have what drahealth needs to allocate a claim; the API server
# checks the rest. Source: resource.k8s.io/v1.

_Text = Annotated[str, StringConstraints(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Metadata(_Part):
    name: _Text
    namespace: _Text = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Cel(_Part):
    expression: _Text


class _Selector(_Part):
    cel: _Cel


class _Toleration(_Part):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Wanted(_Part):
    device_class_name: _Text
    selectors: list[_Selector] = []
    tolerations: list[_Toleration] = []
    allocation_mode: str = ""
    count: Annotated[int, Field(ge=0)] = 1


class _Alternative(_Wanted):
    name: _Text


class _Request(_Part):
    name: _Text
    exactly: _Wanted | None = None
    first_available: list[_Alternative] | None = None

    @model_validator(mode="after")
    def _is_of_one_form(self) -> "_Request":
        if bool(self.exactly) == bool(self.first_available):
            raise ValueError("must have either `exactly` or `firstAvailable`")
        return self


class _Requests(_Part):
    requests: Annotated[list[_Request], Field(min_length=1)]


class _ClaimSpec(_Part):
    devices: _Requests


class _Result(_Part):
    request: _Text
    driver: _Text
    pool: _Text
    device: _Text


class _Results(_Part):
    results: Annotated[list[_Result], Field(min_length=1)]


class _Allocation(_Part):
    devices: _Results


class _Status(_Part):
    allocation: _Allocation | None = None


class _Claim(_Part):
    api_version: Literal["resource.k8s.io/v1"] = "resource.k8s.io/v1"
    metadata: _Metadata
    spec: _ClaimSpec
    status: _Status | None = None


class _ClassSpec(_Part):
    selectors: list[_Selector] = []


class _DeviceClass(_Part):
    api_version: Literal["resource.k8s.io/v1"] = "resource.k8s.io/v1"
    metadata: _Metadata
    spec: _ClassSpec = _ClassSpec()


class _Namespace(_Part):
    metadata: _Metadata


_CLAIM_KINDS: Mapping[str, type[BaseModel]] = {
    "ResourceClaim": _Claim,
    "DeviceClass": _DeviceClass,
    "Namespace": _Namespace,
}


# The manifests that a driver profile names: objects for the API server, and claims as drivers ship them in demos.

_SERVED = {(one.kind.api_version, one.kind.kind): one for one in SERVED}


def api_objects(path: Path) -> tuple[Object, ...]:
    """The objects of a file, of any kind. Raises FileError, and OSError."""
    found = []
    for document in documents(read(path), str(path)):
        kind, version = _kind(document), document.data.get("apiVersion")
        if not isinstance(version, str) or not version:
            raise document.error([(("apiVersion",), "this key is required")])
        if not isinstance(document.data.get("metadata"), dict):
            raise document.error([(("metadata",), "this key is required")])
        if (version, kind) in _SERVED or _stored_in(version, kind):
            found.append(_converted(document).data)
            continue
        if is_of_kubernetes(version) and kind not in kinds_in(version):
            raise document.error([(("kind",), f"{version} has no kind {kind!r}; {near(kind, kinds_in(version))}")])
        found.append(document.data)
    return tuple(found)


def _stored_in(version: str, kind: str) -> bool:
    """Whether drahealth works with a kind of this name in the same group."""
    group = version.rpartition("/")[0]
    return any(known == kind and of.rpartition("/")[0] == group for of, known in _SERVED)


def claim_objects(paths: Sequence[Path]) -> tuple[Object, ...]:
    """The ResourceClaims of these files, and their DeviceClasses and Namespaces.

    A ResourceClaimTemplate counts as a claim; other objects, such as Pods, are left out. Raises FileError, and OSError.
    """
    found = [one for path in paths for one in _claim_objects(path)]
    claims = [one for one in found if one["kind"] == CLAIMS.kind]
    return (*(one for one in found if one["kind"] != CLAIMS.kind), *claims)


def _claim_objects(path: Path) -> Iterator[Object]:
    for document in documents(read(path), str(path)):
        if _kind(document) not in (*_CLAIM_KINDS, CLAIM_TEMPLATES.kind):
            continue
        one = _as_claim(_converted(document))
        validated(_CLAIM_KINDS[one.data["kind"]], one)
        yield one.data


def _kind(document: Document) -> str:
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise document.error([((), "not a Kubernetes object: it has no kind")])
    return str(data["kind"])


def _converted(document: Document) -> Document:
    """The document in the version that drahealth works with. Raises FileError for another version or wrong types."""
    version, kind = document.data.get("apiVersion"), document.data["kind"]
    known = [served for _, served in _SERVED if served == kind]
    if (version, kind) not in _SERVED and known:
        versions = ", ".join(version for version, served in _SERVED if served == kind)
        raise document.error([(("apiVersion",), f"must be one of {versions}, got {version!r}")])
    try:
        return replace(document, data=_SERVED[version, kind].store(document.data))
    except (TypeError, AttributeError, ValueError) as error:
        raise document.error([((), f"invalid {kind}: {error}")]) from None


def _as_claim(document: Document) -> Document:
    """A template as the claim that it makes; other objects stay. Raises FileError."""
    data = document.data
    if data["kind"] != CLAIM_TEMPLATES.kind:
        return document
    spec = data.get("spec")
    if not isinstance(spec, dict) or "spec" not in spec:
        raise document.error([(("spec", "spec"), "this key is required")])
    claim = {**data, "kind": CLAIMS.kind, "spec": spec["spec"]}
    return replace(document, data=claim)


# The manifest of a driver's Pod, as the way to start the driver: its command, environment and volumes.
#
# drahealth runs the command of one container as a process of this machine, in a sandbox with the volumes of the Pod.
# It does not pull images.

WORKLOAD_KINDS = ("Pod", "DaemonSet", "Deployment", "StatefulSet", "Job")
"""The kinds with containers."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class PodStart:
    """What a container of the Pod starts."""

    command: tuple[str, ...]
    """The command of the container; empty if the image has it."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: tuple[Volume, ...]
    namespace: str
    image: str


def pod_start(path: Path, container: str, objects: Sequence[Object]) -> PodStart:
    """How a container of the only Pod in a file starts; the first one without a name.

    ConfigMaps and Secrets come from the same file, and from `objects`. Raises FileError, and OSError.
    """
    data = [one.data for one in documents(read(path), str(path)) if isinstance(one.data, dict)]
    others = [*objects, *(one for one in data if one.get("kind") not in WORKLOAD_KINDS)]
    return _Reading(_only_pod(path), others).start(container)


def _only_pod(path: Path) -> Document:
    found = [one for one in documents(read(path), str(path)) if isinstance(one.data, dict)]
    with_pods = [one for one in found if one.data.get("kind") in WORKLOAD_KINDS]
    if len(with_pods) != 1:
        where = with_pods[1] if with_pods else Document({}, str(path), {(): 1})
        raise where.error(
            [(("kind",), f"the file must have one object of {', '.join(WORKLOAD_KINDS)}, got {len(with_pods)}")]
        )
    return with_pods[0]


def objects_beside(path: Path, namespace: str) -> tuple[Object, ...]:
    """The other objects of the file, and the namespace of the Pod. Raises FileError, and OSError."""
    found = tuple(one for one in api_objects(path) if one["kind"] not in WORKLOAD_KINDS)
    names = {one["metadata"].get("name") for one in found if one["kind"] == "Namespace"}
    if namespace in {"default", *names}:
        return found
    return ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *found)


def workload(path: Path, container: str) -> Object:
    """The only object with a Pod in a file, which must have this container. Raises FileError, and OSError."""
    found = _only_pod(path)
    _Reading(found, ()).number(container)
    return dict(found.data)


class _Reading:
    """Reads one manifest. Errors have the line of the field."""

    def __init__(self, document: Document, objects: Sequence[Object]) -> None:
        self._document = document
        self._objects = objects
        self._at: Place = ("spec",) if document.data["kind"] == "Pod" else ("spec", "template", "spec")
        self._metadata = self._value(("metadata",), dict, {})
        self._spec = self._value(self._at, dict, {})

    def number(self, name: str) -> int:
        """The number of the container with this name; of the first one without a name."""
        containers = self._value((*self._at, "containers"), list, [])
        names = [one.get("name") if isinstance(one, dict) else None for one in containers]
        if name and name not in names:
            self._fail((*self._at, "containers"), f"there is no container {name!r}")
        if not containers:
            self._fail((*self._at, "containers"), "the Pod has no container")
        return names.index(name) if name else 0

    def start(self, name: str) -> PodStart:
        number = self.number(name)
        containers = self._value((*self._at, "containers"), list, [])
        at = (*self._at, "containers", number)
        self._value(at, dict, {})
        environment = dict(self._environment(at))
        return PodStart(
            tuple(_expanded(word, environment) for word in self._texts((*at, "command"))),
            tuple(_expanded(word, environment) for word in self._texts((*at, "args"))),
            environment,
            tuple(self._volumes(at)),
            self._namespace,
            str(containers[number].get("image", "")),
        )

    @property
    def _namespace(self) -> str:
        return str(self._metadata.get("namespace") or "default")

    def _environment(self, at: Place) -> Iterator[tuple[str, str]]:
        given: dict[str, str] = {}
        for number, one in enumerate(self._value((*at, "envFrom"), list, [])):
            place = (*at, "envFrom", number)
            for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if isinstance(one, dict) and isinstance(one.get(key), dict):
                    values = self._data(place, kind, one[key])
                    given.update({f"{one.get('prefix', '')}{name}": value for name, value in values.items()})
        for number, one in enumerate(self._value((*at, "env"), list, [])):
            place = (*at, "env", number)
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                self._fail(place, "must have a name")
            if "valueFrom" in one:
                value = self._source(place, one["valueFrom"])
            else:
                value = _expanded(str(one.get("value") or ""), given)
            if value is not None:
                given[one["name"]] = value
        yield from given.items()

    def _source(self, place: Place, source: Any) -> str | None:
        """The value of valueFrom; None for an optional one that does not exist."""
        given: dict[str, Any] = source if isinstance(source, dict) else {}
        kind = next(iter(given), "")
        what: dict[str, Any] = given[kind] if isinstance(given.get(kind), dict) else {}
        if kind == "fieldRef":
            return self._field(place, str(what.get("fieldPath")))
        if kind in ("configMapKeyRef", "secretKeyRef"):
            values = self._data(place, "ConfigMap" if kind == "configMapKeyRef" else "Secret", what)
            if what.get("key") not in values and not what.get("optional"):
                self._fail(place, f"{what.get('name')} has no key {what.get('key')!r}")
            return values.get(str(what.get("key")))
        self._fail(
            place, f"drahealth cannot take a value from {kind or 'nothing'}; set the variable in [driver] environment"
        )
        return None

    def _field(self, place: Place, path: str) -> str:
        name = str(self._metadata.get("name") or "driver")
        known = {
            "metadata.name": name,
            "metadata.namespace": self._namespace,
            "metadata.uid": str(uuid5(NAMESPACE_DNS, f"{name}.{self._namespace}.drahealth")),
            "spec.nodeName": "{node_name}",
            "spec.serviceAccountName": str(self._spec.get("serviceAccountName") or "default"),
            "status.hostIP": "127.0.0.1",
            "status.podIP": "127.0.0.1",
        }
        if found := _FIELD.fullmatch(path):
            template = self._value((*self._at[:-1], "metadata"), dict, {})
            return str((template.get(found[1]) or {}).get(found[2], ""))
        if path not in known:
            self._fail(place, f"unknown field {path!r}; valid: {', '.join(known)}")
        return known[path]

    def _data(self, place: Place, kind: str, reference: Mapping[str, Any]) -> dict[str, str]:
        """The data of a ConfigMap or a Secret."""
        for one in self._objects:
            metadata = one.get("metadata") or {}
            if one.get("kind") == kind and metadata.get("name") == reference.get("name", reference.get("secretName")):
                texts = dict(one.get("data") or {})
                if kind == "Secret":
                    texts = {key: base64.b64decode(value).decode(errors="replace") for key, value in texts.items()}
                return {key: str(value) for key, value in {**texts, **(one.get("stringData") or {})}.items()}
        if not reference.get("optional"):
            name = reference.get("name", reference.get("secretName"))
            self._fail(place, f"there is no {kind} {name}; add it to this file, or to objects of [api-server]")
        return {}

    def _volumes(self, at: Place) -> Iterator[Volume]:
        listed = self._value((*self._at, "volumes"), list, [])
        volumes = {one["name"]: (number, one) for number, one in enumerate(listed) if isinstance(one, dict)}
        for number, one in enumerate(self._value((*at, "volumeMounts"), list, [])):
            place = (*at, "volumeMounts", number)
            path = str(one.get("mountPath", "")).rstrip("/")
            try:
                check_private(path)
            except ValueError as error:
                if not path.startswith(("/sys", "/proc")):
                    self._fail((*place, "mountPath"), str(error))
                continue
            if one.get("subPath") or one.get("subPathExpr"):
                self._fail(place, "drahealth cannot mount a subPath")
            if one.get("name") not in volumes:
                self._fail(place, f"there is no volume {one.get('name')!r}")
            index, volume = volumes[one["name"]]
            yield self._volume((*self._at, "volumes", index), volume, path)

    def _volume(self, place: Place, volume: Mapping[str, Any], path: str) -> Volume:
        if isinstance(host := volume.get("hostPath"), dict):
            if host.get("type") not in (None, "", "Directory", "DirectoryOrCreate"):
                self._fail(place, f"drahealth can mount only directories, got a hostPath of type {host['type']}")
            return Volume(path, source=str(host.get("path", "")).rstrip("/") or "/")
        if "emptyDir" in volume:
            return Volume(path)
        for key, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if isinstance(reference := volume.get(key), dict):
                values = self._data(place, kind, reference)
                items = reference.get("items") or [{"key": name, "path": name} for name in values]
                return Volume(path, files=tuple((str(one["path"]), values.get(one["key"], "")) for one in items))
        kind = next((key for key in volume if key != "name"), "nothing")
        self._fail(place, f"drahealth cannot mount a volume of {kind}; use hostPath, emptyDir, configMap or secret")
        raise AssertionError

    def _texts(self, place: Place) -> list[str]:
        return [str(word) for word in self._value(place, list, [])]

    def _value(self, place: Place, wanted: type, default: Any) -> Any:
        value = self._document.data
        for key in place:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return default
        if value is None:
            return default
        if not isinstance(value, wanted):
            self._fail(place, f"must be a {'list' if wanted is list else 'mapping'}")
        return value

    def _fail(self, place: Place, problem: str) -> None:
        raise self._document.error([(place, problem)])


def _expanded(text: str, values: Mapping[str, str]) -> str:
    """References such as $(NAME) replaced. Source: Kubernetes, "Define a Command and Arguments for a Container"."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else values.get(found[1], found[0]), text)
