"""Changes that an API server makes to an object before it stores it: defaults, and the rules of its kind. Pure."""

import base64
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CRDS,
    DEVICE_CLASSES,
    EVENTS,
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SLICES,
    ApiError,
    Kind,
    Object,
    is_of_kubernetes,
)
from drahealth.fakes.cluster.api_server.pod_requests import new_gate_errors, with_gated_condition
from drahealth.fakes.cluster.api_server.spec_validation import (
    check_spec,
    frozen_errors,
    moved_errors,
    spec_errors,
    status_errors,
)
from drahealth.fakes.cluster.object_rules import check_shape, metadata_errors, new_finalizer_errors
from drahealth.fakes.cluster.refusals import FieldError

# The fields that an API server adds to an object: the defaults of its kind, and what admission adds to Pods. Pure.
#
# Source: k8s.io/kubernetes, `pkg/apis/core/v1/defaults.go` and `pkg/apis/resource/v1/defaults.go`, and the admission
# plugins DefaultTolerationSeconds and Priority.

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_POD_SPEC: Mapping[str, Any] = MappingProxyType(
    {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
    }
)
_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
ADMITTED_POD_SPEC: Mapping[str, Any] = MappingProxyType(
    {"priority": 0, "preemptionPolicy": "PreemptLowerPriority", "tolerations": [*_TOLERATIONS]}
)
"""The fields that admission adds to the spec of a Pod without them."""
_EVENT: Mapping[str, Any] = MappingProxyType(
    {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
)
_NODE_INFO: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        (
            *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
            *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
        ),
        "",
    )
)
_AMOUNT = re.compile(r"[+-]?[0.]+([A-Za-z].*)?")


def with_defaults(kind: Kind, obj: Object) -> Object:
    """The object with the fields that the server adds; those that it has stay."""
    if kind == PODS:
        return {**obj, "spec": _pod_spec(obj.get("spec") or {})}
    if kind == REPLICA_SETS:
        return {**_replica_set(obj), "status": {"replicas": 0, **(obj.get("status") or {})}}
    if kind in (CLAIMS, CLAIM_TEMPLATES):
        return _claim(obj) if kind == CLAIMS else _template(obj)
    if kind == EVENTS:
        return {**_EVENT, **obj}
    if kind == NODES:
        return _node(obj)
    if (kind.kind, kind.api_version) == ("Secret", "v1"):
        return _secret(obj)
    return obj


def qos_class(spec: Object) -> str:
    """The quality of service of a Pod, from the CPU and memory of its containers."""
    requests, limits, is_guaranteed = set[str](), set[str](), True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        own_requests, own_limits = (_computing(resources.get(key)) for key in ("requests", "limits"))
        requests |= set(own_requests)
        limits |= set(own_limits)
        is_guaranteed &= len(own_limits) == 2 and {**own_limits, **own_requests} == own_limits
    if not requests | limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _computing(amounts: Any) -> dict[str, str]:
    """The amounts of CPU and memory that are not zero."""
    found = {name: str(amount) for name, amount in (amounts or {}).items() if name in ("cpu", "memory")}
    return {name: amount for name, amount in found.items() if not _AMOUNT.fullmatch(amount)}


def _pod_spec(spec: Object) -> Object:
    lists = {
        key: [_with_requests(one) if key != "ephemeralContainers" else one for one in _containers(spec[key])]
        for key in _CONTAINER_LISTS
        if spec.get(key)
    }
    keys = {toleration.get("key") for toleration in spec.get("tolerations") or ()}
    added = [one for one in _TOLERATIONS if not {one["key"], None} & keys]
    admitted = {key: ADMITTED_POD_SPEC[key] for key in ("priority", "preemptionPolicy")}
    priority = {} if "priorityClassName" in spec else admitted
    tolerations = {"tolerations": [*(spec.get("tolerations") or ()), *added]}
    defaults = {**_POD_SPEC, "securityContext": {}, "enableServiceLinks": True, **priority}
    return {**defaults, **spec, **lists, **tolerations}


def _containers(containers: Any) -> Iterator[Object]:
    for one in containers:
        tag = one.get("image", "").rpartition("/")[2].partition("@")[0].partition(":")[2]
        policy = "Always" if tag in ("", "latest") and "@" not in one.get("image", "") else "IfNotPresent"
        ports = {"ports": [{"protocol": "TCP", **port} for port in one["ports"]]} if one.get("ports") else {}
        yield {
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": policy,
            **one,
            **ports,
        }


