"""A cluster that is there and stays: one run at a time, which first removes what a killed one has left on it."""

import re
from pathlib import Path

import filelock

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, Api, ApiError, Kind
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.labels import BELONGS


def hold(cluster: str, engine: str, base: Path) -> filelock.FileLock:
    """Holds the cluster, on that engine (`Engine.identity`), until `release`. HarnessError if another process does."""
    lock = filelock.FileLock(base / f"{cluster}-{re.sub('[^A-Za-z0-9]', '', engine)}.lock")
    try:
        base.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise HarnessError(
            f"Another run is using the cluster {cluster}", "wait for its end, or leave --reuse out to make one"
        ) from None
    except OSError as error:
        raise HarnessError(
            f"The cluster {cluster} cannot be held in {base}: {error}",
            "make room there, or set XDG_STATE_HOME to a folder that can be written",
        ) from error
    return lock


async def tidy(api: Api) -> None:
    """Deletes the namespaces and device classes of scenarios that ended without doing so. Raises ApiError.

    Their pods go at once: without their drivers, which are no more, a kubelet would never be done with them.
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
