"""The object with a driver's Pod, as drahealth creates it in a cluster: on one node, and with labels. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.suites.checking.subject.places import Places

RUN_LABEL = "drahealth/run"
"""Label of all objects that drahealth creates in a cluster of others. Its value names the run."""
PROCESS_LABEL = "drahealth/process"
"""Label of the Pods of a driver. Its value is the label of the driver process."""
START_LIMIT = 60.0
"""Seconds by default until the Pod of a driver must be Ready."""
USUAL_GRACE = 30
"""Seconds from SIGTERM to SIGKILL of a Pod that does not say it. Source: Kubernetes API, PodSpec."""
_ONE = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True)
class InCluster:
    """A driver that drahealth starts as a Pod in a cluster, on a node whose directories it can reach."""

    workload: Mapping[str, Any]
    """The Pod, or the DaemonSet, Deployment, StatefulSet or Job that makes it. Texts may have placeholders."""
    node: str
    """Name of the Node."""
    root: Path = Path("/")
    """Where the root directory of the node is on this machine; / if drahealth runs on the node."""
    kubelet_dir: str = "/var/lib/kubelet"
    """The root directory of the kubelet, on the node."""
    limit: float = START_LIMIT
    """Seconds until the Pod must be Ready."""
    container: str = ""
    """The container of the driver in the Pod; empty for the first one."""

    @property
    def name(self) -> str:
        """Kind, namespace and name of the workload."""
        metadata = self.workload["metadata"]
        return f"{self.workload['kind']} {namespace_of(self.workload)}/{metadata.get('name')}"

    @property
    def grace(self) -> int:
        """Seconds from SIGTERM to SIGKILL of the Pod."""
        found = pod_spec(self.workload).get("terminationGracePeriodSeconds")
        return USUAL_GRACE if found is None else int(found)

    def places(self, driver_name: str) -> Places:
        """The directories of the node, as they are on this machine and as the driver sees them."""
        kubelet = self.root / self.kubelet_dir.lstrip("/")
        # /var/run is a link to /run, which a path through /proc would follow on this machine.
        return Places(
            *(kubelet, kubelet / "plugins_registry", kubelet / "plugins", self.root / "run/cdi", None),
            self.node,
            driver_name,
            more_cdi_dirs=(self.root / "etc/cdi",),
            seen=((Path("/var/run"), self.root / "run"), (Path("/"), self.root)),
        )


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The namespace of a workload."""
    return str(obj["metadata"].get("namespace") or "default")


def pod_spec(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of the Pod in a workload; empty without one."""
    spec = workload.get("spec") or {}
    found: Mapping[str, Any] = (spec if workload["kind"] == "Pod" else (spec.get("template") or {}).get("spec")) or {}
    return found


def pinned(workload: Mapping[str, Any], node: str, labels: Mapping[str, str]) -> Object:
    """The workload with one Pod, on this node, and with these labels on itself and on its Pod."""
    found: Object = deepcopy(dict(workload))
    found["metadata"]["namespace"] = namespace_of(found)
    _add_labels(found, labels)
    if found["kind"] == "Pod":
        pod = found
    else:
        pod = found["spec"]["template"]
        _add_labels(pod, labels)
    if found["kind"] in _ONE:
        found["spec"]["replicas"] = 1
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**one, "matchFields": [*one.get("matchFields", ()), only]} for one in terms]
    return found


def _add_labels(obj: Object, labels: Mapping[str, str]) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def why_not_ready(pod: Object | None) -> str:
    """What the status of a Pod says about its delay."""
    if pod is None:
        return "there is no Pod"
    status = pod.get("status") or {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, last = one.get("state") or {}, (one.get("lastState") or {}).get("terminated") or {}
        for found in (state.get("waiting"), state.get("terminated")):
            if found and found.get("reason") not in ("PodInitializing", "Completed", "ContainerCreating"):
                end = f"; it exited with code {last['exitCode']}" if "exitCode" in last else ""
                message = ": ".join(filter(None, (found.get("reason"), found.get("message"))))
                said = f": {last['message'].strip()}" if last.get("message") else ""
                return f"container {one['name']}: {message}{end}{said}"
    for one in status.get("conditions") or ():
        if one.get("status") == "False" and one.get("message"):
            return f"{one.get('reason') or one.get('type')}: {one['message']}"
    return f"its phase is {status.get('phase', 'unknown')}"


def is_hopeless(pod: Object) -> bool:
    """Whether a container cannot start, whatever time passes."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    reasons = {((one.get("state") or {}).get("waiting") or {}).get("reason") for one in statuses}
    return bool(reasons & {"CrashLoopBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"})


def is_ready(pod: Object) -> bool:
    """Whether its condition Ready is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Ready", "True") for one in conditions)
