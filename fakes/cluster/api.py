"""The part of the Kubernetes API that fakes and scenarios use: kinds, errors, and the interfaces of clients."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

# The part of the Kubernetes API that fakes and scenarios use, as a small Protocol over plain JSON objects.
#
# Two classes implement it: `api_server.ApiServer` (in memory) and `kube_client.KubeClient` (any real API server).
# Objects are dicts in the API's JSON form; results belong to the caller.

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


Key = tuple[str, str]
"""Namespace (empty for kinds without) and name."""


def key_of(obj: Object) -> Key:
    """The namespace and name of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def timestamp(wall: float) -> str:
    """Unix seconds in the form of the API: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


APPLY = "application/apply-patch+yaml"
"""The content type of apply patches (module `apply_patches`)."""
STRATEGIC = "application/strategic-merge-patch+json"
"""The content type of strategic merge patches."""


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


# A client that can watch from the revision of its list, to hold a complete and current copy of a kind.


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

    async def apply(self, kind: Kind, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        """Applies the fields of an object as this manager, also those of other managers, and removes fields that it
        applied before and no longer has. Creates a missing object. A dry run only returns the result.
        """

    async def apply_status(self, kind: Kind, obj: Object, manager: str) -> Object:
        """Applies fields of the status as this manager, also if they belong to another one. Returns the object."""

    async def wait_ready(self) -> None:
        """Waits until the server is ready."""


# Kinds that no fake works with: those of Kubernetes itself, and those of CustomResourceDefinitions.
#
# Drivers and their manifests use them, such as a ConfigMap with the configuration of a driver. Source: k8s.io/api,
# and k8s.io/apiextensions-apiserver, `pkg/apis/apiextensions/v1`.

CRDS = Kind(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "apiextensions.k8s.io/v1",
    namespaced=False,
    has_status=True,
)
"""The kind CustomResourceDefinition."""

BUDGETS = Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy/v1", namespaced=True, has_status=True)
"""The kind PodDisruptionBudget."""

BINDINGS = Kind("Binding", "bindings", "v1", namespaced=True)
EVICTIONS = Kind("Eviction", "evictions", "policy/v1", namespaced=True)
"""Bindings and evictions are requests for a Pod. They are not stored."""

DATA_KINDS = (
    Kind("ConfigMap", "configmaps", "v1", namespaced=True),
    Kind("Secret", "secrets", "v1", namespaced=True),
    Kind("Service", "services", "v1", namespaced=True, has_status=True),
    Kind("ServiceAccount", "serviceaccounts", "v1", namespaced=True),
)
"""Kinds that are only stored, and that many controllers and drivers use."""

_NAMESPACED: Mapping[str, str] = {
    "v1": "ConfigMap Endpoints LimitRange PersistentVolumeClaim* PodTemplate ReplicationController* ResourceQuota* "
    "Secret Service* ServiceAccount",
    "apps/v1": "ControllerRevision DaemonSet* Deployment* StatefulSet*",
    "autoscaling/v2": "HorizontalPodAutoscaler*",
    "batch/v1": "CronJob* Job*",
    "discovery.k8s.io/v1": "EndpointSlice",
    "networking.k8s.io/v1": "Ingress* NetworkPolicy",
    "policy/v1": "PodDisruptionBudget*",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding",
    "storage.k8s.io/v1": "CSIStorageCapacity",
}
"""Kinds in namespaces by their apiVersion; those with a star have a status subresource."""

_CLUSTER_WIDE: Mapping[str, str] = {
    "v1": "PersistentVolume*",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingAdmissionPolicy* "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    "apiregistration.k8s.io/v1": "APIService*",
    "networking.k8s.io/v1": "IngressClass",
    "node.k8s.io/v1": "RuntimeClass",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io/v1alpha3": "DeviceTaintRule*",
    "resource.k8s.io/v1beta2": "DeviceTaintRule*",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "CSIDriver CSINode StorageClass VolumeAttachment* VolumeAttributesClass",
}
"""Kinds without a namespace."""


def plural_of(kind: str) -> str:
    """The usual name of a kind in URLs. Source: k8s.io/apimachinery, `pkg/api/meta`, UnsafeGuessKindToResource."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}{'es' if name.endswith('s') else 's'}"


def _listed(names: Mapping[str, str], *, namespaced: bool) -> Iterator[Kind]:
    for version, text in names.items():
        for word in text.split():
            kind = word.rstrip("*")
            yield Kind(kind, plural_of(kind), version, namespaced=namespaced, has_status=word.endswith("*"))


OTHER_KINDS: tuple[Kind, ...] = (
    CRDS,
    *_listed(_NAMESPACED, namespaced=True),
    *_listed(_CLUSTER_WIDE, namespaced=False),
)
"""The kinds of Kubernetes that manifests of drivers have, besides those in `api.KINDS`."""

_OWN_GROUPS = {kind.api_version.rpartition("/")[0] for kind in (*KINDS, *OTHER_KINDS)} | {"events.k8s.io"}


def is_of_kubernetes(api_version: str) -> bool:
    """Whether Kubernetes itself defines the kinds of this group."""
    return api_version.rpartition("/")[0] in _OWN_GROUPS


def custom_kinds(definition: Object) -> tuple[Kind, ...]:
    """The kinds of a CustomResourceDefinition, the stored version first; only served versions."""
    spec = definition["spec"]
    versions = [one for one in spec["versions"] if one.get("served", True)]
    return tuple(
        Kind(
            spec["names"]["kind"],
            spec["names"]["plural"],
            f"{spec['group']}/{one['name']}",
            namespaced=spec["scope"] == "Namespaced",
            has_status="status" in (one.get("subresources") or {}),
        )
        for one in sorted(versions, key=lambda one: not one.get("storage"))
    )
