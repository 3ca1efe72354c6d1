"""A recording of one driver gives the same stream on another."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drahealth.fakes.control.commands import StreamClose, StreamSend
from drahealth.fakes.control.definition import Command
from drahealth.fakes.control.without_subcommand import Report
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.build import dump
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.model import Trigger
from drahealth.fakes.timelines.plan import Action, Send
from drahealth.fakes.timelines.play import command_of, play
from drahealth.fakes.timelines.validation import checked_plan
from drahealth.proto.health_apis import HEALTH_APIS, V1
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.commands.timelines import Recorder, StreamMessage
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.manager.rig import until

DEVICES = st.builds(
    DeviceHealth,
    pool=st.sampled_from(["node-a", "elsewhere", ""]),
    device=st.sampled_from(["gpu-0", "gpu-0-mig-1", "nobody", ""]),
    health=st.sampled_from(Health),
    message=st.text(max_size=5),
    timeout=st.integers(-60, 60),
)
RAW = st.sampled_from(["", "ff", "0a021063", "0a00"])
SCRIPTS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 7.0, 3600.0]), RAW | st.lists(DEVICES, max_size=3)), max_size=6)
Script = Sequence[tuple[float, str | list[DeviceHealth]]]


class Replay:
    """A stage with only a driver and simulated time. Each message arrives before the next step."""

    def __init__(self, rig: Rig, driver: FakeDriver, recorder: Recorder) -> None:
        self.clock = rig.clock
        self._recorder = recorder
        self._driver = driver

    async def passes(self, seconds: float) -> None:
        self.clock.jump(seconds)

    async def act(self, action: Action) -> None:
        before, do = len(self._recorder.recording().messages), action.do
        if isinstance(do, Send):
            do = command_of(do.message, "node-a", self.clock.wall(), Inventory.of(1))
        assert isinstance(do, Command)
        await self._driver.do(do)
        if isinstance(do, Report | StreamSend | StreamClose):
            await until(lambda: len(self._recorder.recording().messages) > before)

    async def expect(self, action: Action) -> None:
        raise AssertionError("a recording expects nothing")

    async def held(self, action: Action) -> None:
        raise AssertionError("a recording expects nothing")

    async def happens(self, trigger: Trigger) -> None:
        raise AssertionError("a recording waits for nothing")


async def quiet(rig: Rig, **options: Any) -> tuple[FakeDriver, Recorder, "asyncio.Task[None]"]:
    """A silenced driver, and a recorder of its stream."""
    driver = rig.here(devices=("gpu-0",), **options)
    await driver.start()
    await driver.stream_silence()
    recorder = Recorder(driver.endpoint, clock=rig.clock)
    listening = asyncio.create_task(recorder.listen())
    await until(lambda: driver.health.open)
    return driver, recorder, listening


async def recorded(script: Script, code: str, health_api: str) -> Recorder:
    """Record a driver that sends these messages after these pauses."""
    rig = Rig()
    driver, recorder, listening = await quiet(rig, served_health_apis=(health_api,))
    for number, (pause, said) in enumerate(script, 1):
        rig.clock.jump(pause)
        await (driver.stream_send(said) if isinstance(said, str) else driver.report(said))
        await until(lambda number=number: len(recorder.recording().messages) == number)  # type: ignore[misc]
    await driver.stream_close(code)
    await listening
    await rig.close()
    return recorder


async def replayed(text: str, health_api: str) -> Recorder:
    """Record a driver that plays this timeline."""
    rig = Rig()
    driver, recorder, listening = await quiet(rig, served_health_apis=(health_api,))
    await play(checked_plan(load(text)[0], Inventory.of(1)), Replay(rig, driver, recorder))
    await listening
    await rig.close()
    return recorder


def in_short(heard: Sequence[StreamMessage]) -> list[tuple[bytes, str]]:
    return [(one.data, one.code) for one in heard]


@example([(0.0, [DeviceHealth("node-a", "gpu-0", Health.HEALTHY, "\x85 \u2028\r\n\t\x00")])], "OK", V1.name)
@given(SCRIPTS, st.sampled_from(["OK", "UNAVAILABLE", "INTERNAL"]), st.sampled_from([*HEALTH_APIS]))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_playing_a_recording_gives_the_same_stream(script: Script, code: str, health_api: str) -> None:
    first = (await recorded(script, code, health_api)).recording()
    again = (await replayed(dump(first.timeline()), health_api)).recording()
    assert in_short(again.messages) == in_short(first.messages)
    assert [one.at for one in again.messages] == pytest.approx([one.at for one in first.messages], abs=0.9)


async def test_playing_a_recording_takes_its_recorded_time() -> None:
    recording = (await recorded([(7.0, []), (3600.0, "ff")], "OK", V1.name)).recording()
    plan = checked_plan(load(dump(recording.timeline()))[0], Inventory.of(1))
    assert recording.messages[-1].at < plan.lasts < recording.messages[-1].at + 2


async def test_timestamps_of_the_driver_keep_their_age() -> None:
    rig = Rig()
    driver, recorder, listening = await quiet(rig)
    wall = int(rig.clock.wall())
    await driver.report([DeviceHealth("node-a", "gpu-0", Health.HEALTHY, updated=wall - 300)])
    await driver.stream_close()
    await listening
    await rig.close()
    again = (await replayed(dump(recorder.recording().timeline()), V1.name)).recording()
    (device,) = V1.decode(V1.method.response.FromString(again.messages[0].data))
    assert again.messages[0].wall - device.updated == pytest.approx(300, abs=2)
