"""The cluster of the user, as the API server of drivers that drahealth starts: what is created there is removed."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from drahealth.fakes.cluster.api import CLAIMS, NODES, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.suites.errors import ConfigurationError, HarnessError

_NEEDED: tuple[tuple[Kind, str, Sequence[str]], ...] = (
    (NODES, "", ("create", "delete")),
    (SLICES, "", ("get", "list", "watch", "create", "update", "delete")),
    (CLAIMS, "", ("get", "create", "delete")),
    (CLAIMS, "status", ("update",)),
)
"""What the user of the kubeconfig must be allowed to do: a kind, its subresource, and the verbs."""
_NOT_FOUND, _UNAUTHORIZED, _UNAVAILABLE = 404, 401, 503


@dataclass(frozen=True)
class Cluster:
    """A cluster of others, and the objects that drahealth created in it."""

    kubeconfig: Path
    api: KubeClient
    created: list[tuple[Kind, Object]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    """The names of the nodes of the driver processes."""

    def node(self, label: str) -> str:
        """The name of the Node of a driver process, which no other run has."""
        self.nodes.append(f"drahealth-{uuid4().hex[:6]}-{label}")
        return self.nodes[-1]

    def add(self, kind: Kind, obj: Object) -> None:
        """Notes that an object was created."""
        self.created.append((kind, obj))

    async def remove(self) -> None:
        """Deletes the ResourceSlices of the nodes, and then what was created, the last object first.

        Raises HarnessError if an object cannot be deleted; the others are deleted all the same.
        """
        left = []
        slices = [one for one in await self._slices() if one["spec"].get("nodeName") in self.nodes]
        for kind, obj in (*((SLICES, one) for one in slices), *reversed(self.created)):
            metadata = obj["metadata"]
            try:
                await self.api.delete(kind, metadata["name"], metadata.get("namespace"))
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    left.append(f"{kind.kind} {metadata['name']} ({error})")
        if left:
            raise HarnessError(f"cannot delete from the cluster of {self.kubeconfig}: {', '.join(left)}", "delete it")

    async def _slices(self) -> list[Object]:
        with suppress(ApiError):  # the deletions below report the cause
            return await self.api.list(SLICES)
        return []


@asynccontextmanager
async def cluster(kubeconfig: Path, kinds: Sequence[Object] = ()) -> AsyncGenerator[Cluster, None]:
    """The cluster of a kubeconfig. At the end, what was created in it is deleted.

    `kinds` are objects that will be created in it. Raises ConfigurationError for a kubeconfig that cannot be used, or
    whose user has not all permissions, and HarnessError for a cluster that cannot be reached.
    """
    try:
        api = await KubeClient.from_kubeconfig(kubeconfig)
    except ValueError as error:
        raise ConfigurationError(str(error), "correct kubeconfig of [api-server]") from None
    found = Cluster(kubeconfig, api)
    try:
        await _check_version(found)
        await _check_permissions(found, kinds)
        try:
            yield found
        finally:
            await found.remove()
    finally:
        await api.close()


async def _check_version(found: Cluster) -> None:
    try:
        await found.api.kind_of({"apiVersion": SLICES.api_version, "kind": SLICES.kind})
    except ApiError as error:
        where = f"the API server of {found.kubeconfig}"
        if error.status == _UNAVAILABLE:
            raise HarnessError(f"{where}: {error.message}", "start it, or pass another kubeconfig") from None
        if error.status == _UNAUTHORIZED:
            raise ConfigurationError(f"{where} rejects the credentials: {error}", "renew the kubeconfig") from None
        if error.status == _NOT_FOUND:
            what = f"{where} does not serve ResourceSlices of {SLICES.api_version}"
            raise ConfigurationError(what, "use Kubernetes 1.34 or newer") from None
        raise HarnessError(f"{where}: {error}", "pass another kubeconfig") from None


async def _check_permissions(found: Cluster, objects: Sequence[Object]) -> None:
    """Asks the API server. One without this question decides when the objects are created."""
    wanted = [(kind, subresource, verb) for kind, subresource, verbs in _NEEDED for verb in verbs]
    for one in objects:
        with suppress(ApiError):  # the kind of a CustomResourceDefinition that does not exist yet
            kind = await found.api.kind_of(one)
            wanted += [(kind, "", verb) for verb in ("create", "delete")]
    missing = [await _missing(found.api, *one) for one in dict.fromkeys(wanted)]
    if names := ", ".join(name for name in missing if name):
        what = f"the user of {found.kubeconfig} has no permission to {names}"
        raise ConfigurationError(what, "add the permissions, or pass another kubeconfig")


async def _missing(api: KubeClient, kind: Kind, subresource: str, verb: str) -> str:
    """The permission in words if it is missing; otherwise an empty text."""
    group = kind.api_version.rpartition("/")[0]
    attributes = {"group": group, "resource": kind.plural, "subresource": subresource, "verb": verb}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    body = {**review, "spec": {"resourceAttributes": attributes}}
    try:
        answer = await api.connection.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    except ApiError:
        return ""
    allowed = bool(answer.get("status", {}).get("allowed"))
    return "" if allowed else f"{verb} {kind.plural}{f'/{subresource}' if subresource else ''}"
