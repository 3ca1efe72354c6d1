"""Commands of a fake driver, in this process and over a stream."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.control.replies import DriverState
from drahealth.proto.events import Prepared, Registered, Unprepared
from drahealth.proto.health_apis import SERVED_BY_FAKES
from drahealth.proto.services import PREPARE, UNPREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.expected_errors import rpc_error
from drahealth.suites.unit.fakes.conftest import Make
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY
SOCKETS = ["data/.dra", "data/dra.sock", f"registry/.{DRIVER}-reg", f"registry/{DRIVER}-reg.sock"]
LEFT_BY_A_CRASH = ["data/dra.sock", f"registry/{DRIVER}-reg.sock"]
WRONG = (ValueError, ControlFailed)  # here and there


# -- its life


async def test_a_driver_that_runs_has_its_sockets_and_one_that_stopped_has_none(
    driver: DriverControl, rig: Rig
) -> None:
    assert rig.sockets() == SOCKETS
    await driver.stop()
    assert rig.sockets() == []


async def test_a_crash_leaves_the_socket_files(driver: DriverControl, rig: Rig) -> None:
    await driver.crash()
    assert rig.sockets() == LEFT_BY_A_CRASH
    with rpc_error(grpc.StatusCode.UNAVAILABLE):
        await rig.ask()


async def test_driver_starts_without_the_api_server_and_publishes_later(driver: DriverControl, rig: Rig) -> None:
    await driver.stop()
    rig.api.down()
    await driver.start()
    assert (rig.sockets(), (await rig.ask()).name) == (SOCKETS, DRIVER)
    rig.api.up()
    rig.clock.jump(1)
    async with asyncio.timeout(PATIENCE), aclosing(rig.api.watch(SLICES)) as changes:
        while (await anext(changes)).object["spec"]["pool"]["generation"] != 2:
            pass


async def test_unregistered_driver_keeps_its_endpoint(driver: DriverControl, rig: Rig) -> None:
    await driver.unregister()
    assert (rig.sockets(), (await driver.state()).running) == (SOCKETS[:3], True)
    await driver.start()
    assert (rig.sockets(), (await rig.ask()).name) == (SOCKETS, DRIVER)


async def test_a_driver_starts_again_after_a_crash_and_after_a_stop(driver: DriverControl, rig: Rig) -> None:
    for end in (driver.crash, driver.stop):
        await end()
        await driver.start()
        assert (rig.sockets(), (await rig.ask()).name) == (SOCKETS, DRIVER)


async def test_starting_twice_and_stopping_twice_change_nothing(driver: DriverControl, rig: Rig) -> None:
    await driver.start()
    assert (rig.sockets(), [generation for _, generation, *_ in await rig.slices()]) == (SOCKETS, [1])
    for _ in range(2):
        await driver.stop()
    await driver.crash()
    assert rig.sockets() == []


async def test_retire_deletes_the_slices_and_stop_keeps_them(driver: DriverControl, rig: Rig) -> None:
    await driver.stop()
    assert len(await rig.slices()) == 1
    await driver.retire()
    assert await rig.slices() == []


async def test_driver_removes_only_a_folder_that_it_created(make: Make, tmp_path: Path) -> None:
    there, made = tmp_path / "there", tmp_path / "made"
    there.mkdir()
    for folder in (there, made):
        driver = await make(data_dir=str(folder))
        await driver.start()
        await driver.stop()
        await driver.start()
        await driver.retire()
    assert (there.exists(), made.exists()) == (True, False)


async def test_last_instance_removes_the_folder(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    old, new = await make(instance="old", data_dir=str(folder)), await make(instance="new", data_dir=str(folder))
    await old.start()
    await new.start()
    await old.retire()
    assert folder.exists()
    await new.retire()
    assert not folder.exists()


async def test_next_driver_removes_the_folder_of_a_killed_one(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "left"
    killed, successor = await make(data_dir=str(folder)), await make(data_dir=str(folder))
    await killed.start()
    await killed.crash()
    await successor.start()
    await successor.retire()
    assert not folder.exists()


async def test_each_start_publishes_a_higher_generation(driver: DriverControl, rig: Rig) -> None:
    for _ in range(2):
        await driver.stop()
        await driver.start()
    assert await rig.slices() == [(f"node-a-{DRIVER}-0", 3, 1, 2)]


async def test_an_old_instance_that_retires_leaves_the_devices_of_the_new_one(make: Make, rig: Rig) -> None:
    old, new = await make(instance="old"), await make(instance="new")
    await old.start()
    await new.start()
    await old.retire()
    assert await rig.slices() == [(f"node-a-{DRIVER}-0", 2, 1, 2)]
    await new.retire()
    assert await rig.slices() == []


async def test_state_has_streams_requests_and_prepared_claims(driver: DriverControl, rig: Rig) -> None:
    claim = await rig.claim("gpu-0")
    await rig.notify_registration()
    await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(claim)])
    async with rig.watch(driver), rig.watch(driver):
        asked, claims = {"v1.DRAResourceHealth": 2}, (claim["metadata"]["uid"],)
        assert await driver.state() == DriverState(True, True, "", 2, asked, claims, health_apis=SERVED_BY_FAKES)
    await driver.stop()
    assert await driver.state() == DriverState(False, False, "", 0, asked, claims, health_apis=SERVED_BY_FAKES)


# -- registration


async def test_wait_registered_waits_again_after_each_start(driver: DriverControl, rig: Rig) -> None:
    for _ in range(2):
        waiting = asyncio.create_task(driver.wait_registered())
        await rig.ask()
        assert not waiting.done()
        await rig.notify_registration()
        await asyncio.wait_for(waiting, PATIENCE)
        await driver.stop()
        await driver.start()
    await driver.state()
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=True)] * 2


async def test_rejected_registration_shows_in_the_driver_state(driver: DriverControl, rig: Rig) -> None:
    await rig.notify_registration(ok=False, error="no such version")
    state = await driver.state()
    assert (state.registered, state.registration_error) == (False, "no such version")
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=False, error="no such version")]


# -- claims


def reference(claim: dict[str, Any], **changes: str) -> dict[str, str]:
    metadata = claim["metadata"]
    return {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"], **changes}


@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
async def test_driver_prepares_and_unprepares_its_allocated_devices(
    driver: DriverControl, rig: Rig, version: str
) -> None:
    claim = await rig.claim("gpu-1", "gpu-0")
    uid = claim["metadata"]["uid"]
    answer = (await rig.call(PREPARE[version], claims=[reference(claim)])).claims[uid]
    assert [(d.pool_name, d.device_name, list(d.request_names), list(d.cdi_device_ids)) for d in answer.devices] == [
        ("node-a", "gpu-1", ["gpu"], [f"{DRIVER}/gpu=gpu-1"]),
        ("node-a", "gpu-0", ["gpu"], [f"{DRIVER}/gpu=gpu-0"]),
    ]
    assert not (await rig.call(UNPREPARE[version], claims=[reference(claim)])).claims[uid].error
    await driver.state()
    assert rig.happened(Prepared) == [Prepared(DRIVER, "", uid, ("gpu-1", "gpu-0"))]
    assert rig.happened(Unprepared) == [Unprepared(DRIVER, "", uid)]


async def test_missing_claim_fails_without_failing_other_claims(driver: DriverControl, rig: Rig) -> None:
    claim = await rig.claim("gpu-0")
    uid = claim["metadata"]["uid"]
    wanted = [reference(claim, name="other", uid="a"), reference(claim, uid="b"), reference(claim)]
    answers = (await rig.call(PREPARE["v1.DRAPlugin"], claims=wanted)).claims
    assert ("default/other" in answers["a"].error, "default/gpus" in answers["b"].error) == (True, True)
    assert ((await driver.state()).prepared, len(answers[uid].devices)) == ((uid,), 1)


async def test_claims_fail_until_the_error_is_empty(driver: DriverControl, rig: Rig) -> None:
    claim = await rig.claim("gpu-0")
    uid, claims = claim["metadata"]["uid"], [reference(claim)]
    for call, method in (("prepare", PREPARE["v1.DRAPlugin"]), ("unprepare", UNPREPARE["v1.DRAPlugin"])):
        await driver.fail_claims(call, "out of order")
        assert "out of order" in (await rig.call(method, claims=claims)).claims[uid].error
        await driver.fail_claims(call)
        assert not (await rig.call(method, claims=claims)).claims[uid].error


@pytest.mark.parametrize(("call", "ask"), [("GetInfo", Rig.ask), ("NotifyRegistrationStatus", Rig.notify_registration)])
async def test_registration_calls_fail_until_the_error_is_empty(
    driver: DriverControl, rig: Rig, call: str, ask: Callable[[Rig], Awaitable[Any]]
) -> None:
    await driver.fail_registration(call, "not ready")
    with rpc_error(grpc.StatusCode.INTERNAL):
        await ask(rig)
    await driver.fail_registration(call)
    await ask(rig)


async def test_closed_endpoint_leaves_the_registration_socket(driver: DriverControl, rig: Rig) -> None:
    before = rig.sockets()
    await driver.close_endpoint()
    closed = rig.sockets()
    await driver.restart()
    restarted = rig.sockets()
    await driver.open_endpoint()
    assert (closed, restarted, rig.sockets()) == ([path for path in before if "reg" in path], closed, before)


async def test_closed_endpoint_ends_the_streams(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await driver.close_endpoint()
        with rpc_error(grpc.StatusCode.UNAVAILABLE):
            while True:
                await stream.report()
    await driver.open_endpoint()
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


async def test_endpoint_that_could_not_be_opened_is_opened_by_the_next_command(driver: DriverControl, rig: Rig) -> None:
    before = rig.sockets()
    await driver.close_endpoint()
    (rig.root / "data/dra.sock").mkdir()
    with pytest.raises((OSError, ControlFailed), match="Is a directory"):
        await driver.open_endpoint()
    (rig.root / "data/dra.sock").rmdir()
    await driver.open_endpoint()
    assert rig.sockets() == before


async def test_driver_with_a_closed_endpoint_is_not_upgraded(driver: DriverControl) -> None:
    await driver.close_endpoint()
    with pytest.raises(WRONG, match="open it before an upgrade"):
        await driver.upgrade()


async def test_driver_with_one_socket_refuses_to_close_its_endpoint(rig: Rig) -> None:
    driver = rig.here(one_socket=True)
    with pytest.raises(WRONG, match="one socket"):
        await driver.close_endpoint()


async def test_driver_with_one_socket_serves_everything_there_and_names_no_endpoint(rig: Rig) -> None:
    driver, where = rig.here(one_socket=True, plugin_type="Other"), f"registry/{DRIVER}-reg.sock"
    await driver.start()
    info = await rig.ask()
    assert (info.endpoint, info.type) == ("", "Other")
    assert not (await rig.call(PREPARE["v1.DRAPlugin"], where)).claims
    async with rig.watch(driver, where=where) as stream:
        assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


async def test_claims_are_omitted_from_answers_until_the_fault_is_cleared(driver: DriverControl, rig: Rig) -> None:
    claim = await rig.claim("gpu-0")
    for call, method in (("prepare", PREPARE["v1.DRAPlugin"]), ("unprepare", UNPREPARE["v1.DRAPlugin"])):
        await driver.fail_claims(call, omit=True)
        assert not (await rig.call(method, claims=[reference(claim)])).claims
        await driver.fail_claims(call)
        assert list((await rig.call(method, claims=[reference(claim)])).claims) == [claim["metadata"]["uid"]]


async def test_devices_of_other_drivers_are_not_prepared(driver: DriverControl, rig: Rig) -> None:
    claim = await rig.claim("gpu-0", driver="other.example.com")
    answers = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(claim)])).claims
    assert list(answers[claim["metadata"]["uid"]].devices) == []


# -- what it refuses


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda d: d.set_health("gpu-9", HEALTHY), "'gpu-9'"),
        (lambda d: d.play([DeviceHealth("pool", "gpu-0", HEALTHY)]), "has no device pool/gpu-0"),
        (lambda d: d.stream_close("GONE"), "'GONE'"),
        (lambda d: d.fail_claims("prepare", "out of order", omit=True), "not both"),
        (lambda d: d.fail_registration("Register"), "'Register'"),
        (lambda d: d.stream_send("0aff0"), "hexadecimal"),
        (lambda d: d.set_health("gpu-0", HEALTHY, timeout=2**63), "9223372036854775808"),
        (lambda d: d.report([DeviceHealth("", "", HEALTHY, updated=-(2**63) - 1)]), "-9223372036854775809"),
    ],
)
async def test_invalid_command_is_rejected_and_the_stream_continues(
    driver: DriverControl, rig: Rig, call: Callable[[DriverControl], Awaitable[None]], reason: str
) -> None:
    async with rig.watch(driver) as stream:
        with pytest.raises(WRONG, match=reason):
            await call(driver)
        await driver.set_health("gpu-0", UNHEALTHY)
        await stream.report()
        assert await stream.shows() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}


async def test_failed_start_raises_and_leaves_no_sockets_or_slices(make: Make, rig: Rig) -> None:
    (rig.root / "registry" / f"{DRIVER}-reg.sock" / "in the way").mkdir(parents=True)
    driver = await make()
    for _ in range(2):
        with pytest.raises((OSError, ControlFailed), match="Is a directory"):
            await driver.start()
    assert (rig.sockets(), await rig.slices(), (await driver.state()).running) == ([], [], False)
