"""Container starts, restarts and stops of a pod, as in a kubelet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.runtime import Container, ContainerConfig, ContainerState
from drahealth.manager.pod_worker.pod_status import Plan, in_order_of_stopping, plan

SIDECAR = {"name": "side", "restartPolicy": "Always"}


def pod(*initial: Object, policy: str = "Always", names: tuple[str, ...] = ("main",)) -> Object:
    containers = [{"name": name} for name in names]
    return {"restartPolicy": policy, "initContainers": list(initial), "containers": containers}


def ran(name: str, code: int | None = None, attempt: int = 0) -> Container:
    """One that runs, or has exited with the code."""
    state = ContainerState.RUNNING if code is None else ContainerState.EXITED
    return Container(name, "sandbox", ContainerConfig(name, "image", attempt), state, 0, exit_code=code or 0)


def due(spec: Object, *found: Container) -> list[str]:
    return [one["name"] for one in plan(spec, found).due]


FIRST, SECOND = {"name": "first"}, {"name": "second"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], ["first"]),
        ([ran("first")], []),
        ([ran("first", 0)], ["second"]),
        ([ran("first", 0), ran("second")], []),
        ([ran("first", 0), ran("second", 1)], ["second"]),
        ([ran("first", 0), ran("second", 1), ran("second", attempt=1)], []),
        ([ran("first", 0), ran("second", 0)], ["main"]),
        ([ran("first", 0), ran("second", 0), ran("main")], []),
        ([ran("first", 0), ran("second", 0), ran("main", 0)], ["main"]),
    ],
)
def test_init_containers_run_one_after_the_other_each_to_its_end(found: list[Container], expected: list[str]) -> None:
    assert due(pod(FIRST, SECOND), *found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], ["side"]),
        ([ran("side")], ["second"]),
        ([ran("side", 0)], ["side"]),
        ([ran("side", 0), ran("second")], ["side"]),
        ([ran("side"), ran("second", 0)], ["main"]),
        ([ran("side", 1), ran("second", 0)], ["side", "main"]),
        ([ran("side", 1), ran("second", 0), ran("main")], ["side"]),
        ([ran("side"), ran("second", 0), ran("main")], []),
    ],
)
def test_a_sidecar_is_up_before_the_next_begins_and_is_kept_up(found: list[Container], expected: list[str]) -> None:
    assert due(pod(SIDECAR, SECOND), *found) == expected


@pytest.mark.parametrize(("policy", "is_over"), [("Always", False), ("OnFailure", False), ("Never", True)])
def test_a_failed_init_container_ends_a_pod_that_never_restarts(policy: str, is_over: bool) -> None:
    found = plan(pod(FIRST, policy=policy), [ran("first", 1)])
    assert (found.is_over, [one["name"] for one in found.due]) == (is_over, [] if is_over else ["first"])


@pytest.mark.parametrize(
    ("policy", "code", "is_over"),
    [("Always", 0, False), ("OnFailure", 0, True), ("OnFailure", 1, False), ("Never", 0, True), ("Never", 1, True)],
)
def test_pod_ends_when_its_regular_containers_have_ended(policy: str, code: int, is_over: bool) -> None:
    assert plan(pod(SIDECAR, policy=policy), [ran("side"), ran("main", code)]).is_over is is_over


@pytest.mark.parametrize(
    ("operator", "code", "is_over"), [("In", 3, False), ("In", 1, True), ("NotIn", 3, True), ("NotIn", 1, False)]
)
def test_container_restart_rule_overrides_the_restart_policies(operator: str, code: int, is_over: bool) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": operator, "values": [3]}}
    main = {"name": "main", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    found = plan({"restartPolicy": "Always", "containers": [main]}, [ran("main", code)])
    assert found == (Plan(is_over=True) if is_over else Plan((main,)))


def test_sidecar_is_restarted_despite_restart_policy_never() -> None:
    assert plan(pod(SIDECAR, policy="Never"), [ran("side", 1), ran("main")]) == Plan((SIDECAR,))


def test_sidecars_are_stopped_last_in_the_reverse_order_of_their_start() -> None:
    spec = pod(SIDECAR, {"name": "other", "restartPolicy": "Always"}, names=("main", "more"))
    running = [ran("side"), ran("other"), ran("main"), ran("more")]
    stopped = [container.config.name for container in in_order_of_stopping(spec, running)]
    assert stopped == ["main", "more", "other", "side"]


@given(st.data())
def test_only_stopped_containers_are_due_and_main_waits_for_init(data: Any) -> None:
    kinds = data.draw(st.lists(st.booleans(), max_size=4))
    initial = [{"name": f"i{n}", **({"restartPolicy": "Always"} if up else {})} for n, up in enumerate(kinds)]
    spec = pod(*initial, policy=data.draw(st.sampled_from(["Always", "OnFailure", "Never"])))
    names = data.draw(st.sets(st.sampled_from([one["name"] for one in initial] + ["none"])))
    found = [ran(name, data.draw(st.sampled_from([None, 0, 1]))) for name in sorted(names)]
    wanted = due(spec, *found)
    running = {c.config.name for c in found if c.state is ContainerState.RUNNING}
    assert sorted(wanted) == sorted(set(wanted) - running)
    assert "main" not in wanted or {one["name"] for one in initial} <= names
