"""Validates the claim names of a Pod: each container uses claims that the Pod declares, each once.

A container cannot name a subrequest: its request must be an RFC 1123 label, which has no slash.
Source: kubernetes 1.37, `pkg/apis/core/validation`, `validateResourceClaimNames` and `validatePodResourceClaims`.
"""

import re
from collections.abc import Iterator

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.metadata_validation import label_name_errors, subdomain_errors
from drahealth.fakes.cluster.api_server.refusals import FieldError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "must be an RFC 1123 label: at most 63 lower case letters, digits or '-', with a letter or digit at both ends"
)


def claim_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the claims that a Pod's spec at this path declares."""
    declared = set[str]()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        here, name = f"{at}.resourceClaims[{index}]", claim.get("name") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        elif name in declared:
            yield refusals.duplicate_value(f"{here}.name", name)
        else:
            yield from (refusals.invalid_value(f"{here}.name", name, why) for why in label_name_errors(name))
        declared.add(name)
        yield from _source_errors(claim, here)


def _source_errors(claim: Object, at: str) -> Iterator[FieldError]:
    claim_name, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    shown = {"Name": claim.get("name") or "", "ResourceClaimName": claim_name, "ResourceClaimTemplateName": template}
    if claim_name is not None and template is not None:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield refusals.invalid_value(at, shown, why)
    if claim_name is None and template is None:
        why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        yield refusals.invalid_value(at, shown, why)
    for key in ("resourceClaimName", "resourceClaimTemplateName"):
        if claim.get(key) is not None:
            yield from (refusals.invalid_value(f"{at}.{key}", claim[key], why) for why in subdomain_errors(claim[key]))


def use_errors(container: Object, spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the claims that a container at this path uses; `spec` is that of its Pod."""
    uses = (container.get("resources") or {}).get("claims") or []
    declared = sorted({claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")})
    return _use_errors(uses, declared, f"{at}.resources.claims")


def _use_errors(uses: list[Object], declared: list[str], at: str) -> Iterator[FieldError]:
    seen = dict[str, None]()
    listed = f": {', '.join(declared)}" if declared else " which is empty"
    for index, use in enumerate(uses):
        name, request = use.get("name") or "", use.get("request") or ""
        if not name:
            yield refusals.required_value(f"{at}[{index}]")
            continue
        whole = f"{name}/{request}" if request else name
        if request and name not in seen and not _LABEL.fullmatch(request):
            yield refusals.invalid_value(f"{at}[{index}].request", request, _LABEL_RULE)
        parts = [one for one in seen if not request and one.startswith(f"{name}/")]
        for twice in [one for one in (name, whole, *parts) if one in seen][:1]:
            yield refusals.duplicate_value(f"{at}[{index}]", twice)
        seen[whole] = None
        if name not in declared:
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield refusals.not_in(f"{at}[{index}]", name, detail)
