"""The supported releases of Kubernetes: one row for each, with everything that is known of it.

A new release is a row at the end of `RELEASES`. Help texts, choices of options, the parameters of tests, the matrices
of CI (`ci/step releases`) and tables of the documentation are computed from it. Ledgers name ranges of releases
(`Range`), so they change only where the behavior does.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drahealth.manager.profile import KEP, MEBIBYTE, Profile
from drahealth.proto.values import Health


@dataclass(frozen=True, slots=True)
class Release:
    """One minor release."""

    minor: str
    """Such as 1.37."""
    newest: str
    """The newest known patch release, on which the scenarios run in CI."""
    node_image: str
    """The newest patch release for which kind has published a node image."""
    kind: str
    """The release of kind that published it."""
    go: str
    """The Go version that builds it."""
    behavior: Profile
    """Its kubelet, from the first patch release on."""
    fixes: Mapping[str, Profile] = field(default_factory=dict)
    """Its kubelet since a later patch release that changed it, oldest first."""
    gates: tuple[str, ...] = ()
    """Feature gates that this release is the first to have; older gates than the oldest release are left out."""
    enables: tuple[str, ...] = ()
    """Feature gates that are on by default since this release."""
    locks: tuple[str, ...] = ()
    """Feature gates that are locked to true since this release."""
    resizes_with_claims: bool = True
    """The API server accepts a resize of a Pod with claims."""


NEXT_NAME = "next"
"""The name of the newest kubelet with all open fixes, as a profile and in `fixed_in` of known issues."""


@dataclass(frozen=True, slots=True)
class OpenFix:
    """A fix that is proposed in kubernetes/kubernetes, and that no release has: a switch of the profile `next`.

    When a release has it, its columns go to the row of that release, which replaces `next` in the known issues.
    """

    number: int
    """The pull request; the issue, if there is no pull request yet."""
    issues: Mapping[str, Mapping[str, Any]]
    """The ids of the facts that end with it, at least in part. Each has the columns of a profile that change with it,
    and their values."""


OPEN_FIXES = (
    OpenFix(140842, {"B-02": {"watches": "newest"}, "B-03": {"stream_end_notifies": True}}),
    # An expired device is stored as Unknown, so that its old health is a change.
    OpenFix(140883, {"B-04": {"recovery_notifies": True}}),
    OpenFix(139942, {"B-26": {"init_containers": "sidecars"}}),
    OpenFix(142293, {"B-01": {"entries_ordered": True}, "B-36": {"plugin_devices_ordered": True}}),
    OpenFix(140060, {"N-01": {"shows_extended_resources": True}}),
    OpenFix(132978, {"B-19": {"final_status": "kept"}}),
    # For 1.36: 1.37 has it.
    OpenFix(141858, {"B-11": {"asks_unadvertised": False, "unimplemented_ends_watch": True}}),
)
"""The open fixes that concern the health of devices."""


def with_fixes(profile: Profile, issues: Collection[str]) -> Profile:
    """The kubelet without these issues, as with their open fixes."""
    columns = [changed for fix in OPEN_FIXES for issue, changed in fix.issues.items() if issue in issues]
    return replace(profile, **{name: value for changed in columns for name, value in changed.items()})


_V1_34 = Profile(
    name="v1.34",
    release="1.34",
    device_id="first CDI id",
    health_apis=("v1alpha1.DRAResourceHealth",),
    asks_unadvertised=True,
    messages=False,
    timeouts=False,
    watches="all",
    unimplemented_ends_watch=False,
    stream_end_notifies=False,
    recovery_notifies=False,
    forgets_stale=False,
    names_joined=True,
    named_twice="each",
    timeouts_wrap=True,
    devices_per_driver=None,
    largest_report=4 * MEBIBYTE,
    saves_heartbeats=False,
    message_cut="byte",
    prepares_again="appends",
    claims_shown="same name",
    shows_extended_resources=False,
    requests="first alone",
    subrequests="as named",
    whole_claim="one entry",
    init_containers="none",
    pod_level=False,
    duplicate_id_shows="all",
    drivers_order="any",
    entries_ordered=False,
    plugin_devices_ordered=False,
    health_events=False,
    final_status="dropped",
    api_filters_reads=False,
    api_keeps_stored=False,
    unlisted_device=Health.HEALTHY,
    forgets_list_of_gone_plugin=False,
    tells_of_lost_devices=False,
    resource_plugins="one",
    owner_by_resource=False,
)

_V1_35 = replace(_V1_34, name="v1.35", release="1.35", timeouts=True, claims_shown="listed", requests="ignored")

_V1_36 = replace(
    _V1_35,
    name="v1.36",
    release="1.36",
    messages=True,
    claims_shown="all",
    requests="filtered",
    duplicate_id_shows="first",
    api_keeps_stored=True,
)

_V1_37 = replace(
    _V1_36,
    name="v1.37",
    release="1.37",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"),
    asks_unadvertised=False,
    unimplemented_ends_watch=True,
    forgets_stale=True,
    devices_per_driver=16384,
    prepares_again="replaces",
    resource_plugins="all",
    owner_by_resource=True,
)

RELEASES = (
    Release(
        "1.34",
        newest="1.34.11",
        node_image="1.34.0",
        kind="v0.30.0",
        go="1.24",
        behavior=_V1_34,
        gates=("DynamicResourceAllocation", "ResourceHealthStatus"),
        enables=("DynamicResourceAllocation",),
        resizes_with_claims=False,
    ),
    Release(
        "1.35",
        newest="1.35.8",
        node_image="1.35.0",
        kind="v0.31.0",
        go="1.25",
        behavior=_V1_35,
        enables=("ContainerRestartRules",),
        locks=("DynamicResourceAllocation",),
        resizes_with_claims=False,
    ),
    Release(
        "1.36",
        newest="1.36.5",
        node_image="1.36.1",
        kind="v0.32.0",
        go="1.26",
        behavior=_V1_36,
        fixes={"1.36.4": replace(_V1_36, name="v1.36.4", prepares_again="replaces")},
        gates=("ResourceHealthStatusMessage",),
        enables=(
            "ResourceHealthStatus",
            "ResourceHealthStatusMessage",
            "DRADeviceTaints",
            "DRAExtendedResource",
        ),
        resizes_with_claims=False,
    ),
    Release(
        "1.37",
        newest="1.37.2",
        node_image="1.37.0",
        kind="v0.33.0",
        go="1.26",
        behavior=_V1_37,
    ),
)
"""All supported releases, oldest first."""

FIXABLE = tuple(sorted(issue for fix in OPEN_FIXES for issue in fix.issues))
"""The ids of the facts with an open fix."""

NEXT = replace(with_fixes(_V1_37, FIXABLE), name=NEXT_NAME)
"""The kubelet of the newest release with all open fixes."""

MINORS = tuple(release.minor for release in RELEASES)
"""The minors, oldest first."""
DEFAULT_VERSION = RELEASES[-1].newest
"""The Kubernetes release that is used if none is named."""

PROFILES = {KEP.name: KEP, NEXT.name: NEXT} | {
    profile.name: profile
    for release in reversed(RELEASES)
    for profile in (release.behavior, *release.fixes.values())[::-1]
}
"""All profiles by name: kep, next, then those of releases, the newest one first.

