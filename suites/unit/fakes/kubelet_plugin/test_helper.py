"""A driver on the helper: its sockets, its registration, its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from drahealth.fakes.kubelet_plugin import Helper, Pool, RegistrationStatus, current_call, start
from drahealth.fakes.kubelet_plugin.services import CallFilter
from drahealth.proto.health_apis import V1
from drahealth.proto.services import PREPARE
from drahealth.suites.unit.expected_errors import rpc_error
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import DRIVER, Plugin, PluginRig
from drahealth.suites.unit.manager.rig import until

SOCKETS = ["data/.dra", "data/dra.sock", f"registry/.{DRIVER}-reg", f"registry/{DRIVER}-reg.sock"]


# -- registration


async def test_get_info_returns_name_endpoint_and_versions(rig: PluginRig) -> None:
    async with rig.running():
        info = await rig.ask()
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(rig.root / "data/dra.sock"))
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


async def test_registration_status_is_the_last_one(rig: PluginRig) -> None:
    async with rig.running() as helper:
        said = [helper.registration_status]
        await rig.notify_registration(ok=False, error="no such version")
        said.append(helper.registration_status)
        await rig.notify_registration()
        await helper.wait_registered()
        said.append(helper.registration_status)
    assert said == [None, RegistrationStatus(False, "no such version"), RegistrationStatus(True)]


class HoldsAnswers(grpc.aio.ServerInterceptor):
    """Unary calls are answered when `released` is set."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)

        async def held(request: Any, context: Any) -> Any:
            answer = await handler.unary_unary(request, context)
            await self.released.wait()
            return answer

        decode, encode = handler.request_deserializer, handler.response_serializer
        return grpc.unary_unary_rpc_method_handler(held, decode, encode)


async def test_kubelet_receives_its_answer_from_a_stopping_driver(rig: PluginRig) -> None:
    answers, stopping = HoldsAnswers(), asyncio.Queue[asyncio.Task[None]]()
    options = rig.options(interceptors=(answers,))
    helper = Helper(Plugin(), options, on_status=lambda _: stopping.put_nowait(asyncio.create_task(helper.stop())))
    await helper.start()
    notified = asyncio.create_task(rig.notify_registration(ok=False, error="no such version"))
    stop = await stopping.get()
    await until(lambda: "data/.dra" not in rig.sockets())  # it has stopped, but for this answer
    answers.released.set()
    await notified
    await stop


# -- sockets


async def test_it_has_its_sockets_until_it_stops(rig: PluginRig) -> None:
    async with rig.running():
        assert rig.sockets() == SOCKETS
    assert [path for path in rig.root.rglob("*") if not path.is_dir()] == []


async def test_instances_of_a_rolling_update_have_sockets_of_their_own(rig: PluginRig) -> None:
    async with rig.running(rolling_update="uid-1"), rig.running(rolling_update="uid-2"):
        visible = [name for name in rig.sockets() if "/." not in name]
        info = await rig.ask(f"registry/{DRIVER}-uid-2-reg.sock")
    assert visible == [
        "data/dra-uid-1.sock",
        "data/dra-uid-2.sock",
        f"registry/{DRIVER}-uid-1-reg.sock",
        f"registry/{DRIVER}-uid-2-reg.sock",
    ]
    assert info.endpoint == str(rig.root / "data/dra-uid-2.sock")


async def test_registration_socket_can_have_another_name(rig: PluginRig) -> None:
    async with rig.running(registrar_socket="old.sock"):
        assert (await rig.ask("registry/old.sock")).name == DRIVER


async def test_listeners_choose_the_socket_addresses(rig: PluginRig) -> None:
    (rig.root / "elsewhere").mkdir()
    asked = []

    def listen(path: Path) -> str:
        asked.append(path.name)
        return f"unix:{rig.root}/elsewhere/{path.name}"

    async with rig.running(plugin_listener=listen, registrar_listener=listen):
        assert (await rig.ask(f"elsewhere/{DRIVER}-reg.sock")).name == DRIVER
        assert not (await rig.call(PREPARE["v1.DRAPlugin"], "elsewhere/dra.sock")).claims
    assert asked == ["dra.sock", f"{DRIVER}-reg.sock"]
    assert rig.sockets() == []