def _with_requests(container: Object) -> Object:
    """A limit is the default of its request."""
    resources = container.get("resources") or {}
    if not resources.get("limits"):
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _replica_set(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    inner = template.get("spec") or {}
    lists = {key: list(_containers(inner[key])) for key in _CONTAINER_LISTS if inner.get(key)}
    inner = {**_POD_SPEC, "securityContext": {}, **inner, **lists}
    return {**obj, "spec": {"replicas": 1, **spec, "template": {"metadata": {}, **template, "spec": inner}}}


def _claim(obj: Object) -> Object:
    """A claim, or the part of a template that becomes one."""
    devices = (obj.get("spec") or {}).get("devices") or {}
    requests = [_request(request) for request in devices.get("requests") or ()]
    devices = {**devices, "requests": requests} if requests else devices
    return {**obj, "spec": {**(obj.get("spec") or {}), "devices": devices}}


def _template(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    return {**obj, "spec": {"metadata": {}, **_claim(spec)}}


def _request(request: Object) -> Object:
    exactly = {"exactly": _counted(request["exactly"])} if request.get("exactly") else {}
    alternatives = [_counted(one) for one in request.get("firstAvailable") or ()]
    return {**request, **exactly, **({"firstAvailable": alternatives} if alternatives else {})}


def _counted(request: Object) -> Object:
    mode = request.get("allocationMode") or "ExactCount"
    count = {"count": request.get("count") or 1} if mode == "ExactCount" else {}
    return {**request, "allocationMode": mode, **count}


def _node(obj: Object) -> Object:
    status = obj.get("status") or {}
    info = {**_NODE_INFO, **(status.get("nodeInfo") or {})}
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, **status, "nodeInfo": info}
    return {**obj, "spec": obj.get("spec") or {}, "status": status}


def _secret(obj: Object) -> Object:
    obj = {**obj, "type": obj.get("type") or "Opaque"}
    if "stringData" not in obj:
        return obj
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in obj["stringData"].items()}
    kept = {key: value for key, value in obj.items() if key != "stringData"}
    return {**kept, "data": {**(obj.get("data") or {}), **encoded}}


# Changes of a Pod through its subresources `ephemeralcontainers` and `resize`. Pure functions.
#
# Source: k8s.io/kubernetes, `pkg/registry/core/pod/strategy.go` and `pkg/apis/core/validation`.


def _with_ephemeral(old: Object, wanted: Object) -> Object:
    """Only new containers can be added."""
    before = {one["name"]: one for one in old["spec"].get("ephemeralContainers") or ()}
    after = {one.get("name"): one for one in wanted["spec"].get("ephemeralContainers") or ()}
    for name, container in before.items():
        if name not in after:
            raise _forbidden(old, f"existing ephemeral containers {name!r} may not be removed")
        if after[name] != container:
            raise _forbidden(old, f'existing ephemeral containers "{name}" may not be changed')
    return {**old["spec"], "ephemeralContainers": [*after.values()]} if after else old["spec"]


def _forbidden(pod: Object, why: str) -> ApiError:
    return refusals.invalid(PODS, pod["metadata"]["name"], [refusals.forbidden("spec.ephemeralContainers", why)])


def _with_sizes(old: Object, wanted: Object) -> Object:
    """Only the resources of containers change, and not the quality of service."""
    sizes = {one["name"]: one.get("resources") or {} for one in wanted["spec"]["containers"]}
    containers = [{**one, "resources": sizes.get(one["name"], one["resources"])} for one in old["spec"]["containers"]]
    spec = {**old["spec"], "containers": containers}
    if (before := qos_class(old["spec"])) != qos_class(spec):
        why = "Pod QOS Class may not change as a result of resizing"
        error = refusals.invalid_value("spec", before, why)
        raise refusals.invalid(PODS, old["metadata"]["name"], [error])
    return spec


PARTS: Mapping[str, Callable[[Object, Object], Object]] = MappingProxyType(
    {"ephemeralcontainers": _with_ephemeral, "resize": _with_sizes}
)
"""The new spec by the name of the subresource, from the stored Pod and the wanted one."""


