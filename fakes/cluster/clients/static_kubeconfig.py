"""Kubeconfigs with a server, its authority and a token, and nothing else, as this project writes them, in JSON.

The official client's reader of kubeconfigs is not needed for them. It writes certificates to files in the temporary
folder, which stay there if the process is killed.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.clients.access import Access

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
        verify = not cluster.get("insecure-skip-tls-verify")
        authority = _authority(cluster) if verify and cluster["server"].startswith("https:") else ""
        access = Access.to(cluster["server"].rstrip("/"), user["token"], authority=authority, verify=verify)
        access.tls()
        return access
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _named(entries: Any, name: str) -> Any:
    """The only entry of this name. ValueError for none or several."""
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found


def _authority(cluster: Mapping[str, Any]) -> str:
    return base64.b64decode(cluster["certificate-authority-data"], validate=True).decode()
