"""The invariants on pod state that health must not change, and the reader of Pod objects."""

from dataclasses import replace
from typing import Any

import pytest

from drahealth.proto.events import ContainerRun, Event, GateSet, PodRewritten, PodStateSeen, Stopped
from drahealth.suites.judging import invariants
from drahealth.suites.story.history import is_rewritten, state_seen
from drahealth.suites.unit.suites.histories import history

RUNS = ContainerRun("main", "regular", "running", "a", 0, ready=True, started=True)
WAITS = ContainerRun("main", "regular", "waiting", "", 0, ready=False, started=False, reason="ContainerCreating")
CRASHED = replace(WAITS, id="a", previous="a", reason="CrashLoopBackOff")
EXITED = ContainerRun("main", "regular", "terminated", "a", 0, ready=False, started=False, exit_code=0)
INIT = ContainerRun("first", "init", "running", "i", 0, ready=False, started=False)
INIT_DONE = replace(INIT, state="terminated", exit_code=0, ready=True)
SIDECAR = replace(RUNS, name="side", kind="sidecar", id="s")
READY = dict.fromkeys(("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True")
UNREADY = READY | {"Ready": "False", "ContainersReady": "False"}


def state(*runs: ContainerRun, phase: str = "Running", has_address: bool = True, **conditions: str) -> PodStateSeen:
    ready = all(run.ready for run in runs if run.kind != "init")
    known = {**(READY if ready else UNREADY), **conditions}
    return PodStateSeen("pod-1", "u", phase, tuple(known.items()), runs, has_address)


def found(*happened: Event) -> list[str]:
    return list(invariants.not_from_containers(history(*happened)))


@pytest.mark.parametrize(
    "right",
    [
        state(RUNS),
        state(RUNS, INIT_DONE, SIDECAR),
        state(WAITS, INIT, phase="Pending", Initialized="False"),
        state(WAITS, phase="Pending", PodReadyToStartContainers="False", has_address=False),
        state(CRASHED),
        state(RUNS, replace(EXITED, name="other")),
        state(RUNS, replace(SIDECAR, state="waiting", ready=False, started=False, previous="s")),
        replace(state(RUNS, phase="Failed", Ready="False"), is_deleting=True),
        state(RUNS, phase="Failed", Ready="False"),
        replace(state(RUNS), conditions=()),
    ],
    ids=lambda seen: f"{seen.phase}-{'-'.join(run.state for run in seen.runs)}",
)
def test_a_state_that_follows_from_the_containers_is_right(right: PodStateSeen) -> None:
    assert found(right, right) == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (state(RUNS, Ready="False"), "Ready=False"),
        (state(RUNS, ContainersReady="False"), "ContainersReady=False"),
        (state(RUNS, Initialized="False"), "Initialized=False"),
        (state(RUNS, PodReadyToStartContainers="False"), "PodReadyToStartContainers=False"),
        (state(WAITS, INIT, phase="Pending"), "Initialized=True"),
        (state(RUNS, phase="Pending"), "phase Pending"),
        (state(WAITS, phase="Running"), "phase Running"),
        (state(RUNS, has_address=False), "no address"),
        (state(RUNS, replace(SIDECAR, state="waiting", ready=False, started=False), Ready="True"), "Ready=True"),
        (state(replace(RUNS, started=False)), "not started"),
        (state(RUNS, replace(INIT_DONE, started=True)), "terminated and started"),
        (state(RUNS, replace(INIT_DONE, ready=False)), "terminated and not ready"),
        (state(replace(RUNS, previous="a")), "previous one"),
        (state(replace(CRASHED, previous="b")), "not the one that ended"),
        (state(replace(EXITED, previous="a"), RUNS), "previous one"),
        (state(WAITS, phase="Pending", Initialized="False"), "Initialized=False"),
        (state(RUNS, INIT), "init container first running"),
        (state(RUNS, replace(INIT, state="waiting", id="")), "init container first waiting"),
    ],
)
def test_a_state_that_does_not_follow_from_the_containers_is_found(wrong: PodStateSeen, word: str) -> None:
    assert any(word in words for words in found(wrong))


@pytest.mark.parametrize(
    ("after", "number"),
    [
        (replace(RUNS, id="b", restarts=1, previous="a"), 0),
        (replace(RUNS, restarts=1), 1),
        (replace(RUNS, id="b", previous="a"), 1),
        (replace(CRASHED, previous="a"), 0),
    ],
)
def test_restart_count_changes_exactly_when_the_container_run_changes(after: ContainerRun, number: int) -> None:
    assert len(found(state(RUNS), state(after))) == number


