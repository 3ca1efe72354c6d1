"""The differences between two plays."""

from dataclasses import replace

from differential.comparison import Difference, compare
from differential.lane import Played, PodShown, Snapshot, shown
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus

POD = PodShown("Running", False, {"main": {"claim:c": {"a": ("Healthy", ""), "b": ("Unknown", "")}}, "side": None})
SNAPSHOT = Snapshot(2, "pushed", {"pod-0": POD}, {"driver-0": 1})


def played(*snapshots: Snapshot) -> Played:
    return Played(snapshots)


def test_the_order_of_entries_and_the_time_make_no_difference() -> None:
    turned = replace(POD, containers={"side": None, "main": {"claim:c": {"b": ("Unknown", ""), "a": ("Healthy", "")}}})
    other = Played((replace(SNAPSHOT, pods={"pod-0": turned}),), {"begin": 1.0})
    assert compare([played(SNAPSHOT)], other) == []


def test_each_different_value_is_a_difference() -> None:
    sick = {"claim:c": {"a": ("Unhealthy", "hot")}}
    other = PodShown("Failed", True, {"main": sick, "side": {}})
    seen = compare([played(SNAPSHOT)], played(replace(SNAPSHOT, pods={"pod-0": other}, streams={"driver-0": 2})))
    assert [(d.what, d.reference, d.kubelet) for d in seen] == [
        ("streams opened on driver-0", "1", "2"),
        ("pod-0 phase", "Running", "Failed"),
        ("pod-0 status", "taken", "refused"),
        ("pod-0 main claim:c 'a'", "Healthy", "Unhealthy 'hot'"),
        ("pod-0 side field", "nothing", "there"),
        ("pod-0 main claim:c 'b'", "Unknown", "nothing"),
    ]


def test_a_moment_in_only_one_play_is_a_difference() -> None:
    more = replace(SNAPSHOT, moment="recovered")
    assert compare([played(SNAPSHOT)], played(SNAPSHOT, more)) == [
        Difference(2, "recovered", "the moment", "does not come", "comes")
    ]


def test_each_valid_outcome_of_the_reference_matches_and_no_other() -> None:
    outcomes = [{"claim:c": {"a": (health, "")}} for health in ("Healthy", "Unhealthy", "Unknown")]
    plays = [played(Snapshot(0, "synced", {"pod-0": PodShown("Running", False, {"main": o})}, {})) for o in outcomes]
    assert [compare(plays[:2], play) for play in plays] == [
        [],
        [],
        [Difference(0, "synced", "pod-0 main claim:c 'a'", "Healthy or Unhealthy", "Unknown")],
    ]


def test_a_long_message_is_shortened_in_the_output() -> None:
    told = str(Difference(0, "synced", "pod-0", "x" * 1024, "Healthy"))
    assert told == f"step 0, synced: pod-0: reference {'x' * 48}...xxxxxxxx (1024 bytes), kubelet Healthy"


def test_the_same_difference_elsewhere_has_the_same_kind() -> None:
    first = Difference(3, "pushed", "pod-1 c 'a'", "Unhealthy 'hot'", "Unknown")
    assert first.kind == Difference(0, "pushed", "pod-0 c 'b'", "Unhealthy", "Unknown").kind
    assert first.kind != Difference(3, "pushed", "pod-1 c 'a'", "Unknown", "Unhealthy 'hot'").kind
    assert first.kind != replace(first, moment="synced").kind


def test_pod_observation_uses_script_names_and_omits_the_fence_container() -> None:
    entry = ResourceStatus("claim:c", (ResourceHealth("d0-1a.example.com/pool/a", Health.HEALTHY, "fine"),))
    containers = (ContainerSeen("main", "running", 0, (entry,)), ContainerSeen("fence", "running", 0, (entry,)))
    seen = shown(StatusSeen("p", "uid", "Running", containers), {"d0-1a.example.com": "driver-0"}, stuck=False)
    assert seen == PodShown("Running", False, {"main": {"claim:c": {"driver-0/pool/a": ("Healthy", "fine")}}})
