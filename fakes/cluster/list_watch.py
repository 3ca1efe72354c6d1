"""A client that can watch from where it listed: the way to hold a whole and current picture of a kind."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from drahealth.fakes.cluster.api import Api, Kind, Object, WatchEvent


class Snapshot(NamedTuple):
    """All objects of a kind at one revision of the server."""

    objects: list[Object]
    revision: str


class ListWatch(Api, Protocol):
    """The `Api`, and a watch that goes on from a list."""

    async def snapshot(self, kind: Kind, namespace: str | None = None) -> Snapshot:
        """The list, and the revision from which `watch` goes on without loss."""

    def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """As `Api.watch`; with the revision of a snapshot, every change after it and no initial ADDED.

        Raises `ApiError` 410 Expired where the server no longer knows the changes since then.
        """


class ControlPlaneApi(ListWatch, Protocol):
    """What the parts of a control plane need besides."""

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Puts a pod on a node; `ApiError` 409 Conflict if it is on one already."""

    async def wait_ready(self) -> None:
        """Returns once the server serves."""
