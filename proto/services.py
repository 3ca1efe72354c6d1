"""The gRPC methods between a kubelet and a plugin, also a device plugin: paths and message types."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from drahealth.proto import device_plugin_v1beta1_pb2 as wire
from drahealth.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    node_health_draft_pb2,
    node_health_pb2,
    registration_v1_pb2,
)

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


class MalformedMessage(ValueError):
    """The other end sent bytes that are not a message of the method."""

    def __init__(self, text: str, data: bytes) -> None:
        super().__init__(text)
        self.data = data


class Responses(Generic[Res]):
    """The responses of one stream.

    Iterating raises `grpc.aio.AioRpcError` if the stream ends with a status other than OK, and MalformedMessage for a
    message that cannot be decoded.
    """

    def __init__(self, call: "grpc.aio.UnaryStreamCall[Any, bytes]", message: type[Res]) -> None:
        self._call = call
        self._message = message
        self.size = 0
        """Bytes of the response that came last."""

    async def __aiter__(self) -> AsyncGenerator[Res, None]:
        async for data in self._call:
            self.size = len(data)
            yield _parse(self._message, data)

    def cancel(self) -> None:
        """Ends the stream; no effect if it has ended."""
        self._call.cancel()


@dataclass(frozen=True)
class Unary(Generic[Req, Res]):
    """A method with one request and one response."""

    path: str
    request: type[Req]
    response: type[Res]

    def stub(self, channel: grpc.aio.Channel) -> Callable[..., Awaitable[Res]]:
        """A callable `(request, timeout=seconds) -> response` on this channel.

        It raises `grpc.aio.AioRpcError`, and MalformedMessage for a response that cannot be decoded.
        """
        call: Callable[..., Awaitable[bytes]] = channel.unary_unary(
            self.path, request_serializer=self.request.SerializeToString
        )

        async def ask(request: Req, timeout: float | None = None) -> Res:
            try:
                return _parse(self.response, await call(request, timeout=timeout))
            except asyncio.CancelledError:
                if _is_being_cancelled():
                    raise
                # gRPC cancels pending calls when the channel is closed. This must not cancel the caller.
                raise _failed(grpc.StatusCode.CANCELLED, "the connection was closed") from None

        return ask

    def handler(self, function: Callable[[Req, Any], Awaitable[Res]]) -> Any:
        """A handler that returns the result of `function`; it answers INVALID_ARGUMENT to a malformed request."""

        async def answer(data: bytes, context: Any) -> Res:
            try:
                request = _parse(self.request, data)
            except MalformedMessage as malformed:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(malformed))
                raise
            return await function(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, response_serializer=_serialize)


@dataclass(frozen=True)
class ServerStream(Generic[Req, Res]):
    """A method with one request and a stream of responses."""

    path: str
    request: type[Req]
    response: type[Res]

    def stub(self, channel: grpc.aio.Channel) -> Callable[[Req], Responses[Res]]:
        """A callable `(request) -> responses` on this channel."""
        call: Callable[[Req], grpc.aio.UnaryStreamCall[Any, bytes]] = channel.unary_stream(
            self.path, request_serializer=self.request.SerializeToString
        )
        return lambda request: Responses(call(request), self.response)

    def handler(self, function: Callable[[Req, Any], AsyncIterator[Res | bytes]]) -> Any:
        """A handler that sends the messages of `function`; bytes are sent unchanged, for malformed messages."""
        return grpc.unary_stream_rpc_method_handler(
            function, request_deserializer=self.request.FromString, response_serializer=_serialize
        )


Method = Unary[Any, Any] | ServerStream[Any, Any]


def _serialize(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def _parse(message: type[Res], data: bytes) -> Res:
    # Not with gRPC's own deserializer: for malformed data it logs a traceback and returns None.
    try:
        return message.FromString(data)
    except DecodeError:
        raise MalformedMessage(f"{len(data)} bytes that are not a {message.__name__}", data) from None


def serve(functions: Mapping[Method, Callable[..., Any]]) -> list[grpc.GenericRpcHandler]:
    """The handlers for `grpc.aio.Server.add_generic_rpc_handlers`, one for each service."""
    services: dict[str, dict[str, Any]] = defaultdict(dict)
    for method, function in functions.items():
        _, service, name = method.path.split("/")
        services[service][name] = method.handler(function)
    return [grpc.method_handlers_generic_handler(service, handlers) for service, handlers in services.items()]


DRA_PLUGIN, DEVICE_PLUGIN = "DRAPlugin", "DevicePlugin"
"""Types of plugins in the answer to GetInfo."""
GET_INFO = Unary(
    "/pluginregistration.Registration/GetInfo",
    registration_v1_pb2.InfoRequest,
    registration_v1_pb2.PluginInfo,
)
NOTIFY_REGISTRATION = Unary(
    "/pluginregistration.Registration/NotifyRegistrationStatus",
    registration_v1_pb2.RegistrationStatus,
    registration_v1_pb2.RegistrationStatusResponse,
)

PREPARE: dict[str, Unary[Any, Any]] = {
    "v1.DRAPlugin": Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
        dra_v1_pb2.NodePrepareResourcesRequest,
        dra_v1_pb2.NodePrepareResourcesResponse,
    ),
    "v1beta1.DRAPlugin": Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources",
        dra_v1beta1_pb2.NodePrepareResourcesRequest,
        dra_v1beta1_pb2.NodePrepareResourcesResponse,
    ),
}
"""NodePrepareResources by the string that a plugin advertises."""

UNPREPARE: dict[str, Unary[Any, Any]] = {
    "v1.DRAPlugin": Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
        dra_v1_pb2.NodeUnprepareResourcesRequest,
        dra_v1_pb2.NodeUnprepareResourcesResponse,
    ),
    "v1beta1.DRAPlugin": Unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
        dra_v1beta1_pb2.NodeUnprepareResourcesRequest,
        dra_v1beta1_pb2.NodeUnprepareResourcesResponse,
    ),
}
"""NodeUnprepareResources by the string that a plugin advertises."""

WATCH_HEALTH_V1 = ServerStream(
    "/v1.DRAResourceHealth/NodeWatchResources",
    health_v1_pb2.NodeWatchResourcesRequest,
    health_v1_pb2.NodeWatchResourcesResponse,
)
WATCH_HEALTH_V1ALPHA1 = ServerStream(
    "/v1alpha1.DRAResourceHealth/NodeWatchResources",
    health_v1alpha1_pb2.NodeWatchResourcesRequest,
    health_v1alpha1_pb2.NodeWatchResourcesResponse,
)
WATCH_NODE_HEALTH = ServerStream(
    "/v1alpha1.NodeHealth/WatchResources",
    node_health_pb2.WatchResourcesRequest,
    node_health_pb2.WatchResourcesResponse,
)
WATCH_DEVICES_STATUS = ServerStream(
    "/v1alpha1.NodeHealth/WatchDevicesStatus",
    node_health_draft_pb2.Empty,
    node_health_draft_pb2.DevicesStatusResponse,
)


VERSION = "v1beta1"
"""What a plugin names as its version, in Register and in GetInfo (D-11)."""

KUBELET_SOCKET = "kubelet.sock"
"""The kubelet's registration socket, in the directory of the device plugins (D-11)."""

REGISTER = Unary("/v1beta1.Registration/Register", wire.RegisterRequest, wire.Empty)
GET_OPTIONS = Unary("/v1beta1.DevicePlugin/GetDevicePluginOptions", wire.Empty, wire.DevicePluginOptions)
LIST_AND_WATCH = ServerStream("/v1beta1.DevicePlugin/ListAndWatch", wire.Empty, wire.ListAndWatchResponse)
GET_PREFERRED_ALLOCATION = Unary(
    "/v1beta1.DevicePlugin/GetPreferredAllocation", wire.PreferredAllocationRequest, wire.PreferredAllocationResponse
)
ALLOCATE = Unary("/v1beta1.DevicePlugin/Allocate", wire.AllocateRequest, wire.AllocateResponse)
PRE_START_CONTAINER = Unary(
    "/v1beta1.DevicePlugin/PreStartContainer", wire.PreStartContainerRequest, wire.PreStartContainerResponse
)