async def test_invalid_listener_address_fails_the_start_without_leftovers(rig: PluginRig) -> None:
    options = rig.options(registrar_listener=lambda path: "unix:/nowhere/at/all")
    with pytest.raises(OSError, match="cannot listen at unix:/nowhere/at/all"):
        await start(Plugin(), options, clock=rig.clock)
    assert (rig.sockets(), tasks()) == ([], [])


# -- calls


async def test_interceptors_see_unary_calls_and_streams_of_both_sockets_in_their_order(rig: PluginRig) -> None:
    seen: list[str] = []
    async with rig.running(interceptors=(Interceptor("a", seen), Interceptor("b", seen))):
        await rig.ask()
        await rig.prepare()
        async with rig.watch(V1) as stream:
            with rpc_error(grpc.StatusCode.UNIMPLEMENTED):
                await stream.raw()
    calls = ("GetInfo", "NodePrepareResources", "NodeWatchResources")
    assert seen == [f"{name} {call}" for call in calls for name in "ab"]


class Interceptor(grpc.aio.ServerInterceptor):
    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        self._seen.append(f"{self._name} {details.method.rpartition('/')[2]}")
        return await continuation(details)


async def test_calls_are_logged_with_their_number_and_method(rig: PluginRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(CallFilter())
    claim = await rig.claim()

    class Logging(Plugin):
        async def prepare_resource_claims(self, claims: Any) -> Any:
            logging.getLogger("driver").info("preparing for %s", current_call.get())
            return await super().prepare_resource_claims(claims)

    async with rig.running(Logging(), log_calls=logging.INFO):
        await rig.prepare(claim)
    (mine,) = (record for record in caplog.records if record.name == "driver")
    number = mine.__dict__["request_id"]
    assert (mine.getMessage(), mine.__dict__["method"]) == (
        f"preparing for [{number} NodePrepareResources]",
        "NodePrepareResources",
    )
    calls = [record.getMessage().split(": ")[0] for record in caplog.records if record.name.endswith("services")]
    assert calls == [f"[{number} NodePrepareResources] called", f"[{number} NodePrepareResources] answered"]


async def test_calls_are_not_logged_with_log_calls_none(rig: PluginRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with rig.running(log_calls=None):
        await rig.ask()
    assert [record for record in caplog.records if record.name.endswith("services")] == []


# -- its end


async def test_repeated_and_concurrent_stops_succeed(rig: PluginRig) -> None:
    async with rig.running() as helper:
        await asyncio.gather(helper.stop(), helper.stop())
        await helper.stop()
        assert (rig.sockets(), tasks()) == ([], [])


async def test_stopped_driver_leaves_no_tasks(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": Pool()})
        await helper.published()
        assert len(tasks()) == 3  # the resources, their watch, the heartbeat
    assert (tasks(), len(await rig.slices())) == ([], 1)
    with pytest.raises(ValueError, match="stopped"):
        helper.publish_resources({})


async def test_cancelled_driver_leaves_no_files(rig: PluginRig) -> None:
    up = asyncio.Event()

    async def run() -> None:
        async with rig.running():
            up.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await up.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (rig.sockets(), tasks()) == ([], [])


async def test_it_unregisters_before_its_calls_end(rig: PluginRig) -> None:
    left = list[str]()
    claim = await rig.claim()
    asked = asyncio.Event()

    class Slow(Plugin):
        async def prepare_resource_claims(self, claims: Any) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.extend(rig.sockets())

    async with rig.running(Slow()) as helper:
        calling = asyncio.create_task(rig.prepare(claim))
        await asked.wait()
        await helper.stop()
        with pytest.raises(grpc.aio.AioRpcError):
            await calling
    assert (f"registry/{DRIVER}-reg.sock" in left, "data/dra.sock" in left) == (False, True)


async def test_a_crash_leaves_the_socket_files(rig: PluginRig) -> None:
    helper = Helper(Plugin(), rig.options(), clock=rig.clock)
    await helper.start()
    await helper.crash()
    assert rig.sockets() == ["data/dra.sock", f"registry/{DRIVER}-reg.sock"]
    with rpc_error(grpc.StatusCode.UNAVAILABLE):
        await rig.call(PREPARE["v1.DRAPlugin"])


def tasks() -> list[str]:
    """Tasks and servers of a driver that still run."""
    return [task.get_name() for task in asyncio.all_tasks() if DRIVER in task.get_name()]
