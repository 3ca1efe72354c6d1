"""Releases: rows of the table, the profiles of their kubelets, patch levels, and ranges of releases."""

from dataclasses import replace
from typing import cast

import pytest
from pydantic import TypeAdapter

from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import (
    DEFAULT_VERSION,
    FIXABLE,
    MINORS,
    NEWEST,
    NEXT,
    NEXT_NAME,
    OPEN_FIXES,
    PROFILES,
    RELEASES,
    OpenFix,
    Range,
    for_release,
    patch_level,
    profile_named,
    with_fixes,
)
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.values import KUBERNETES_API


@pytest.mark.parametrize(
    ("version", "profile"),
    [
        (DEFAULT_VERSION, NEWEST),
        (f"v{NEWEST.release}.0-rc.1", NEWEST),
        (NEWEST.release, NEWEST),
        ("1.3", None),
        ("1.370.1", None),
        ("2.37.1", None),
        ("", None),
    ],
)
def test_a_version_has_the_row_of_its_minor(version: str, profile: Profile | None) -> None:
    assert for_release(version) is profile


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("1.36", "v1.36.4"),
        ("1.36.0", "v1.36"),
        ("1.36.3", "v1.36"),
        ("1.36.4", "v1.36.4"),
        ("1.36.4-rc.0", "v1.36.4"),
        ("v1.36.12", "v1.36.4"),
        ("1.35.8", "v1.35"),
    ],
)
def test_a_version_has_the_behavior_of_its_patch_level(version: str, name: str) -> None:
    assert cast("Profile", for_release(version)).name == name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("kep", "kep"),
        ("next", "next"),
        ("v1.36", "v1.36"),
        ("v1.36.0", "v1.36"),
        ("v1.36.3", "v1.36"),
        ("v1.36.4", "v1.36.4"),
        ("v1.36.5", "v1.36.4"),
        (f"v{DEFAULT_VERSION}", NEWEST.name),
    ],
)
def test_a_profile_has_a_name_or_a_patch_level(given: str, name: str) -> None:
    assert profile_named(given) is PROFILES[name]


@pytest.mark.parametrize("given", ["", "1.36", "1.36.5", "v1.33.2", "v1.36.05", "v1.36.5.1", "v1.36.5-rc.0", "KEP"])
def test_another_text_is_no_profile(given: str) -> None:
    assert profile_named(given) is None


def test_a_patch_level_prepares_again_as_the_next_release() -> None:
    appends = [name for name in PROFILES if PROFILES[name].prepares_again == "appends"]
    assert appends == ["v1.36", "v1.35", "v1.34"]


def test_the_api_server_in_memory_has_the_newest_release() -> None:
    assert MINORS[-1] == KUBERNETES_API


def test_rows_are_found_by_name() -> None:
    assert list(PROFILES)[:3] == [KEP.name, NEXT_NAME, NEWEST.name]
    assert all(PROFILES[name].name == name for name in PROFILES)


def test_a_row_names_versions_of_its_minor_in_ascending_order() -> None:
    assert [*MINORS] == sorted(MINORS)
    for row in RELEASES:
        versions = (row.newest, row.node_image, *row.fixes, f"{row.behavior.name.removeprefix('v')}.0")
        assert all(version.startswith(f"{row.minor}.") for version in versions)
        assert [profile.name for profile in row.fixes.values()] == [f"v{version}" for version in row.fixes]
        assert [*row.fixes, row.newest] == sorted([*row.fixes, row.newest], key=patch_level)


@pytest.mark.parametrize("name", PROFILES)
def test_each_value_of_a_profile_is_one_that_its_column_knows(name: str) -> None:
    TypeAdapter(Profile).validate_python(PROFILES[name], strict=True)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_profiles_call_health_apis_newest_first(profile: Profile) -> None:
    order = list(HEALTH_APIS.values())
    called = list(profile.called_apis)
    assert called == (order if profile is KEP else sorted(called, key=order.index))
    assert called


@pytest.mark.parametrize(
    ("versions", "inside"),
    [
        (Range(), "1.34.0 1.35.8 1.36.4 1.37.1 1.99.0"),
        (Range(since="1.36"), "1.36.4 1.37.1 1.99.0"),
        (Range(until="1.35"), "1.34.0 1.35.8"),
        (Range(since="1.35", until="1.36"), "1.35.8 1.36.4"),
        (Range(fixed_in=("1.36.4", "1.37")), "1.34.0 1.35.8"),
        (Range(fixed_in=("1.36.5", "1.37")), "1.34.0 1.35.8 1.36.4"),
        (Range(fixed_in=("1.34.0", "1.37.1")), "1.35.8 1.36.4"),
        (Range(fixed_in=("1.36.4", "next")), "1.34.0 1.35.8"),
        (Range(fixed_in=("next",)), "1.34.0 1.35.8 1.36.4 1.37.1 1.99.0"),
    ],
)
def test_a_range_has_the_versions_between_its_limits(versions: Range, inside: str) -> None:
    every = ("1.34.0", "1.35.8", "1.36.4", "1.37.1", "1.99.0")
    assert " ".join(version for version in every if version in versions) == inside


@pytest.mark.parametrize(
    ("versions", "inside"),
    [
        (Range(), True),
        (Range(until=MINORS[-2]), False),
        (Range(fixed_in=(MINORS[-1],)), False),
        (Range(fixed_in=("1.34.2", "next")), False),
    ],
)
def test_next_is_in_a_range_with_the_newest_release_and_without_an_open_fix(versions: Range, inside: bool) -> None:
    assert (NEXT_NAME in versions, NEXT_NAME in versions.profiles) == (inside, inside)


@pytest.mark.parametrize("fix", OPEN_FIXES, ids=lambda fix: str(fix.number))
def test_next_has_each_open_fix(fix: OpenFix) -> None:
    assert fix.issues
    columns = [column for changed in fix.issues.values() for column in changed.items()]
    assert all(getattr(NEXT, name) == value for name, value in columns)


@pytest.mark.parametrize("issue", FIXABLE)
def test_each_issue_of_an_open_fix_is_a_switch_of_the_newest_kubelet_or_an_older_one(issue: str) -> None:
    released = [profile for profile in PROFILES.values() if profile.release and profile is not NEXT]
    assert any(with_fixes(profile, [issue]) != profile for profile in released)


def test_the_fix_of_one_issue_leaves_the_other_issue_of_its_pull_request() -> None:
    assert with_fixes(NEWEST, ["B-03"]) == replace(NEWEST, stream_end_notifies=True)
    assert with_fixes(NEWEST, ["B-02"]) == replace(NEWEST, watches="newest")


def test_all_open_fixes_make_next_of_the_newest_kubelet() -> None:
    assert replace(with_fixes(NEWEST, FIXABLE), name=NEXT_NAME) == NEXT


def test_an_open_range_has_every_known_release() -> None:
    assert Range().minors == f"{MINORS[0]}-{MINORS[-1]}"
    assert Range(since=MINORS[-1]).minors == MINORS[-1]
    assert Range(fixed_in=("1.36.4", "1.37")).profiles == ("v1.34", "v1.35", "v1.36")


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"since": "1.36.4"}, "`since` must be a minor release"),
        ({"until": "36"}, "`until` must be a minor release"),
        ({"fixed_in": ("main",)}, "`fixed_in` must list versions"),
    ],
)
def test_a_wrong_limit_is_rejected(limits: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Range(**limits)  # type: ignore[arg-type]
