"""The cluster of the user, in which drahealth starts drivers, or which is their API server.

What drahealth creates there is removed at the end, or by the next run.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from pathlib import Path
from uuid import uuid4

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, NODES, PODS, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.driver_checks.subject.driver_pod import (
    LabelledClient,
    is_left,
    remove_labelled,
    run_name,
    until_gone,
)
from drahealth.suites.errors import ConfigurationError, HarnessError

Permissions = tuple[tuple[Kind, str, Sequence[str]], ...]
"""Kinds, their subresources, and verbs."""
_NODES: Permissions = ((NODES, "", ("create", "delete")),)
"""What the user of the kubeconfig must be allowed to do for drivers on Nodes of drahealth."""
_PODS: Permissions = ((NODES, "", ("get",)), (PODS, "", ("get", "list", "watch", "delete")))
"""The same for drivers in Pods."""
_NEEDED: Permissions = (
    (SLICES, "", ("get", "list", "watch", "create", "update", "delete")),
    (CLAIMS, "", ("get", "create", "delete")),
    (CLAIMS, "status", ("update",)),
)
"""The same for all drivers."""
log = logging.getLogger(__name__)
_NOT_FOUND, _UNAUTHORIZED, _UNAVAILABLE = 404, 401, 503


@dataclass(frozen=True)
class Cluster:
    """A cluster of others, and the objects that drahealth created in it."""

    kubeconfig: Path
    api: LabelledClient
    run: str
    """Name of the run, which all objects of drahealth have in a label."""
    created: list[tuple[Kind, Object]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    """The names of the nodes of the driver processes."""
    others: set[str] = field(default_factory=set)
    """The names of drivers that had ResourceSlices of an existing node at the start."""

    def node(self, label: str) -> str:
        """The name of the Node of a driver process, which no other run has."""
        self.nodes.append(f"drahealth-{uuid4().hex[:6]}-{label}")
        return self.nodes[-1]

    async def use_node(self, name: str) -> None:
        """Uses an existing Node. Raises ConfigurationError if there is none."""
        names = sorted(one["metadata"]["name"] for one in await self.api.list(NODES))
        if name not in names:
            raise ConfigurationError(f"the cluster has no Node {name}", f"its Nodes are {', '.join(names[:10])}")
        self.others.update(one["spec"]["driver"] for one in await self._slices() if one["spec"].get("nodeName") == name)
        self.nodes.append(name)

    def add(self, kind: Kind, obj: Object) -> None:
        """Notes that an object was created."""
        self.created.append((kind, obj))

    async def remove(self) -> None:
        """Deletes the ResourceSlices of the nodes, and then what was created, the last object first.

        Raises HarnessError if an object cannot be deleted; the others are deleted all the same.
        """
        left = []
        slices = [one for one in await self._slices() if self._is_ours(one)]
        for kind, obj in (*((SLICES, one) for one in slices), *reversed(self.created)):
            metadata = obj["metadata"]
            try:
                await self.api.delete(kind, metadata["name"], metadata.get("namespace"))
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    left.append(f"{kind.kind} {metadata['name']} ({error})")
        for kind, obj in self.created:
            if kind == NAMESPACES:
                await until_gone(self.api, kind, obj)
        if left:
            raise HarnessError(f"cannot delete from the cluster of {self.kubeconfig}: {', '.join(left)}", "delete it")

    def _is_ours(self, found: Object) -> bool:
        return found["spec"].get("nodeName") in self.nodes and found["spec"].get("driver") not in self.others

    async def _slices(self) -> list[Object]:
        with suppress(ApiError):  # the deletions below report the cause
            return await self.api.list(SLICES)
        return []


@asynccontextmanager
async def cluster(
    kubeconfig: Path, folder: Path, kinds: Sequence[Object] = (), *, pods: bool = False
) -> AsyncGenerator[Cluster, None]:
    """The cluster of a kubeconfig. At the start, objects of killed runs are deleted, at the end those of this run.

    `folder` is the run directory. `kinds` are objects that will be created in the cluster; with `pods`, the drivers run
    in Pods on its Nodes. Raises ConfigurationError for a kubeconfig that cannot be used, or
    whose user has not all permissions, and HarnessError for a cluster that cannot be reached.
    """
    try:
        api = await LabelledClient.from_kubeconfig(kubeconfig)
    except ValueError as error:
        raise ConfigurationError(str(error), "correct kubeconfig of the driver profile") from None
    assert isinstance(api, LabelledClient)
    api.run = run_name(folder)
    found = Cluster(kubeconfig, api, api.run)
    try:
        await _check_version(found)
        await _check_permissions(found, kinds, (*(_PODS if pods else _NODES), *_NEEDED))
        if left := await remove_labelled(api, await _kinds_of(api, kinds), partial(is_left, base=folder.parent)):
            log.warning("deleted objects of a killed run: %s", ", ".join(left))
        try:
            yield found
        finally:
            await found.remove()
            await remove_labelled(api, await _kinds_of(api, kinds), partial(eq, api.run))
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


async def _kinds_of(api: KubeClient, objects: Sequence[Object]) -> list[Kind]:
    found = []
    for one in objects:
        with suppress(ApiError):  # the kind of a CustomResourceDefinition that does not exist yet
            found.append(await api.kind_of(one))
    return found


async def _check_permissions(found: Cluster, objects: Sequence[Object], needed: Permissions) -> None:
    """Asks the API server. One without this question decides when the objects are created."""
    wanted = [(kind, subresource, verb) for kind, subresource, verbs in needed for verb in verbs]
    kinds = await _kinds_of(found.api, objects)
    wanted += [(kind, "", verb) for kind in kinds for verb in ("create", "delete")]
    missing = [await _missing(found.api, *one) for one in dict.fromkeys(wanted)]
    if names := ", ".join(name for name in missing if name):
        what = f"the user of {found.kubeconfig} has no permission to {names}"
        raise ConfigurationError(what, "add the permissions, or pass another kubeconfig")


async def _missing(api: KubeClient, kind: Kind, subresource: str, verb: str) -> str:
    """The permission in words if it is missing; otherwise an empty text."""
    try:
        allowed = await api.is_allowed(verb, kind, subresource=subresource)
    except ApiError:
        return ""
    return "" if allowed else f"{verb} {kind.plural}{f'/{subresource}' if subresource else ''}"
