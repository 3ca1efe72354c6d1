"""The objects that run the fake driver on every node of a cluster, as data."""

from collections.abc import Sequence
from typing import Any

from drahealth.fakes.cluster.api import NAMESPACES, Kind, Object

NAMESPACE = "drahealth"
NAME = "drahealth-driver"
SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "drahealth"}
"""The labels of the driver's pods and of their other objects."""
CONTROL_SOCKET = "/run/drahealth/control.sock"
"""The control socket of the driver, in its pod."""
SHARED = (
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
    "/var/lib/kubelet/device-plugins",
    "/var/run/cdi",
)
"""Folders of the node that the driver writes to: sockets for the kubelet, and CDI specifications for the runtime."""

_RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNTS = Kind("ServiceAccount", "serviceaccounts", "v1", namespaced=True)
CLUSTER_ROLES = Kind("ClusterRole", "clusterroles", f"{_RBAC}/v1", namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind("ClusterRoleBinding", "clusterrolebindings", f"{_RBAC}/v1", namespaced=False)
DAEMON_SETS = Kind("DaemonSet", "daemonsets", "apps/v1", namespaced=True)

_RESOURCES = "resource.k8s.io"


def manifests(image: str, version: str) -> list[tuple[Kind, Object]]:
    """All objects, in the order in which they are made. `version` is that of drahealth, for the label."""
    labels = {**SELECTOR, "app.kubernetes.io/version": version}
    return [
        (NAMESPACES, _object(NAMESPACE, labels | {"pod-security.kubernetes.io/enforce": "privileged"}, within=None)),
        (SERVICE_ACCOUNTS, _object(NAME, labels)),
        (CLUSTER_ROLES, _object(NAME, labels, within=None) | {"rules": _rules()}),
        (CLUSTER_ROLE_BINDINGS, _object(NAME, labels, within=None) | _binding()),
        (DAEMON_SETS, _object(NAME, labels) | {"spec": _daemon_set(image, labels)}),
    ]


def _object(name: str, labels: dict[str, str], within: str | None = NAMESPACE) -> Object:
    return {"metadata": {"name": name, "labels": labels, **({"namespace": within} if within else {})}}


def _rules() -> list[dict[str, Any]]:
    """The rights of the driver: it publishes slices, and reads the claims that it prepares."""
    return [
        _rule("resourceslices", ("get", "list", "watch", "create", "update", "delete")),
        _rule("resourceclaims", ("get",)),
    ]


def _rule(resource: str, verbs: Sequence[str]) -> dict[str, Any]:
    return {"apiGroups": [_RESOURCES], "resources": [resource], "verbs": list(verbs)}


def _binding() -> Object:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": CLUSTER_ROLES.kind, "name": NAME},
        "subjects": [{"kind": SERVICE_ACCOUNTS.kind, "name": NAME, "namespace": NAMESPACE}],
    }


def _daemon_set(image: str, labels: dict[str, str]) -> Object:
    return {
        "selector": {"matchLabels": SELECTOR},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": labels}, "spec": _pod(image)},
    }


def _pod(image: str) -> Object:
    return {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "priorityClassName": "system-node-critical",  # the last to be evicted
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(image)],
        "volumes": [
            {"name": "control", "emptyDir": {}},
            *({"name": _volume(path), "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for path in SHARED),
        ],
    }


def _container(image: str) -> Object:
    control = CONTROL_SOCKET.rpartition("/")[0]
    return {
        "name": "driver",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "drahealth.fakes.serve.session_process", "--socket", CONTROL_SOCKET],
        "startupProbe": {
            "exec": {"command": ["test", "-S", CONTROL_SOCKET]},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 60,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",  # so that its status says why it ended
        "securityContext": {
            "runAsUser": 0,  # the kubelet's folders are root's
            "allowPrivilegeEscalation": False,
        },
        "volumeMounts": [
            {"name": "control", "mountPath": control},
            *({"name": _volume(path), "mountPath": path} for path in SHARED),
        ],
    }


def _volume(path: str) -> str:
    return path.rpartition("/")[2].replace("_", "-")
