"""The objects in the API server of a driver process before the driver starts: its Node, and those of the user."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception, wait_fixed

from drahealth.fakes.cluster.api import NAMESPACES, NODES, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.other_kinds import CRDS, custom_kinds
from drahealth.suites.checking.subject.places import Places, filled
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.polling import poll

ESTABLISHED_LIMIT = 120.0
"""Seconds until an API server serves the kind of a CustomResourceDefinition."""
_INTERVAL = 0.1
Created = Callable[[Kind, Object], None]
"""Receives an object that was created."""
_NOT_FOUND = 404


async def create_objects(
    api: ListWatch,
    given: Sequence[Mapping[str, Any]],
    places: Places,
    created: Created = lambda *_: None,
) -> None:
    """Creates these objects, and the Node of the driver if it is not among them. `created` receives each of them.

    Namespaces come first, then CustomResourceDefinitions, whose kinds are served before the other objects are created.
    Placeholders in texts are replaced. Raises ConfigurationError if the API server rejects an object, and HarnessError
    if it does not serve a kind in time.
    """
    objects = [with_placeholders(one, places.placeholders()) for one in given]
    custom = set[tuple[str, str]]()
    for one in sorted(objects, key=_order):
        try:
            if (one["apiVersion"], one["kind"]) in custom:
                await _served(partial(_create, api, one, created))
            else:
                await _create(api, one, created)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                what = f"the API server rejects {one['kind']} {one['metadata'].get('name')}: {error}"
                raise ConfigurationError(what, "correct the objects of [api-server]") from None
        if one["kind"] == CRDS.kind:
            await _wait_until_established(api, one["metadata"]["name"])
            custom |= {(kind.api_version, kind.kind) for kind in custom_kinds(one)}
    if not any(one["kind"] == NODES.kind and one["metadata"].get("name") == places.node_name for one in objects):
        await _create_node(api, places.node_name, created)


def _order(obj: Object) -> int:
    return [NAMESPACES.kind, CRDS.kind, obj["kind"]].index(obj["kind"])


async def _create(api: ListWatch, obj: Object, created: Created) -> None:
    """Creates an object with its status. Raises `ApiError`."""
    kind = await api.kind_of(obj)
    metadata = obj["metadata"]
    if kind.namespaced and "namespace" not in metadata:
        metadata = {**metadata, "namespace": "default"}
    made = await api.create(kind, {**obj, "apiVersion": kind.api_version, "metadata": metadata})
    created(kind, made)
    if obj.get("status") and kind.has_status and kind != CRDS:
        await api.replace_status(kind, {**made, "status": obj["status"]})


async def _served(create: Callable[[], Awaitable[None]]) -> None:
    """Creates a custom resource. An API server needs a moment until it serves a new kind."""
    try:
        async with asyncio.timeout(ESTABLISHED_LIMIT):
            await AsyncRetrying(retry=retry_if_exception(_is_unknown_kind), wait=wait_fixed(_INTERVAL))(create)
    except TimeoutError:
        raise HarnessError(f"the API server does not serve a new kind after {ESTABLISHED_LIMIT:g} s") from None


def _is_unknown_kind(error: BaseException) -> bool:
    return isinstance(error, ApiError) and error.status == _NOT_FOUND and not error.message.startswith("namespaces ")


async def _wait_until_established(api: ListWatch, name: str) -> None:
    async def established() -> bool:
        return _is_established(await api.get(CRDS, name))

    try:
        async with asyncio.timeout(ESTABLISHED_LIMIT):
            await poll(established, _INTERVAL)
    except TimeoutError:
        what = f"CustomResourceDefinition {name} is not Established after {ESTABLISHED_LIMIT:g} s"
        raise HarnessError(what, "look at its conditions") from None


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)


async def _create_node(api: ListWatch, name: str, created: Created) -> None:
    try:
        created(NODES, await api.create(NODES, {"metadata": {"name": name}}))
    except ApiError as error:
        if error.reason != "AlreadyExists":  # a real kubelet has created it
            raise


def with_placeholders(value: Any, values: Mapping[str, str]) -> Any:
    """A JSON value with the placeholders in its texts replaced."""
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, Mapping):
        found: Object = {key: with_placeholders(one, values) for key, one in value.items()}
        return found
    return [with_placeholders(one, values) for one in value] if isinstance(value, list | tuple) else value
