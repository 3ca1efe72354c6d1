"""The options of the reference target."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from drahealth.suites.targets.option import Option, choice

if TYPE_CHECKING:
    from drahealth.manager.profile import Profile


def _profile(name: str) -> "Profile":
    from drahealth.manager.profile import PROFILES  # only here: options are listed without it

    return PROFILES[choice(*PROFILES)(name)]


def _profiles() -> Iterable[str]:
    from drahealth.manager.profile import PROFILES

    return PROFILES


PROFILE = Option(
    "profile", "NAME", "Profile of the reference: kep (default), or v1.34 to v1.37.", _profile, choices=_profiles
)
