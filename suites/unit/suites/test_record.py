"""Recording a driver's health stream as a timeline."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.timelines.build import dump
from drahealth.fakes.timelines.load import load
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.commands.timelines import Recorder
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.manager.rig import until


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.close()


async def run(rig: Rig, **options: Any) -> FakeDriver:
    driver = rig.here(devices=("gpu-0",), heartbeat=0.0, **options)
    await driver.start()
    rig.on_close(driver.stop)
    return driver


def registration(driver: FakeDriver) -> Path:
    return next(Path(driver.options.registry_dir).glob("*-reg.sock"))


def said(recorder: Recorder) -> list[Any]:
    """The stream steps of the recorded timeline, without times."""
    (loaded,) = load(dump(recorder.recording().timeline()))
    return [step.stream.model_dump(exclude_unset=True) for step in loaded.timeline.timeline[2:] if step.stream]


async def test_reports_of_a_driver_become_a_timeline(rig: Rig) -> None:
    driver = await run(rig)
    recorder = Recorder(registration(driver))
    listening = asyncio.create_task(recorder.listen())
    await until(lambda: driver.health.open)
    odd = [DeviceHealth("p", "d", Health.UNHEALTHY, "hot", timeout=-5), DeviceHealth("", "", Health.UNKNOWN)]
    await driver.report(odd)
    await driver.stream_close("UNAVAILABLE")
    await listening
    first, second, end = said(recorder)
    assert [device["device"] for device in first["send"]["devices"]] == ["gpu-0"]
    assert second["send"]["devices"] == (
        {"device": "d", "pool": "p", "health": "Unhealthy", "message": "hot", "timeout": -5.0},
        {"device": "", "pool": "", "health": "Unknown"},
    )
    assert end == {"close": "UNAVAILABLE"}


async def test_an_invalid_message_is_kept_as_bytes(rig: Rig) -> None:
    driver = await run(rig)
    recorder = Recorder(driver.endpoint, messages=3)
    listening = asyncio.create_task(recorder.listen())
    await until(lambda: driver.health.open)
    for payload in ("ff", "0a021063"):  # no protobuf, and a health that nobody knows
        await driver.stream_send(payload)
    await listening
    assert said(recorder)[1:] == [{"send": {"raw": "ff"}}, {"send": {"raw": "0a021063"}}]


async def test_the_first_served_health_api_is_recorded(rig: Rig) -> None:
    driver = await run(rig, served_health_apis=("v1alpha1.DRAResourceHealth",))
    recorder = Recorder(registration(driver), messages=1)
    await recorder.listen()
    assert recorder.recording().health_api.name == "v1alpha1.DRAResourceHealth"


async def test_a_driver_without_a_health_stream_gives_an_error(rig: Rig) -> None:
    driver = await run(rig, served_health_apis=())
    with pytest.raises(HarnessError, match="serves none of the health APIs"):
        await Recorder(registration(driver)).listen()


async def test_a_path_that_is_not_a_socket_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        await Recorder(tmp_path).listen()


async def test_a_recording_ends_after_its_time(rig: Rig) -> None:
    driver = await run(rig)
    recorder = Recorder(registration(driver), seconds=0.3)
    await recorder.listen()
    assert len(said(recorder)) == 1