A release with a fix has two: v1.36 as in its first patch release, and v1.36.4 since that one.
"""

PROFILES_TEXT = f"kep (default), v{MINORS[0]} to v{MINORS[-1]}, a patch level such as v{DEFAULT_VERSION}, or next"
"""The choice of a profile, for help texts."""
PROFILE_CHOICE = f"one of {', '.join(PROFILES)}, or a patch level of a release such as v{DEFAULT_VERSION}"
"""The choice of a profile, for errors."""
VERSIONS_TEXT = f"such as {DEFAULT_VERSION}, or {MINORS[-1]} for its newest patch"
"""Examples of a version, for help texts."""


def find(version: str) -> Release | None:
    """The row of a Kubernetes version such as `1.37.2`; None if there is none."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    return next((release for release in RELEASES if release.minor == minor), None)


def for_release(version: str) -> Profile | None:
    """The kubelet of a Kubernetes version such as `1.37.2`, at its patch level; None if there is none.

    A minor such as `1.37` stands for its newest known patch release.
    """
    release = find(version)
    if release is None:
        return None
    level = patch_level(release.newest if version.removeprefix("v") == release.minor else version)
    fixed = [profile for since, profile in release.fixes.items() if level >= patch_level(since)]
    return fixed[-1] if fixed else release.behavior


