"""The columns of tables, as `kubectl get` prints them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object

# What `kubectl get pods` prints about the containers of a Pod. Pure functions.
#
# Source: Kubernetes 1.37, `pkg/printers/internalversion`, printPod.

_TERMINAL = ("Succeeded", "Failed")


def pod_ready(pod: Object) -> str:
    """Ready containers and all containers, such as `1/2`; restartable init containers count."""
    restartable = _restartable(pod)
    total = len(_spec(pod).get("containers") or ()) + len(restartable)
    ready = sum(1 for one in _before_failure(pod) if one.get("name") in restartable and _runs_ready(one))
    if _has_initialized(pod):
        ready += sum(1 for one in _statuses(pod, "containerStatuses") if _is_ready(one))
    return f"{ready}/{total}"


def pod_status(pod: Object) -> str:
    """The word in the column STATUS."""
    status = pod.get("status") or {}
    phase, reason = status.get("phase") or "", status.get("reason") or status.get("phase") or ""
    if any(_is(one, "PodScheduled") and one.get("reason") == "SchedulingGated" for one in _conditions(pod)):
        reason = "SchedulingGated"
    reason = _init_reason(pod) or reason
    if _has_initialized(pod):
        reason = _container_reason(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return reason if phase in _TERMINAL else "Terminating"
    return str(reason)


def pod_restarts(pod: Object) -> tuple[int, str]:
    """The number of restarts, and the end of the last container that was restarted; "" without such an end."""
    counted = list(_counted(pod))
    ends = [str(_terminated(one.get("lastState")).get("finishedAt") or "") for one in counted]
    return sum(int(one.get("restartCount") or 0) for one in counted), max(ends, default="")


def readiness_gates(pod: Object) -> str:
    """The true conditions and all readiness gates, such as `1/2`; "" without gates."""
    gates = _spec(pod).get("readinessGates") or ()
    true = {one.get("type") for one in _conditions(pod) if one.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}" if gates else ""


def _counted(pod: Object) -> Iterator[Object]:
    """The statuses of the containers whose restarts count."""
    restartable, inits = _restartable(pod), _statuses(pod, "initContainerStatuses")
    if not _has_initialized(pod):
        yield from _until_failure(pod)
    else:
        reached = _until_failure(pod)
        yield from (one for one in inits if one in reached and one.get("name") in restartable)
        yield from _statuses(pod, "containerStatuses")


def _restartable(pod: Object) -> set[str]:
    """The names of init containers that continue to run."""
    return {one["name"] for one in _spec(pod).get("initContainers") or () if one.get("restartPolicy") == "Always"}


def _is_done(pod: Object, status: Object) -> bool:
    """Whether the next init container can start."""
    if (ended := (status.get("state") or {}).get("terminated")) is not None and not ended.get("exitCode"):
        return True
    return status.get("name") in _restartable(pod) and bool(status.get("started"))


def _before_failure(pod: Object) -> list[Object]:
    """The init containers before the first one that is not done."""
    found = []
    for status in _statuses(pod, "initContainerStatuses"):
        if not _is_done(pod, status):
            break
        found.append(status)
    return found


def _until_failure(pod: Object) -> list[Object]:
    return _statuses(pod, "initContainerStatuses")[: len(_before_failure(pod)) + 1]


def _init_reason(pod: Object) -> str:
    """The reason of the first init container that is not done; "" if all are."""
    done, inits = len(_before_failure(pod)), _statuses(pod, "initContainerStatuses")
    if done == len(inits):
        return ""
    state = inits[done].get("state") or {}
    if state.get("terminated") is not None:
        return "Init:" + _ended(state["terminated"])
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{done}/{len(_spec(pod).get('initContainers') or ())}"


def _container_reason(pod: Object, reason: str) -> str:
    has_running, failed = False, ""
    for one in reversed(_statuses(pod, "containerStatuses")):
        state = one.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = waiting
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
            failed = reason if state["terminated"].get("exitCode") else failed
        elif _is_ready(one):
            has_running = True
    if reason != "Completed":
        return reason
    if has_running and any(_is(one, "Ready") and one.get("status") == "True" for one in _conditions(pod)):
        return "Running"
    return failed or ("NotReady" if has_running else reason)


def _ended(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _has_initialized(pod: Object) -> bool:
    initialized = any(_is(one, "Initialized") and one.get("status") == "True" for one in _conditions(pod))
    return initialized or not _init_reason(pod)


def _is_ready(status: Object) -> bool:
    """Whether a container that is not waiting or terminated runs and is ready."""
    state = status.get("state") or {}
    has_ended = (state.get("waiting") or {}).get("reason") or state.get("terminated") is not None
    return bool(status.get("ready")) and state.get("running") is not None and not has_ended


def _runs_ready(status: Object) -> bool:
    return bool(status.get("started") and status.get("ready")) and not _terminated(status.get("state"))


def _terminated(state: Any) -> Mapping[str, Any]:
    return (state or {}).get("terminated") or {}


def _is(condition: Object, type_: str) -> bool:
    return condition.get("type") == type_


def _conditions(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("conditions") or ())


def _statuses(pod: Object, field: str) -> list[Object]:
    return list((pod.get("status") or {}).get(field) or ())


def _spec(pod: Object) -> Object:
    return pod.get("spec") or {}


# The columns of tables, as `kubectl get` prints them: for each kind the names, and the cells of an object. Pure.
#
# Source: Kubernetes 1.37, `pkg/printers/internalversion`; k8s.io/apimachinery, `pkg/util/duration`, HumanDuration.

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


# The columns of custom resources: `additionalPrinterColumns` of a CustomResourceDefinition, with their JSONPath.
# Pure.
#
# Source: k8s.io/apiextensions-apiserver, `pkg/registry/customresource/tableconvertor`.

_STEP = re.compile(
    r"\.(?P<name>(?:\\.|[^.\[\]\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+)\]|(?P<all>\[\*\]|\.\*)"
    r"|\[\?\(@\.(?P<key>[^=!<> ]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]"
)


def custom_columns(kind: Kind, definitions: Sequence[Object]) -> Sequence[Column] | None:
    """The columns of a custom resource; None if no definition has the kind."""
    group, _, version = kind.api_version.rpartition("/")
    for spec in (one["spec"] for one in definitions):
        if (spec["group"], spec["names"]["kind"]) == (group, kind.kind):
            listed: Object = next((one for one in spec["versions"] if one["name"] == version), {})
            return (NAME, *map(_column, listed.get("additionalPrinterColumns") or ())) if _has(listed) else (NAME, AGE)
    return None


def values_at(value: Any, path: str) -> list[Any]:
    """The values at a simple JSONPath, such as `.status.conditions[?(@.type=="Ready")].status`."""
    at, found = 0, [value]
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return []
        found, at = [inner for one in found for inner in _inside(one, step)], step.end()
    return found


def _has(version: Object) -> bool:
    return bool(version.get("additionalPrinterColumns"))


def _column(definition: Object) -> Column:
    type_, path = definition["type"], definition["jsonPath"]

    def cell(obj: Object, now: datetime) -> Any:
        found = values_at(obj, path)
        return _shown(type_, found[0], now) if found else None

    return Column(definition["name"], cell, type_, definition.get("priority", 0), definition.get("format", ""))


def _shown(type_: str, value: Any, now: datetime) -> Any:
    if type_ == "date":
        return age_since(value, now) if isinstance(value, str) else None
    if type_ == "string":
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else float(value)


def _inside(value: Any, step: re.Match[str]) -> list[Any]:
    """The values that one step of a path reaches."""
    if step["all"]:
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if step["index"]:
        index = int(step["index"])
        return value[index : index + 1 or None] if isinstance(value, list) else []
    if step["key"]:
        listed = value if isinstance(value, list) else []
        return [one for one in listed if values_at(one, f".{step['key']}") == [step["value"]]]
    name = step["quoted"] if step["quoted"] is not None else re.sub(r"\\(.)", r"\1", step["name"])
    return [value[name]] if isinstance(value, dict) and name in value else []
