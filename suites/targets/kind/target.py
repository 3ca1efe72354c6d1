"""The kind target: a cluster in containers with a real container runtime, from checked options."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drahealth.manager.profile import Profile
from drahealth.proto.events import Observe
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.kind.cluster import ClusterMaker, PreparedCluster
from drahealth.suites.targets.kind.node_control import KindNodes
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.option import KUBERNETES, Values
from drahealth.suites.targets.pods.target import Joined, PodTarget, Shared
from drahealth.suites.targets.registry import JudgedNode, Launch
from drahealth.suites.targets.versions import feature_gates, kubelet_gates, missing_in, profile_of


class KindTarget(PodTarget[PreparedCluster]):
    """Implements `target.Target`: a node in a container with a real container runtime."""

    async def start(self) -> None:
        await super().start()
        cluster = self._started
        self._nodes = KindNodes(Engine(cluster.engine), cluster.control_plane, cluster.nodes, self._api)

    async def on(self, node: str, profile: Profile) -> "KindTarget":
        """This target: its nodes are alike."""
        return self

    async def observe_writes(self, namespace: str, observe: Observe) -> None:
        for write in await self._nodes.status_writes(namespace):
            observe(write)

    async def restart_kubelet(self) -> None:
        await self._nodes.restart_kubelet(self.node_name)

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        await self._nodes.stop_kubelet(self.node_name, orderly=orderly)

    async def start_kubelet(self) -> None:
        await self._nodes.start_kubelet(self.node_name)

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        on_server = feature_gates(self.profile, api_server)
        on_kubelet = kubelet_gates(self.profile, kubelet, dra, messages)
        await self._nodes.set_gates(on_server, on_kubelet)

    async def stop_api_server(self) -> None:
        await self._nodes.stop_api_server()

    async def start_api_server(self) -> None:
        await self._nodes.start_api_server()

    async def log_tail(self) -> str:
        if not self._prepared:
            return ""
        kubelet = await self._nodes.log_tail(self.node_name)
        return (
            f"kubelet:\n{kubelet}\nkube-apiserver:\n"
            f"{await self._nodes.log_tail(self._prepared.control_plane, api=True)}"
        )


# A run on a kind cluster: its options, checked.


@dataclass(frozen=True, slots=True)
class KindConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile
    kubernetes: str = program.DEFAULT
    options: KindOptions = field(default_factory=KindOptions)

    @classmethod
    def of(cls, values: Values) -> "KindConfiguration":
        """From the options of a run. Raises ConfigurationError."""
        version = program.with_image(values.text_of(KUBERNETES) or program.DEFAULT)
        return cls(profile_of(version), version, KindOptions.of(values))

    @property
    def missing(self) -> Mapping[Capability, str]:
        return missing_in(self.kubernetes)

    @property
    def is_own_kubelet(self) -> bool:
        return self.options.node_image is not None or self.options.reuse is not None

    @property
    def kubelets(self) -> tuple[str, ...]:
        return (self.kubernetes,)

    @property
    def server_profile(self) -> None:
        """It is of the same release."""

    @property
    def judged_nodes(self) -> Mapping[str, JudgedNode]:
        return {}

    @property
    def title(self) -> str:
        cluster = f"the kind cluster {self.options.reuse}" if self.options.reuse else "a kind cluster"
        release = self.kubernetes if self.options.exact else self.kubernetes.rpartition(".")[0]
        return f"{cluster}, Kubernetes {release}"

    @property
    def flags(self) -> Mapping[str, str]:
        minor = self.kubernetes.rpartition(".")[0]
        named = self.kubernetes if self.options.exact else minor if self.kubernetes != program.DEFAULT else ""
        release = {"kubernetes": named} if named else {}
        return {**release, **self.options.flags}

    def make(self, launch: Launch) -> KindTarget:
        if launch.shared:
            return KindTarget(Joined(launch.shared, PreparedCluster), self.profile, worker=launch.shared.worker)
        return KindTarget(self._maker(launch), self.profile)

    def share(self, launch: Launch) -> Shared[PreparedCluster]:
        """The cluster: workers of a distributed run use one."""
        return Shared(self._maker(launch))

    def _maker(self, launch: Launch) -> ClusterMaker:
        gates = feature_gates(self.profile)
        return ClusterMaker(self.options, self.kubernetes, gates, launch.progress, launch.failed)
