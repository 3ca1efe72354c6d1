"""The manifests that a driver profile names: objects for the API server, and claims as drivers ship them in demos."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, Object
from drahealth.fakes.cluster.api_server.kind_registry import kinds_in
from drahealth.fakes.cluster.api_server.served_kinds import SERVED
from drahealth.fakes.cluster.other_kinds import is_of_kubernetes
from drahealth.fakes.hints import near
from drahealth.fakes.program.user_files import Document, documents, read, validated
from drahealth.suites.checking.claim_file import KINDS

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
        if _kind(document) not in (*KINDS, CLAIM_TEMPLATES.kind):
            continue
        one = _as_claim(_converted(document))
        validated(KINDS[one.data["kind"]], one)
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
