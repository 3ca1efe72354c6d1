"""Deploys the fake driver to every node of a cluster, waits for its pods, and removes it again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata

from drahealth.fakes.cluster.api import EVENTS, NAMESPACES, PODS, Api, ApiError, Kind, Object
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.pods import readiness
from drahealth.suites.targets.pods.manifests import DAEMON_SETS, NAME, NAMESPACE, SELECTOR, manifests
from drahealth.suites.targets.polling import poll
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.target import BELONGS

__all__ = ["NAMESPACE", "deploy", "remove", "why_gone"]

START_LIMIT = 90.0
"""Seconds for the pods to be Ready, and for the objects of an earlier deployment to be deleted."""
_INTERVAL = 0.25
_BEAT = 6.0
"""Seconds between two lines about a stage."""
_PATIENCE = 5.0
"""Seconds that a container may wait for a hopeless reason: later events often give a better one."""


async def deploy(api: Api, image: str, progress: Progress) -> dict[str, str]:
    """Makes or replaces all objects. Returns the names of the pods by their nodes, once each node has a Ready one.

    Raises HarnessError if a pod cannot start, or if the cluster rejects an object. Makes nothing and raises it if an
    object of others has the name of one of ours.
    """
    try:
        async with _shown(progress, f"Deploying the fake driver ({image})"):
            async with asyncio.timeout(START_LIMIT):
                await poll(lambda: _is_free(api), _INTERVAL)
            await _refuse_to_take_over(api)
            for kind, obj in manifests(image, metadata.version("drahealth")):
                await _apply(api, kind, obj)
        return await _until_ready(api, progress)
    except TimeoutError:
        raise HarnessError(
            f"the namespace {NAMESPACE} of an earlier deployment is not deleted after {START_LIMIT:g} s",
            f"see why: kubectl get namespace {NAMESPACE} -o yaml",
        ) from None
    except ApiError as error:
        raise HarnessError(
            f"cannot deploy the fake driver: {error}", "the user of the kubeconfig must be an administrator"
        ) from error


async def remove(api: Api, progress: Progress = silent) -> None:
    """Removes all our objects and returns when they are gone; harmless without any. Raises HarnessError.

    It never removes objects of others. It does not wait for the empty namespace: a controller takes at least 5 s.
    """
    try:
        async with _shown(progress, "Removing the fake driver"):
            for kind, obj in reversed(manifests("", "")):
                found = await _find(api, kind, obj["metadata"])
                if found is not None and _is_ours(found):
                    await _delete(api, kind, obj["metadata"])
            async with asyncio.timeout(START_LIMIT):
                await poll(lambda: _is_empty(api), _INTERVAL)
    except TimeoutError:
        raise HarnessError(
            f"the namespace {NAMESPACE} has pods after {START_LIMIT:g} s",
            f"see why: kubectl get pods -n {NAMESPACE} -o yaml",
        ) from None
    except ApiError as error:
        raise HarnessError(
            f"cannot remove the fake driver: {error}", f"delete the namespace {NAMESPACE} yourself"
        ) from error


async def why_gone(api: Api, pod: str) -> str:
    """Why the pod of a driver no longer runs, as a sentence; empty if it runs. Raises ApiError."""
    try:
        return readiness.gone(await api.get(PODS, pod, NAMESPACE), pod)
    except ApiError as error:
        if error.status != 404:
            raise
        return readiness.gone(None, pod)


@asynccontextmanager
async def _shown(progress: Progress, stage: str) -> AsyncIterator[None]:
    """Shows a stage, and then its seconds while it lasts."""

    async def beat() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_BEAT)
            progress(f"{stage} ({time.monotonic() - began:.0f} s)")

    progress(stage)
    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


async def _refuse_to_take_over(api: Api) -> None:
    for kind, obj in manifests("", ""):
        name = obj["metadata"]["name"]
        found = await _find(api, kind, obj["metadata"])
        if found is not None and not _is_ours(found):
            delete = f"kubectl delete {kind.kind.lower()} {name}"
            within = f" -n {NAMESPACE}" if "namespace" in obj["metadata"] else ""
            label = "=".join(*BELONGS.items())
            raise HarnessError(
                f"the cluster has another {kind.kind} {name}, without the label {label}",
                f"use another cluster, or remove it: {delete}{within}",
            )


def _is_ours(obj: Object) -> bool:
    return BELONGS.items() <= (obj["metadata"].get("labels") or {}).items()


async def _is_free(api: Api) -> bool:
    """False while an earlier namespace of ours is deleted, which accepts no new objects."""
    found = await _find(api, NAMESPACES, {"name": NAMESPACE})
    return found is None or not _is_ours(found) or "deletionTimestamp" not in found["metadata"]


async def _is_empty(api: Api) -> bool:
    """Whether no pod of the driver is left."""
    found = await _find(api, NAMESPACES, {"name": NAMESPACE})
    return found is None or not _is_ours(found) or not await _pods(api)


async def _apply(api: Api, kind: Kind, obj: Object) -> None:
    try:
        await api.create(kind, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        old = await api.get(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"))
        version = old["metadata"]["resourceVersion"]
        await api.replace(kind, {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})


async def _until_ready(api: Api, progress: Progress) -> dict[str, str]:
    """The names of the pods by their nodes. Raises HarnessError if they do not get Ready."""
    began = time.monotonic()
    hopeless_since: float | None = None
    pods: list[Object] = []

    async def is_ready() -> bool:
        nonlocal hopeless_since, pods
        daemon_set = await api.get(DAEMON_SETS, NAME, NAMESPACE)
        pods = await _pods(api)
        now = time.monotonic()
        if readiness.is_rolled_out(daemon_set):
            return True
        why = readiness.hopeless(pods)
        hopeless_since = (hopeless_since or now) if why else None
        if hopeless_since is not None and now - hopeless_since > _PATIENCE:
            raise HarnessError(
                f"the fake driver does not start: {why}", "check that the nodes of the cluster have its image"
            )
        if now - began > START_LIMIT:
            why = readiness.missing(daemon_set, pods, await api.list(EVENTS, NAMESPACE))
            raise HarnessError(
                f"the pods of the fake driver are not Ready after {START_LIMIT:g} s: {why}",
                f"see kubectl describe pods -n {NAMESPACE}",
            )
        progress(f"Waiting for the fake driver's pods ({now - began:.0f} s)")
        return False

    await poll(is_ready, _INTERVAL)
    return readiness.by_node(pods)


async def _pods(api: Api) -> list[Object]:
    found = await api.list(PODS, NAMESPACE)
    return [pod for pod in found if SELECTOR.items() <= pod["metadata"].get("labels", {}).items()]


async def _delete(api: Api, kind: Kind, named: Object) -> None:
    try:
        await api.delete(kind, named["name"], named.get("namespace"))
    except ApiError as error:
        if error.status != 404:
            raise


async def _find(api: Api, kind: Kind, named: Object) -> Object | None:
    try:
        return await api.get(kind, named["name"], named.get("namespace"))
    except ApiError as error:
        if error.status != 404:
            raise
        return None
