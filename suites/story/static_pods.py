"""Static pods: pods from a file of the kubelet. The API server has a mirror pod for each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drahealth.proto.events import StatusSeen
from drahealth.suites.story.node import Node
from drahealth.suites.story.pod_manifest import PodUses, Used, pod_manifest
from drahealth.suites.story.workload import Pod

_NAME = "static"


@asynccontextmanager
async def static_pod(node: Node, *uses: Used) -> AsyncIterator[Pod]:
    """The mirror pod of a static pod whose container `main` uses `uses`. The scenario needs `static-pods`.

    At the end its manifest is removed. If the block succeeded, the mirror pod is gone then. Otherwise the cleanup of
    the node deletes it. A namespace can have one static pod.
    """
    users, name = PodUses.of({"main": uses}, {}, {}, ()), f"{_NAME}-{node.target.node_name}"
    image = node.target.workload_image
    manifest = pod_manifest(node.namespace, _NAME, users, {}, image=image, command=(), restart="Always")
    node.log(f"the kubelet has the manifest of the static pod {_NAME}")
    await node.target.add_static_pod(manifest)
    try:
        pod = Pod(node, name, await _mirrored(node, name), users)
        yield pod
    finally:
        await node.target.remove_static_pod(manifest)
    await pod.is_gone()


async def _mirrored(node: Node, name: str) -> str:
    """The uid of the mirror pod with this name, as soon as there is one."""

    def uids() -> list[str]:
        return [seen.uid for seen in node.history.of(StatusSeen) if seen.pod == name]

    await node.until(lambda: bool(uids()), "start", f"the API server has the mirror pod {name}", "no such pod")
    return uids()[0]
