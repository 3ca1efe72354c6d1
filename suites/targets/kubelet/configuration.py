"""A run on a real kubelet: its options, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from drahealth.manager.profile import Profile
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.kubelet.binaries.ensure import ensure
from drahealth.suites.targets.kubelet.binaries.own_kubelet import check_release
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.options import KUBELET
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
    kubelet: Path | None = None
    """A kubelet that the user built; None: that of the release."""

    @classmethod
    def of(cls, values: Values) -> "KubeletConfiguration":
        """From the options of a run. Raises ConfigurationError for a release that has no profile, and for a kubelet of
        another release."""
        version = values.get(KUBERNETES) or DEFAULT_VERSION
        profile, kubelet = profile_of(version), values.get(KUBELET)
        if kubelet is not None:
            check_release(kubelet, version)
        return cls(profile, version, values.get(DRIVER) or "inline", kubelet)

    @property
    def missing(self) -> Mapping[Capability, str]:
        return missing_in(self.kubernetes)

    @property
    def title(self) -> str:
        own = f", the kubelet {self.kubelet}" if self.kubelet else ""
        return f"a real kubelet, Kubernetes {self.kubernetes}{own}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        own = {"kubelet": str(self.kubelet)} if self.kubelet else {}
        place = {} if self.driver == "inline" else {"driver": self.driver}
        return {"kubernetes": self.kubernetes, **own, **place}

    def make(self, launch: Launch) -> KubeletTarget:
        # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
        released = ensure(self.kubernetes, launch.progress)
        binaries = replace(released, kubelet=self.kubelet) if self.kubelet else released
        sync_frequency = launch.resync or SYNC_FREQUENCY
        return KubeletTarget(binaries, self.profile, processes=self.driver == "process", sync_frequency=sync_frequency)

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a kubelet of its own."""
