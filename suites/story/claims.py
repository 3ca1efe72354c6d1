"""The ResourceClaims of a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, Api, ApiError, Object
from drahealth.fakes.cluster.scheduling.claims import POD_CLAIM, consumers, reserved
from drahealth.suites.story import manifests
from drahealth.suites.story.hardware import Driver


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
