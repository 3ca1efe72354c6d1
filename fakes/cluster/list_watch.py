"""A client that can watch from the revision of its list, to hold a complete and current copy of a kind."""

from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple, Protocol

from drahealth.fakes.cluster.api import Api, Kind, Object, WatchEvent


class Snapshot(NamedTuple):
    """All objects of a kind at one revision of the server."""

    objects: list[Object]
    revision: str


class ListWatch(Api, Protocol):
    """The `Api`, with a watch that continues from a list."""

    async def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, by its apiVersion and kind; `ApiError` 404 if the server does not have it."""

    async def snapshot(self, kind: Kind, namespace: str | None = None) -> Snapshot:
        """The list, and the revision from which `watch` continues without loss."""

    def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """As `Api.watch`; with the revision of a snapshot, every change after it and no initial ADDED.

        Raises `ApiError` 410 Expired if the server no longer has the changes since then.
        """


class ControlPlaneApi(ListWatch, Protocol):
    """Further calls, for parts of a control plane and for scenarios."""

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Binds a pod to a node; `ApiError` 409 Conflict if it is already bound."""

    async def add_ephemeral_container(self, name: str, namespace: str, container: Object) -> None:
        """Adds an ephemeral container to a pod, as `kubectl debug` does; its name must be new in the pod."""

    async def resize_pod(self, name: str, namespace: str, limits: Mapping[str, str]) -> None:
        """Asks for other limits and requests of each container of a running pod, such as cpu (subresource `resize`)."""

    async def patch_status(self, kind: Kind, name: str, namespace: str, patch: Object) -> Object:
        """Changes the status by a strategic merge patch. Returns the object."""

    async def apply_status(self, kind: Kind, obj: Object, manager: str) -> Object:
        """Applies fields of the status as this manager, also if they belong to another one. Returns the object."""

    async def wait_ready(self) -> None:
        """Waits until the server is ready."""
