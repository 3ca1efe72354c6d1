"""The driver reports that the kubelet received; simulated time waits for them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from drahealth.manager.profile import KEP
from drahealth.proto.events import Event, Record, ReportReceived, ReportSent, StreamClosed, TimePassed
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.story.history import are_received
from drahealth.suites.story.node import Node
from drahealth.suites.targets.reference.target import ReferenceTarget
from drahealth.suites.unit.endings import PATIENCE

HEALTHY = (DeviceHealth("node-a", "gpu-0", Health.HEALTHY),)
SENT = ReportSent("d", "", "d#1", HEALTHY)
RECEIVED = ReportReceived("d", "/d.sock", "kubelet#1", 10, HEALTHY)
OTHER = ReportReceived("other", "/o.sock", "kubelet#2", 10, HEALTHY)


@pytest.mark.parametrize(
    ("events", "received"),
    [
        ((), True),
        ((SENT,), True),
        ((SENT, RECEIVED), True),
        ((SENT, RECEIVED, SENT), False),
        ((SENT, RECEIVED, SENT, OTHER), False),
        ((SENT, RECEIVED, SENT, StreamClosed("d", "", "d#1", "cancelled")), True),
    ],
    ids=["nothing", "kubelet without records", "received", "on the way", "of another driver", "lost with its stream"],
)
def test_report_is_received_if_the_kubelet_got_one_after_it(events: Sequence[Event], received: bool) -> None:
    assert are_received([Record(float(number), event) for number, event in enumerate(events)]) is received


class LateTarget(ReferenceTarget):
    """A busy machine: from a moment on, the kubelet receives no report until `release`."""

    is_late = False

    def __init__(self) -> None:
        super().__init__(KEP)
        self.kept: list[Event] = []

    def _observed(self, event: Event) -> None:
        if self.is_late and isinstance(event, ReportReceived):
            self.kept.append(event)
        else:
            super()._observed(event)

    def release(self) -> None:
        self.is_late = False
        for event in self.kept:
            super()._observed(event)


@pytest.fixture
async def target() -> AsyncIterator[LateTarget]:
    target = LateTarget()
    await target.start()
    yield target
    await target.stop()


async def test_time_passes_after_the_reports_on_the_way_were_received(target: LateTarget) -> None:
    def run(_: object) -> None:
        raise AssertionError("this story runs on the loop of the test")

    node = Node(target, "a story", ("TIMEOUT-01",), run)
    await node.begin()
    _, pod, gpu = await node.pod_with_a_gpu(heartbeat=0)
    await pod.shows(gpu, Health.HEALTHY)
    target.is_late = True
    await gpu.becomes(Health.UNHEALTHY)
    advancing = asyncio.create_task(node.advance_time(1))
    await asyncio.wait([advancing], timeout=0.2)
    before = list(node.history.of(TimePassed))
    target.release()
    await asyncio.wait_for(advancing, PATIENCE)
    after = [event.seconds for event in node.history.of(TimePassed)]
    await node.finish()
    assert (before, after) == ([], [1])
