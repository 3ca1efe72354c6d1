"""The objects in the API server of a driver process before the driver starts: its Node, and those of the user."""

from collections.abc import Mapping, Sequence
from typing import Any

from drahealth.fakes.cluster.api import KINDS, NAMESPACES, NODES, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.suites.checking.subject.places import Places, filled
from drahealth.suites.errors import ConfigurationError

KINDS_BY_NAME: Mapping[str, Kind] = {kind.kind: kind for kind in KINDS}
"""The kinds that a driver's API server can be given."""


async def create_objects(api: ListWatch, given: Sequence[Mapping[str, Any]], places: Places) -> None:
    """Creates these objects, Namespaces first, and the Node of the driver if it is not among them.

    Placeholders in their texts are replaced. Raises ConfigurationError if the API server rejects an object.
    """
    objects = [_filled(one, places.placeholders()) for one in given]
    for one in sorted(objects, key=lambda one: one["kind"] != NAMESPACES.kind):
        kind, name = KINDS_BY_NAME[one["kind"]], one["metadata"].get("name")
        try:
            made = await api.create(kind, one)
            if one.get("status"):
                await api.replace_status(kind, {**made, "status": one["status"]})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                what = f"the API server rejects {one['kind']} {name}: {error}"
                raise ConfigurationError(what, "correct the objects of [api-server]") from None
    if not any(one["kind"] == NODES.kind and one["metadata"].get("name") == places.node_name for one in objects):
        await _create_node(api, places.node_name)


async def _create_node(api: ListWatch, name: str) -> None:
    try:
        await api.create(NODES, {"metadata": {"name": name}})
    except ApiError as error:
        if error.reason != "AlreadyExists":  # a real kubelet has created it
            raise


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """A JSON value with the placeholders in its texts replaced."""
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, Mapping):
        found: Object = {key: _filled(one, values) for key, one in value.items()}
        return found
    return [_filled(one, values) for one in value] if isinstance(value, list | tuple) else value
