"""What the KEP and each release do differently: data, and nowhere else.

A profile is a row; the manager reads its columns and never asks for a version. `KEP` is what KEP-4680's newest
revision says (where it is silent: the design document, then the older revisions). A release's row is what its kubelet
was seen to do; the row is added when the reference can be held against that kubelet. Ids such as H-06 or B-02 name
facts of real kubelets; docs/facts.md lists them.
"""

from dataclasses import dataclass, replace
from typing import Literal

from drahealth.proto.health_apis import HealthApi, of_service
from drahealth.proto.values import DeviceHealth, Health

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Profile:
    """How a kubelet behaves: that of the KEP, or of one release."""

    name: str
    release: str | None
    """The Kubernetes minor that this row describes, None for the KEP."""

    device_id: Literal["driver/pool/device", "first CDI id"]
    """What `resourceID` is in the status; a device without CDI ids is `driver/pool/device` everywhere (P-08)."""

    health_apis: tuple[str, ...]
    """The health APIs spoken, as they are advertised, most wanted first; the first that the plugin advertises is the
    one called (W-18), and if it turns out Unimplemented no other is (B-14)."""

    asks_unadvertised: bool
    """Plugins that advertise no health API are called all the same, by the first that is spoken (B-11)."""

    messages: bool
    """The field `message` of a report is known (W-03)."""

    timeouts: bool
    """The field `health_check_timeout_seconds` of a report is known (W-03)."""

    watches: Literal["newest", "all"]
    """Whose stream is open while several instances of a driver are registered (B-02)."""

    unimplemented_ends_watch: bool
    """Unimplemented stops the retries until the plugin registers again (W-26)."""

    recovery_notifies: bool
    """A device that read Unknown for being stale and reports its old health again is a change (H-04)."""

    forgets_stale: bool
    """A stale device absent from a report is deleted once told, rather than kept as Unknown (H-06)."""

    names_joined: bool
    """Devices are told apart by pool and name with a slash between: `a/b`, `c` is the same as `a`, `b/c` (B-30)."""

    named_twice: Literal["last", "each"]
    """Of a device that stands twice in a report, whether the last word alone counts, or each is a change (H-24)."""

    timeouts_wrap: bool
    """A timeout is held in nanoseconds of 64 bits, and what is more comes out as something else (B-31)."""

    devices_per_driver: int | None
    """New device names beyond this many are ignored (H-13)."""

    largest_report: int
    """Bytes of a report that are taken; the stream of a larger one ends (W-09, B-16). 16384 devices with full messages
    and the longest names come to 26 MiB."""

    saves_heartbeats: bool
    """A report that changes nothing still renews the times in the checkpoint (H-17, B-12)."""

    message_cut: Literal["character", "byte"]
    """Where a message over the limit is cut: at a whole character, or blindly (B-05)."""

    prepares_again: Literal["never", "replaces", "appends"]
    """What becomes of a claim of before a restart when another pod comes to hold it: nothing; it is prepared again and
    its devices take the place of those it had; or they are listed beside them (B-29)."""

    claims_shown: Literal["all", "listed", "same name"]
    """Claims in a status: all that containers use, those whose object the pod's `resourceClaimStatuses` names, or those
    whose object is called as the claim is in the pod (P-04 to P-06)."""

    requests: Literal["filtered", "ignored", "first alone"]
    """An entry that names a request has its devices alone, or all of the claim; or the first such entry of a claim has
    all of them, and there is no other (P-04, P-07)."""

    whole_claim: Literal["an entry for each request", "one entry"]
    """What a container that names no request of a claim has: `claim:NAME/REQUEST` for each request that has devices,
    `claim:NAME` only where the driver names no request of any; or `claim:NAME` alone (P-03)."""

    init_containers: bool
    """Init containers and sidecars have entries (P-01)."""

    pod_level: bool
    """Claims that no container uses stand in the pod's own field; without, API servers do not know it (P-02)."""

    duplicate_id_shows: Literal["worst", "first", "all"]
    """Which of the devices with one id in an entry are shown (B-08, P-12)."""

    drivers_order: Literal["allocation's", "any"]
    """In which order the devices of a claim's several drivers are looked at: where it is any, and `duplicate_id_shows`
    the first, each status may show another one (P-13). The reference itself keeps to the allocation's."""

    entries_ordered: bool
    """The entries of a container keep the order of its claims; else they come in another one each time (B-01)."""

    health_events: bool
    """A change of the health that a status shows is told by an event on the pod (M-08)."""

    final_status: Literal["kept", "dropped"]
    """What a pod's entries are once its claims are unprepared: what they last were, or gone (P-27)."""

    api_filters_reads: bool
    """The API server leaves the field out of reads while its gate is off (A-06)."""

    api_keeps_stored: bool
    """With the gate off a write keeps the field where the old object had it (A-04)."""

    unlisted_device: Health
    """What an allocated device reads that its device plugin does not list: not yet since the restart, or not any more
    (D-03, B-09)."""

    forgets_list_of_gone_plugin: bool
    """The devices of a device plugin that has gone count as not listed, rather than keep their last health (D-06)."""

    tells_of_lost_devices: bool
    """Pods are notified when a device vanishes from the list, or with its device plugin (D-04)."""

    resource_plugins: Literal["newest", "all", "one"]
    """Of several device plugins of one resource: the list of the newest counts; or the latest list of any; or so, and
    the end of any of them takes the devices from the node (D-07)."""

    owner_by_resource: bool
    """The pod to notify is found by resource and device id, rather than by the id alone (D-05)."""

    retry: float = 5.0
    """Seconds from the end of a health stream to the next attempt (W-23)."""

    @property
    def called_apis(self) -> tuple[HealthApi, ...]:
        """The methods of these health APIs."""
        return tuple(health_api for api in self.health_apis for health_api in of_service(api))

    def as_read(self, device: DeviceHealth) -> DeviceHealth:
        """What is read of a report of this device: a field that is not known is not there."""
        if self.messages and self.timeouts:
            return device
        message = device.message if self.messages else ""
        return replace(device, message=message, timeout=device.timeout if self.timeouts else 0)


