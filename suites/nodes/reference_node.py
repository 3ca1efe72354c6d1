"""The reference as a node."""

from drahealth.manager.profile import KEP, PROFILES, Profile
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.nodes.node import Node
from drahealth.suites.targets.reference.configuration import ReferenceConfiguration


class ReferenceNode(Node):
    """The reference with an API server in memory, a scheduler and a fake container runtime, all in this process.

    It starts in milliseconds and needs only Python.
    """

    def __init__(self, profile: Profile | str = KEP) -> None:
        """`profile` is what it behaves as: kep, v1.37, v1.36, v1.35 or v1.34. Raises ConfigurationError for others."""
        found = profile if isinstance(profile, Profile) else PROFILES.get(profile)
        if found is None:
            raise ConfigurationError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
        super().__init__(ReferenceConfiguration(found))
