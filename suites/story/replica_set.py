"""The ReplicaSets of a scenario."""

from drahealth.fakes.cluster.api import REPLICA_SETS, Object
from drahealth.proto.events import StatusSeen
from drahealth.suites.story.pod_manifest import PodUses
from drahealth.suites.story.workload import Pod, PodNode


class ReplicaSet:
    """A ReplicaSet of the scenario. Each of its pods gets its own claims from templates."""

    def __init__(self, node: PodNode, name: str, users: PodUses) -> None:
        self.node = node
        self.name = name
        self._uses = users
        self._returned: set[str] = set()

    async def next_pod(self) -> Pod:
        """Wait for the next new pod, and until it runs."""
        expected = f"ReplicaSet {self.name} creates another pod"
        await self.node.until(lambda: bool(self._new()), "start", expected, "no new pod")
        name, uid = self._new()[0]
        self._returned.add(uid)
        pod = Pod(self.node, name, uid, self._uses)
        await pod.is_running()
        return pod

    def _new(self) -> list[tuple[str, str]]:
        seen = [event for event in self.node.history.of(StatusSeen) if event.pod.startswith(f"{self.name}-")]
        return [(event.pod, event.uid) for event in seen if event.uid not in self._returned]


def replica_set_manifest(name: str, pod: Object) -> Object:
    """A ReplicaSet with one replica of this pod."""
    meta, labels = pod["metadata"], {"app": name}
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
