"""The lists that patches merge by the keys of their elements, as data; other lists are replaced as a whole.

Source: k8s.io/api v0.37.1, the tags `patchMergeKey` (strategic merge patches) and `listMapKey` (apply patches) of the
types. Paths are without indices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, NODES, PODS, REPLICA_SETS, Kind


@dataclass(frozen=True, slots=True)
class MergedList:
    """A list whose elements have these keys; a list of different values if there are none."""

    keys: tuple[str, ...]
    strategic: bool = True
    """Whether strategic merge patches merge it too, by its first key."""


Lists = Mapping[str, MergedList]
"""The merged lists of a kind by their paths."""

_VALUES = MergedList(())
_IN_METADATA: Lists = {"metadata.ownerReferences": MergedList(("uid",)), "metadata.finalizers": _VALUES}

_IN_CONTAINER: Lists = {
    "ports": MergedList(("containerPort", "protocol")),
    "env": MergedList(("name",)),
    "volumeMounts": MergedList(("mountPath",)),
    "volumeDevices": MergedList(("devicePath",)),
    "resources.claims": MergedList(("name",), strategic=False),
}

_IN_POD_SPEC: Lists = {
    "volumes": MergedList(("name",)),
    "imagePullSecrets": MergedList(("name",)),
    "hostAliases": MergedList(("ip",)),
    "topologySpreadConstraints": MergedList(("topologyKey", "whenUnsatisfiable")),
    "schedulingGates": MergedList(("name",)),
    "resourceClaims": MergedList(("name",)),
    **{
        path: found
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for path, found in (
            (containers, MergedList(("name",))),
            *((f"{containers}.{field}", merged) for field, merged in _IN_CONTAINER.items()),
        )
    },
}

_HEALTH = "allocatedResourcesStatus"
_IN_HEALTH: Lists = {
    _HEALTH: MergedList(("name",)),
    f"{_HEALTH}.resources": MergedList(("resourceID",), strategic=False),
}
"""Health (KEP-4680). A patch replaces the lists of container statuses as a whole, so it
merges only the Pod's own field. In each of these lists the keys must be unique in an apply patch."""

_CONDITIONS: Lists = {"status.conditions": MergedList(("type",))}

_BY_KIND: Mapping[str, Lists] = {
    PODS.kind: {
        **{f"spec.{path}": found for path, found in _IN_POD_SPEC.items()},
        **_CONDITIONS,
        **{
            f"status.{part}{path}": found
            for part in ("", "containerStatuses.", "initContainerStatuses.", "ephemeralContainerStatuses.")
            for path, found in _IN_HEALTH.items()
        },
        "status.podIPs": MergedList(("ip",)),
        "status.resourceClaimStatuses": MergedList(("name",)),
    },
    NODES.kind: {**_CONDITIONS, "spec.podCIDRs": _VALUES, "status.addresses": MergedList(("type",))},
    NAMESPACES.kind: _CONDITIONS,
    REPLICA_SETS.kind: {
        **{f"spec.template.spec.{path}": found for path, found in _IN_POD_SPEC.items()},
        **_CONDITIONS,
    },
    CLAIMS.kind: {
        "status.reservedFor": MergedList(("uid",)),
        "status.devices": MergedList(("driver", "device", "pool", "shareID"), strategic=False),
        "status.devices.conditions": MergedList(("type",), strategic=False),
    },
}

ATOMIC = frozenset(
    {
        "spec.selector",
        "spec.nodeSelector",
        "status.allocation.nodeSelector",
        "status.devices.data",
        "involvedObject",
        "metadata.ownerReferences",
    }
)
"""The objects that an apply patch replaces as a whole."""


def merged_lists(kind: Kind) -> Lists:
    """The merged lists of the kind, which are the same in all versions."""
    return MappingProxyType({**_IN_METADATA, **_BY_KIND.get(kind.kind, {})})
