"""The API server that a program is given: by a kubeconfig, or that of the pod that it runs in."""

from pathlib import Path

from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.program.errors import CommandError

_HINT = "name a kubeconfig by --kubeconfig; drahealth manager writes one into its root directory"


async def client_of(kubeconfig: Path | None) -> KubeClient:
    """A client of it. Raises CommandError 3 where neither says a server."""
    try:
        return await KubeClient.from_kubeconfig(kubeconfig) if kubeconfig else KubeClient.in_cluster()
    except ValueError as error:
        raise CommandError(f"{error}; {_HINT}", 3) from None
