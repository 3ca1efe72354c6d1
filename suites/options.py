"""What a run is told: the pytest options and the command's flags, one record for both."""

from dataclasses import dataclass

import pytest

from drahealth.manager.profile import KEP, PROFILES, Profile, for_release
from drahealth.suites.binaries.releases import DEFAULT_VERSION, parse_version
from drahealth.suites.errors import ConfigurationError

TARGETS = ("reference", "kubelet")
DRIVERS = ("inline", "process")


@dataclass(frozen=True, slots=True)
class Options:
    """Checked; a wrong one raises ConfigurationError at once, not after minutes."""

    target: str = "reference"
    kubernetes: str = DEFAULT_VERSION
    profile: Profile = KEP
    driver: str = "inline"

    @classmethod
    def make(
        cls, target: str | None, kubernetes: str | None = None, profile: str | None = None, driver: str | None = None
    ) -> "Options":
        """From texts; None is the default."""
        target = _one_of("target", target or TARGETS[0], TARGETS)
        driver = _one_of("driver", driver or DRIVERS[0], DRIVERS)
        if target == "reference":
            if kubernetes:
                raise ConfigurationError(
                    "the reference target has no Kubernetes version", "leave it out, or choose a --profile"
                )
            return cls(target, profile=_profile(profile or "kep"), driver=driver)
        if profile:
            raise ConfigurationError("a real kubelet's profile is that of its release", "leave --profile out")
        version = parse_version(kubernetes or DEFAULT_VERSION)
        return cls(target, kubernetes=version, profile=_release(version), driver=driver)

    @classmethod
    def of(cls, config: pytest.Config) -> "Options":
        """From pytest's command line."""
        names = ("target", "kubernetes", "profile", "driver")
        return cls.make(*(config.getoption(f"drahealth_{name}") for name in names))

    @property
    def about(self) -> str:
        """The target in a few words."""
        where = ", the fake driver in a process of its own" if self.driver == "process" else ""
        if self.target == "kubelet":
            return f"a real kubelet, Kubernetes {self.kubernetes}{where}"
        return f"the reference in process, profile {self.profile.name}{where}"

    @property
    def flags(self) -> str:
        """What to give to `drahealth run` for the same target."""
        default = Options()
        flags = [f"--target {self.target}"]
        flags += [f"--kubernetes {self.kubernetes}"] if self.target == "kubelet" else []
        flags += [f"--profile {self.profile.name}"] if self.target == "reference" and self.profile != KEP else []
        return " ".join(flags + ([f"--driver {self.driver}"] if self.driver != default.driver else []))


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigurationError(f"there is no {what} {value!r}", f"choose one of {', '.join(allowed)}")
    return value


def _profile(name: str) -> Profile:
    return PROFILES[_one_of("profile", name, tuple(PROFILES))]


def _release(version: str) -> Profile:
    found = for_release(version)
    if found is None:
        known = ", ".join(p.release for p in PROFILES.values() if p.release)
        raise ConfigurationError(
            f"how kubelets of Kubernetes {version} behave is not written down yet", f"choose a release of {known}"
        )
    return found
