"""What a run is told: the pytest options and the command's flags, one record for both."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from drahealth.manager.profile import KEP, PROFILES, Profile, for_release
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kind import options as kind
from drahealth.suites.targets.kind.cluster import node_release
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION, parse_version

TARGETS = ("reference", "kubelet", "kind")
DRIVERS = ("inline", "process")
FLAGS = ("target", "kubernetes", "profile", "driver", "health-api", *kind.FLAGS)
"""The names of all that there is to say about the target."""


@dataclass(frozen=True, slots=True)
class Options:
    """Checked; a wrong one raises ConfigurationError at once, not after minutes."""

    target: str = "reference"
    kubernetes: str = DEFAULT_VERSION
    profile: Profile = KEP
    driver: str = "inline"
    kind: KindOptions = field(default_factory=KindOptions)
    health_api: HealthApi | None = None
    """The one health API of the drivers; None: all that was shipped."""

    @classmethod
    def make(cls, given: Mapping[str, str | None]) -> "Options":
        """From texts by the flags' names; None or nothing is the default."""
        target = _one_of("target", given.get("target") or TARGETS[0], TARGETS)
        kubernetes, profile = given.get("kubernetes"), given.get("profile")
        if target != "kind":
            for name in kind.FLAGS:
                if given.get(name):
                    raise ConfigurationError(f"--{name} is for the kind target", "add --target kind, or leave it out")
        if target == "kind" and given.get("driver"):
            raise ConfigurationError("on kind the fake driver lives in a pod", "leave --driver out")
        driver = _one_of("driver", given.get("driver") or DRIVERS[0], DRIVERS)
        if target == "reference":
            if kubernetes:
                raise ConfigurationError(
                    "the reference target has no Kubernetes version", "leave it out, or choose a --profile"
                )
            behaviour = _profile(profile or "kep")
            health_api = _health_api(given.get("health-api"), behaviour, f"profile {behaviour.name}")
            return cls(target, profile=behaviour, driver=driver, health_api=health_api)
        if profile:
            raise ConfigurationError("a real kubelet's profile is that of its release", "leave --profile out")
        version = parse_version(kubernetes or (node_release.DEFAULT if target == "kind" else DEFAULT_VERSION))
        release = _release(version)
        health_api = _health_api(given.get("health-api"), release, f"Kubernetes {version}")
        return cls(
            target, version, release, driver, KindOptions.make(given) if target == "kind" else KindOptions(), health_api
        )

    @classmethod
    def of(cls, config: pytest.Config) -> "Options":
        """From pytest's command line."""
        return cls.make({name: config.getoption(f"--drahealth-{name}") for name in FLAGS})

    @property
    def about(self) -> str:
        """The target in a few words."""
        where = ", the fake driver in a process of its own" if self.driver == "process" else ""
        where += f", health over {self.health_api.name}" if self.health_api else ""
        if self.target == "kubelet":
            return f"a real kubelet, Kubernetes {self.kubernetes}{where}"
        if self.target == "kind":
            cluster = f"the kind cluster {self.kind.reuse}" if self.kind.reuse else "a kind cluster"
            release = self.kubernetes if self.kind.exact else self.kubernetes.rpartition(".")[0]
            return f"{cluster}, Kubernetes {release}{where}"
        return f"the reference in process, profile {self.profile.name}{where}"

    @property
    def flags(self) -> str:
        """What to give to `drahealth run` for the same target."""
        return self.flags_as("--")

    def flags_as(self, prefix: str) -> str:
        """The same with another prefix before the names, such as pytest's options have."""
        said = {"target": self.target}
        if self.target == "kubelet" or self.kind.exact:
            said["kubernetes"] = self.kubernetes
        if self.target == "reference" and self.profile != KEP:
            said["profile"] = self.profile.name
        if self.driver != DRIVERS[0]:
            said["driver"] = self.driver
        if self.health_api:
            said["health-api"] = self.health_api.name
        pairs = {**said, **self.kind.flags}.items()
        return shlex.join(word for name, value in pairs for word in (f"{prefix}{name}", value))


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigurationError(f"there is no {what} {value!r}", f"choose one of {', '.join(allowed)}")
    return value


def _profile(name: str) -> Profile:
    return PROFILES[_one_of("profile", name, tuple(PROFILES))]


def _health_api(name: str | None, profile: Profile, who: str) -> HealthApi | None:
    """The health API of that name, if one was given. Raises ConfigurationError if `who` does not speak it."""
    if not name:
        return None
    health_api = HEALTH_APIS[_one_of("health API", name, tuple(HEALTH_APIS))]
    if health_api not in profile.called_apis:
        spoken = ", ".join(f.name for f in profile.called_apis)
        raise ConfigurationError(f"{who} does not speak {name}", f"choose one of {spoken}")
    return health_api


def _release(version: str) -> Profile:
    found = for_release(version)
    if found is None:
        known = ", ".join(p.release for p in PROFILES.values() if p.release)
        raise ConfigurationError(
            f"how kubelets of Kubernetes {version} behave is not written down yet", f"choose a release of {known}"
        )
    return found
