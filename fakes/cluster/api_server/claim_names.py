"""Validates the claim names of a Pod: each container uses claims that the Pod declares, each once.

A container cannot name a subrequest: its request must be an RFC 1123 label, which has no slash.
Source: kubernetes 1.37, `pkg/apis/core/validation`, `validateResourceClaimNames` and `validatePodResourceClaims`.
"""

import re
from collections.abc import Iterator

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "must be an RFC 1123 label: at most 63 lower case letters, digits or '-', with a letter or digit at both ends"
)


def claim_name_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in a Pod's spec at this path. Raises `ApiError` 400 for a field with a wrong type."""
    declared = list[str]()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        if claim["name"] in declared:
            yield refusals.duplicate_value(f"{at}.resourceClaims[{index}].name", claim["name"])
        declared.append(claim["name"])
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            uses = (container.get("resources") or {}).get("claims") or []
            if not isinstance(uses, list) or not all(isinstance(use, dict) for use in uses):
                raise refusals.bad_request(f"{at}.{field}[{index}].resources.claims must be a list of objects")
            yield from _use_errors(uses, sorted(set(declared)), f"{at}.{field}[{index}].resources.claims")


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
