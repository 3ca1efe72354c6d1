"""An existing cluster that a run uses: one run at a time, which first removes what a killed one left."""

import re
from pathlib import Path

import filelock

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, Api, ApiError, Kind
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.target import BELONGS


def hold(cluster: str, engine: str, base: Path) -> filelock.FileLock:
    """Locks the cluster, on that engine (`Engine.identity`), until `release`. Raises HarnessError if it is locked."""
    lock = filelock.FileLock(base / f"{cluster}-{re.sub('[^A-Za-z0-9]', '', engine)}.lock")
    try:
        base.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise HarnessError(
            f"another run uses the cluster {cluster}", "wait for its end, or remove --reuse to make a new cluster"
        ) from None
    except OSError as error:
        raise HarnessError(
            f"cannot lock the cluster {cluster} in {base}: {error}",
            "free some disk space there, or set XDG_STATE_HOME to a writable folder",
        ) from error
    return lock


async def tidy(api: Api) -> None:
    """Deletes the namespaces and device classes that interrupted scenarios left. Raises ApiError.

    Their pods are deleted without a grace period: without their drivers a kubelet would never finish them.
    """
    for namespace in await _ours(api, NAMESPACES):
        for pod in await api.list(PODS, namespace):
            await _delete(api, PODS, pod["metadata"]["name"], namespace)
        await _delete(api, NAMESPACES, namespace)
    for name in await _ours(api, DEVICE_CLASSES):
        await _delete(api, DEVICE_CLASSES, name)


async def _ours(api: Api, kind: Kind) -> list[str]:
    found = [item["metadata"] for item in await api.list(kind)]
    return [o["name"] for o in found if BELONGS.items() <= (o.get("labels") or {}).items()]


async def _delete(api: Api, kind: Kind, name: str, namespace: str | None = None) -> None:
    try:
        await api.delete(kind, name, namespace, grace=0)
    except ApiError as error:
        if error.status != 404:
            raise
