"""Static pods: pods from a file of the kubelet. The API server has a mirror pod for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from drahealth.fakes.cluster.api import PODS
from drahealth.suites.story.node import Node
from drahealth.suites.story.pod_manifest import PodUses, Used, pod_manifest
from drahealth.suites.story.workload import Pod

_NAME = "static"


@asynccontextmanager
async def static_pod(node: Node, *uses: Used) -> AsyncIterator[Pod]:
    """The mirror pod of a static pod whose container `main` uses `uses`. The scenario needs `static-pods`.

    At the end its manifest is removed, and the mirror pod is gone. Raises TimeoutError if there is no mirror pod in
    time. A namespace can have one static pod.
    """
    users, target = PodUses.of({"main": uses}, {}, {}, ()), node.target
    image = target.workload_image
    manifest = pod_manifest(node.namespace, _NAME, users, {}, image=image, command=(), restart="Always")
    node.log(f"the kubelet has the manifest of the static pod {_NAME}")
    pod = None
    await target.add_static_pod(manifest)
    try:
        name = f"{_NAME}-{target.node_name}"  # the kubelet adds the name of its node
        pod = Pod(node, name, await _uid(node, name), users)
        yield pod
    finally:
        await target.remove_static_pod(manifest)
        if pod:
            await pod.is_gone()


async def _uid(node: Node, name: str) -> str:
    async with (
        asyncio.timeout(node.target.windows["start"]),
        aclosing(node.target.api.watch(PODS, node.namespace)) as changes,
    ):
        async for change in changes:
            if change.object["metadata"]["name"] == name:
                return str(change.object["metadata"]["uid"])
    raise TimeoutError(f"no mirror pod {name}")