def changed_part(part: str, old: Object, wanted: Object) -> Object:
    """The Pod after a change of a subresource. Raises `ApiError` 422 for a change that is not possible."""
    spec = PARTS[part](old, with_defaults(PODS, wanted))
    if spec == old["spec"]:
        return old
    metadata = {**old["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**old, "metadata": metadata, "spec": spec}


# Changes that an API server makes to an object before it stores it. Pure functions from the old and the new object.
#
# As in Kubernetes each kind has a strategy: the fields that a create sets, the fields that an update cannot change,
# and whether the kind has a status.

WITH_GENERATION = frozenset({PODS, DEVICE_CLASSES, SLICES, REPLICA_SETS})
"""Kinds of `api.KINDS` with `metadata.generation`, which counts changes of the spec. All other kinds have it, too."""

_FIRST_STATUS: dict[Kind, Object] = {
    PODS: {"phase": "Pending"},
    CLAIMS: {},
    NAMESPACES: {"phase": "Active"},
    REPLICA_SETS: {},
    BUDGETS: dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0),
}
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NOT_OF_CLIENTS = (*_SERVER_FIELDS, "resourceVersion", "selfLink")
_LONGEST_PREFIX = 58
"""A longer `generateName` is cut off."""
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MUTABLE_IN_PODS = ("activeDeadlineSeconds", "schedulingGates", "tolerations", "terminationGracePeriodSeconds")


_CREATED_BY_UPDATE = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "LimitRange", "Role", "RoleBinding"),
        *("RuntimeClass", "Service"),
    }
)
"""Source: `AllowCreateOnUpdate` of the strategies in k8s.io/kubernetes, `pkg/registry`."""

_UPDATED_BY_REVISION = frozenset(
    {
        *("CSIDriver", "CSINode", "CSIStorageCapacity", "Lease", "MutatingWebhookConfiguration"),
        *("PodDisruptionBudget", "RuntimeClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ValidatingWebhookConfiguration", "VolumeAttachment"),
    }
)
"""Source: `AllowUnconditionalUpdate` of the strategies in k8s.io/kubernetes, `pkg/registry`."""


@dataclass(frozen=True, slots=True)
class ServerFields:
    """Fields that the server sets in a new object: its UID and the time, as RFC 3339."""

    uid: str
    time: str


def is_created_by_update(kind: Kind) -> bool:
    """Whether an update of an object that does not exist creates it."""
    return kind.kind in _CREATED_BY_UPDATE


def needs_revision(kind: Kind) -> bool:
    """Whether an update needs a resourceVersion."""
    return kind.kind in _UPDATED_BY_REVISION or not is_of_kubernetes(kind.api_version) or kind == CRDS


def created(kind: Kind, obj: Object, server_fields: ServerFields) -> Object:
    """The object as first stored. `ApiError` 400 or 422 for an incomplete object."""
    check_shape(kind, obj)
    if obj["metadata"].get("resourceVersion"):
        raise refusals.versioned_at_creation()
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _NOT_OF_CLIENTS}
    check_spec(kind, obj)
    if errors := spec_errors(kind, with_defaults(kind, obj)):
        raise refusals.invalid(kind, str(metadata.get("name") or ""), errors)
    metadata |= {"name": _name(kind, metadata), "uid": server_fields.uid, "creationTimestamp": server_fields.time}
    metadata = _checked_metadata(kind, metadata, [])
    if kind in WITH_GENERATION or (kind not in KINDS and "spec" in obj):
        metadata["generation"] = 1
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind == NAMESPACES:
        new = _with_namespace_fields(new)
    if kind in _FIRST_STATUS:
        new["status"] = _FIRST_STATUS[kind]
    elif kind.has_status and kind != NODES:
        new.pop("status", None)
    new = with_defaults(kind, new)
    if kind == SLICES:
        return _with_taint_times(new, server_fields.time)
    if kind != PODS:
        return new
    new = {**new, "status": {**new["status"], "qosClass": qos_class(new["spec"])}}
    return with_gated_condition(new, server_fields.time)


def updated(kind: Kind, obj: Object, old: Object, time: str) -> Object:
    """`old` with the spec and metadata of `obj`; server fields stay, and the generation counts changes of the spec.

    `time` is that of the update, as RFC 3339.
    """
    check_spec(kind, obj)
    metadata = {**obj["metadata"], **{key: old["metadata"][key] for key in _SERVER_FIELDS if key in old["metadata"]}}
    metadata = _checked_metadata(kind, metadata, new_finalizer_errors(metadata, old["metadata"]))
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind.has_status:
        new = {key: value for key, value in new.items() if key != "status"}
        new |= {"status": old["status"]} if "status" in old else {}
    new = with_defaults(kind, new)
    if errors := [*spec_errors(kind, new), *_immutable_errors(kind, new, old)]:
        raise refusals.invalid(kind, metadata["name"], errors)
    if kind == SLICES:
        new = _with_taint_times(new, time)
    if "generation" in metadata and new.get("spec") != old.get("spec"):
        metadata["generation"] += 1
    return new


def _with_taint_times(found: Object, time: str) -> Object:
    """The ResourceSlice with a `timeAdded` in each taint of a device. A client that leaves it out gets a new time."""
    spec = found["spec"]
    if not any(device.get("taints") for device in spec.get("devices") or ()):
        return found
    devices = [
        {**device, "taints": [{**one, "timeAdded": one.get("timeAdded") or time} for one in device["taints"]]}
        if device.get("taints")
        else device
        for device in spec["devices"]
    ]
    return {**found, "spec": {**spec, "devices": devices}}


