"""The content of node files with feature gates or an audit log, and the gates that a component reports. Pure text.

The API server of a kind node is a static pod. The hash of its manifest is the uid of the pod, so a changed manifest is
another pod. The kubelet must remove the old one first, which takes half a minute or more. If the original manifest
comes back, the remains of its former pod block it. So the changed manifest names the original uid: then it is the same
pod with another command, and the kubelet restarts only its container.
"""

import io
import re
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from drahealth.suites.errors import HarnessError

API_SERVER = "kube-apiserver"
API_SERVER_MANIFEST = f"/etc/kubernetes/manifests/{API_SERVER}.yaml"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"

AUDIT_POLICY = "/etc/kubernetes/pki/drahealth-audit-policy.json"
"""The audit policy, in a folder that the pod of the API server mounts."""

_FLAG = "--feature-gates"
_AUDIT_FLAGS = (
    f"--audit-policy-file={AUDIT_POLICY}",
    "--audit-log-path=-",
    "--audit-log-format=json",
    "--audit-log-mode=blocking",
)
_ENABLED = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])', re.MULTILINE)


def api_server_manifest(text: str, gates: Mapping[str, bool], uid: str) -> str:
    """The manifest with these gates added; `uid` is that of its pod. Raises HarnessError if it is not a manifest."""
    manifest, container, arguments = _api_server(text)
    for part in (container.get("command"), container.get("args")):
        gates = {**_taken(part), **gates} if part else gates
    arguments.append(f"{_FLAG}={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}")
    manifest["metadata"].setdefault("uid", uid)
    return _text(manifest)


def audited_manifest(text: str, uid: str) -> str:
    """The manifest with an audit log on standard output, which replaces another one; `uid` is that of its pod.

    The policy is in the file `AUDIT_POLICY`. Raises HarnessError if it is not a manifest.
    """
    manifest, _, arguments = _api_server(text)
    arguments.extend(_AUDIT_FLAGS)  # the last value of a flag is valid
    manifest["metadata"].setdefault("uid", uid)
    return _text(manifest)


def is_audited(manifest: str) -> bool:
    """Whether it is from `audited_manifest`."""
    return AUDIT_POLICY in manifest


def kubelet_config(text: str, gates: Mapping[str, bool]) -> str:
    """The configuration of the kubelet with these gates added. Raises HarnessError if it is not one."""
    config = _mapping(text, KUBELET_CONFIG)
    if config.get("kind") != "KubeletConfiguration":
        raise _strange(KUBELET_CONFIG, "it is not a KubeletConfiguration")
    if config.get("featureGates") is None:
        config["featureGates"] = {}
    config["featureGates"].update(gates)
    return _text(config)


def enabled(metrics: str) -> dict[str, bool]:
    """The feature gates of a component, from the metric `kubernetes_feature_enabled`."""
    return {name: value == "1" for name, value in _ENABLED.findall(metrics)}


def _taken(arguments: MutableSequence[str]) -> dict[str, bool]:
    """The gates that the flag sets, in both its spellings. Removes the flag: the added one repeats them.

    Leaves out the name of a component before a gate: `kube:` is the default, and there is no other one here.
    """
    words, found = list(arguments), []
    arguments.clear()
    while words:
        word = words.pop(0)
        if word == _FLAG and words:
            found.append(words.pop(0))
        elif word.startswith(f"{_FLAG}="):
            found.append(word.partition("=")[2])
        else:
            arguments.append(word)
    pairs = (pair.strip().partition("=") for text in found for pair in text.split(",") if pair.strip())
    return {name.rpartition(":")[2]: value.strip().lower() in ("true", "t", "1") for name, _, value in pairs}


def _api_server(text: str) -> tuple[MutableMapping[str, Any], Mapping[str, Any], MutableSequence[str]]:
    """The manifest, its container of the API server, and the list that ends the flags of that."""
    manifest = _mapping(text, API_SERVER_MANIFEST)
    try:
        container = next(one for one in manifest["spec"]["containers"] if one["name"] == API_SERVER)
        arguments = container["args" if container.get("args") else "command"]
        manifest["metadata"]
    except (KeyError, TypeError, StopIteration):
        raise _strange(API_SERVER_MANIFEST, f"it has no container {API_SERVER} with a command") from None
    return manifest, container, arguments


def _mapping(text: str, path: str) -> MutableMapping[str, Any]:
    try:
        found = _yaml().load(text)
    except YAMLError as error:
        raise _strange(path, str(error).splitlines()[0]) from None
    if not isinstance(found, MutableMapping):
        raise _strange(path, "it is not a mapping")
    return found


def _text(value: Any) -> str:
    stream = io.StringIO()
    _yaml().dump(value, stream)
    return stream.getvalue()


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 100_000  # no line is broken
    return yaml


def _strange(path: str, why: str) -> HarnessError:
    return HarnessError(f"kubeadm did not write {path} of the node: {why}", "use a cluster that kind made")
