"""What the KEP and each release do differently: data, and nowhere else.

A profile is a row; the manager reads its columns and never asks for a version. `KEP` is what KEP-4680's newest
revision says (where it is silent: the design document, then the older revisions). A release's row is what its kubelet
was seen to do; the row is added when the reference can be held against that kubelet. Ids such as H-06 or B-02 name
facts of real kubelets; docs/facts.md lists them.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Profile:
    """One row: the KEP, or a release."""

    name: str
    release: str | None
    """The Kubernetes minor that this row describes, None for the KEP."""

    device_id: Literal["driver/pool/device", "first CDI id"]
    """What `resourceID` is in the status; a device without CDI ids is `driver/pool/device` everywhere (P-08)."""

    health_apis: tuple[str, ...]
    """The health APIs spoken, most wanted first; the first that the plugin advertises is the one called (W-18)."""

    watches: Literal["newest", "all"]
    """Whose stream is open while several instances of a driver are registered (B-02)."""

    unimplemented_ends_watch: bool
    """Unimplemented stops the retries until the plugin registers again (W-26)."""

    recovery_notifies: bool
    """A device that read Unknown for being stale and reports its old health again is a change (H-04)."""

    forgets_stale: bool
    """A stale device absent from a report is deleted once told, rather than kept as Unknown (H-06)."""

    devices_per_driver: int | None
    """New device names beyond this many are ignored (H-13)."""

    saves_heartbeats: bool
    """A report that changes nothing still renews the times in the checkpoint (H-17, B-12)."""

    message_cut: Literal["character", "byte"]
    """Where a message over the limit is cut: at a whole character, or blindly (B-05)."""

    duplicate_id_shows: Literal["worst", "first"]
    """Which of two devices with one id in an entry is shown (B-08)."""

    final_status: Literal["kept", "dropped"]
    """What a pod's entries are once its claims are unprepared: what they last were, or gone (P-27)."""

    api_filters_reads: bool
    """The API server leaves the field out of reads while its gate is off (A-06)."""

    api_keeps_stored: bool
    """With the gate off a write keeps the field where the old object had it (A-04)."""

    retry: float = 5.0
    """Seconds from the end of a health stream to the next attempt (W-23)."""


KEP = Profile(
    name="kep",
    release=None,
    device_id="driver/pool/device",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth", "v1alpha1.NodeHealth"),
    watches="newest",
    unimplemented_ends_watch=True,
    recovery_notifies=True,
    forgets_stale=False,
    devices_per_driver=None,
    saves_heartbeats=True,
    message_cut="character",
    duplicate_id_shows="worst",
    final_status="kept",
    api_filters_reads=True,
    api_keeps_stored=False,
)

V1_37 = Profile(
    name="v1.37",
    release="1.37",
    device_id="first CDI id",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"),
    watches="all",
    unimplemented_ends_watch=True,
    recovery_notifies=False,
    forgets_stale=True,
    devices_per_driver=16384,
    saves_heartbeats=False,
    message_cut="byte",
    duplicate_id_shows="first",
    final_status="dropped",
    api_filters_reads=False,
    api_keeps_stored=True,
)

PROFILES = {profile.name: profile for profile in (KEP, V1_37)}


def for_release(version: str) -> Profile | None:
    """The row for a Kubernetes version such as `1.37.1`; None where there is none yet."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    return next((profile for profile in PROFILES.values() if profile.release == minor), None)
