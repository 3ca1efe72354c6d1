"""The readiness of a deployment, and the reasons when it is not ready."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import Object
from drahealth.suites.targets.pods.deployment import by_node, gone, hopeless, is_rolled_out, missing


def daemon_set(generation: int = 2, **status: int) -> Object:
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2}
    return {
        "metadata": {"name": "driver", "generation": generation},
        "status": {"observedGeneration": 2, **counts, **status},
    }


def pod(node: str = "a", ready: str = "True", metadata: Any = None, **status: Any) -> Object:
    return {
        "metadata": {"name": f"driver-{node}", **(metadata or {})},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], **status},
    }


def waiting(reason: str, message: str = "", **more: Any) -> list[Object]:
    return [{"state": {"waiting": {"reason": reason, "message": message}}, **more}]


@pytest.mark.parametrize(
    ("found", "there"),
    [
        (daemon_set(), True),
        (daemon_set(generation=3), False),
        (daemon_set(numberReady=1), False),
        (daemon_set(updatedNumberScheduled=1), False),
        (daemon_set(desiredNumberScheduled=0), False),
        ({"metadata": {}}, False),
    ],
)
def test_a_rollout_is_done_when_every_node_has_a_ready_new_pod(found: Object, there: bool) -> None:
    assert is_rolled_out(found) is there


def test_unready_and_deleted_pods_are_not_counted() -> None:
    going = pod("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert by_node([pod("a"), pod("b", ready="False"), going]) == {"a": "driver-a"}


def test_failed_image_pull_is_reported_as_permanent() -> None:
    statuses = waiting("ErrImagePull", "not found")
    assert hopeless([pod(), pod("b", containerStatuses=statuses)]) == "pod driver-b on b: ErrImagePull: not found"


def test_a_crashed_container_shows_its_last_line() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "Traceback\nImportError: no module\n"}}
    why = hopeless([pod(containerStatuses=waiting("CrashLoopBackOff", lastState=ended))])
    assert why == "pod driver-a on a: CrashLoopBackOff; it ended before: exit code 1 (Error): ImportError: no module"


def test_container_in_creation_is_not_reported_as_failed() -> None:
    assert hopeless([pod(containerStatuses=waiting("ContainerCreating")), pod(containerStatuses=[])]) == ""


def test_an_unready_deployment_is_explained_by_conditions_and_warnings() -> None:
    unscheduled = pod("", conditions=[{"type": "PodScheduled", "status": "False", "message": "too many pods"}])
    events = [
        {"type": "Warning", "message": "forbidden by quota", "involvedObject": {"name": "driver"}},
        {"type": "Normal", "message": "Scheduled", "involvedObject": {"name": "driver"}},
        {"type": "Warning", "message": "of another", "involvedObject": {"name": "other"}},
    ]
    told = missing(daemon_set(), [unscheduled, pod("b", ready="False")], events)
    assert told == (
        "pod driver- on no node yet cannot be scheduled: too many pods; "
        "pod driver-b on b is Running and not Ready; forbidden by quota"
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (pod(), ""),
        (None, "the pod p of the driver was deleted"),
        (
            pod(phase="Failed", reason="Evicted", message="low on memory"),
            "the pod p of the driver was evicted from a: low on memory",
        ),
        (
            pod(
                metadata={"deletionTimestamp": "now"},
                conditions=[{"type": "DisruptionTarget", "message": "preempted"}],
            ),
            "the pod p of the driver is being deleted: preempted",
        ),
        (
            pod(
                phase="Failed", containerStatuses=[{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
            ),
            "the pod p of the driver has ended: exit code 137 (OOMKilled)",
        ),
    ],
)
def test_a_pod_that_no_longer_runs_has_a_reason(found: Object | None, told: str) -> None:
    assert gone(found, "p") == told
