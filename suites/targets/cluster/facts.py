"""What a cluster is, before anything is made in it: its release, its nodes, its feature gates."""

import asyncio
import json
import platform
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from drahealth.fakes.cluster.allocation import Taint, Toleration
from drahealth.fakes.cluster.api import NODES, ApiError, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.manager import releases
from drahealth.manager.profile import Profile
from drahealth.proto.quoting import one_line
from drahealth.proto.values import STATUS_GATE
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.cluster.options import ClusterOptions
from drahealth.suites.targets.node_readiness import takes_pods
from drahealth.suites.targets.pods.target import seconds
from drahealth.suites.targets.versions import enabled, judged_as

LIMIT = 20.0
"""Seconds for the cluster to answer at all."""
METRICS = "/metrics"
_PROXY_LIMIT = 5.0
"""Seconds for a kubelet to answer through the API server."""
_USUAL_SYNC = 60.0
"""Seconds: the default `syncFrequency` of kubelets."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Kubernetes calls a machine."""
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a cluster."""

    server: str
    """Its URL."""
    kubernetes: str
    """The release of its API server, such as 1.37.2."""
    kubelets: Mapping[str, str] = field(default_factory=dict)
    """The release of the kubelet on each node that can be used."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """The other nodes, each with the reason."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """The feature gates of its API server; empty if the user may not see them."""
    sync_frequency: float = _USUAL_SYNC
    """The longest `syncFrequency` of the kubelets, in seconds; the default if the user may not see it."""

    def profile(self, *, each: bool = False) -> Profile:
        """The profile of all its kubelets; with `each`, that of the newest, because each has its own.

        Raises HarnessError, ConfigurationError for a release that is too old.
        """
        if not self.kubelets:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.unused.items()) or "there are no nodes"
            raise HarnessError(f"no node of {self.server} can be used: {reasons}", "see --node-selector, --tolerations")
        profiles = {judged_as(version): version for version in sorted(set(self.kubelets.values()), key=_numbers)}
        if len(profiles) > 1 and not each:
            raise HarnessError(
                f"the kubelets of {self.server} behave differently: {', '.join(profiles.values())}",
                "judge each node by itself with --on each, or choose nodes with --node-selector",
            )
        return list(profiles)[-1]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@asynccontextmanager
async def connected(options: ClusterOptions) -> AsyncIterator[KubeClient]:
    """A client of the cluster, until the end of the block. Raises ConfigurationError."""
    try:
        client = await KubeClient.from_kubeconfig(options.path, options.context)
    except ValueError as error:
        raise ConfigurationError(one_line(str(error), 300), "pass --kubeconfig and --context") from None
    try:
        yield client
    finally:
        await client.close()


async def facts_of(client: KubeClient, options: ClusterOptions) -> Facts:
    """Reads them. Changes nothing. Raises HarnessError."""
    server = client.connection.host
    try:
        async with asyncio.timeout(LIMIT):
            version = _version(str((await client.connection.call("GET", "/version"))["gitVersion"]))
            await _require_dra(client, server)
            nodes = {one["metadata"]["name"]: one for one in await client.list(NODES)}
            gates = enabled(await _text(client, METRICS))
            unused = {name: why for name, one in nodes.items() if (why := why_unused(one, options))}
            kubelets = {
                name: _version(one["status"]["nodeInfo"]["kubeletVersion"])
                for name, one in nodes.items()
                if name not in unused
            }
            settings = await asyncio.gather(*(_settings(client, name) for name in kubelets))
    except TimeoutError:
        raise HarnessError(f"{server} does not answer within {LIMIT:g} s", "check --kubeconfig and --context") from None
    except ApiError as error:
        raise HarnessError(
            f"{server} answered: {one_line(str(error), 300)}", "check the address and the rights in the kubeconfig"
        ) from None
    syncs = [_sync_frequency(found) for found in settings]
    off = [name for name, found in zip(kubelets, settings, strict=True) if _is_off(found)]
    if gates.get(STATUS_GATE) is False or off:
        where = f"the kubelets of {', '.join(off)}" if off else server
        raise HarnessError(
            f"the feature gate {STATUS_GATE} of {where} is off", "enable it on the API server and on the kubelets"
        )
    if STATUS_GATE not in gates and not releases.enables(STATUS_GATE, version.rpartition(".")[0]):
        raise HarnessError(
            f"the feature gate {STATUS_GATE} is off by default in Kubernetes {version}, and {server} does not show it",
            f"get the permission to read {METRICS} of the API server",
        )
    return Facts(server, version, kubelets, unused, gates, max(syncs, default=_USUAL_SYNC))


def why_unused(node: Object, options: ClusterOptions) -> str:
    """Why a node cannot be used, as a clause; empty if it can."""
    labels = node["metadata"].get("labels") or {}
    if not options.node_selector.items() <= labels.items():
        return "it does not have the labels of --node-selector"
    info = node["status"]["nodeInfo"]
    if (system := info.get("operatingSystem", "linux")) != "linux":
        return f"its operating system is {system}"
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if not options.driver_image and (machine := info.get("architecture", here)) != here:
        return f"its architecture is {machine}, and the image is built for {here}; --driver-image can name another one"
    if not takes_pods(node):
        return "it is not Ready"
    tolerations = [Toleration(**one) for one in options.tolerations]
    for one in node["spec"].get("taints") or ():
        taint = Taint(one["key"], one.get("value", ""), one["effect"])
        if taint.effect in ("NoSchedule", "NoExecute") and not any(each.tolerates(taint) for each in tolerations):
            return f"it has the taint {taint.key}:{taint.effect}"
    return "it is cordoned" if node["spec"].get("unschedulable") else ""


def _version(text: str) -> str:
    """1.37.2 of v1.37.2-eks-1234 or v1.37.2+k3s1."""
    match = _VERSION.match(text)
    if match is None:
        raise HarnessError(f"the cluster has the unknown version {text!r}", "use Kubernetes 1.34 or newer")
    return match[1]


async def _require_dra(client: KubeClient, server: str) -> None:
    try:
        await client.connection.call("GET", "/apis/resource.k8s.io/v1")
    except ApiError as error:
        if error.status != 404:
            raise
        raise HarnessError(
            f"{server} does not serve resource.k8s.io/v1", "use Kubernetes 1.34 or newer with DRA enabled"
        ) from None


async def _text(client: KubeClient, path: str) -> str:
    """The text at this path; empty if the user may not read it."""
    with suppress(ApiError):
        return await client.connection.text(path)
    return ""


async def _settings(client: KubeClient, node: str) -> Mapping[str, Any]:
    """The configuration of a kubelet; empty if the user may not see it, or if the API server does not reach it."""
    with suppress(ValueError, KeyError, TypeError, TimeoutError):
        async with asyncio.timeout(_PROXY_LIMIT):
            text = await _text(client, f"/api/v1/nodes/{node}/proxy/configz")
        found: Mapping[str, Any] = json.loads(text)["kubeletconfig"]
        return found
    return {}


def _sync_frequency(settings: Mapping[str, Any]) -> float:
    with suppress(ValueError, KeyError, TypeError):
        return seconds(settings["syncFrequency"])
    return _USUAL_SYNC


def _is_off(settings: Mapping[str, Any]) -> bool:
    return (settings.get("featureGates") or {}).get(STATUS_GATE) is False
