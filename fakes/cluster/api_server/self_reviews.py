"""Reviews: a client asks who it is, and what it or another user can do. Every user can do everything. Pure.

Source: k8s.io/api, `authentication/v1` and `authorization/v1`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_AUTHORIZATION = "authorization.k8s.io/v1"
_ALL = ["*"]
_USER: Object = {"username": "drahealth", "groups": ["system:masters", "system:authenticated"]}
_RULES: Object = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
    "incomplete": False,
}

_STATUS: Mapping[Kind, Object] = {
    Kind("SelfSubjectReview", "selfsubjectreviews", "authentication.k8s.io/v1", False): {"userInfo": _USER},
    Kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", _AUTHORIZATION, False): {"allowed": True},
    Kind("SubjectAccessReview", "subjectaccessreviews", _AUTHORIZATION, False): {"allowed": True},
    Kind("LocalSubjectAccessReview", "localsubjectaccessreviews", _AUTHORIZATION, True): {"allowed": True},
    Kind("SelfSubjectRulesReview", "selfsubjectrulesreviews", _AUTHORIZATION, False): _RULES,
}

REVIEWS: tuple[Kind, ...] = tuple(_STATUS)
"""The kinds of reviews. They are created and answered, but not stored."""


def review_errors(kind: Kind, review: Object) -> Iterator[FieldError]:
    """The errors in a review of access; none for other reviews."""
    if not kind.kind.endswith("AccessReview"):
        return
    spec, one_of = review.get("spec") or {}, "exactly one of nonResourceAttributes or resourceAttributes"
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        shown = path and {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        yield refusals.invalid_value("spec", shown, f"{one_of} must be specified")
    if not kind.kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        yield refusals.invalid_value("spec.user", "", "at least one of user or group must be specified")
    if kind.namespaced and resource is not None:
        namespace = resource.get("namespace") or ""
        if namespace != review["metadata"].get("namespace", ""):
            yield refusals.invalid_value(
                "spec.resourceAttributes.namespace", namespace, "must match metadata.namespace"
            )


def reviewed(kind: Kind, review: Object, time: str) -> dict[str, Any]:
    """The review with its status; `time` as RFC 3339."""
    metadata = review.get("metadata") or {}
    if kind.kind == "SelfSubjectReview":
        metadata = {**metadata, "creationTimestamp": time}
    spec = {"spec": review["spec"]} if "spec" in review else {}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **spec, "status": _STATUS[kind]}
