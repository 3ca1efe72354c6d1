"""The kinds of objects of a deployment, beside those of `fakes.cluster.api`."""

from drahealth.fakes.cluster.api import Kind

_RBAC = "rbac.authorization.k8s.io/v1"

SERVICE_ACCOUNTS = Kind("ServiceAccount", "serviceaccounts", "v1", namespaced=True)
CLUSTER_ROLES = Kind("ClusterRole", "clusterroles", _RBAC, namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind("ClusterRoleBinding", "clusterrolebindings", _RBAC, namespaced=False)
DAEMON_SETS = Kind("DaemonSet", "daemonsets", "apps/v1", namespaced=True)
EVENTS = Kind("Event", "events", "v1", namespaced=True)
