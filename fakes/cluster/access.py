"""Address and credentials of an API server, and kubeconfigs with nothing else."""

import base64
import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient, Configuration


# Address and credentials of an API server, as the official client holds them.

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory with the service account of a pod (Kubernetes: Accessing the API from a Pod)."""


@dataclass(frozen=True)
class Access:
    """An API server and credentials for it."""

    configuration: "Configuration"

    @classmethod
    def to(cls, host: str, token: str = "", *, authority: str = "", verify: bool = True) -> "Access":
        """Access with a token; `host` is the URL, `authority` the PEM of the certificate to trust."""
        from kubernetes.aio.client import Configuration  # its import takes a fifth of a second

        configuration = Configuration(host=host, api_key={"BearerToken": f"Bearer {token}"} if token else None)
        configuration.ca_cert_data = authority or None
        configuration.verify_ssl = verify
        return cls(configuration)

    @property
    def host(self) -> str:
        """Scheme, name and port."""
        return str(self.configuration.host)

    @property
    def proxy(self) -> str | None:
        """URL of the proxy that the kubeconfig names."""
        return self.configuration.proxy or None

    @property
    def server_name(self) -> str | None:
        """The name in the server's certificate, if it differs from the host."""
        return self.configuration.tls_server_name or None

    async def headers(self) -> Mapping[str, str]:
        """The current credentials as HTTP headers; the official client refreshes them."""
        settings = (await self.configuration.auth_settings()).values()
        return {one["key"]: one["value"] for one in settings if one["in"] == "header"}

    def tls(self) -> ssl.SSLContext:
        """A TLS context with the certificates. OSError if they cannot be read."""
        context: ssl.SSLContext = self.client().rest_client.ssl_context
        return context

    def client(self) -> "ApiClient":
        """A client of its own. Certificates are checked as in Go; some clusters have ones that Python would reject."""
        from kubernetes.aio.client import ApiClient

        self.configuration.disable_strict_ssl_verification = True
        return ApiClient(self.configuration)


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Access:
    """The API server of the pod in which this process runs. Raises ValueError outside of a pod."""
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.incluster_config import InClusterConfigLoader

    access = Access(Configuration())
    try:  # the loader reads the token again each minute; the kubelet renews it
        InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt")).load_and_set(access.configuration)
        access.tls()
    except (ConfigException, OSError):
        raise ValueError("not running in a pod with a service account") from None
    return access


def kubectl_config() -> Path:
    """The kubeconfig that kubectl reads, if KUBECONFIG does not name several."""
    return Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()


# Kubeconfigs with a server, its authority and a token, and nothing else, as this project writes them, in JSON.
#
# The official client's reader of kubeconfigs is not needed for them. It writes certificates to files in the temporary
# folder, which stay there if the process is killed.

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


def port_in(kubeconfig: Path) -> int:
    """The port of the server in a kubeconfig of ours, where drivers that run look for the next one; 0 if none."""
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        config = json.loads(kubeconfig.read_bytes())
        return urlsplit(config["clusters"][0]["cluster"]["server"]).port or 0
    return 0


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
