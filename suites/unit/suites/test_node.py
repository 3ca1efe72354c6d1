"""The node of a scenario: its checks and its cleanup."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import KINDS, PODS, ApiError
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST, PROFILES
from drahealth.proto.events import GateSet, Observe, Step, TimePassed
from drahealth.proto.values import Health
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.judging.status_content import STEP_FAILED, Violation
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.target import KubeletTarget
from drahealth.suites.targets.reference.target import WINDOWS, ReferenceTarget

KNOWN = ("STATUS-04", "the ID is driver/pool/device")


@pytest.fixture
async def kep() -> AsyncIterator[ReferenceTarget]:
    """A reference with short windows."""
    target = ReferenceTarget(KEP, windows={**WINDOWS, "push": 0.05})
    await target.start()
    yield target
    await target.stop()


@pytest.fixture
async def release() -> AsyncIterator[Node]:
    """The node of a release with known issues, without pods."""
    target = ReferenceTarget(NEWEST)
    yield node_on(target)
    await target.stop()


def node_on(target: ReferenceTarget, **options: Any) -> Node:
    def run(work: Any) -> Any:
        raise AssertionError("these stories run on the loop of the test")

    return Node(target, "a story", ("STATUS-01", "STATUS-02"), run, needs=tuple(Capability), **options)


def issues(found: list[KnownIssue]) -> list[tuple[str, str]]:
    return [(issue.id, issue.requirement) for issue in found]


# Judging


async def test_a_failure_outside_of_a_block_counts_for_the_first_requirement(release: Node) -> None:
    with pytest.raises(Violation) as caught:
        release.check(False, "so", "not so")
    assert (caught.value.requirement, caught.value.assertion) == ("STATUS-01", STEP_FAILED)
    assert str(caught.value) == "STATUS-01: a step failed\n  expected: so\n  seen:     not so"


async def test_after_a_known_issue_the_scenario_continues(release: Node) -> None:
    with release.judging(*KNOWN):
        release.check(False, "so", "not so")
    assert (issues(release.deviations), release.stale) == ([("P-08", "STATUS-04")], [])
    (step,) = release.history.of(Step)
    assert step.text.startswith("known issue P-08: ")


async def test_a_known_issue_that_does_not_happen_is_stale(release: Node) -> None:
    with release.judging(*KNOWN):
        release.check(True, "so", "so")
    assert (release.deviations, issues(release.stale)) == ([], [("P-08", "STATUS-04")])


async def test_an_issue_that_the_kubelet_has_fixed_is_not_known() -> None:
    target = ReferenceTarget(NEWEST)
    node = node_on(target, fixed=["P-08"])
    with node.judging(*KNOWN):
        node.check(True, "so", "so")
    with pytest.raises(Violation), node.judging(*KNOWN):
        node.check(False, "so", "not so")
    assert (node.deviations, node.stale) == ([], [])
    await target.stop()


@pytest.mark.parametrize("words", [("STATUS-04", "another assertion"), ("STATUS-05", KNOWN[1])])
async def test_a_known_issue_covers_no_other_assertion(release: Node, words: tuple[str, str]) -> None:
    with pytest.raises(Violation) as caught, release.judging(*words):
        release.check(False, "so", "not so")
    assert (caught.value.requirement, caught.value.assertion) == words


@pytest.mark.parametrize("within", [("STATUS-05", KNOWN[1]), ("STATUS-04", "within")])
async def test_a_known_issue_covers_only_its_own_block(release: Node, within: tuple[str, str]) -> None:
    inner, outer = release.judging(*within), release.judging(*KNOWN)
    with pytest.raises(Violation, match=": ".join(within)), outer, inner:
        release.check(False, "so", "not so")
    with pytest.raises(Violation, match=f"STATUS-01: {STEP_FAILED}"):
        release.check(False, "so", "not so")


async def test_a_harness_error_is_not_a_known_issue(release: Node) -> None:
    with pytest.raises(HarnessError), release.judging(*KNOWN):
        raise HarnessError("the disk is full")
    assert (release.deviations, release.stale) == ([], [])


# Claims


async def test_if_only_claims_from_templates_are_shown_pods_share_one() -> None:
    target = ReferenceTarget(PROFILES["v1.35"])
    await target.start()
    node = node_on(target)
    await node.begin()
    claim = await node.claim(await node.driver())
    with pytest.raises(LookupError, match="claim-2"):
        await node.claims.object(claim)
    await node.running_pod(claim["gpu"])
    await node.running_pod(claim["gpu"])
    first, second = [pod["spec"]["resourceClaims"][0] for pod in await target.api.list(PODS, node.namespace)]
    made = (await node.claims.object(claim))["metadata"]["name"]
    await node.finish()
    await target.stop()
    assert first == {"name": "claim-2", "resourceClaimTemplateName": "claim-2"}
    assert second == {"name": "claim-2", "resourceClaimName": made}


# Waiting


class Slow(ReferenceTarget):
    """A reference without simulated time."""

    async def advance_time(self, seconds: float) -> float:
        return 0.0


async def test_an_unmet_expectation_names_its_window_and_the_seen_state(kep: ReferenceTarget) -> None:
    with pytest.raises(Violation, match=r"expected: the sun rises within 0\.05 s \(push\)\n  seen:     night"):
        await node_on(kep).until(lambda: False, "push", "the sun rises", "night")


async def test_simulated_time_is_in_the_history(kep: ReferenceTarget) -> None:
    node = node_on(kep)
    await node.advance_time(25)
    assert [record.what for record in node.history.records] == [TimePassed(25)]


async def test_the_history_has_the_gate_of_each_side(kep: ReferenceTarget) -> None:
    node = node_on(kep)
    await node.set_gates(api_server=True, kubelet=False)
    await node.set_gates(on=True)
    assert list(node.history.of(GateSet)) == [
        GateSet("ResourceHealthStatus", False, api_server=True, kubelet=False),
        GateSet("ResourceHealthStatus", True, api_server=True, kubelet=True),
    ]


async def test_messages_count_as_off_while_the_kubelet_restarts_without_their_gate(
    kep: ReferenceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_on(kep)
    before: list[GateSet] = []

    async def set_gates(**_: bool) -> None:
        before.extend(node.history.of(GateSet))

    monkeypatch.setattr(kep, "set_gates", set_gates)
    await node.set_gates(messages=False)
    assert before == [GateSet("ResourceHealthStatusMessage", False, api_server=True, kubelet=False)]


async def test_real_time_is_logged_and_not_added_to_the_times_of_records() -> None:
    kubelet = KubeletTarget(Binaries("1.37.1", *[Path("/none")] * 5), NEWEST)
    assert await kubelet.advance_time(0.001) == 0
    slow = Slow(KEP)
    node = node_on(slow)
    await node.advance_time(0.5)
    await slow.stop()
    assert [record.what for record in node.history.records] == [Step("0.5 s have passed")]


async def test_a_hanging_story_is_a_harness_error(kep: ReferenceTarget) -> None:
    async def story() -> None:
        await node.history.until(lambda: False, 60)

    node = node_on(kep)
    node.time_limit = 0.05
    with pytest.raises(HarnessError, match=r"'a story' .* 0\.05 s$"):
        await node._play(story())


# The beginning and the end


class WithoutNamespaces(ReferenceTarget):
    """A reference that fails to prepare namespaces. It counts entries and exits."""

    entered = left = 0

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        self.entered += 1

    async def leave(self) -> None:
        self.left += 1

    async def prepare_namespace(self, namespace: str) -> None:
        raise ApiError(403, "Forbidden", "no service accounts here")


async def test_a_story_that_fails_to_begin_leaves_the_target_unchanged() -> None:
    target = WithoutNamespaces(KEP)
    before = await everything_on(target)
    with pytest.raises(ApiError, match="no service accounts here"):
        await node_on(target).begin()
    after = await everything_on(target)
    await target.stop()
    assert (target.entered, target.left, after) == (1, 1, before)


async def everything_on(target: ReferenceTarget) -> list[str]:
    return [f"{kind.kind} {found['metadata']['name']}" for kind in KINDS for found in await target.api.list(kind)]


async def test_a_story_leaves_no_objects_on_the_target(kep: ReferenceTarget) -> None:
    node, before = node_on(kep), await everything_on(kep)
    await node.begin()
    driver, _, _ = await node.pod_with_a_gpu()
    await driver.newer_instance()
    await node.set_gates(on=False)
    await node.finish()
    assert await everything_on(kep) == before
    assert [path for path in kep.plugins_dir.rglob("*") if path.is_socket()] == []


@pytest.mark.parametrize("make_unreachable", [Driver.crashes, Driver.closes_its_endpoint])
async def test_a_story_that_ends_with_an_unreachable_driver_leaves_no_objects(
    kep: ReferenceTarget, make_unreachable: Callable[[Driver], Awaitable[None]]
) -> None:
    node, before = node_on(kep), await everything_on(kep)
    await node.begin()
    driver, _, _ = await node.pod_with_a_gpu()
    await make_unreachable(driver)
    await node.finish()
    assert await everything_on(kep) == before


async def test_the_gate_is_on_for_the_next_story(kep: ReferenceTarget) -> None:
    first, second = node_on(kep), node_on(kep)
    await first.begin()
    await first.set_gates(on=False)
    await first.finish()
    await second.begin()
    _, pod, gpu = await second.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY, within="start")
    await second.finish()


async def test_a_scenario_declares_the_capabilities_that_it_uses(kep: ReferenceTarget) -> None:
    node = Node(kep, "a story", ("STATUS-01",), lambda work: work, needs=(Capability.SWITCH_GATES,))
    uses = {
        "restart-kubelet": node.kubelet_restarts,
        "stop-kubelet": node.kubelet_stops,
        "stop-api-server": node.api_server_stops,
    }
    for name, use in uses.items():
        with pytest.raises(HarnessError, match=name):
            await use()
    assert node.is_exclusive
