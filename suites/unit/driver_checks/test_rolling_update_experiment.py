"""The experiment of a rolling update, with a first instance in this process."""

from collections.abc import AsyncGenerator

import pytest

from drahealth.proto.events import Event, GrpcCall, ProcessStarted
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.rolling_update_experiments import rolling_update
from drahealth.suites.driver_checks.scripted_kubelet import Plugin
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, LabRig
from drahealth.suites.unit.driver_checks.runs import run_with


@pytest.fixture
async def rig() -> AsyncGenerator[LabRig]:
    rig = LabRig()
    yield rig
    await rig.close()


async def test_second_instance_that_listens_at_once_is_found(rig: LabRig) -> None:
    socket = await rig.serve({}, "second-reg.sock")
    kept = socket.rename(rig.places.kubelet_dir / socket.name)

    def heard(event: Event) -> None:
        rig.events.append(event)
        if isinstance(event, ProcessStarted):
            kept.rename(socket)  # before `start` returns

    endpoint, registration = (await rig.driver()).sockets
    rig.facts.plugin.set_result(Plugin(DRIVER, registration, endpoint, ("v1.DRAPlugin",)))
    subject = Subject("updated", rig.places, rig.clock, heard, api=rig.api, command=("sleep", "600"))
    async with rig.time_flies():
        with pytest.raises(Incomplete):
            await rolling_update(Lab(subject, heard, rig.facts, run_with()))
    assert str(socket) in [call.endpoint for call in rig.happened(GrpcCall)]
