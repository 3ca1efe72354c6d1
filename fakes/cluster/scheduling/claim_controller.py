"""The claims of pods: creates them, reserves them, and releases them after the pods have ended.

It creates claims from templates, and for extended resources that DRA drivers provide.

It replaces the resource claim controller of Kubernetes, and the part of the scheduler that writes claims.
"""

from collections.abc import Collection

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, PODS, ApiError, Object
from drahealth.fakes.cluster.clients.mirror import Mirror
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.fakes.cluster.scheduling import claims
from drahealth.fakes.cluster.scheduling.device_requests import UnschedulableError
from drahealth.fakes.cluster.scheduling.extended_claims import claim_status, is_extended_claim


class ClaimController:
    """Reads from the mirror, writes to the API server; every method raises `ApiError` if a write is rejected."""

    def __init__(self, api: ControlPlaneApi, mirror: Mirror) -> None:
        self._api = api
        self._mirror = mirror

    async def claims_of(self, pod: Object) -> list[Object]:
        """The claims of the pod, created from templates if necessary. `UnschedulableError` if one is missing."""
        names, found = [], {}
        for entry in pod["spec"].get("resourceClaims") or ():
            if "resourceClaimTemplateName" in entry:
                claim = self._made_from_template(pod, entry["name"]) or await self._make(pod, entry)
                names.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
            else:
                claim = self._existing(pod, entry["resourceClaimName"])
            found[claim["metadata"]["uid"]] = claim
        if names != (pod["status"].get("resourceClaimStatuses") or []):
            await self._update_pod_status(pod, "resourceClaimStatuses", names)
        return list(found.values())

    def made_for_resources(self, pod: Object) -> Object | None:
        """The claim that was created for the pod's extended resources."""
        return next((claim for claim in self._made_for(pod) if is_extended_claim(claim)), None)

    async def make_for_resources(self, pod: Object, claim: Object, resources: Collection[str]) -> Object:
        """Creates this claim for extended resources of the pod, unless it exists, and names it in the pod's status."""
        if "uid" not in claim["metadata"]:
            claim = await self._api.create(CLAIMS, claim)
            self._mirror.store(CLAIMS, claim)
        await self._update_pod_status(pod, "extendedResourceClaimStatus", claim_status(pod, claim, resources))
        return claim

    async def reserve(self, claim: Object, pod: Object, allocation: Object | None) -> None:
        """Reserves the claim for the pod, with this allocation if it has none."""
        if not claims.is_protected(claim):
            claim = await self._api.replace(CLAIMS, claims.protected(claim, held=True))
            self._mirror.store(CLAIMS, claim)
        if allocation is not None:
            claim = {**claim, "status": {**(claim.get("status") or {}), "allocation": allocation}}
        self._mirror.store(CLAIMS, await self._api.replace_status(CLAIMS, claims.reserved(claim, pod)))

    async def collect(self) -> None:
        """Releases the claims of ended pods, and deletes claims that were created for them."""
        for claim in self._mirror.objects(CLAIMS):
            claim = await self._freed(claim)
            if claims.is_protected(claim) and not claims.is_allocated(claim):
                claim = await self._unprotected(claim)
            owner = claims.owner_uid(claim)
            if owner and "deletionTimestamp" not in claim["metadata"] and await self._is_over(claim, owner):
                await self._api.delete(CLAIMS, claim["metadata"]["name"], claim["metadata"]["namespace"])

    async def _unprotected(self, claim: Object) -> Object:
        """Removes the finalizer; a claim that is marked for deletion is then deleted."""
        claim = await self._api.replace(CLAIMS, claims.protected(claim, held=False))
        if "deletionTimestamp" not in claim["metadata"]:
            self._mirror.store(CLAIMS, claim)
        return claim

    async def _freed(self, claim: Object) -> Object:
        pods = [one for one in claims.consumers(claim) if one["resource"] == "pods"]
        gone = {pod["uid"] for pod in pods if await self._is_over(claim, pod["uid"], pod["name"])}
        is_left = "deletionTimestamp" in claim["metadata"] and not claims.consumers(claim)
        if not gone and not (is_left and claims.is_allocated(claim)):
            return claim
        freed = await self._api.replace_status(CLAIMS, claims.released(claim, gone))
        self._mirror.store(CLAIMS, freed)
        return freed

    async def _is_over(self, claim: Object, uid: str, name: str | None = None) -> bool:
        """Whether the pod has ended or is deleted. The server is asked, because the mirror can be behind."""
        namespace = claim["metadata"]["namespace"]
        name = name or next(o["name"] for o in claim["metadata"]["ownerReferences"] if o["uid"] == uid)
        pod = self._mirror.get(PODS, name, namespace)
        if pod is None or pod["metadata"]["uid"] != uid:
            try:
                pod = await self._api.get(PODS, name, namespace)
            except ApiError as error:
                if error.reason != "NotFound":
                    raise
                return True
        return pod["metadata"]["uid"] != uid or is_terminal(pod)

    def _made_from_template(self, pod: Object, pod_claim: str) -> Object | None:
        names = ((claim, claim["metadata"]["annotations"].get(claims.POD_CLAIM)) for claim in self._made_for(pod))
        return next((claim for claim, name in names if name == pod_claim), None)

    def _made_for(self, pod: Object) -> list[Object]:
        """The claims that were created for the pod, and are not being deleted."""
        mine = (one for one in self._mirror.objects(CLAIMS) if claims.owner_uid(one) == pod["metadata"]["uid"])
        return [claim for claim in mine if "deletionTimestamp" not in claim["metadata"]]

    async def _make(self, pod: Object, entry: Object) -> Object:
        template_name = entry["resourceClaimTemplateName"]
        template = self._mirror.get(CLAIM_TEMPLATES, template_name, pod["metadata"]["namespace"])
        if template is None:
            raise UnschedulableError(f"resourceclaimtemplate {template_name} not found")
        claim = await self._api.create(CLAIMS, claims.from_template(pod, entry["name"], template))
        self._mirror.store(CLAIMS, claim)
        return claim

    def _existing(self, pod: Object, name: str) -> Object:
        claim = self._mirror.get(CLAIMS, name, pod["metadata"]["namespace"])
        if claim is None:
            raise UnschedulableError(f"resourceclaim {name} not found")
        if "deletionTimestamp" in claim["metadata"]:
            raise UnschedulableError(f"resourceclaim {name} is being deleted")
        return claim  # any pod can use the claim

    async def _update_pod_status(self, pod: Object, field: str, value: object) -> None:
        """Writes the names of created claims into this field of the pod's status."""
        latest = await self._api.get(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        latest["status"][field] = value
        self._mirror.store(PODS, await self._api.replace_status(PODS, latest))
