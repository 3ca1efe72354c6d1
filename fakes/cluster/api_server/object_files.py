"""Objects in files, so that they outlive the API server's process: one JSON file each, `FOLDER/PLURAL/NAMESPACE/NAME`.

The files replace etcd. Kinds without a namespace use `_`. An invalid file is logged once and left unchanged; its object
does not exist.
"""

import json
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import ApiError, Kind, Object
from drahealth.fakes.cluster.api_server import refusals, strategies
from drahealth.fakes.cluster.api_server.metadata_validation import is_name
from drahealth.fakes.program.atomic import replace_file

_NO_NAMESPACE = "_"
_SCRATCH = "drafts"

log = logging.getLogger(__name__)


class ObjectFiles:
    """The files of these kinds below `folder`; objects of other kinds are not stored."""

    def __init__(self, folder: Path, kinds: Collection[Kind]) -> None:
        self._folder = folder
        self._kinds = tuple(kinds)
        self._scratch = folder / _SCRATCH

    def load(self) -> list[tuple[Kind, Object]]:
        """All stored objects. Raises OSError if the folder cannot be created or read."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        for draft in self._scratch.iterdir():
            draft.unlink()
        return [(kind, obj) for kind in self._kinds for obj in self._load(kind)]

    def put(self, kind: Kind, obj: Object) -> None:
        """Writes the object. Raises `ApiError` 503 on failure; then the old file is unchanged."""
        if kind in self._kinds:
            path = self._path(kind, obj)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, json.dumps(obj).encode(), self._scratch)
            except OSError as error:
                raise refusals.not_stored(kind, obj["metadata"]["name"], error) from error

    def remove(self, kind: Kind, obj: Object) -> None:
        """Removes the object's file. Raises `ApiError` 503 on failure."""
        if kind in self._kinds:
            try:
                self._path(kind, obj).unlink(missing_ok=True)
            except OSError as error:
                raise refusals.not_stored(kind, obj["metadata"]["name"], error) from error

    def _path(self, kind: Kind, obj: Object) -> Path:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or _NO_NAMESPACE, metadata["name"]
        return self._folder / kind.plural / str(namespace) / str(name)

    def _load(self, kind: Kind) -> Iterator[Object]:
        for path in sorted((self._folder / kind.plural).glob("*/*")):
            try:
                obj = json.loads(path.read_bytes())
                _check(kind, obj)
                if self._path(kind, obj) != path:
                    raise ValueError("its path does not match its namespace and name")
            except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, ApiError) as error:
                log.error("ignoring invalid object file %s: %s", path.relative_to(self._folder), error)
            else:
                yield obj


def _check(kind: Kind, obj: Any) -> None:
    """Raises an error if no API server can have stored this object."""
    strategies.check_shape(kind, obj)
    metadata, status = obj["metadata"], obj.get("status", {})
    name, namespace = metadata["name"], metadata.get("namespace")
    fresh = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    strategies.created(kind, {**obj, "metadata": fresh}, strategies.ServerFields("", ""))
    if not is_name(name) or bool(namespace) != kind.namespaced:
        raise ValueError("invalid metadata.name or metadata.namespace")
    texts = [metadata["uid"], metadata["creationTimestamp"], metadata["resourceVersion"], namespace or ""]
    if not all(isinstance(text, str) for text in texts) or not metadata["resourceVersion"].isdecimal():
        raise ValueError("invalid metadata.uid, creationTimestamp or resourceVersion")
    if not isinstance(status, dict):
        raise ValueError("status must be an object")
    for field in ("finalizers", "ownerReferences"):
        if not isinstance(metadata.get(field, []), list):
            raise ValueError(f"metadata.{field} must be a list")
