"""The objects that the chart renders, and the values that it rejects."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.inventory.file import load_inventory

Render = Callable[..., list[dict[str, Any]]]
Refusal = Callable[..., str]

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "fakes" / "chart"
INVENTORY = """# eight of them
format: inventory/v1
devices:
  - {name: tpu, count: 8}
"""
PLUGINS = """
plugins:
  - {resource: example.com/tpu, devices: [{name: tpu, count: 8}]}
"""
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.com/fakes", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "fullnameOverride": "gpus",
    "inventory": INVENTORY,
    "deviceClasses": [{"name": "tpu", "driver": "tpu.example.com"}, {"name": "nic", "driver": "nic.example.com"}],
    "kubeletDir": "/data/kubelet",
    "cdiDir": "/etc/cdi",
    "seamlessUpdate": True,
    "metricsPort": 9464,
    "extraArgs": ["--policy=nvsentinel"],
    "serviceAccount": {"create": False, "name": "theirs"},
    "admissionPolicy": False,
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"team": "gpu"},
    "resources": {"requests": None, "limits": None},  # Helm adds what is not taken away
    "priorityClassName": "",
    "nodeSelector": {"gpu": "fake"},
    "tolerations": [],
}


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [found for found in objects if found["kind"] == kind]


def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = of_kind(objects, "DaemonSet")
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def default(render: Render) -> list[dict[str, Any]]:
    return render()


@pytest.fixture(scope="module")
def other(render: Render) -> list[dict[str, Any]]:
    return render(**EVERYTHING)


def test_chart_renders_the_default_objects(default: list[dict[str, Any]]) -> None:
    named = {(found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in default}
    assert named == {
        ("ServiceAccount", "fakes", "fake-drahealth-driver"),
        ("ConfigMap", "fakes", "fake-drahealth-driver"),
        ("DaemonSet", "fakes", "fake-drahealth-driver"),
        ("DeviceClass", None, "gpu.example.com"),
        ("ClusterRole", None, "fakes:fake-drahealth-driver"),
        ("ClusterRoleBinding", None, "fakes:fake-drahealth-driver"),
        ("ValidatingAdmissionPolicy", None, "fake-drahealth-driver.fakes"),
        ("ValidatingAdmissionPolicyBinding", None, "fake-drahealth-driver.fakes"),
    }


def test_chart_renders_only_the_objects_of_the_custom_values(other: list[dict[str, Any]]) -> None:
    named = {(found["kind"], found["metadata"]["name"]) for found in other}
    assert named == {
        ("ConfigMap", "gpus"),
        ("DaemonSet", "gpus"),
        ("DeviceClass", "tpu"),
        ("DeviceClass", "nic"),
        ("ClusterRole", "fakes:gpus"),
        ("ClusterRoleBinding", "fakes:gpus"),
    }


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_driver_has_only_the_required_permissions(render: Render, values: dict[str, Any]) -> None:
    objects = render(**values)
    rules = [rule for role in of_kind(objects, "ClusterRole") for rule in role["rules"]]
    publishes = ["get", "list", "watch", "create", "update", "delete"]
    assert rules == [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": publishes},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ]
    assert not of_kind(objects, "Role")
    (binding,) = of_kind(objects, "ClusterRoleBinding")
    account = values.get("serviceAccount", {}).get("name", "fake-drahealth-driver")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "fakes"}]
    assert pod(objects)["serviceAccountName"] == account


def test_driver_may_watch_pods_if_health_annotations_are_enabled(render: Render) -> None:
    objects = render(healthAnnotations=True)
    (role,) = of_kind(objects, "ClusterRole")
    assert role["rules"][2:] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert "--pod-annotations" in pod(objects)["containers"][0]["args"]


@pytest.mark.parametrize(
    ("values", "kubelet", "cdi"), [({}, "/var/lib/kubelet", "/var/run/cdi"), (EVERYTHING, "/data/kubelet", "/etc/cdi")]
)
def test_the_pods_see_three_folders_of_their_node(render: Render, values: Any, kubelet: str, cdi: str) -> None:
    spec = pod(render(**values))
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert set(paths.values()) == {f"{kubelet}/plugins", f"{kubelet}/plugins_registry", cdi}
    assert {name: mounts[name] for name in paths} == paths  # sockets and files are named to others by these paths


@pytest.mark.parametrize("inventory", [INVENTORY + PLUGINS, f"format: inventory/v1{PLUGINS}"], ids=["both", "alone"])
def test_with_device_plugins_the_pods_see_the_folder_of_their_sockets(render: Render, inventory: str) -> None:
    spec = pod(render(inventory=inventory, kubeletDir="/data/kubelet", devicePluginsDir="/data/device-plugins"))
    paths = {volume["name"]: volume["hostPath"] for volume in spec["volumes"] if "hostPath" in volume}
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert paths["device-plugins"] == {"path": "/data/device-plugins", "type": "Directory"}
    assert "--device-plugins-dir=/data/device-plugins" in spec["containers"][0]["args"]
    assert {name: mounts[name] for name in paths} == {name: path["path"] for name, path in paths.items()}


def test_device_plugins_without_drivers_have_no_api_server_access(render: Render) -> None:
    objects = render(inventory=f"format: inventory/v1{PLUGINS}")
    assert {found["kind"] for found in objects} == {"ServiceAccount", "ConfigMap", "DaemonSet", "DeviceClass"}
    assert pod(objects)["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in pod(render(inventory=INVENTORY + PLUGINS))


def test_without_an_inventory_the_driver_waits_for_clients(render: Render) -> None:
    objects = render(inventory="")
    spec = pod(objects)
    assert not of_kind(objects, "ConfigMap")
    assert of_kind(objects, "ClusterRole")
    assert spec["containers"][0]["args"] == ["driver", "serve", "--log-format=json", "--socket=$(DRAHEALTH_SOCKET)"]
    assert {volume["name"] for volume in spec["volumes"]} == {
        "control",
        "plugins",
        "plugins-registry",
        "device-plugins",
        "cdi",
    }


def test_the_manifests_of_targets_are_those_of_the_chart(helm: Any, tmp_path: Path) -> None:
    new = tmp_path / "manifests.yaml"
    subprocess.run([ROOT / "ci" / "deploy" / "render", new], env=helm.environment, check=True)
    assert new.read_text() == (ROOT / "suites" / "targets" / "pods" / "manifests.yaml").read_text()


def test_the_driver_needs_no_privilege(default: list[dict[str, Any]]) -> None:
    spec = pod(default)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert spec["containers"][0]["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "ports" not in spec["containers"][0]


def test_the_pods_follow_the_values(other: list[dict[str, Any]]) -> None:
    spec = pod(other)
    (container,) = spec["containers"]
    (daemon_set,) = of_kind(other, "DaemonSet")
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example.com/fakes:1.2.3", "Always")
    assert (spec["imagePullSecrets"], spec["nodeSelector"]) == ([{"name": "registry"}], {"gpu": "fake"})
    assert not {"tolerations", "priorityClassName"} & spec.keys()
    assert "resources" not in container
    assert container["args"] == [
        "driver",
        "serve",
        "--log-format=json",
        "--file=/etc/drahealth/inventory.yaml",
        "--kubelet-dir=/data/kubelet",
        "--cdi-dir=/etc/cdi",
        "--instance=$(POD_UID)",
        "--metrics-port=9464",
        "--metrics-address=0.0.0.0",
        "--policy=nvsentinel",
    ]
    assert daemon_set["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    template = daemon_set["spec"]["template"]["metadata"]
    assert (template["labels"]["team"], template["annotations"]["example.com/a"]) == ("gpu", "b")


def test_the_image_is_that_of_the_chart_unless_it_is_named(default: list[dict[str, Any]]) -> None:
    version = re.search(r"^appVersion: (\S+)$", (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert version
    assert pod(default)["containers"][0]["image"] == f"localhost/drahealth-driver:{version[1]}"


def test_changed_inventory_changes_the_pod_annotations(render: Render, default: list[dict[str, Any]]) -> None:
    def annotations(objects: list[dict[str, Any]]) -> Any:
        return of_kind(objects, "DaemonSet")[0]["spec"]["template"]["metadata"]["annotations"]

    changed = render(inventory=INVENTORY)
    assert annotations(changed) != annotations(default)
    assert annotations(render(podLabels={"a": "b"})) == annotations(default)


def test_the_driver_reads_the_inventory_as_it_was_written(other: list[dict[str, Any]]) -> None:
    (config,) = of_kind(other, "ConfigMap")
    assert config["data"] == {"inventory.yaml": INVENTORY}
    (container,) = pod(other)["containers"]
    assert "--file=/etc/drahealth/inventory.yaml" in container["args"]


def test_default_inventory_of_the_chart_is_valid(default: list[dict[str, Any]], tmp_path: Path) -> None:
    (config,) = of_kind(default, "ConfigMap")
    file = tmp_path / "inventory.yaml"
    file.write_text(config["data"]["inventory.yaml"])
    assert [device.path for device in load_inventory(file).devices] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_every_object_has_the_project_and_release_labels(default: list[dict[str, Any]]) -> None:
    for found in default:
        labels = found["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "drahealth"
        assert labels["app.kubernetes.io/instance"] == "fake"


def test_pod_selector_uses_only_the_name_and_instance_labels(default: list[dict[str, Any]]) -> None:
    (daemon_set,) = of_kind(default, "DaemonSet")
    selector = daemon_set["spec"]["selector"]["matchLabels"]
    assert selector == {"app.kubernetes.io/name": "drahealth-driver", "app.kubernetes.io/instance": "fake"}
    assert selector.items() <= daemon_set["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"imge": {}}, "imge"),
        ({"image": {"repository": "", "pullPolicy": "Always"}}, "/image/repository"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"image": {"tag": "a tag"}}, "/image/tag"),
        ({"inventory": "format: inventory/v9\n"}, "/inventory"),
        ({"inventory": {"format": "inventory/v1"}}, "/inventory"),
        ({"inventory": "", "metricsPort": 9464}, "seamlessUpdate, healthAnnotations and metricsPort need an inventory"),
        ({"inventory": "format: inventory/v1\ndevices: [\n"}, "inventory is not YAML"),
        (
            {"inventory": f"format: inventory/v1{PLUGINS}", "healthAnnotations": True},
            "healthAnnotations are for the devices of claims, and the inventory has device plugins alone",
        ),
        ({"deviceClasses": [{"name": "GPU", "driver": "gpu.example.com"}]}, "/deviceClasses/0/name"),
        ({"deviceClasses": [{"name": "gpu"}]}, "driver"),
        ({"kubeletDir": "var/lib/kubelet"}, "/kubeletDir"),
        ({"kubeletDir": "/var/lib/kubelet/"}, "/kubeletDir"),
        ({"devicePluginsDir": "device-plugins"}, "/devicePluginsDir"),
        ({"cdiDir": "/var/../etc"}, "/cdiDir"),
        ({"seamlessUpdate": "often"}, "/seamlessUpdate"),
        ({"resources": {"limit": {}}}, "limit"),
        ({"podLabels": {"team": 7}}, "/podLabels/team"),
        ({"terminationGracePeriodSeconds": 0}, "/terminationGracePeriodSeconds"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed where serviceAccount.create is false"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(refusal: Refusal, values: dict[str, Any], said: str) -> None:
    told = refusal(**values)
    assert said in told
    assert len(told.splitlines()) <= 5
