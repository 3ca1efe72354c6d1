"""The columns of tables, as `kubectl get` prints them: for each kind the names, and the cells of an object. Pure.

Source: Kubernetes 1.37, `pkg/printers/internalversion`; k8s.io/apimachinery, `pkg/util/duration`, HumanDuration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server.printed_pods import pod_ready, pod_restarts, pod_status, readiness_gates

NONE = "<none>"
UNKNOWN = "<unknown>"

Cell = Callable[[Object, datetime], Any]
"""The cell of an object, at this time."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


@dataclass(frozen=True, slots=True)
class Column:
    """A column; with a priority above 0 only `kubectl get -o wide` prints it."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""


def columns_of(kind: Kind) -> Sequence[Column]:
    """The columns of a kind that Kubernetes defines; for other kinds the name and the age."""
    return _COLUMNS.get((kind.api_version.rpartition("/")[0], kind.kind), (NAME, AGE))


def human_age(seconds: float) -> str:
    """An age with two or three digits, such as `5m3s`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    return _two_units(whole, _YEAR, "y", _DAY, "d") if whole < 8 * _YEAR else f"{whole // _YEAR}y"


def age_since(time: Any, now: datetime) -> str:
    """The age of a time in the form of the API."""
    try:
        return human_age((now - datetime.fromisoformat(time)).total_seconds())
    except (TypeError, ValueError):
        return UNKNOWN


def _two_units(whole: int, unit: int, letter: str, small: int, small_letter: str) -> str:
    rest = whole % unit // small
    return f"{whole // unit}{letter}{rest}{small_letter}" if rest else f"{whole // unit}{letter}"


