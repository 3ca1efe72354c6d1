"""The fields that an API server adds to an object: the defaults of its kind, and what admission adds to Pods. Pure.

Source: k8s.io/kubernetes, `pkg/apis/core/v1/defaults.go` and `pkg/apis/resource/v1/defaults.go`, and the admission
plugins DefaultTolerationSeconds and Priority.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    EVENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    Kind,
    Object,
)

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