def test_the_last_state_of_a_restarted_container_is_the_run_before() -> None:
    first, again = state(RUNS), replace(RUNS, id="b", restarts=1, previous="a")
    assert len(found(first, state(replace(again, previous="")))) == 1
    assert found(first, state(replace(again, id="c", restarts=2, previous="b"))) == []


def test_an_init_container_that_has_ended_may_run_again() -> None:
    assert found(state(RUNS, INIT_DONE), state(RUNS, INIT)) == []


def test_a_falling_restart_count_is_found() -> None:
    before = state(replace(RUNS, id="b", restarts=2, previous="a"))
    assert len(found(before, state(replace(RUNS, id="c", restarts=1, previous="b")))) == 1


NOT_READY = (("Ready", "containers with unready status: [main]"),)
SICK = (("Ready", "containers with unready status: [main]: gpu-0 is Unhealthy"),)
FAILED = (("", "a device failed"),)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (state(RUNS), replace(state(RUNS), texts=FAILED), 1),
        (replace(state(CRASHED), texts=NOT_READY), replace(state(CRASHED), texts=SICK), 1),
        (replace(state(CRASHED), texts=NOT_READY), state(RUNS), 0),
        (state(RUNS), replace(state(CRASHED), texts=NOT_READY), 0),
        (state(WAITS, phase="Pending"), replace(state(WAITS, phase="Pending"), texts=FAILED), 0),
        (state(RUNS), replace(state(RUNS), texts=FAILED, is_deleting=True), 0),
    ],
)
def test_a_new_text_needs_another_change_of_the_pod(before: PodStateSeen, after: PodStateSeen, expected: int) -> None:
    assert sum("new text" in words for words in found(before, after)) == expected


def test_ready_is_not_judged_after_a_stop_of_the_kubelet() -> None:
    wrong = state(RUNS, Ready="False")
    assert (len(found(wrong)), found(Stopped("kubelet"), wrong)) == (1, [])


def test_pod_rewrite_is_a_violation_unless_the_gate_changed() -> None:
    written = PodRewritten("pod-1", "u")
    assert len(list(invariants.only_times(history(written, written)))) == 1
    assert list(invariants.only_times(history(GateSet("ResourceHealthStatus", False), written))) == []


def pod_object(version: str = "1", **status: Any) -> dict[str, Any]:
    metadata = {"name": "pod-1", "uid": "u", "resourceVersion": version, "managedFields": [{"time": version}]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": status}


def ready(status: str, time: str) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": time}]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (pod_object("2", conditions=ready("True", "later")), True),
        (pod_object("2", conditions=ready("False", "later")), False),
        (pod_object("1", conditions=ready("True", "now")), False),
        (pod_object("2", conditions=ready("True", "now"), reason="NodeLost"), False),
    ],
)
def test_pod_update_that_changes_only_times_is_a_rewrite(after: dict[str, Any], expected: bool) -> None:
    assert is_rewritten(pod_object(conditions=ready("True", "now")), after) is expected


def test_the_state_of_a_pod_is_read_from_its_status() -> None:
    crashed = {"name": "main", "containerID": "a", "restartCount": 3, "ready": False, "started": False}
    crashed |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"containerID": "a"}}}
    seen = state_seen(pod_object(phase="Running", containerStatuses=[crashed], conditions=ready("False", "now")))
    expected = replace(CRASHED, restarts=3)
    assert seen == PodStateSeen("pod-1", "u", "Running", (("Ready", "False"),), (expected,), has_address=False)


def test_reasons_and_messages_are_read_from_the_pod_and_from_the_conditions_of_its_containers() -> None:
    resized = {"type": "PodResizePending", "status": "True", "message": "Node didn't have enough resource: cpu"}
    waits = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    seen = state_seen(pod_object(message="evicted", conditions=[resized, waits]))
    assert seen
    assert seen.texts == (("", "evicted"), ("Ready", "ContainersNotReady"))


def test_a_pod_with_a_probe_has_no_state_to_judge() -> None:
    pod = pod_object()
    pod["spec"]["containers"][0]["readinessProbe"] = {"exec": {}}
    assert state_seen(pod) is None
