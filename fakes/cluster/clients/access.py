"""Address and credentials of an API server, as the official client holds them."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient, Configuration

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
