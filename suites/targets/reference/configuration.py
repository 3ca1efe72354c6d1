"""A run on the reference: its options, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.manager.profile import KEP, Profile
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.reference.options import PROFILE
from drahealth.suites.targets.reference.target import RESYNC, ReferenceTarget
from drahealth.suites.targets.shared_options import DRIVER, place_of


@dataclass(frozen=True, slots=True)
class ReferenceConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile = KEP
    driver: str = "inline"

    @classmethod
    def of(cls, values: Values) -> "ReferenceConfiguration":
        """From the options of a run."""
        return cls(values.get(PROFILE) or KEP, values.get(DRIVER) or "inline")

    @property
    def missing(self) -> Mapping[Capability, str]:
        return {}

    @property
    def title(self) -> str:
        return f"the reference in process, profile {self.profile.name}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        profile = {} if self.profile == KEP else {"profile": self.profile.name}
        return profile if self.driver == "inline" else {**profile, "driver": self.driver}

    def make(self, launch: Launch) -> ReferenceTarget:
        return ReferenceTarget(self.profile, processes=self.driver == "process", resync=launch.resync or RESYNC)

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a reference of its own."""
