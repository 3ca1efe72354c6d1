"""A run on a real kubelet: its options, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.manager.profile import Profile
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.kubelet.binaries.ensure import ensure
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.target import SYNC_FREQUENCY, KubeletTarget
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.shared_options import DRIVER, KUBERNETES, place_of
from drahealth.suites.targets.versions import missing_in, profile_of


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile
    kubernetes: str = DEFAULT_VERSION
    driver: str = "inline"

    @classmethod
    def of(cls, values: Values) -> "KubeletConfiguration":
        """From the options of a run. Raises ConfigurationError for a release that has no profile."""
        version = values.get(KUBERNETES) or DEFAULT_VERSION
        return cls(profile_of(version), version, values.get(DRIVER) or "inline")

    @property
    def missing(self) -> Mapping[Capability, str]:
        return missing_in(self.kubernetes)

    @property
    def title(self) -> str:
        return f"a real kubelet, Kubernetes {self.kubernetes}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        release = {"kubernetes": self.kubernetes}
        return release if self.driver == "inline" else {**release, "driver": self.driver}

    def make(self, launch: Launch) -> KubeletTarget:
        # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
        binaries = ensure(self.kubernetes, launch.progress)
        sync_frequency = launch.resync or SYNC_FREQUENCY
        return KubeletTarget(binaries, self.profile, processes=self.driver == "process", sync_frequency=sync_frequency)

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a kubelet of its own."""
