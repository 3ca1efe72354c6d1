"""Objects of killed runs in a cluster of others: each object that drahealth creates there has a label with its run.

The run directory of a run is locked as long as the run lives. The next run on this machine removes the objects of runs
without such a directory.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    Object,
)
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.suites.checking.subject.workload import RUN_LABEL
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.polling import poll
from drahealth.suites.targets.run_directory import is_unlocked

GONE_LIMIT = 120.0
"""Seconds until a deleted object must be gone: a Pod has its grace, and a Namespace its objects."""
_INTERVAL = 0.2
_NOT_FOUND = 404
_ALWAYS = (CLAIMS, PODS, DEVICE_CLASSES, NODES, NAMESPACES)
"""Kinds that runs create, besides those of the user's objects. Namespaces come last."""


class LabelledClient(KubeClient):
    """Creates all objects with the label of a run."""

    run = ""
    """Value of the label."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object, with the label."""
        metadata = obj.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), RUN_LABEL: self.run}
        return await super().create(kind, {**obj, "metadata": {**metadata, "labels": labels}})


def run_name(folder: Path) -> str:
    """The value of the label for a run with this run directory: this machine, and the name of the directory."""
    return f"{_machine(folder.parent)}.{folder.name}"


def _machine(base: Path) -> str:
    """A digest of this machine and of the place of its run directories."""
    found = base.stat()
    return hashlib.sha256(f"{gethostname()} {base} {found.st_dev} {found.st_ino}".encode()).hexdigest()[:12]


def is_left(label: str, base: Path) -> bool:
    """Whether an object with this label is of a run on this machine that has ended."""
    machine, _, name = label.partition(".")
    if machine != _machine(base) or not name or "/" in name:
        return False
    try:
        return is_unlocked(base / name)
    except FileNotFoundError:
        return True
    except OSError:
        return False


async def until_gone(api: KubeClient, kind: Kind, obj: Object) -> None:
    """Waits until a deleted object is gone. Raises HarnessError at the limit."""
    metadata = obj["metadata"]

    async def gone() -> bool:
        try:
            found = await api.get(kind, metadata["name"], metadata.get("namespace"))
        except ApiError as error:
            return error.status == _NOT_FOUND
        return bool(found["metadata"].get("uid") != metadata.get("uid"))

    try:
        async with asyncio.timeout(GONE_LIMIT):
            await poll(gone, _INTERVAL)
    except TimeoutError:
        what = f"{kind.kind} {metadata['name']} is not deleted after {GONE_LIMIT:g} s"
        raise HarnessError(what, "look at its status and its finalizers") from None


async def remove_labelled(api: KubeClient, kinds: Iterable[Kind], wanted: Callable[[str], bool]) -> list[str]:
    """Deletes the objects with a wanted label, and the ResourceSlices of their Nodes. Returns kinds and names.

    `kinds` are those of the user's objects. Objects that cannot be listed or deleted stay. Raises HarnessError if one
    is not gone in time.
    """
    found: list[tuple[Kind, Object]] = []
    labelled = api.selecting(labels=RUN_LABEL)
    for kind in dict.fromkeys((*kinds, *_ALWAYS)):
        with suppress(ApiError):
            objects = await labelled.list(kind)
            found += ((kind, one) for one in objects if wanted(one["metadata"]["labels"].get(RUN_LABEL, "")))
    nodes = {one["metadata"]["name"] for kind, one in found if kind == NODES}
    if nodes:
        with suppress(ApiError):
            found[:0] = [(SLICES, one) for one in await api.list(SLICES) if one["spec"].get("nodeName") in nodes]
    for kind, one in found:
        with suppress(ApiError):
            await api.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace"))
    for kind, one in found:
        await until_gone(api, kind, one)
    return [f"{kind.kind} {one['metadata']['name']}" for kind, one in found]
