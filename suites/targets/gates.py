"""The feature gates of device health, by release."""

from drahealth.fakes.cluster.api_server.gates import MESSAGE_GATE, STATUS_GATE
from drahealth.manager.profile import Profile


def feature_gates(profile: Profile, on: bool = True) -> dict[str, bool]:
    """The gates of a release, all on or all off. One cannot be off alone (A-03), and releases before 1.36 have only
    one."""
    return {STATUS_GATE: on} | ({MESSAGE_GATE: on} if profile.messages else {})
