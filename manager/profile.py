"""The behavior of a kubelet as columns, the row of the KEP, and the feature gates. The rows of releases: `releases`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from drahealth.proto.values import DeviceHealth, Health

if TYPE_CHECKING:
    from drahealth.proto.health_apis import HealthApi


# The feature gates of a kubelet that change the health of devices.


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates. They are read once, at start."""

    resource_health_status: bool = True
    resource_health_status_message: bool = True
    dynamic_resource_allocation: bool = True
    """Without it, no DRA plugin can register, and Pods run without the devices of their claims. Kubernetes 1.35 and
    later releases lock this gate to True."""


# The differences between the KEP and each release, as columns.
#
# A profile is a row; the manager reads its columns and never checks a version. `KEP` follows the newest revision of
# KEP-4680, then the design document, then the older revisions. The rows of releases are in `releases`. Ids such as
# H-06 or B-02 are facts of real kubelets in docs/facts.md.

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Profile:
    """Behavior of a kubelet: as in the KEP, or as in one release."""

    name: str
    release: str | None
    """The Kubernetes minor that this row describes, such as 1.36; None for the KEP."""

    device_id: Literal["driver/pool/device", "first CDI id"]
    """What `resourceID` is in the status; a device without CDI ids is `driver/pool/device` everywhere (P-08)."""

    health_apis: tuple[str, ...]
    """The supported health APIs, as advertised, in order of preference. The first that the plugin advertises is called
    (W-18); after Unimplemented no other is called (B-14). READ-20 has the reason for the KEP's order."""

    asks_unadvertised: bool
    """Plugins that advertise no health API are called, too: with all supported ones in order of preference, until one
    is not Unimplemented (READ-12, B-11)."""

    messages: bool
    """The field `message` of a report is known (W-03)."""

    timeouts: bool
    """The field `health_check_timeout_seconds` of a report is known (W-03)."""

    watches: Literal["newest", "all"]
    """The instances with an open stream while several instances of a driver are registered (B-02)."""

    unimplemented_ends_watch: bool
    """Unimplemented stops the retries until the plugin registers again (W-26)."""

    stream_end_notifies: bool
    """The end of a stream notifies the Pods with devices of its driver; otherwise they show Unknown at their next
    resync, as in the design document (B-03)."""

    recovery_notifies: bool
    """A stale device that reports its old health again is a change (H-04)."""

    forgets_stale: bool
    """A stale device that a report omits is deleted after one notification, not kept as Unknown (H-06)."""

    names_joined: bool
    """The key of a device is pool/name: `a/b`, `c` is the same as `a`, `b/c` (B-30)."""

    named_twice: Literal["last", "each"]
    """For a device that occurs twice in a report: only the last entry counts, or each can be a change (H-24)."""

    timeouts_wrap: bool
    """A timeout is stored as 64-bit nanoseconds, and longer ones overflow (B-31)."""

    devices_per_driver: int | None
    """New device names beyond this many are ignored (H-13)."""

    largest_report: int
    """Maximum bytes of a report; a larger one ends the stream (W-09, B-16). 16384 devices with full messages and the
    longest names need 26 MiB."""

    saves_heartbeats: bool
    """A report without a change still renews the times in the checkpoint (H-17, B-12)."""

    message_cut: Literal["character", "byte"]
    """How a message over the limit is truncated: at a character boundary, or at a byte (B-05)."""

    prepares_again: Literal["never", "replaces", "appends"]
    """Whether a claim is prepared again after a restart, when another pod uses it. Its new devices replace the earlier
    ones, or are listed in addition (B-29)."""

    claims_shown: Literal["all", "listed", "same name"]
    """Claims in a status: all claims of containers, those in the pod's `resourceClaimStatuses`, or those whose
    object has the name that the pod uses (P-04 to P-06)."""

    shows_extended_resources: bool
    """Containers have entries for claims of their extended resources (N-01)."""

    requests: Literal["filtered", "ignored", "first alone"]
    """Devices of an entry with a request: only those of the request, all of the claim, or all of the claim in its only
    entry (P-04, P-07)."""

    subrequests: Literal["as their request", "as named"]
    """A device for which the driver names a subrequest `req/sub` belongs to the request `req`, or to no request that a
    container can name (B-34)."""

    whole_claim: Literal["an entry for each request", "one entry"]
    """Entries of a container that names no request of a claim: `claim:NAME/REQUEST` for each request with devices
    (`claim:NAME` if the driver names no request), or one `claim:NAME` (P-03)."""

    init_containers: Literal["all", "sidecars", "none"]
    """The init containers that have entries; sidecars are those that run as long as their Pod (P-01)."""

    pod_level: bool
    """Claims without a container are in the pod's own field; otherwise API servers do not have it (P-02)."""

    duplicate_id_shows: Literal["worst", "first", "all"]
    """Which devices with the same id in an entry are shown (B-08, P-12)."""

    drivers_order: Literal["allocation's", "any"]
    """The order of the drivers of a claim. With `any` and `duplicate_id_shows` the first, each status can show another
    device (P-13). The reference itself uses the allocation's order."""

    entries_ordered: bool
    """The entries of a container keep the order of its claims; otherwise their order changes (B-01)."""

    plugin_devices_ordered: bool
    """The devices of a device plugin keep their order in an entry; otherwise their order changes (B-36)."""

    health_events: bool
    """A change of health in a status causes an event on the pod (M-08)."""

    final_status: Literal["kept", "dropped"]
    """Whether a pod keeps its entries after its claims are unprepared (P-27)."""

    api_filters_reads: bool
    """The API server omits the field from reads while its gate is disabled (A-06)."""

    api_keeps_stored: bool
    """With the gate disabled a write keeps the field if the old object had it (A-04)."""

    unlisted_device: Health
    """The health of an allocated device that its device plugin does not list: not yet after a restart, or no longer
    (D-03, B-09)."""

    forgets_list_of_gone_plugin: bool
    """The devices of a disconnected device plugin count as not listed; otherwise they keep their last health (D-06)."""

    tells_of_lost_devices: bool
    """Pods are notified when a device vanishes from the list, or with its device plugin (D-04)."""

    resource_plugins: Literal["newest", "all", "one"]
    """The list of a resource with several device plugins: that of the newest plugin, or the latest list. With the third
    value, the latest list counts, and the end of any plugin removes the devices from the node and ends the connection
    to the newest plugin (D-07)."""

    owner_by_resource: bool
    """The pod to notify is found by resource and device id, rather than by the id alone (D-05)."""

    retry: float = 5.0
    """Seconds from the end of a health stream to the next attempt (W-23)."""

    @property
    def called_apis(self) -> tuple["HealthApi", ...]:
        """The methods of these health APIs."""
        from drahealth.proto.health_apis import of_service  # it imports gRPC, which commands do not need at once

        return tuple(health_api for api in self.health_apis for health_api in of_service(api))

    def as_read(self, device: DeviceHealth) -> DeviceHealth:
        """The device as the kubelet reads it: without unknown fields."""
        if self.messages and self.timeouts:
            return device
        message = device.message if self.messages else ""
        return replace(device, message=message, timeout=device.timeout if self.timeouts else 0)


KEP = Profile(
    name="kep",
    release=None,
    device_id="driver/pool/device",
    health_apis=("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth", "v1alpha1.NodeHealth"),
    asks_unadvertised=True,
    messages=True,
    timeouts=True,
    watches="newest",
    unimplemented_ends_watch=True,
    stream_end_notifies=False,
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
    shows_extended_resources=True,
    requests="filtered",
    subrequests="as their request",
    whole_claim="an entry for each request",
    init_containers="all",
    pod_level=True,
    duplicate_id_shows="worst",
    drivers_order="allocation's",
    entries_ordered=True,
    plugin_devices_ordered=True,
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
"""The profile of the newest revision of KEP-4680."""
