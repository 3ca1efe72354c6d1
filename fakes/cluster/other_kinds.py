"""Kinds that no fake works with: those of Kubernetes itself, and those of CustomResourceDefinitions.

Drivers and their manifests use them, such as a ConfigMap with the configuration of a driver. Source: k8s.io/api, and
k8s.io/apiextensions-apiserver, `pkg/apis/apiextensions/v1`.
"""

from collections.abc import Iterator, Mapping

from drahealth.fakes.cluster.api import KINDS, Kind, Object

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
