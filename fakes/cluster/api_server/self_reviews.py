"""Reviews: a client asks who it is, and what it can do. The server has one user, who can do everything. Pure.

Source: k8s.io/api, `authentication/v1` and `authorization/v1`.
"""

from collections.abc import Mapping
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object

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
    Kind("SelfSubjectRulesReview", "selfsubjectrulesreviews", _AUTHORIZATION, False): _RULES,
}

REVIEWS: tuple[Kind, ...] = tuple(_STATUS)
"""The kinds of reviews. They are created and answered, but not stored."""


def reviewed(kind: Kind, review: Object, time: str) -> dict[str, Any]:
    """The review with its status; `time` as RFC 3339."""
    metadata = review.get("metadata") or {}
    if kind.kind == "SelfSubjectReview":
        metadata = {**metadata, "creationTimestamp": time}
    spec = {"spec": review["spec"]} if "spec" in review else {}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **spec, "status": _STATUS[kind]}
