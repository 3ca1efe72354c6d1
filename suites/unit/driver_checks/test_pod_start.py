"""A driver that starts as the manifest of its Pod says."""

from pathlib import Path

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.program.user_files import FileError
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.profile.manifests import PodStart, pod_start
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.places import private_places
from drahealth.suites.driver_checks.subject.sandbox import SERVICE_ACCOUNT_DIR, Sandbox, Volume
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.driver_checks.runs import run_with
from drahealth.suites.unit.driver_checks.test_laboratory import NoRecords
from drahealth.suites.unit.driver_checks.test_sandbox import in_sandbox, output_of

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: inventory, namespace: gpus}
data: {gpus.yaml: "devices: 4", mode: mig}
---
apiVersion: v1
kind: Secret
metadata: {name: license, namespace: gpus}
data: {key: YWJj}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: driver, namespace: gpus}
spec:
  template:
    metadata: {labels: {app: gpu}}
    spec:
      containers:
      - name: sidecar
        command: [sidecar]
      - name: plugin
        image: example.com/driver:1
        command: [/bin/driver]
        args: ["--node=$(NODE)", "--mode=$(MODE)", "$$(NODE) $(NONE)"]
        envFrom:
        - configMapRef: {name: inventory}
          prefix: C_
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: MODE, valueFrom: {configMapKeyRef: {name: inventory, key: mode}}}
        - {name: LICENSE, valueFrom: {secretKeyRef: {name: license, key: key}}}
        - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
        - {name: BOTH, value: "$(MODE)-$(APP)"}
        - {name: MAYBE, valueFrom: {secretKeyRef: {name: none, key: key, optional: true}}}
        volumeMounts:
        - {name: plugins, mountPath: /var/lib/kubelet/plugins}
        - {name: plugins, mountPath: /plugins/}
        - {name: config, mountPath: /etc/gpu}
        - {name: run, mountPath: /run/gpu}
        - {name: sys, mountPath: /sys}
      volumes:
      - {name: plugins, hostPath: {path: /var/lib/kubelet/plugins/}}
      - {name: config, configMap: {name: inventory, items: [{key: gpus.yaml, path: gpus.yaml}]}}
      - {name: run, emptyDir: {}}
      - {name: sys, hostPath: {path: /sys}}