def value_at(obj: Any, path: str, default: Any = "") -> Any:
    """The value at a path such as `spec.nodeName`; the default if it is missing."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return default if obj is None else obj


def _field(path: str, default: Any = "") -> Cell:
    return lambda obj, _: value_at(obj, path, default)


def _filled(path: str, default: str) -> Cell:
    """The text at a path; the default if it is missing or empty."""
    return lambda obj, _: value_at(obj, path) or default


def _count(*paths: str) -> Cell:
    return lambda obj, _: sum(len(value_at(obj, path, ())) for path in paths)


def _age(obj: Object, now: datetime) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", _field("metadata.name"), format="name")
AGE = Column("Age", _age)


def _number(name: str, path: str) -> Column:
    return Column(name, _field(path, 0), type="integer")


def _first(path: str) -> Cell:
    """The first element of a list."""
    return lambda obj, _: next(iter(value_at(obj, path, ())), NONE)


def _labels(path: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(value_at(obj, path, {}).items())) or NONE

    return cell


def _external_addresses(service: Object, _: datetime) -> str:
    kind, given = value_at(service, "spec.type"), value_at(service, "spec.externalIPs", [])
    if kind == "ExternalName":
        return str(value_at(service, "spec.externalName"))
    found = [one.get("ip") or one.get("hostname") for one in value_at(service, "status.loadBalancer.ingress", ())]
    shown = [*(found if kind == "LoadBalancer" else ()), *given]
    return ",".join(shown) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ports(service: Object, _: datetime) -> str:
    def port(one: Object) -> str:
        node_port = f":{one['nodePort']}" if one.get("nodePort") else ""
        return f"{one.get('port')}{node_port}/{one.get('protocol', 'TCP')}"

    return ",".join(map(port, value_at(service, "spec.ports", ()))) or NONE


def _first_address(type_: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        addresses = value_at(node, "status.addresses", ())
        return next((str(one.get("address", "")) for one in addresses if one.get("type") == type_), NONE)

    return cell


def _node_status(node: Object, _: datetime) -> str:
    ready = [one for one in value_at(node, "status.conditions", ()) if one.get("type") == "Ready"]
    words = ["Ready" if ready[-1].get("status") == "True" else "NotReady"] if ready else ["Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if value_at(node, "spec.unschedulable", False) else []))


def _node_roles(node: Object, _: datetime) -> str:
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in value_at(node, "metadata.labels", {}).items():
        if key.startswith(prefix):
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _kernel(node: Object, _: datetime) -> str:
    version = value_at(node, "status.nodeInfo.kernelVersion") or UNKNOWN
    architecture = value_at(node, "status.nodeInfo.architecture")
    return f"{version} ({architecture})" if architecture else version


def _pod_ip(pod: Object, _: datetime) -> str:
    addresses = value_at(pod, "status.podIPs", ())
    return (addresses[0].get("ip") if addresses else None) or NONE


def _restarts(pod: Object, now: datetime) -> str:
    count, last = pod_restarts(pod)
    return f"{count} ({age_since(last, now)} ago)" if count and last else str(count)


def _first_seen(event: Object, now: datetime) -> str:
    return age_since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    if event.get("series"):
        return age_since(event["series"].get("lastObservedTime"), now)
    return age_since(event["lastTimestamp"], now) if event.get("lastTimestamp") else _first_seen(event, now)


def _event_count(event: Object, _: datetime) -> int:
    return int(value_at(event, "series.count", 0) if event.get("series") else event.get("count") or 1)


def _event_object(event: Object, _: datetime) -> str:
    kind, name = (value_at(event, f"involvedObject.{key}") for key in ("kind", "name"))
    return f"{kind.lower()}/{name}" if name else str(kind.lower())


def _event_source(event: Object, _: datetime) -> str:
    component = value_at(event, "source.component") or event.get("reportingComponent") or ""
    instance = value_at(event, "source.host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _event_message(event: Object, _: datetime) -> str:
    return str(event.get("message") or "").strip()


def _claim_state(claim: Object, _: datetime) -> str:
    is_deleted, allocation = "deletionTimestamp" in claim["metadata"], value_at(claim, "status.allocation", None)
    states = ["deleted"] if is_deleted else []
    if allocation is not None:
        states += ["allocated", *(["reserved"] if value_at(claim, "status.reservedFor", ()) else [])]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


def _of_containers(field: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        return ",".join(str(one.get(field, "")) for one in value_at(obj, "spec.template.spec.containers", ()))

    return cell


def _selector(obj: Object, _: datetime) -> str:
    """A label selector in the form of the command line."""
    signs = {"In": "in", "NotIn": "notin"}
    terms = [f"{key}={value}" for key, value in sorted(value_at(obj, "spec.selector.matchLabels", {}).items())]
    for one in value_at(obj, "spec.selector.matchExpressions", ()):
        key, operator = one.get("key"), one.get("operator")
        if operator in signs:
            terms.append(f"{key} {signs[operator]} ({','.join(sorted(one.get('values') or ()))})")
        else:
            terms.append(f"!{key}" if operator == "DoesNotExist" else str(key))
    return ",".join(terms) or NONE


def _budget(field: str) -> Cell:
    return lambda obj, _: str(value_at(obj, f"spec.{field}", "N/A"))


_WORKLOAD = (
    Column("Containers", _of_containers("name"), priority=1),
    Column("Images", _of_containers("image"), priority=1),
    Column("Selector", _selector, priority=1),
)

_EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", _field("type")),
    Column("Reason", _field("reason")),
    Column("Object", _event_object),
    Column("Subobject", _field("involvedObject.fieldPath"), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", _event_message),
    Column("First Seen", _first_seen, priority=1),
    Column("Count", _event_count, priority=1),
    Column("Name", _field("metadata.name"), priority=1, format="name"),
)

_COLUMNS: Mapping[tuple[str, str], Sequence[Column]] = MappingProxyType(
    {
        ("", "Pod"): (
            NAME,
            Column("Ready", lambda pod, _: pod_ready(pod)),
            Column("Status", lambda pod, _: pod_status(pod)),
            Column("Restarts", _restarts),
            AGE,
            Column("IP", _pod_ip, priority=1),
            Column("Node", _filled("spec.nodeName", NONE), priority=1),
            Column("Nominated Node", _filled("status.nominatedNodeName", NONE), priority=1),
            Column("Readiness Gates", lambda pod, _: readiness_gates(pod) or NONE, priority=1),
        ),
        ("", "Node"): (
            NAME,
            Column("Status", _node_status),
            Column("Roles", _node_roles),
            AGE,
            Column("Version", _field("status.nodeInfo.kubeletVersion")),
            Column("Internal-IP", _first_address("InternalIP"), priority=1),
            Column("External-IP", _first_address("ExternalIP"), priority=1),
            Column("OS-Image", _filled("status.nodeInfo.osImage", UNKNOWN), priority=1),
            Column("Kernel-Version", _kernel, priority=1),
            Column("Container-Runtime", _filled("status.nodeInfo.containerRuntimeVersion", UNKNOWN), priority=1),
        ),
        ("", "Event"): _EVENT,
        ("events.k8s.io", "Event"): _EVENT,
        ("", "Namespace"): (NAME, Column("Status", _field("status.phase")), AGE),
        ("", "ConfigMap"): (NAME, Column("Data", _count("data", "binaryData")), AGE),
        ("", "Secret"): (NAME, Column("Type", _field("type")), Column("Data", _count("data")), AGE),
        ("", "Service"): (
            NAME,
            Column("Type", _field("spec.type")),
            Column("Cluster-IP", _first("spec.clusterIPs")),
            Column("External-IP", _external_addresses),
            Column("Port(s)", _ports),
            AGE,
            Column("Selector", _labels("spec.selector"), priority=1),
        ),
        ("coordination.k8s.io", "Lease"): (NAME, Column("Holder", _field("spec.holderIdentity")), AGE),
        ("resource.k8s.io", "ResourceClaim"): (NAME, Column("State", _claim_state), AGE),
        ("resource.k8s.io", "ResourceSlice"): (
            NAME,
            Column("Node", _field("spec.nodeName")),
            Column("Driver", _field("spec.driver")),
            Column("Pool", _field("spec.pool.name")),
            AGE,
        ),
        ("apps", "ReplicaSet"): (
            NAME,
            _number("Desired", "spec.replicas"),
            _number("Current", "status.replicas"),
            _number("Ready", "status.readyReplicas"),
            AGE,
            *_WORKLOAD,
        ),
        ("policy", "PodDisruptionBudget"): (
            NAME,
            Column("Min Available", _budget("minAvailable")),
            Column("Max Unavailable", _budget("maxUnavailable")),
            _number("Allowed Disruptions", "status.disruptionsAllowed"),
            AGE,
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition"): (
            NAME,
            Column("Created At", _field("metadata.creationTimestamp"), type="date"),
        ),
    }
)
"""The columns by group and kind. All other kinds that are served have the columns `NAME` and `AGE`."""
