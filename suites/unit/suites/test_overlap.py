"""Scenarios that overlap on a node."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from drahealth.fakes.cluster.api import NAMESPACES
from drahealth.manager.profile import KEP
from drahealth.suites.errors import HarnessError
from drahealth.suites.run.session import Overlap
from drahealth.suites.story.node import Node
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.unit import command_process
from drahealth.suites.unit.endings import PATIENCE

OVERLAPPING = """
from drahealth.suites.targets.reference.definition import DEFINITION
object.__setattr__(DEFINITION, "overlaps", True)
"""
"""Lets the scenarios on the reference overlap."""

ITEM: Any = "a test"


@pytest.fixture
async def target() -> AsyncIterator[ReferenceTarget]:
    target = ReferenceTarget(KEP)
    await target.start()
    yield target
    await target.stop()


def node_on(target: ReferenceTarget, kind: type[Node] = Node) -> Node:
    return kind(target, "a story", ("STATUS-01",), cast("Any", None))


async def nothing(node: Node) -> None:
    """A story without steps."""


async def forever(node: Node) -> None:
    await asyncio.Event().wait()


async def namespaces(target: ReferenceTarget) -> list[str]:
    return [found["metadata"]["name"] for found in await target.api.list(NAMESPACES)]


async def test_a_scenario_that_was_started_ahead_runs_before_its_test(target: ReferenceTarget) -> None:
    overlap, node, has_run = Overlap(), node_on(target), asyncio.Event()

    async def story(node: Node) -> None:
        has_run.set()

    overlap.start(ITEM, node, story, asyncio.get_running_loop())
    await asyncio.wait_for(has_run.wait(), PATIENCE)
    assert overlap.started(ITEM) is node
    await overlap.begun(node)
    await node.finish()


async def test_a_test_that_was_not_started_ahead_has_no_node_yet() -> None:
    assert Overlap().started(ITEM) is None


class SlowlyCleaned(Node):
    """A node whose cleanup waits for `may_end`."""

    may_end = asyncio.Event()

    async def finish(self) -> None:
        await self.may_end.wait()
        await super().finish()


async def test_a_scenario_runs_beside_the_cleanup_of_the_one_before(
    target: ReferenceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowlyCleaned, "may_end", asyncio.Event())
    overlap, slow, beside = Overlap(), node_on(target, SlowlyCleaned), node_on(target)
    await slow.begin()
    await asyncio.wait_for(overlap.clean(slow), PATIENCE)
    overlap.start(ITEM, beside, nothing, asyncio.get_running_loop())
    await overlap.begun(beside)
    assert set(await namespaces(target)) >= {slow.namespace, beside.namespace}
    SlowlyCleaned.may_end.set()
    await overlap.clean(beside)
    await overlap.cleaned()
    assert not {slow.namespace, beside.namespace} & set(await namespaces(target))


class NeverCleaned(Node):
    async def finish(self) -> None:
        raise HarnessError("pods were not deleted")


async def test_a_failed_cleanup_is_reported_with_the_name_of_its_scenario(target: ReferenceTarget) -> None:
    overlap = Overlap()
    await overlap.clean(node_on(target, NeverCleaned))
    with pytest.raises(HarnessError, match="pods were not deleted") as caught:
        await overlap.cleaned()
    assert caught.value.__notes__ == ["This was the cleanup after 'a story'."]


async def test_a_failed_cleanup_does_not_keep_the_next_ones_from_running(target: ReferenceTarget) -> None:
    overlap, last = Overlap(), node_on(target)
    await last.begin()
    for _ in range(2):
        await overlap.clean(node_on(target, NeverCleaned))
    with pytest.raises(HarnessError):
        await overlap.clean(last)
    assert [str(error).splitlines()[0] for error in await overlap.close()] == ["pods were not deleted"]
    assert last.namespace not in await namespaces(target)


async def test_a_scenario_whose_test_does_not_run_is_ended_and_leaves_nothing(target: ReferenceTarget) -> None:
    overlap, before = Overlap(), await namespaces(target)
    overlap.start(ITEM, node_on(target), forever, asyncio.get_running_loop())
    await overlap.close()
    assert await namespaces(target) == before


def test_a_run_whose_scenarios_overlap_has_all_results(tmp_path: Path) -> None:
    program = f"{OVERLAPPING}\n{command_process.COMMAND}"
    chosen = "claim_from_a_template or claim_with_another_name or new_message_shows or container_shows_only"
    done = command_process.run(program, "run", "-k", chosen, "--report", "r.json", folder=tmp_path)
    report = json.loads((tmp_path / "r.json").read_text())
    assert (done.returncode, report["complete"], report["run"]) == (0, False, report["planned"])
    assert {one["outcome"] for one in report["scenarios"]} == {"passed"}
    assert all(one["seconds"] > 0 for one in report["scenarios"])
