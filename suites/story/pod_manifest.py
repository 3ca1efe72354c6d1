"""The manifests of a scenario's pods, with the claims and devices of each container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.suites.story.claims import Claim, Use
from drahealth.suites.story.device_plugin import ResourceRequest
from drahealth.suites.story.hardware import DriverResource

Used = Use | ResourceRequest | DriverResource
"""A claim, or devices of an extended resource, that a container uses."""


@dataclass(frozen=True)
class PodUses:
    """The claims and resource requests of each container of a pod. No container uses the `unused` claims."""

    containers: Mapping[str, Sequence[Used]]
    init: Mapping[str, Sequence[Used]] = field(default_factory=dict)
    sidecars: Mapping[str, Sequence[Used]] = field(default_factory=dict)
    unused: Sequence[Claim] = ()

    @classmethod
    def of(
        cls,
        containers: Mapping[str, Sequence[Used | Claim]],
        init: Mapping[str, Sequence[Used | Claim]],
        sidecars: Mapping[str, Sequence[Used | Claim]],
        unused: Sequence[Claim],
    ) -> "PodUses":
        """The uses, where a claim stands for the whole claim."""
        regular, initial, kept = (
            {n: [_use(u) for u in used] for n, used in kind.items()} for kind in (containers, init, sidecars)
        )
        return cls(regular, initial, kept, unused)

    @property
    def claims(self) -> list[Claim]:
        """All claims of the pod, each once."""
        kinds = (self.sidecars, self.init, self.containers)
        used = [use.claim for kind in kinds for uses in kind.values() for use in uses if isinstance(use, Use)]
        return list(dict.fromkeys((*used, *self.unused)))


def pod_manifest(
    namespace: str,
    name: str,
    users: PodUses,
    sources: Mapping[str, Mapping[str, str]],
    *,
    image: str,
    command: Sequence[str],
    restart: str,
    restart_codes: Sequence[int] = (),
    limits: Mapping[str, str] = MappingProxyType({}),
) -> Object:
    """The manifest of a pod. `sources` maps the name of each claim to its reference. `limits` are the limits of
    each container for resources that are no devices, such as cpu. Containers that exit with one of the `restart_codes`
    are restarted, whatever the restart policy of the pod is.

    The grace period is not 0, because the API server would then delete the pod before the kubelet has unprepared
    its claims.
    """
    rule = _restart_rule(restart_codes)
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "dnsPolicy": "Default",  # a kubelet without cluster DNS logs a warning at each sync otherwise
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "resourceClaims": [{"name": claim, **source} for claim, source in sorted(sources.items())],
            "initContainers": [
                *({**_container(n, uses, image, (), limits), **_SIDECAR} for n, uses in users.sidecars.items()),
                *(_container(n, uses, image, (), limits) for n, uses in users.init.items()),
            ],
            "containers": [_container(n, uses, image, command, limits) | rule for n, uses in users.containers.items()],
        },
    }


_SIDECAR = {"restartPolicy": "Always"}


def _restart_rule(codes: Sequence[int]) -> dict[str, Any]:
    if not codes:
        return {}
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": list(codes)}}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _container(
    name: str, uses: Sequence[Used], image: str, command: Sequence[str], limits: Mapping[str, str]
) -> dict[str, Any]:
    claimed = [use for use in uses if isinstance(use, Use)]
    claims = [{"name": u.claim.name, **({"request": u.request} if u.request else {})} for u in claimed]
    devices = {use.resource: str(use.count) for use in uses if not isinstance(use, Use)}
    resources = {"claims": claims, "limits": {**limits, **devices}}
    spec: dict[str, Any] = {"name": name, "image": image, "resources": resources}
    return {**spec, "command": list(command)} if command else spec


def _use(used: Used | Claim) -> Used:
    return Use(used) if isinstance(used, Claim) else used