def status_updated(kind: Kind, obj: Object, old: Object) -> Object:
    """`old` with the status of `obj`, and its record of apply patches. Some kinds also take labels and annotations."""
    metadata = old["metadata"]
    if kind == CLAIMS and (errors := list(status_errors(obj.get("status") or {}, old.get("status") or {}))):
        raise refusals.invalid(kind, metadata["name"], errors)
    if kind in _METADATA_WITH_STATUS:
        kept = {key: metadata[key] for key in (*_SERVER_FIELDS, "ownerReferences") if key in metadata}
        taken = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
        metadata = _checked_metadata(kind, {**taken, **kept}, [])
    elif "managedFields" in obj["metadata"]:
        metadata = {**metadata, "managedFields": obj["metadata"]["managedFields"]}
    qos = {key: old["status"][key] for key in ("qosClass",) if key in (old.get("status") or {})}
    new = {**old, "metadata": metadata, "status": {**(obj.get("status") or {}), **qos}}
    return with_defaults(kind, new) if kind in (NODES, REPLICA_SETS) else new


_METADATA_WITH_STATUS = frozenset({PODS, NODES, NAMESPACES, REPLICA_SETS})
"""The kinds whose labels and annotations an update of the status replaces, too."""


def check_custom(kind: Kind, obj: Object) -> None:
    """`ApiError` 400 or 422 for an object of a custom kind without its kind, or with another one."""
    if not obj.get("kind"):
        text = json.dumps(obj)
        raise refusals.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"Object 'Kind' is missing in '{text:.200}' ({text:.200})"
        )
    name, given = str((obj.get("metadata") or {}).get("name", "")), replace(kind, kind=str(obj["kind"]))
    errors = [
        refusals.invalid_value(key, obj[key], f"must be {wanted}")
        for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind))
        if obj.get(key, wanted) != wanted
    ]
    if errors:
        raise refusals.invalid(given, name, errors)


def _name(kind: Kind, metadata: Object) -> str:
    name = metadata.get("name")
    if not name:
        prefix = metadata.get("generateName")
        if not prefix:
            error = refusals.required_value("metadata.name", "name or generateName is required")
            raise refusals.invalid(kind, "", [error])
        name = f"{prefix[:_LONGEST_PREFIX]}{''.join(random.choices(_SUFFIX_LETTERS, k=5))}"
    if not isinstance(name, str):
        raise refusals.bad_request(f"metadata.name of a {kind.kind} must be a string, got {name!r:.80}")
    return name


def _with_namespace_fields(namespace: Object) -> Object:
    """A namespace has its name as a label, and a finalizer of Kubernetes in its spec."""
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {"finalizers": ["kubernetes"], **(namespace.get("spec") or {})}
    return {**namespace, "metadata": {**metadata, "labels": labels}, "spec": spec}


def _checked_metadata(kind: Kind, metadata: Object, errors: list[FieldError]) -> Object:
    """The metadata without empty fields. Raises `ApiError` 422 for these errors, and for wrong fields."""
    if found := [*metadata_errors(kind, metadata), *errors]:
        raise refusals.invalid(kind, metadata["name"], found)
    return {key: value for key, value in metadata.items() if value not in ("", [], {}, None)}


def _immutable_errors(kind: Kind, new: Object, old: Object) -> Iterator[FieldError]:
    if kind == PODS:
        yield from _pod_errors(new["spec"], old["spec"])
    yield from frozen_errors(kind, new, old)
    if kind == SLICES:
        yield from moved_errors(new.get("spec") or {}, old.get("spec") or {})
    if kind == CLAIMS and new.get("spec") != old.get("spec"):
        yield refusals.invalid_value("spec", new.get("spec"), "field is immutable")


def _pod_errors(new: Object, old: Object) -> list[FieldError]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            return [refusals.forbidden(f"spec.{key}", "pod updates may not add or remove containers")]
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    at = "spec.activeDeadlineSeconds"
    if before is not None and deadline is None:
        return [refusals.invalid_value(at, deadline, "must not update from a positive integer to nil value")]
    if before is not None and deadline > before:
        return [refusals.invalid_value(at, deadline, "must be less than or equal to previous value")]
    if errors := new_gate_errors(new, old):
        return errors
    if _lasting(new) == _lasting(old):
        return []
    fields = (
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [refusals.forbidden("spec", f"pod updates may not change fields other than {fields}")]


def _lasting(spec: Object) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_IN_PODS}
    for key in ("containers", "initContainers"):
        kept[key] = [{k: v for k, v in container.items() if k != "image"} for container in spec.get(key) or ()]
    return kept
