"""A run on the reference: its options, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.manager.profile import KEP, Profile
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers.options import API_SERVER, DEFAULT_KUBERNETES, ApiServerKind
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.reference.options import PROFILE
from drahealth.suites.targets.reference.target import RESYNC, ReferenceTarget
from drahealth.suites.targets.shared_options import DRIVER, KUBERNETES, place_of
from drahealth.suites.targets.versions import locked_in, missing_in, profile_of

LACKS_KEP_API = {
    Capability.KEP_API: "the API server of a release lacks fields and names of the KEP. So these scenarios "
    "would fail, and the profile kep has no known issues that allow the failures"
}

LACKS_RESIZE = {
    Capability.RESIZE: "the reference does not write the resources of containers into the Pod status. Without these "
    "resources the API server rejects a resize"
}


@dataclass(frozen=True, slots=True)
class ReferenceConfiguration:
    """Implements `definition.Configuration`. `kubernetes` is the release of a real API server."""

    profile: Profile = KEP
    driver: str = "inline"
    api_server: ApiServerKind = "memory"
    kubernetes: str = DEFAULT_KUBERNETES

    @classmethod
    def of(cls, values: Values) -> "ReferenceConfiguration":
        """From the options of a run. Raises ConfigurationError for options that do not fit together."""
        kind: ApiServerKind = values.get(API_SERVER) or "memory"
        version = values.get(KUBERNETES)
        if version and kind == "memory":
            raise ConfigurationError("--kubernetes needs --api-server real, or --target kubelet or kind")
        profile, version = values.get(PROFILE) or KEP, version or DEFAULT_KUBERNETES
        if kind == "real":
            _check_release(profile, version)
        return cls(profile, values.get(DRIVER) or "inline", kind, version)

    @property
    def missing(self) -> Mapping[Capability, str]:
        if self.api_server == "memory":
            return locked_in(self.profile.release) if self.profile.release else {}
        return {**missing_in(self.kubernetes), **LACKS_RESIZE, **(LACKS_KEP_API if self.profile == KEP else {})}

    @property
    def title(self) -> str:
        server = f", kube-apiserver {self.kubernetes}" if self.api_server == "real" else ""
        return f"the reference, profile {self.profile.name}{server}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        profile = {} if self.profile == KEP else {"profile": self.profile.name}
        server = {"api-server": "real", "kubernetes": self.kubernetes} if self.api_server == "real" else {}
        return {**profile, **server, **({} if self.driver == "inline" else {"driver": self.driver})}

    def make(self, launch: Launch) -> ReferenceTarget:
        make_server = None
        if self.api_server == "real":
            from drahealth.suites.targets.api_servers.real import real_api_servers

            # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
            make_server = real_api_servers(self.kubernetes, launch.progress, audit=True)
        return ReferenceTarget(
            self.profile,
            processes=self.driver == "process",
            make_server=make_server,
            resync=launch.resync or RESYNC,
        )

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a reference of its own."""


def _check_release(profile: Profile, version: str) -> None:
    """A scenario is judged by one release, which its API server must have, too. Raises ConfigurationError."""
    release = profile_of(version)
    if profile == KEP and not release.messages:
        raise ConfigurationError(
            f"--profile kep needs Kubernetes 1.36 or newer, got {version}, which has no messages in Pod statuses",
            f"pass --profile {release.name}, or a newer --kubernetes",
        )
    if profile not in (KEP, release):
        raise ConfigurationError(
            f"--profile {profile.name} does not match --kubernetes {version}", f"pass --profile {release.name} or kep"
        )
