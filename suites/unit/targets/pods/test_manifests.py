"""The objects that run the fake driver on every node."""

from drahealth.suites.targets.pods.deployment import (
    CLUSTER_ROLES,
    CONTROL_SOCKET,
    DAEMON_SETS,
    NAMESPACE,
    SELECTOR,
    manifests,
)

OBJECTS = {kind.kind: obj for kind, obj in manifests("image:1", "0.1.0")}
POD = OBJECTS[DAEMON_SETS.kind]["spec"]["template"]["spec"]


def test_the_namespace_comes_first_and_the_pods_last() -> None:
    assert list(OBJECTS) == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]


def test_the_driver_has_only_the_rights_that_it_needs() -> None:
    rules = {rule["resources"][0]: set(rule["verbs"]) for rule in OBJECTS[CLUSTER_ROLES.kind]["rules"]}
    publishes = {"get", "list", "watch", "create", "update", "delete"}
    assert rules == {"resourceslices": publishes, "resourceclaims": {"get"}}


def test_folders_of_the_node_have_the_same_path_inside() -> None:
    volumes = {volume["name"]: volume.get("hostPath") for volume in POD["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in POD["containers"][0]["volumeMounts"]}
    kubelet = ("plugins", "plugins_registry", "device-plugins")
    folders = (*(f"/var/lib/kubelet/{name}" for name in kubelet), "/var/run/cdi")
    shared = {path: {"path": path, "type": "DirectoryOrCreate"} for path in folders}
    assert mounts == {**shared, "/run/drahealth": None}


def test_the_driver_listens_on_the_control_socket() -> None:
    container = POD["containers"][0]
    assert container["command"][-2:] == ["--socket", CONTROL_SOCKET]
    assert container["startupProbe"]["exec"]["command"] == ["test", "-S", CONTROL_SOCKET]


def test_every_node_gets_a_pod_without_privileges() -> None:
    assert POD["tolerations"] == [{"operator": "Exists"}]
    assert POD["containers"][0]["securityContext"] == {"runAsUser": 0, "allowPrivilegeEscalation": False}


def test_all_objects_have_our_label() -> None:
    labels = {**SELECTOR, "app.kubernetes.io/version": "0.1.0"}
    assert all(labels.items() <= obj["metadata"]["labels"].items() for obj in OBJECTS.values())
    assert {obj["metadata"].get("namespace", NAMESPACE) for obj in OBJECTS.values()} == {NAMESPACE}
