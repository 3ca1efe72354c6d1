"""The objects that run the fake driver on every node."""

from drahealth.suites.targets.pods import NAMESPACE
from drahealth.suites.targets.pods.deployment import CONTROL_SOCKET, DAEMON_SETS, SELECTOR, Deployment

MANIFESTS = Deployment("localhost/image:1").manifests()
OBJECTS = {kind.kind: obj for kind, obj in MANIFESTS}
(CONTAINER,) = OBJECTS[DAEMON_SETS.kind]["spec"]["template"]["spec"]["containers"]


def test_the_namespace_comes_first_and_the_pods_after_their_rights() -> None:
    kinds = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]
    assert list(OBJECTS) == [*kinds, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]


def test_each_object_has_the_kind_under_which_it_is_made() -> None:
    assert all((o["kind"], o["apiVersion"]) == (k.kind, k.api_version) for k, o in MANIFESTS[1:])


def test_the_driver_has_the_image_and_listens_on_the_control_socket() -> None:
    environment = {variable["name"]: variable.get("value") for variable in CONTAINER["env"]}
    assert (CONTAINER["image"], environment["DRAHEALTH_SOCKET"]) == ("localhost/image:1", CONTROL_SOCKET)
    assert CONTAINER["args"] == ["driver", "serve", "--log-format=json", "--socket=$(DRAHEALTH_SOCKET)"]
    assert CONTAINER["startupProbe"]["exec"]["command"] == ["test", "-S", CONTROL_SOCKET]


def test_all_objects_have_our_label() -> None:
    assert all(SELECTOR.items() <= obj["metadata"]["labels"].items() for obj in OBJECTS.values())
    assert {obj["metadata"].get("namespace", NAMESPACE) for obj in OBJECTS.values()} == {NAMESPACE}


def test_another_namespace_is_in_each_object_and_each_name_of_the_cluster() -> None:
    moved = dict(Deployment("image:1", "here").manifests())
    here = {kind.kind: (obj["metadata"]["name"], obj["metadata"].get("namespace")) for kind, obj in moved.items()}
    there = {kind.kind: (obj["metadata"]["name"], obj["metadata"].get("namespace")) for kind, obj in MANIFESTS}
    own = {kind for kind, (name, namespace) in there.items() if here[kind] == (name, namespace)}
    assert (own, str(moved).count(f"'{NAMESPACE}'"), str(moved).count("serviceaccount:here:")) == (
        set(),
        len(moved) + 1,
        1,
    )


def test_pods_run_on_the_selected_nodes_and_pull_with_the_credentials() -> None:
    chosen = Deployment("image:1", kubelet_dir="/other", nodes=["a", "b"], docker_config="{}").manifests()
    kinds = {kind.kind: obj for kind, obj in chosen}
    spec = kinds[DAEMON_SETS.kind]["spec"]["template"]["spec"]
    secret = kinds["Secret"]
    assert (str(spec["affinity"]).count("'values'"), spec["imagePullSecrets"]) == (
        2,
        [{"name": secret["metadata"]["name"]}],
    )
    assert (secret["data"], "/var/lib/kubelet" in str(kinds)) == ({".dockerconfigjson": "e30="}, False)
