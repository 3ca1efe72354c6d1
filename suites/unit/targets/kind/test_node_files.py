"""The changes to the files of a node that set feature gates and audit logs."""

import re

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kind.node_control import (
    api_server_manifest,
    audited_manifest,
    is_audited,
    kubelet_config,
)
from drahealth.suites.targets.versions import enabled

MANIFEST = """apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
spec:
  containers:
  - command:
    - kube-apiserver
    - --secure-port=6443{flags}
    image: "registry.example.com/kube-apiserver:v1"  # kept
    name: kube-apiserver
"""
CONFIG = """# by kubeadm
kind: KubeletConfiguration
{gates}syncFrequency: 0s
"""


def manifest(*flags: str) -> str:
    return MANIFEST.format(flags="".join(f"\n    - {flag}" for flag in flags))


def test_the_manifest_gets_the_flag_and_the_uid_and_keeps_the_rest() -> None:
    changed = api_server_manifest(manifest(), {"A": False, "B": True}, "0815")
    expected = manifest("--feature-gates=A=false,B=true").replace(
        "  name: kube-apiserver\nspec", "  name: kube-apiserver\n  uid: 0815\nspec"
    )
    assert changed == expected.replace("uid: 0815", "uid: '0815'")


@pytest.mark.parametrize(
    "flags",
    [
        ("--feature-gates=A=true,C=False",),
        ("--feature-gates=C=0", "--feature-gates=A=1"),
        ("--feature-gates", "C=false,A=true"),
        ("--feature-gates=kube:A=true,kube:C=false",),
    ],
)
def test_gates_that_the_manifest_has_are_kept_unless_they_are_set(flags: tuple[str, ...]) -> None:
    changed = api_server_manifest(manifest(*flags), {"A": False}, "u")
    (gates,) = re.findall(r"--feature-gates=(\S+)", changed)
    assert set(gates.split(",")) == {"A=false", "C=false"}


def test_flags_may_be_in_the_arguments_of_the_container() -> None:
    changed = api_server_manifest(
        manifest().replace("    image", "    args: [--v=2, --feature-gates=A=true]\n    image"), {"B": True}, "u"
    )
    assert "args: [--v=2, '--feature-gates=A=true,B=true']" in changed


def test_setting_the_same_gates_again_changes_nothing() -> None:
    once = api_server_manifest(manifest(), {"A": False}, "first")
    assert api_server_manifest(once, {"A": False}, "second") == once


def test_an_audit_log_on_standard_output_replaces_another_one() -> None:
    changed = audited_manifest(manifest("--audit-log-path=/var/log/audit"), "0815")
    assert re.findall(r"--audit-log-path=(\S+)", changed)[-1] == "-"
    assert (is_audited(changed), is_audited(manifest())) == (True, False)


@pytest.mark.parametrize("gates", ["", "featureGates: null\n", "featureGates:\n  A: true\n  C: true\n"])
def test_the_kubelets_configuration_gets_the_gates_and_keeps_the_rest(gates: str) -> None:
    changed = kubelet_config(CONFIG.format(gates=gates), {"A": False})
    others = "  C: true\n" if "C" in gates else ""
    assert changed.startswith("# by kubeadm\nkind: KubeletConfiguration\n")
    assert f"featureGates:\n  A: false\n{others}" in changed
    assert "syncFrequency: 0s\n" in changed


@pytest.mark.parametrize("text", ["", "- a", "{", "kind: Pod", "spec: {containers: 3}", "kind: Other"])
def test_an_unexpected_file_is_named_in_the_error(text: str) -> None:
    with pytest.raises(HarnessError, match=r"kubeadm.*kube-apiserver\.yaml"):
        api_server_manifest(text, {"A": True}, "u")
    with pytest.raises(HarnessError, match=r"kubeadm.*config\.yaml"):
        kubelet_config(text, {"A": True})


def test_the_gates_of_a_component_are_read_from_its_metrics() -> None:
    metrics = """# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="A",stage="BETA"} 0
kubernetes_feature_enabled{name="B",stage=""} 1
other{name="C"} 1
"""
    assert enabled(metrics) == {"A": False, "B": True}
