"""The table of methods: real paths, and both ends made from one entry."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from drahealth.proto import services
from drahealth.proto.services import (
    GET_INFO,
    NOTIFY_REGISTRATION,
    PREPARE,
    UNPREPARE,
    WATCH_HEALTH_V1,
    MalformedMessage,
    Method,
    serve,
)
from drahealth.suites.unit.endings import PATIENCE

HANGING = PREPARE["v1.DRAPlugin"]
GARBAGE = b"\x0a\xff"


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    """To a plugin that answers GetInfo well, its registration with garbage, and streams a report and then garbage.

    It never answers when it is to prepare.
    """

    async def get_info(request: Any, context: Any) -> Any:
        return GET_INFO.response(name="gpu.example.com")

    async def notify(request: Any, context: Any) -> Any:
        return GARBAGE

    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        yield WATCH_HEALTH_V1.response(devices=[{"health": 1}])
        yield GARBAGE

    async def hang(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    server = grpc.aio.server()
    methods: dict[Method, Any] = {
        GET_INFO: get_info,
        NOTIFY_REGISTRATION: notify,
        HANGING: hang,
        WATCH_HEALTH_V1: watch,
    }
    server.add_generic_rpc_handlers(serve(methods))
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        address = f"unix:{Path(folder) / 'plugin.sock'}"
        server.add_insecure_port(address)
        await server.start()
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel
        await server.stop(None)


@pytest.mark.counterpart("TestServiceNameConstants")
def test_the_paths_are_those_that_kubelets_call() -> None:
    dra = "/k8s.io.kubelet.pkg.apis.dra"
    assert {name: method.path for name, method in PREPARE.items()} == {
        "v1.DRAPlugin": f"{dra}.v1.DRAPlugin/NodePrepareResources",
        "v1beta1.DRAPlugin": f"{dra}.v1beta1.DRAPlugin/NodePrepareResources",
    }
    assert {name: method.path for name, method in UNPREPARE.items()} == {
        "v1.DRAPlugin": f"{dra}.v1.DRAPlugin/NodeUnprepareResources",
        "v1beta1.DRAPlugin": f"{dra}.v1beta1.DRAPlugin/NodeUnprepareResources",
    }
    assert [
        value.path for value in vars(services).values() if isinstance(value, services.Unary | services.ServerStream)
    ] == [
        "/pluginregistration.Registration/GetInfo",
        "/pluginregistration.Registration/NotifyRegistrationStatus",
        "/v1.DRAResourceHealth/NodeWatchResources",
        "/v1alpha1.DRAResourceHealth/NodeWatchResources",
        "/v1alpha1.NodeHealth/WatchResources",
        "/v1alpha1.NodeHealth/WatchDevicesStatus",
        "/v1beta1.Registration/Register",
        "/v1beta1.DevicePlugin/GetDevicePluginOptions",
        "/v1beta1.DevicePlugin/ListAndWatch",
        "/v1beta1.DevicePlugin/GetPreferredAllocation",
        "/v1beta1.DevicePlugin/Allocate",
        "/v1beta1.DevicePlugin/PreStartContainer",
    ]


async def test_a_call_gives_the_response(channel: grpc.aio.Channel) -> None:
    info = await GET_INFO.stub(channel)(GET_INFO.request(), timeout=PATIENCE)
    assert info.name == "gpu.example.com"


async def test_a_method_that_is_not_served_is_unimplemented(channel: grpc.aio.Channel) -> None:
    method = UNPREPARE["v1.DRAPlugin"]
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await method.stub(channel)(method.request(), timeout=PATIENCE)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_call_on_a_closed_channel_fails_with_a_grpc_error(channel: grpc.aio.Channel) -> None:
    call = asyncio.ensure_future(HANGING.stub(channel)(HANGING.request(), timeout=PATIENCE))
    await channel.channel_ready()
    await channel.close()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.CANCELLED, "the connection was closed")


async def test_cancelled_call_raises_cancelled_error(channel: grpc.aio.Channel) -> None:
    call = asyncio.ensure_future(HANGING.stub(channel)(HANGING.request()))
    await channel.channel_ready()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_malformed_response_raises_an_error_and_logs_nothing(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(MalformedMessage, match="not a RegistrationStatusResponse"):
        await NOTIFY_REGISTRATION.stub(channel)(NOTIFY_REGISTRATION.request())
    # asyncio may log that the loop is slow, or a task of an earlier test
    assert [record for record in caplog.records if record.name != "asyncio"] == []


@pytest.mark.counterpart("TestPlugin_WatchResources")
async def test_stream_yields_messages_until_a_malformed_one(channel: grpc.aio.Channel) -> None:
    responses = aiter(WATCH_HEALTH_V1.stub(channel)(WATCH_HEALTH_V1.request()))
    assert await anext(responses) == WATCH_HEALTH_V1.response(devices=[{"health": 1}])
    with pytest.raises(MalformedMessage, match="not a NodeWatchResourcesResponse"):
        await anext(responses)


async def test_methods_of_one_service_have_one_handler() -> None:
    async def answer(request: Any, context: Any) -> Any:
        return None

    names = [handler.service_name() for handler in serve(dict.fromkeys((GET_INFO, NOTIFY_REGISTRATION), answer))]  # type: ignore[attr-defined]
    assert names == ["pluginregistration.Registration"]
