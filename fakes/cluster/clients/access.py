"""Address and credentials of an API server."""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory with the service account of a pod (Kubernetes: Accessing the API from a Pod)."""


@dataclass(frozen=True)
class Access:
    """An API server and credentials for it."""

    host: str
    """Scheme, name and port."""
    headers: Callable[[], Awaitable[Mapping[str, str]]]
    """Returns the current credentials as HTTP headers."""
    tls: ssl.SSLContext | None = None
    proxy: str | None = None
    server_name: str | None = None
    """The name in the server's certificate, if it differs from the host."""


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Access:
    """The API server of the pod in which this process runs. Raises ValueError outside of a pod."""
    try:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        tls = lenient(ssl.create_default_context(cafile=folder / "ca.crt"))
        (folder / "token").read_text()
    except (KeyError, OSError):
        raise ValueError("not running in a pod with a service account") from None

    async def headers() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}  # the token is renewed every hour

    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", headers, tls)


def lenient(context: ssl.SSLContext) -> ssl.SSLContext:
    """Relaxes certificate checks to those of Go; some clusters have certificates that Python would reject."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
