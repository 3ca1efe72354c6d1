"""The options of the reference target."""

from drahealth.manager.profile import Profile
from drahealth.manager.releases import PROFILES, PROFILES_TEXT
from drahealth.suites.targets.option import Option, choice


def _profile(name: str) -> Profile:
    return PROFILES[choice(*PROFILES)(name)]


PROFILE = Option("profile", "NAME", f"Profile of the reference: {PROFILES_TEXT}.", _profile, choices=lambda: PROFILES)
