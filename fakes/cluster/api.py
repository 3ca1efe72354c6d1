"""The part of the Kubernetes API that fakes and scenarios use, as a small Protocol over plain JSON objects.

Two classes implement it: `api_server.ApiServer` (in memory) and `kube_client.KubeClient` (any real API server). Objects
are dicts in the API's JSON form; results belong to the caller.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Object = dict[str, Any]
"""A Kubernetes object in its JSON form."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects, and its path in the API."""

    kind: str
    plural: str
    api_version: str
    namespaced: bool
    has_status: bool = False
    """Whether it has the subresource `status`."""

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object."""
        prefix = "/api/" if "/" not in self.api_version else "/apis/"
        parts = [prefix + self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        return "/".join(parts)


PODS = Kind("Pod", "pods", "v1", namespaced=True, has_status=True)
"""The kind Pod."""
NODES = Kind("Node", "nodes", "v1", namespaced=False, has_status=True)
"""The kind Node."""
NAMESPACES = Kind("Namespace", "namespaces", "v1", namespaced=False, has_status=True)
CLAIMS = Kind("ResourceClaim", "resourceclaims", "resource.k8s.io/v1", namespaced=True, has_status=True)
"""The kind ResourceClaim."""
CLAIM_TEMPLATES = Kind("ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io/v1", namespaced=True)
"""The kind ResourceClaimTemplate."""
DEVICE_CLASSES = Kind("DeviceClass", "deviceclasses", "resource.k8s.io/v1", namespaced=False)
"""The kind DeviceClass."""
SLICES = Kind("ResourceSlice", "resourceslices", "resource.k8s.io/v1", namespaced=False)
"""The kind ResourceSlice: the devices that drivers publish."""
REPLICA_SETS = Kind("ReplicaSet", "replicasets", "apps/v1", namespaced=True, has_status=True)
EVENTS = Kind("Event", "events", "v1", namespaced=True)
"""The kind Event (core/v1)."""

LEASES = Kind("Lease", "leases", "coordination.k8s.io/v1", namespaced=True)

KINDS = (PODS, NODES, EVENTS, NAMESPACES, CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES, REPLICA_SETS, LEASES)


class ApiError(Exception):
    """The API server rejected a request: HTTP `status`, and `reason` as in the API (NotFound, Conflict, Invalid,
    ...). `details` are those of the `Status` object.
    """

    def __init__(self, status: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED or DELETED, and the object after it."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object


class Api(Protocol):
    """Interface of a client of an API server: get, list, watch, create, patch, delete.

    All calls raise `ApiError` when the server rejects them.
    """

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object (namespace from its metadata; generateName works)."""

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """The object; `ApiError` 404 NotFound if it does not exist."""

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of the kind, in one namespace or in all."""

    async def replace(self, kind: Kind, obj: Object) -> Object:
        """Stores the object's spec and metadata; 409 Conflict if its resourceVersion is given and not the latest."""

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        """The same for its status alone (the `status` subresource)."""

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        """Deletes the object; `grace` in seconds, None for the kind's default, 0 for immediately. 404 if it does not
        exist.
        """

    def watch(self, kind: Kind, namespace: str | None = None) -> AsyncGenerator[WatchEvent, None]:
        """All existing objects as ADDED, then every change. Ends when the server stops."""
