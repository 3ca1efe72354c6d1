"""The story's ReplicaSets: pods that come again."""

from drahealth.fakes.cluster.api import REPLICA_SETS, Object
from drahealth.proto.events import StatusSeen
from drahealth.suites.story.pod_manifest import Users
from drahealth.suites.story.workload import Pod, PodNode


class ReplicaSet:
    """A ReplicaSet of the scenario, whose pods use claims that are made for each of them."""

    def __init__(self, node: PodNode, name: str, users: Users) -> None:
        self.node = node
        self.name = name
        self._users = users
        self._met: set[str] = set()

    async def next_pod(self) -> Pod:
        """Its next pod that nobody was given yet, running."""
        expected = f"there is another pod of {self.name}"
        await self.node.until(lambda: bool(self._new()), "start", expected, "none but those that were there")
        name, uid = self._new()[0]
        self._met.add(uid)
        pod = Pod(self.node, name, uid, self._users)
        await pod.is_running()
        return pod

    def _new(self) -> list[tuple[str, str]]:
        seen = [event for event in self.node.history.of(StatusSeen) if event.pod.startswith(f"{self.name}-")]
        return [(event.pod, event.uid) for event in seen if event.uid not in self._met]


def replica_set_manifest(name: str, pod: Object) -> Object:
    """One that keeps a pod like this one."""
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
