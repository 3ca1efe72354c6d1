"""Kubeconfigs with a server, its authority and a token, and nothing else, as this project writes them, in JSON.

For them the official client is not needed. Its import takes almost a second, and it writes certificates to files in the
temporary folder, which stay there if the process is killed.
"""

import base64
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.clients.access import Access, lenient

_NAME = "drahealth"
_CLUSTER_KEYS = frozenset({"server", "certificate-authority-data", "insecure-skip-tls-verify"})


def static_kubeconfig(server: str, token: str, authority: str) -> Mapping[str, Any]:
    """A kubeconfig for the server at this URL; `authority` is the PEM of the certificate to trust."""
    data = base64.b64encode(authority.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": {"server": server, "certificate-authority-data": data}}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }


def static_access(path: Path) -> Access | None:
    """The access of the current context; None for a kubeconfig in YAML, with other fields, or with an error."""
    try:
        config = json.loads(path.read_bytes())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        if not (cluster.keys() <= _CLUSTER_KEYS and user.keys() == {"token"}) or not isinstance(user["token"], str):
            return None
        headers = {"Authorization": f"Bearer {user['token']}"}
        return Access(cluster["server"].rstrip("/"), _constant(headers), _tls(cluster))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _named(entries: Any, name: str) -> Any:
    """The only entry of this name. ValueError for none or several."""
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found


def _tls(cluster: Mapping[str, Any]) -> ssl.SSLContext | None:
    if not cluster["server"].startswith("https:"):
        return None
    if cluster.get("insecure-skip-tls-verify"):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    authority = base64.b64decode(cluster["certificate-authority-data"], validate=True).decode()
    return lenient(ssl.create_default_context(cadata=authority))


def _constant(headers: Mapping[str, str]) -> Callable[[], Awaitable[Mapping[str, str]]]:
    async def get() -> Mapping[str, str]:
        return headers

    return get
