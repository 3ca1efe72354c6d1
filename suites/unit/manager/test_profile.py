"""Profiles: behaviours of the KEP and of each release."""

import pytest

from drahealth.manager.profile import PROFILES, V1_37, Profile, for_release
from drahealth.proto.health_apis import HEALTH_APIS


@pytest.mark.parametrize(
    ("version", "profile"),
    [
        ("1.37.1", V1_37),
        ("v1.37.0-rc.1", V1_37),
        ("1.37", V1_37),
        ("1.3", None),
        ("1.370.1", None),
        ("2.37.1", None),
        ("", None),
    ],
)
def test_a_version_has_the_row_of_its_minor(version: str, profile: Profile | None) -> None:
    assert for_release(version) is profile


def test_rows_are_found_by_name() -> None:
    assert list(PROFILES) == ["kep", "v1.37", "v1.36", "v1.35", "v1.34"]
    assert all(PROFILES[name].name == name for name in PROFILES)


def test_profiles_call_health_apis_newest_first() -> None:
    order = list(HEALTH_APIS.values())
    older = [order[1]]
    assert [list(profile.called_apis) for profile in PROFILES.values()] == [order, order[:2], older, older, older]
