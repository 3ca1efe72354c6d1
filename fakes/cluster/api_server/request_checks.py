"""Checks of every request before the API server handles it: it comes from a client with the token, not from a browser.

A page in a browser cannot know the token. The other checks hold if the token leaks. A page cannot change the Host and
Origin headers of its requests, and a form cannot send the content types of Kubernetes. A body without a content type is
JSON, as in a real API server: the official client for Python sends none.
"""

from collections.abc import Mapping

from drahealth.fakes.cluster import refusals
from drahealth.fakes.program.private_files import BearerToken

MEDIA_TYPES = frozenset(
    {
        "application/json",
        "application/yaml",
        "application/cbor",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/apply-patch+cbor",
    }
)
"""The content types that clients of Kubernetes send (k8s.io/apimachinery, `pkg/runtime` and `pkg/types`)."""


class RequestChecks:
    """The checks of a server with this token, at these names on this port."""

    def __init__(self, token: str, names: tuple[str, ...], port: int) -> None:
        self._token = BearerToken(token)
        self._hosts = frozenset(f"{name}:{port}" for name in names)
        self._origins = frozenset(f"https://{host}" for host in self._hosts)

    def check(self, headers: Mapping[str, str], *, has_body: bool) -> None:
        """Raises `ApiError` 401 without the token, 403 for another Host or Origin, 415 for another content type."""
        if headers.get("Host", "").lower() not in self._hosts:
            raise refusals.foreign("host", headers.get("Host", ""))
        if headers.get("Origin", "").lower() not in ("", *self._origins):
            raise refusals.foreign("origin", headers["Origin"])
        if not self._token.permits(headers.get("Authorization", "")):
            raise refusals.unauthorized()
        if has_body:
            media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if media_type and media_type not in MEDIA_TYPES:
                raise refusals.unsupported_media_type()
