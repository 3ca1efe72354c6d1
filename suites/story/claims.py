"""The ResourceClaims of a scenario, and the manifests of the pods that use them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.allocation import POD_CLAIM, consumers, reserved
from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, PODS, Api, ApiError, Object
from drahealth.suites.story import manifests
from drahealth.suites.story.hardware import Driver, DriverResource, ResourceRequest

# The ResourceClaims of a scenario.


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim of the scenario, with its requests by name. `name` is its name in the pod.

    `object_name` is the name of the API object. It is None for a claim from a template. `others` are further drivers
    with devices in it.
    """

    name: str
    driver: Driver
    object_name: str | None
    others: tuple[Driver, ...] = ()

    @property
    def drivers(self) -> tuple[Driver, ...]:
        """All drivers with devices in it."""
        return (self.driver, *self.others)

    def __getitem__(self, request: str) -> "Use":
        """The use of one request of the claim."""
        return Use(self, request)


@dataclass(frozen=True)
class Use:
    """The part of a claim that a container uses: the whole claim, or one request."""

    claim: Claim
    request: str | None = None

    @property
    def entry(self) -> str:
        """The name of its entry in the pod status."""
        return f"claim:{self.claim.name}" + (f"/{self.request}" if self.request else "")


class Claims:
    """The claims of a namespace. The first pod that uses a template creates its claim.

    With `templates`, claims without an object name come from templates by default.
    """

    def __init__(self, api: Api, namespace: str, *, templates: bool) -> None:
        self._api = api
        self._namespace = namespace
        self._templates = templates
        self._used: set[str] = set()

    async def make(
        self,
        name: str,
        requests: Mapping[str, tuple[Driver, int]],
        *,
        alternatives: Mapping[str, Sequence[str]] = MappingProxyType({}),
        template: bool = False,
        object_name: str = "",
        admin: bool = False,
    ) -> Claim:
        """Create a claim. `requests` maps each request to a driver and its number of devices.

        `alternatives` has the names of the subrequests of a request. `object_name` is the name of the API object, if it
        differs from the name in the pod. `admin` asks for admin access, to devices that other claims can hold, too.
        """
        driver, *others = dict.fromkeys(driver for driver, _ in requests.values())
        asked = {request: (of.name, count) for request, (of, count) in requests.items()}
        manifest = manifests.claim(self._namespace, object_name or name, asked, alternatives, admin=admin)
        if template or (self._templates and not object_name):
            await self._api.create(CLAIM_TEMPLATES, manifests.template(manifest))
            return Claim(name, driver, None, tuple(others))
        await self._api.create(CLAIMS, manifest)
        return Claim(name, driver, object_name or name, tuple(others))

    async def is_reserved(self, claim: Claim, pod_uid: str) -> bool:
        """Whether the claim is reserved for the pod."""
        return any(one["uid"] == pod_uid for one in consumers(await self.object(claim)))

    async def reserve(self, claim: Claim, pod: Object) -> None:
        """Reserve the claim for the pod, unless a controller does so meanwhile."""
        while not await self.is_reserved(claim, pod["metadata"]["uid"]):
            try:
                await self._api.replace_status(CLAIMS, reserved(await self.object(claim), pod))
            except ApiError as error:
                if error.status != 409:
                    raise

    async def source(self, claim: Claim) -> dict[str, str]:
        """The claim reference for the next pod. It shares the claim of the first pod, if there was one."""
        if claim.object_name is None and claim.name not in self._used:
            self._used.add(claim.name)
            return {"resourceClaimTemplateName": claim.name}
        return {"resourceClaimName": (await self.object(claim))["metadata"]["name"]}

    async def object(self, claim: Claim) -> Object:
        """Read the ResourceClaim. Raises ApiError, or LookupError if the template has no claim yet."""
        if claim.object_name is not None:
            return await self._api.get(CLAIMS, claim.object_name, self._namespace)
        for found in await self._api.list(CLAIMS, self._namespace):
            if found["metadata"].get("annotations", {}).get(POD_CLAIM) == claim.name:
                return found
        raise LookupError(f"claim {claim.name} does not exist yet: no pod uses its template")


# The manifests of a scenario's pods, with the claims and devices of each container.

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
    workload: Mapping[str, Any],
    command: Sequence[str],
    restart: str,
    restart_codes: Sequence[int] = (),
    limits: Mapping[str, str] = MappingProxyType({}),
) -> Object:
    """The manifest of a pod. `workload` is that of the target. `sources` maps the name of each claim to its reference.
    `limits` are the limits of each container for resources that are no devices, such as cpu. Containers that exit with
    one of the `restart_codes` are restarted, whatever the restart policy of the pod is.

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
                *({**_container(n, uses, workload, (), limits), **_SIDECAR} for n, uses in users.sidecars.items()),
                *(_container(n, uses, workload, (), limits) for n, uses in users.init.items()),
            ],
            "containers": [
                _container(n, uses, workload, command, limits) | rule for n, uses in users.containers.items()
            ],
        },
    }


_SIDECAR = {"restartPolicy": "Always"}


def _restart_rule(codes: Sequence[int]) -> dict[str, Any]:
    if not codes:
        return {}
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": list(codes)}}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _container(
    name: str, uses: Sequence[Used], workload: Mapping[str, Any], command: Sequence[str], limits: Mapping[str, str]
) -> dict[str, Any]:
    claimed = [use for use in uses if isinstance(use, Use)]
    claims = [{"name": u.claim.name, **({"request": u.request} if u.request else {})} for u in claimed]
    devices = {use.resource: str(use.count) for use in uses if not isinstance(use, Use)}
    resources = {"claims": claims, "limits": {**limits, **devices}}
    spec: dict[str, Any] = {"name": name, **workload, "resources": resources}
    return {**spec, "command": list(command)} if command else spec


def _use(used: Used | Claim) -> Used:
    return Use(used) if isinstance(used, Claim) else used