KEP = Profile(
    name="kep",
    release=None,
    device_id="driver/pool/device",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth", "v1alpha1.NodeHealth"),
    asks_unadvertised=False,
    messages=True,
    timeouts=True,
    watches="newest",
    unimplemented_ends_watch=True,
    recovery_notifies=True,
    forgets_stale=False,
    names_joined=False,
    named_twice="last",
    timeouts_wrap=False,
    devices_per_driver=None,
    largest_report=32 * MEBIBYTE,
    saves_heartbeats=True,
    message_cut="character",
    prepares_again="never",
    claims_shown="all",
    requests="filtered",
    whole_claim="an entry for each request",
    init_containers=True,
    pod_level=True,
    duplicate_id_shows="worst",
    drivers_order="allocation's",
    entries_ordered=True,
    health_events=True,
    final_status="kept",
    api_filters_reads=True,
    api_keeps_stored=False,
    unlisted_device=Health.UNKNOWN,
    forgets_list_of_gone_plugin=True,
    tells_of_lost_devices=True,
    resource_plugins="newest",
    owner_by_resource=True,
)
"""The profile of the newest KEP-4680."""

V1_37 = Profile(
    name="v1.37",
    release="1.37",
    device_id="first CDI id",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"),
    asks_unadvertised=False,
    messages=True,
    timeouts=True,
    watches="all",
    unimplemented_ends_watch=True,
    recovery_notifies=False,
    forgets_stale=True,
    names_joined=True,
    named_twice="each",
    timeouts_wrap=True,
    devices_per_driver=16384,
    largest_report=4 * MEBIBYTE,
    saves_heartbeats=False,
    message_cut="byte",
    prepares_again="replaces",
    claims_shown="all",
    requests="filtered",
    whole_claim="one entry",
    init_containers=False,
    pod_level=False,
    duplicate_id_shows="first",
    drivers_order="any",
    entries_ordered=False,
    health_events=False,
    final_status="dropped",
    api_filters_reads=False,
    api_keeps_stored=True,
    unlisted_device=Health.HEALTHY,
    forgets_list_of_gone_plugin=False,
    tells_of_lost_devices=False,
    resource_plugins="all",
    owner_by_resource=True,
)

V1_36 = replace(
    V1_37,
    name="v1.36",
    release="1.36",
    health_apis=("v1alpha1.DRAResourceHealth",),
    asks_unadvertised=True,
    unimplemented_ends_watch=False,
    forgets_stale=False,
    devices_per_driver=None,
    prepares_again="appends",
    resource_plugins="one",
    owner_by_resource=False,
)

V1_35 = replace(
    V1_36,
    name="v1.35",
    release="1.35",
    messages=False,
    claims_shown="listed",
    requests="ignored",
    duplicate_id_shows="all",
    api_keeps_stored=False,
)

V1_34 = replace(
    V1_35,
    name="v1.34",
    release="1.34",
    timeouts=False,
    claims_shown="same name",
    requests="first alone",
)

PROFILES = {profile.name: profile for profile in (KEP, V1_37, V1_36, V1_35, V1_34)}
"""All profiles by name: kep, v1.37, v1.36, v1.35, v1.34."""


def for_release(version: str) -> Profile | None:
    """The row for a Kubernetes version such as `1.37.1`; None where there is none yet."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    return next((profile for profile in PROFILES.values() if profile.release == minor), None)
