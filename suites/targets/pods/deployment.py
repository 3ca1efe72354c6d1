"""Deploys the fake driver to every node of a cluster, waits for its pods, and removes it again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata

from drahealth.fakes.cluster.api import NAMESPACES, PODS, Api, ApiError, Kind, Object
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.labels import BELONGS
from drahealth.suites.targets.pods import readiness
from drahealth.suites.targets.pods.kinds import DAEMON_SETS, EVENTS
from drahealth.suites.targets.pods.manifests import NAME, NAMESPACE, SELECTOR, manifests
from drahealth.suites.targets.progress import Progress, silent

__all__ = ["NAMESPACE", "deploy", "remove", "why_gone"]

START_LIMIT = 90.0
"""Seconds for the pods to be Ready, and for the remains of an earlier deployment to go."""
_INTERVAL = 0.25
_BEAT = 6.0
"""Seconds between two signs that a stage goes on."""
_PATIENCE = 5.0
"""Seconds that a container may wait for what does not come by waiting: it is told again, with what went before."""


async def deploy(api: Api, image: str, progress: Progress) -> dict[str, str]:
    """Makes or replaces all objects; the pods' names by their nodes once there is a Ready one on each.

    Raises HarnessError with the reason if one cannot start, if the cluster refuses, or if somebody else's object has
    the name of one of ours; then nothing is made.
    """
    try:
        async with _told(progress, f"Deploying the fake driver ({image})"):
            async with asyncio.timeout(START_LIMIT):
                await _until_free(api)
            await _refuse_to_take_over(api)
            for kind, obj in manifests(image, metadata.version("drahealth")):
                await _apply(api, kind, obj)
        return await _until_ready(api, progress)
    except TimeoutError:
        raise HarnessError(
            f"The namespace {NAMESPACE} of an earlier deployment is still being deleted after {START_LIMIT:g} s",
            f"see what holds it: kubectl get namespace {NAMESPACE} -o yaml",
        ) from None
    except ApiError as error:
        raise HarnessError(
            f"The fake driver cannot be deployed: {error}", "the kubeconfig's user must be an administrator"
        ) from error


async def remove(api: Api, progress: Progress = silent) -> None:
    """Removes everything of ours and returns when it is gone; what is not there is no error. Raises HarnessError.

    Somebody else's objects stay, whatever their names. The namespace, empty by then, goes by itself: a controller
    leaves it alone for 5 s at least.
    """
    try:
        async with _told(progress, "Removing the fake driver"):
            for kind, obj in reversed(manifests("", "")):
                found = await _find(api, kind, obj["metadata"])
                if found is not None and _is_ours(found):
                    await _delete(api, kind, obj["metadata"])
            async with asyncio.timeout(START_LIMIT):
                await _until_empty(api)
    except TimeoutError:
        raise HarnessError(
            f"The namespace {NAMESPACE} still has pods after {START_LIMIT:g} s",
            f"see what holds them: kubectl get pods -n {NAMESPACE} -o yaml",
        ) from None
    except ApiError as error:
        raise HarnessError(
            f"The fake driver cannot be removed: {error}", f"delete the namespace {NAMESPACE} yourself"
        ) from error


async def why_gone(api: Api, pod: str) -> str:
    """Why a driver's pod no longer serves, as a sentence; empty if it does. Raises ApiError."""
    try:
        return readiness.gone(await api.get(PODS, pod, NAMESPACE), pod)
    except ApiError as error:
        if error.status != 404:
            raise
        return readiness.gone(None, pod)


@asynccontextmanager
async def _told(progress: Progress, stage: str) -> AsyncIterator[None]:
    """Tells of a stage, and again with its seconds while it lasts."""

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
                f"The cluster has a {kind.kind} {name} that is not drahealth's: it lacks the label {label}",
                f"use another cluster, or remove it if nobody needs it: {delete}{within}",
            )


def _is_ours(obj: Object) -> bool:
    return BELONGS.items() <= (obj["metadata"].get("labels") or {}).items()


async def _until_free(api: Api) -> None:
    """A namespace that is being deleted takes nothing new. Somebody else's is not waited for."""
    while True:
        found = await _find(api, NAMESPACES, {"name": NAMESPACE})
        if found is None or not _is_ours(found) or "deletionTimestamp" not in found["metadata"]:
            return
        await asyncio.sleep(_INTERVAL)


async def _until_empty(api: Api) -> None:
    """No pod of the driver is left."""
    while True:
        found = await _find(api, NAMESPACES, {"name": NAMESPACE})
        if found is None or not _is_ours(found) or not await _pods(api):
            return
        await asyncio.sleep(_INTERVAL)


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
    began, hopeless_since = time.monotonic(), None
    while True:
        daemon_set = await api.get(DAEMON_SETS, NAME, NAMESPACE)
        pods = await _pods(api)
        now = time.monotonic()
        if readiness.is_rolled_out(daemon_set):
            return readiness.by_node(pods)
        why = readiness.hopeless(pods)
        hopeless_since = (hopeless_since or now) if why else None
        if hopeless_since is not None and now - hopeless_since > _PATIENCE:
            raise HarnessError(f"The fake driver does not start: {why}", "see that its image is in the cluster's nodes")
        if now - began > START_LIMIT:
            why = readiness.missing(daemon_set, pods, await api.list(EVENTS, NAMESPACE))
            raise HarnessError(
                f"The fake driver's pods were not Ready after {START_LIMIT:g} s: {why}",
                f"see kubectl describe pods -n {NAMESPACE}",
            )
        progress(f"Waiting for the fake driver's pods ({now - began:.0f} s)")
        await asyncio.sleep(_INTERVAL)


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
