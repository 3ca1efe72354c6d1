"""The status of a pod as a kubelet builds it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.runtime import Container, ContainerConfig, ContainerState, image_id
from drahealth.manager.pod_worker.pod_status import PodFacts, Waiting, pod_status
from drahealth.proto.values import AllocatedResources, Health, ResourceHealth, ResourceStatus

WALL = 1_700_000_000.0
NOW = "2023-11-14T22:13:20Z"
POD: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "main", "image": "image"}]},
    "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "c"}]},
}
HEALTH = ResourceStatus("claim:c", (ResourceHealth("gpu", Health.UNHEALTHY, "hot"),))
BACK_OFF = Waiting("CrashLoopBackOff", "back-off 10s")


def container(attempt: int, state: str, code: int = 0, name: str = "main") -> Container:
    second = int(1e9)
    config = ContainerConfig(name, "image", attempt=attempt)
    start, end = int(WALL) * second, (int(WALL) + 60) * second
    reason = {"exited": "Completed" if code == 0 else "Error"}.get(state, "")
    return Container(f"id-{attempt}", "sandbox", config, ContainerState(state), start, start, end, code, reason)


def status_of(
    *containers: Container, pod: dict[str, Any] = POD, waiting: Any = None, health: Any = None, is_over: bool = False
) -> dict[str, Any]:
    facts = PodFacts(containers, waiting or {}, health or AllocatedResources(), bool(containers), is_over, WALL)
    return pod_status(pod, facts)


def ended(attempt: int, code: int, reason: str) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": NOW,
            "finishedAt": "2023-11-14T22:14:20Z",
            "containerID": f"drahealth://id-{attempt}",
        }
    }


def test_running_pod_has_a_complete_status() -> None:
    status = status_of(container(0, "running"), health=AllocatedResources({"main": (HEALTH,)}))
    conditions = status.pop("conditions")
    assert status == {
        "phase": "Running",
        "observedGeneration": 1,
        "startTime": NOW,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "resourceClaimStatuses": [{"name": "c"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "image",
                "imageID": image_id("image"),
                "containerID": "drahealth://id-0",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": NOW}},
                "lastState": {},
                "allocatedResourcesStatus": [
                    {"name": "claim:c", "resources": [{"resourceID": "gpu", "health": "Unhealthy", "message": "hot"}]}
                ],
            }
        ],
    }
    kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    assert conditions == [{"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in kinds]


def test_a_pod_without_containers_is_pending() -> None:
    status = status_of()
    [main] = status["containerStatuses"]
    assert (status["phase"], main["state"]) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert "podIP" not in status
    assert "allocatedResourcesStatus" not in main


def test_waiting_reason_shows_in_the_status() -> None:
    [main] = status_of(waiting={"main": Waiting("ClaimsNotReady", "no claim")})["containerStatuses"]
    assert main["state"] == {"waiting": {"reason": "ClaimsNotReady", "message": "no claim"}}


def test_crash_loop_has_the_last_exit_as_last_state() -> None:
    status = status_of(container(1, "exited", 1), container(2, "exited", 3), waiting={"main": BACK_OFF})
    [main] = status["containerStatuses"]
    assert (status["phase"], main["restartCount"], main["ready"]) == ("Running", 2, False)
    assert main["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert main["lastState"] == ended(2, 3, "Error")


def test_restarted_container_has_the_previous_exit_as_last_state() -> None:
    [main] = status_of(container(0, "exited", 1), container(1, "running"))["containerStatuses"]
    assert (main["restartCount"], main["state"]) == (1, {"running": {"startedAt": NOW}})
    assert main["lastState"] == ended(0, 1, "Error")


@pytest.mark.parametrize(
    ("codes", "is_over", "phase"),
    [
        ((0, 0), True, "Succeeded"),
        ((0, 1), True, "Failed"),
        ((0, None), True, "Failed"),
        ((0, 1), False, "Running"),
        ((0, None), False, "Pending"),
    ],
)
def test_only_a_pod_that_is_over_has_a_terminal_phase(codes: tuple[Any, ...], is_over: bool, phase: str) -> None:
    names = [f"c{index}" for index in range(len(codes))]
    pod = {**POD, "spec": {"containers": [{"name": name} for name in names]}}
    found = [container(0, "exited", c, name) for name, c in zip(names, codes, strict=True) if c is not None]
    assert status_of(*found, pod=pod, is_over=is_over)["phase"] == phase


@pytest.mark.parametrize(("code", "reason"), [(0, "PodCompleted"), (1, "PodFailed")])
def test_conditions_of_an_ended_pod_have_the_reason(code: int, reason: str) -> None:
    conditions = {c["type"]: c for c in status_of(container(0, "exited", code), is_over=True)["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", reason)
    assert conditions["ContainersReady"]["reason"] == reason


def test_the_containers_that_are_not_ready_are_named() -> None:
    conditions = {c["type"]: c for c in status_of(container(0, "exited", 1))["conditions"]}
    expected = ("False", "ContainersNotReady", "containers with unready status: [main]")
    assert tuple(conditions["Ready"][key] for key in ("status", "reason", "message")) == expected


def test_conditions_of_other_writers_are_kept() -> None:
    gate = {"type": "example.com/gate", "status": "False"}
    pod = {**POD, "status": {"conditions": [gate]}}
    assert status_of(container(0, "running"), pod=pod)["conditions"][0] == gate


@given(
    st.lists(st.builds(container, st.integers(0, 5), st.sampled_from(["created", "running", "exited"])), max_size=4),
    st.booleans(),
    st.sampled_from([{}, {"main": BACK_OFF}]),
)
def test_building_again_changes_nothing(found: list[Container], is_over: bool, waiting: Any) -> None:
    status = status_of(*found, is_over=is_over, waiting=waiting)
    later = PodFacts(found, waiting, AllocatedResources(), bool(found), is_over, WALL + 1000)
    assert pod_status({**POD, "status": status}, later) == status


def test_pods_own_entries_are_added_and_removed() -> None:
    status = status_of(container(0, "running"), health=AllocatedResources(pod=(HEALTH,)))
    entry = {"name": "claim:c", "resources": [{"resourceID": "gpu", "health": "Unhealthy", "message": "hot"}]}
    assert status["allocatedResourcesStatus"] == [entry]
    assert "allocatedResourcesStatus" not in status_of(container(0, "running"), pod={**POD, "status": status})


def test_a_status_has_the_generation_of_the_pod_that_it_is_for() -> None:
    pod = {**POD, "metadata": {**POD["metadata"], "generation": 2}}
    assert status_of(container(0, "running"), pod=pod)["observedGeneration"] == 2
