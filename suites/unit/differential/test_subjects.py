"""A target with lanes: concurrent plays, shared restarts, and cleanup."""

from collections.abc import AsyncIterator

import pytest

from differential.lane import REFERENCE
from differential.running import Campaign
from differential.script import Reading, Report, RestartKubelet, Start, Stop
from differential.subjects import NO_RESYNC, TargetSubject
from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, PODS, SLICES
from drahealth.manager.releases import NEWEST
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.unit.differential.scripts import script, unhealthy


class Counted(ReferenceTarget):
    """A reference that counts restarts of its kubelet."""

    restarts = 0

    async def restart_kubelet(self) -> None:
        self.restarts += 1
        await super().restart_kubelet()


@pytest.fixture
async def target() -> AsyncIterator[Counted]:
    target = Counted(NEWEST, resync=NO_RESYNC)
    await target.start()
    yield target
    await target.stop()


async def test_a_play_leaves_no_objects_in_its_lane(target: Counted) -> None:
    async with TargetSubject(target, 1, REFERENCE) as subject:
        before = [len(await target.api.list(kind)) for kind in (PODS, CLAIMS, DEVICE_CLASSES, SLICES)]
        await subject.play(script(unhealthy(), Start(0, 1), Stop(0), Stop(0, 1)))
        assert [len(await target.api.list(kind)) for kind in (PODS, CLAIMS, DEVICE_CLASSES, SLICES)] == before
    assert list(target.plugins_dir.glob("*/*")) == []


async def test_lanes_play_concurrently_without_interference(target: Counted) -> None:
    scripts = {
        number: script(unhealthy(f"script {number}"), Report(0, (Reading("pool", "gpu-0", 1),))) for number in range(4)
    }
    async with TargetSubject(target, 2, REFERENCE) as subject:
        outcomes = await Campaign(subject, NEWEST, lambda _: None).run(scripts)
    assert [(outcome.verdict, outcome.plays) for outcome in outcomes] == [("same", 1)] * 4


async def test_scripts_that_restart_the_kubelet_share_one_restart(target: Counted) -> None:
    scripts = {number: script(unhealthy("before"), RestartKubelet(), unhealthy("after")) for number in range(2)}
    async with TargetSubject(target, 2, REFERENCE) as subject:
        outcomes = await Campaign(subject, NEWEST, lambda _: None).run(scripts)
    assert [(outcome.verdict, outcome.plays) for outcome in outcomes] == [("same", 1)] * 2
    assert target.restarts == 1