"""
PROFILE = 'format = "driver-profile/v1"\n[driver]\npod = "driver.yaml"\ncontainer = "plugin"\n'


def started(tmp_path: Path, text: str = MANIFEST, container: str = "plugin") -> PodStart:
    path = tmp_path / "driver.yaml"
    path.write_text(text)
    return pod_start(path, container, ())


def run_of(tmp_path: Path, more: str = "", manifest: str = MANIFEST) -> DriverRun:
    (tmp_path / "driver.yaml").write_text(manifest)
    (tmp_path / "gpu.toml").write_text(PROFILE + more)
    return read_profile(tmp_path / "gpu.toml")


def test_container_gives_command_and_variables(tmp_path: Path) -> None:
    found = started(tmp_path)
    assert (found.command, found.arguments) == (
        ("/bin/driver",),
        ("--node={node_name}", "--mode=mig", "$(NODE) $(NONE)"),
    )
    assert found.environment == {
        "C_gpus.yaml": "devices: 4",
        "C_mode": "mig",
        "NODE": "{node_name}",
        "MODE": "mig",
        "LICENSE": "abc",
        "APP": "gpu",
        "BOTH": "mig-gpu",
    }


def test_first_container_is_the_default(tmp_path: Path) -> None:
    assert started(tmp_path, container="").command == ("sidecar",)


def test_volumes_are_those_of_the_container(tmp_path: Path) -> None:
    assert started(tmp_path).volumes == (
        Volume("/var/lib/kubelet/plugins", source="/var/lib/kubelet/plugins"),
        Volume("/plugins", source="/var/lib/kubelet/plugins"),
        Volume("/etc/gpu", files=(("gpus.yaml", "devices: 4"),)),
        Volume("/run/gpu"),
    )


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("kind: DaemonSet", "kind: ConfigMap", "kind"),
        ("- name: plugin\n", "- name: other\n", "spec.template.spec.containers"),
        ("fieldPath: spec.nodeName", "fieldPath: spec.node", "spec.template.spec.containers.1.env.0"),
        ("key: mode}", "key: none}", "spec.template.spec.containers.1.env.1"),
        ("{name: license, key", "{name: none, key", "spec.template.spec.containers.1.env.2"),
        ("mountPath: /etc/gpu", "mountPath: etc/gpu", "spec.template.spec.containers.1.volumeMounts.2.mountPath"),
        ("mountPath: /etc/gpu", "mountPath: /etc/gpu, subPath: a", "spec.template.spec.containers.1.volumeMounts.2"),
        ("{name: run, mountPath", "{name: none, mountPath", "spec.template.spec.containers.1.volumeMounts.3"),
        ("plugins/}", "plugins/, type: Socket}", "spec.template.spec.volumes.0"),
        ("emptyDir: {}", "csi: {driver: a}", "spec.template.spec.volumes.2"),
        ("configMap: {name: inventory", "configMap: {name: none", "spec.template.spec.volumes.1"),
        ("      containers:", "      containers: 1\n      others:", "spec.template.spec.containers"),
    ],
)
def test_unsupported_manifest_field_is_rejected_with_its_path(tmp_path: Path, old: str, new: str, where: str) -> None:
    assert old in MANIFEST
    with pytest.raises(FileError) as caught:
        started(tmp_path, MANIFEST.replace(old, new))
    assert [problem.where for problem in caught.value.problems] == [where]


def test_profile_starts_the_container_in_a_sandbox(tmp_path: Path) -> None:
    found = run_of(tmp_path, 'command = ["./driver"]\nenvironment = { MODE = "all" }\n[sandbox]\nprivate = ["/dev"]\n')
    assert (found.profile.driver.command[0], found.profile.driver.environment["MODE"]) == ("./driver", "all")
    assert found.sandbox
    assert {"/dev", "/etc/gpu", "/run/gpu", SERVICE_ACCOUNT_DIR} <= set(found.sandbox.private_directories)
    kinds = ["Namespace", "ConfigMap", "Secret"]
    assert [one["kind"] for one in found.objects] == kinds


@pytest.mark.parametrize(
    ("more", "manifest"),
    [
        ("", MANIFEST.replace("        command: [/bin/driver]\n", "")),
        ("", MANIFEST.replace("--node=", "--node={nodename}")),
        ("", "kind: [\n"),
        ("[sandbox]\nnamespaces = ['pid']\n", MANIFEST),
        ("running = { registry-dir = '/r' }\n", MANIFEST),
    ],
)
def test_profile_with_a_wrong_pod_is_rejected(tmp_path: Path, more: str, manifest: str) -> None:
    with pytest.raises(FileError):
        run_of(tmp_path, more, manifest)


def test_source_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    declared = Sandbox(volumes=(Volume("/run/gpu", source=str(tmp_path / "none")),))
    with pytest.raises(ConfigurationError, match="/run/gpu"):
        private_places(declared, tmp_path / "run", None, "", "")


@pytest.mark.usefixtures("user_namespaces")
async def test_driver_sees_the_volumes_of_its_pod(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "model").write_text("H100")
    volumes = (
        Volume("/etc/gpu", files=(("a/gpus.yaml", "devices: 4"),)),
        Volume("/run/gpu"),
        Volume("/run/plugins", source="/var/lib/kubelet/plugins"),
        Volume("/run/data", source=str(tmp_path / "data")),
    )
    async with in_sandbox(tmp_path / "run", Sandbox(volumes=volumes)) as running:
        script = "touch /run/plugins/seen; cat /etc/gpu/a/gpus.yaml; echo; cat /run/data/model; echo; ls -A /run/gpu"
        assert await output_of(running, "sh", "-c", script) == ("devices: 4", "H100")
    assert (tmp_path / "run" / "p" / "seen").exists()


@pytest.mark.usefixtures("user_namespaces")
async def test_driver_has_the_service_account_of_a_pod(tmp_path: Path) -> None:
    run = run_with({"sandbox": {}}, volumes=(Volume(SERVICE_ACCOUNT_DIR, files=(("namespace", "gpus"),)),))
    async with laboratory(run, ["main"], tmp_path, JumpClock(), NoRecords()) as found:
        variables = found["main"].places.environment()
        assert (variables["KUBECONFIG"], variables["KUBERNETES_SERVICE_PORT"].isdecimal()) == ("", True)
        folder = found["main"].places.service_account
        assert folder
        assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "namespace", "token"]
