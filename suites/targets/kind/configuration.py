"""A run on a kind cluster: its options, checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from drahealth.manager.profile import Profile
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.gates import feature_gates
from drahealth.suites.targets.kind.cluster import node_release
from drahealth.suites.targets.kind.cluster.cluster_maker import ClusterMaker
from drahealth.suites.targets.kind.cluster.prepared_cluster import JoinedCluster
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.kind.target import KindTarget
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.shared_options import KUBERNETES
from drahealth.suites.targets.versions import missing_in, profile_of


@dataclass(frozen=True, slots=True)
class KindConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile
    kubernetes: str = node_release.DEFAULT
    options: KindOptions = field(default_factory=KindOptions)

    @classmethod
    def of(cls, values: Values) -> "KindConfiguration":
        """From the options of a run. Raises ConfigurationError."""
        version = node_release.with_image(values.text_of(KUBERNETES) or node_release.DEFAULT)
        return cls(profile_of(version), version, KindOptions.of(values))

    @property
    def missing(self) -> Mapping[Capability, str]:
        return missing_in(self.kubernetes)

    @property
    def title(self) -> str:
        cluster = f"the kind cluster {self.options.reuse}" if self.options.reuse else "a kind cluster"
        release = self.kubernetes if self.options.exact else self.kubernetes.rpartition(".")[0]
        return f"{cluster}, Kubernetes {release}"

    @property
    def flags(self) -> Mapping[str, str]:
        minor = self.kubernetes.rpartition(".")[0]
        named = self.kubernetes if self.options.exact else minor if self.kubernetes != node_release.DEFAULT else ""
        release = {"kubernetes": named} if named else {}
        return {**release, **self.options.flags}

    def make(self, launch: Launch) -> KindTarget:
        if launch.shared:
            return KindTarget(JoinedCluster(launch.shared), self.profile, worker=launch.shared.worker)
        return KindTarget(self._maker(launch), self.profile)

    def share(self, launch: Launch) -> "SharedCluster":
        """The cluster: workers of a distributed run use one."""
        return SharedCluster(self._maker(launch))

    def _maker(self, launch: Launch) -> ClusterMaker:
        gates = feature_gates(self.profile)
        return ClusterMaker(self.options, self.kubernetes, gates, launch.progress, launch.failed)


class SharedCluster:
    """Implements `definition.SharedEnvironment`."""

    def __init__(self, maker: ClusterMaker) -> None:
        self._maker = maker

    async def up(self) -> Mapping[str, Any]:
        return asdict(await self._maker.up())

    async def down(self) -> None:
        await self._maker.down()