def is_newer(version: str) -> bool:
    """Whether a version such as `1.38.0` is of a newer minor release than all known ones."""
    return patch_level(version)[:2] > patch_level(MINORS[-1])[:2]


def nearest(version: str) -> Profile | None:
    """The kubelet of a version; for a newer minor than all known ones, that of the newest known release.

    None for an older one.
    """
    return for_release(DEFAULT_VERSION if is_newer(version) else version)


def profile_named(name: str) -> Profile | None:
    """The profile of this name, or of a patch level such as `v1.36.5`; None if there is none.

    A patch level has the profile of the newest patch release up to it that changed the kubelet.
    """
    is_level = re.fullmatch(r"v\d+\.\d+\.(0|[1-9]\d*)", name)
    return PROFILES.get(name) or (for_release(name) if is_level else None)


NEWEST = PROFILES[f"v{MINORS[-1]}"]
"""The kubelet of the newest release."""


def since(minor: str) -> tuple[Release, ...]:
    """The releases up to this minor, oldest first: what they enable and lock holds for it."""
    return tuple(release for release in RELEASES if patch_level(release.minor) <= patch_level(minor))


def has_gate(gate: str, minor: str) -> bool:
    """Whether the release has this feature gate."""
    return any(gate in release.gates for release in since(minor))


def enables(gate: str, minor: str) -> bool:
    """Whether the feature gate is on by default."""
    return any(gate in release.enables for release in since(minor))


def locks(gate: str, minor: str) -> bool:
    """Whether the feature gate is locked to true."""
    return any(gate in release.locks for release in since(minor))


def patch_level(version: str) -> tuple[int, ...]:
    """A version for comparison: (1, 37, 2) for `v1.37.2` and `1.37.2-rc.0`, and (1, 37, 0) for `1.37`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    return (*numbers, *[0] * (3 - len(numbers)))


@dataclass(frozen=True, slots=True)
class Range:
    """A range of releases, for a ledger. Without limits it is every release, also those to come."""

    since: str = ""
    """The first minor; "" for all up to the last one."""
    until: str = ""
    """The last minor; "" for all to come."""
    fixed_in: tuple[str, ...] = ()
    """Versions that left the range, such as 1.36.4 and 1.37: the patch releases of these minors from then on, and the
    minors after the newest of them. `next` is the profile with all open fixes."""

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that is no release."""
        for key, limits in {"since": [self.since], "until": [self.until]}.items():
            if wrong := [limit for limit in limits if limit and not re.fullmatch(r"\d+\.\d+", limit)]:
                raise ValueError(f"`{key}` must be a minor release such as {MINORS[-1]}, got {wrong[0]!r}")
        if wrong := [fix for fix in self._releases if not re.fullmatch(r"\d+\.\d+(\.\d+)?", fix)]:
            raise ValueError(f"`fixed_in` must list versions such as {DEFAULT_VERSION}, got {wrong[0]!r}")

    def __contains__(self, version: str) -> bool:
        """Whether a version such as `1.36.4`, the first patch release of `1.36`, or `next` is in the range."""
        if version == NEXT_NAME:
            return NEXT_NAME not in self.fixed_in and DEFAULT_VERSION in self
        level = patch_level(version)
        if self.since and level < patch_level(self.since):
            return False
        if self.until and level[:2] > patch_level(self.until)[:2]:
            return False
        fixes = [patch_level(fix) for fix in self._releases]
        same = [fix for fix in fixes if fix[:2] == level[:2]]
        return not (level >= same[0] if same else fixes and level > max(fixes))

    @property
    def _releases(self) -> list[str]:
        return [fix for fix in self.fixed_in if fix != NEXT_NAME]

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the profiles in the range, oldest first."""
        return tuple(name for name in [*PROFILES][::-1] if name != KEP.name and name.removeprefix("v") in self)

    @property
    def minors(self) -> str:
        """The known minors in the range, such as 1.36-1.37, or 1.37; "" for none."""
        found = [minor for minor in MINORS if minor in self]
        return "-".join(dict.fromkeys((found[0], found[-1]))) if found else ""
