"""The API server of a program: from a kubeconfig, or of the pod in which it runs."""

from pathlib import Path

from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.program.errors import CommandError

_HINT = "pass a kubeconfig with --kubeconfig (`drahealth manager` writes one into its root directory)"


async def client_of(kubeconfig: Path | None) -> KubeClient:
    """A client of the API server. Raises CommandError 3 if neither is given."""
    try:
        return await KubeClient.from_kubeconfig(kubeconfig) if kubeconfig else KubeClient.in_cluster()
    except ValueError as error:
        raise CommandError(f"{error}; {_HINT}", 3) from None
