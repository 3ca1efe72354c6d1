"""The services of a plugin: registration and node service, with the log and the order of their calls."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import text_format

from drahealth.fakes.cluster.api import CLAIMS, ApiError, Object
from drahealth.fakes.kubelet_plugin.interface import Device, DRAPlugin, NamespacedObject, Options, PrepareResult
from drahealth.proto.quoting import one_line
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method, Unary

# Serialize prepare and unprepare calls, in this process and, with a lock file, between instances of a driver.

LOCK_FILE = "serialize.lock"


class CallLock:
    """Admits one call at a time. `folder` holds the lock file that instances share; None: there is one instance."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = asyncio.Lock()
        self._folder = folder

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Holds the lock; waiting does not block the event loop. Raises OSError if the file cannot be locked."""
        async with self._lock:
            if self._folder is None:
                yield
                return
            from filelock import AsyncFileLock  # only rolling updates need it

            async with AsyncFileLock(self._folder / LOCK_FILE):
                yield


class NoLock(CallLock):
    """Admits all calls at once."""

    def __init__(self) -> None:
        super().__init__(None)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield


# Log gRPC calls, and attach the current call to log records.
#
# `current_call` is set while a function of the plugin runs. `CallFilter` adds it to the records of any log handler:
#
#     handler.addFilter(CallFilter())       # record.request_id, record.method

log = logging.getLogger(__name__)

_MAX_LENGTH = 800
"""Characters of a message in the log."""


@dataclass(frozen=True, slots=True)
class Call:
    """A gRPC call: a number, unique in this process, and the name of the method."""

    request_id: int
    method: str

    def __str__(self) -> str:
        return f"[{self.request_id} {self.method}]"


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The gRPC call that runs the driver's code; None outside of calls."""

_ids = count(1)


class CallFilter(logging.Filter):
    """Adds `request_id` and `method` to every record; 0 and an empty string outside of calls. Drops no record."""

    def filter(self, record: logging.LogRecord) -> bool:
        call = current_call.get()
        record.request_id, record.method = (call.request_id, call.method) if call else (0, "")
        return True


def log_calls(functions: Mapping[Method, Callable[..., Any]], level: int | None) -> dict[Method, Callable[..., Any]]:
    """Wraps the functions: numbers each call, and logs it at this level. None: no log."""
    return {
        method: (_unary if isinstance(method, Unary) else _stream)(method, of, level)
        for method, of in functions.items()
    }


def _unary(method: Method, function: Callable[..., Any], level: int | None) -> Callable[..., Any]:
    async def answer(request: Any, context: Any) -> Any:
        call = _begin(method, request, level)
        try:
            response = await function(request, context)
        except BaseException as error:
            _log(level, "%s failed: %s", call, repr(error))
            raise
        _log(level, "%s answered: %s", call, _Text(response))
        return response

    return answer


def _stream(
    method: Method, function: Callable[..., AsyncGenerator[Any, None]], level: int | None
) -> Callable[..., Any]:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        call = _begin(method, request, level)
        try:
            async with aclosing(function(request, context)) as messages:
                async for message in messages:
                    _log(level, "%s sends: %s", call, _Text(message))
                    yield message
        finally:
            _log(level, "%s ended", call)

    return answer


def _begin(method: Method, request: Any, level: int | None) -> Call:
    call = Call(next(_ids), method.path.rpartition("/")[2])
    current_call.set(call)
    _log(level, "%s called: %s", call, _Text(request))
    return call


def _log(level: int | None, message: str, *arguments: object) -> None:
    if level is not None:
        log.log(level, message, *arguments)


class _Text:
    """A message that is formatted only when it is logged."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def __str__(self) -> str:
        if isinstance(self._message, bytes):
            return f"{len(self._message)} bytes"
        return one_line(text_format.MessageToString(self._message, as_one_line=True), _MAX_LENGTH)


# The registration service of a plugin (W-11): it describes the plugin, and receives the registration status.


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The result of a registration, as a kubelet reported it."""

    plugin_registered: bool
    error: str = ""


class Registration:
    """Answers a kubelet that found the registration socket. `status` is the last result, None before the first."""

    def __init__(
        self, options: Options, versions: tuple[str, ...], on_status: Callable[[RegistrationStatus], None]
    ) -> None:
        self.status: RegistrationStatus | None = None
        self._options = options
        self._versions = versions
        self._on_status = on_status

    def methods(self) -> dict[Method, Any]:
        """The handlers of the gRPC methods."""
        return {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified}

    async def _get_info(self, request: Any, context: Any) -> Any:
        await self._fail("GetInfo", context)
        return GET_INFO.response(
            type=self._options.plugin_type,
            name=self._options.driver_name,
            endpoint="" if self._options.one_socket else str(self._options.plugin_socket),
            supported_versions=self._versions,
        )

    async def _notified(self, request: Any, context: Any) -> Any:
        await self._fail("NotifyRegistrationStatus", context)
        self.status = RegistrationStatus(request.plugin_registered, request.error)
        self._on_status(self.status)
        return NOTIFY_REGISTRATION.response()

    async def _fail(self, call: str, context: Any) -> None:
        """Ends the call with its error, if it has one."""
        find = self._options.registration_error
        if find and (error := find(call)):
            await context.abort(grpc.StatusCode.INTERNAL, error)


# The node service (W-07): reads and checks claims, and passes them to the plugin.


T = TypeVar("T")

_NO_RESULT = ValueError("the driver returned no result for this claim")
_CDI_ID = re.compile(r"[^/=\s]+/[^/=\s]+=[^/=\s]+")


class NodeService:
    """Answers NodePrepareResources and NodeUnprepareResources with the results of a plugin."""

    def __init__(self, plugin: DRAPlugin, options: Options) -> None:
        self._plugin = plugin
        self._options = options
        self._lock: CallLock = NoLock()
        if options.serialize:
            self._lock = CallLock((options.flock_dir or options.data_dir) if options.rolling_update else None)

    def methods(self) -> dict[Method, Any]:
        """The handlers of the served versions."""
        versions = self._options.dra_versions
        methods: dict[Method, Any] = {PREPARE[version]: self._prepare_with(version) for version in versions}
        return methods | {UNPREPARE[version]: self._unprepare_with(version) for version in versions}

    def _prepare_with(self, version: str) -> Any:
        async def prepare(request: Any, context: Any) -> Any:
            response = PREPARE[version].response()
            claims = list[Object]()
            for requested in request.claims:
                try:
                    claims.append(await self._allocated(requested))
                except ValueError as error:
                    response.claims[requested.uid].error = f"claim {requested.namespace}/{requested.name} {error}"
            if claims:
                results = await self._call(self._plugin.prepare_resource_claims, claims, context)
                for uid in self._answered((claim["metadata"]["uid"] for claim in claims), results):
                    self._write(response.claims[uid], results.get(uid, PrepareResult(error=_NO_RESULT)))
            return response

        return prepare

    def _unprepare_with(self, version: str) -> Any:
        async def unprepare(request: Any, context: Any) -> Any:
            response = UNPREPARE[version].response()
            claims = [NamespacedObject(claim.namespace, claim.name, claim.uid) for claim in request.claims]
            if claims:
                results = await self._call(self._plugin.unprepare_resource_claims, claims, context)
                for uid in self._answered((claim.uid for claim in claims), results):
                    answer = response.claims[uid]
                    answer.SetInParent()
                    if error := results.get(uid, _NO_RESULT):
                        answer.error = _text(error)
            return response

        return unprepare

    def _answered(self, uids: Iterable[str], results: Mapping[str, object]) -> list[str]:
        """The claims in the response: all of them, or those that a verbatim plugin has a result for."""
        return [uid for uid in uids if uid in results or not self._options.verbatim]

    async def _allocated(self, requested: Any) -> Object:
        """The claim from the API server. Raises ValueError if it cannot be read or is not allocated."""
        if self._options.api is None:
            raise ValueError("cannot be read: the driver has no API server")
        try:
            found = await self._options.api.get(CLAIMS, requested.name, requested.namespace)
        except ApiError as error:
            raise ValueError(f"cannot be read: {error}") from None
        if found["metadata"]["uid"] != requested.uid:
            raise ValueError(f"cannot be read: NotFound: its uid is {found['metadata']['uid']}, not {requested.uid}")
        if not found.get("status", {}).get("allocation"):
            raise ValueError("is not allocated")
        return found

    async def _call(self, call: Callable[[Sequence[Any]], Awaitable[T]], claims: Sequence[Any], context: Any) -> T:
        """Calls the plugin; its exception becomes the error of the gRPC call."""
        try:
            async with self._lock.held():
                return await call(claims)
        except Exception as error:
            log.exception("driver %s failed to prepare or unprepare claims", one_line(self._options.driver_name))
            await context.abort(grpc.StatusCode.UNKNOWN, _text(error))
            raise

    def _write(self, answer: Any, result: PrepareResult) -> None:
        try:
            if result.error:
                raise result.error
            devices = result.devices if self._options.verbatim else [_checked(device) for device in result.devices]
            for device in devices:
                _add(answer, device)
        except Exception as error:
            answer.ClearField("devices")
            answer.error = _text(error)


def _checked(device: Device) -> Device:
    """The device without subrequests. Raises ValueError for a device that a kubelet cannot use."""
    if not device.pool or not device.device:
        raise ValueError(f"a prepared device has no {'name' if device.pool else 'pool'}")
    if strange := [cdi_id for cdi_id in device.cdi_ids if not _CDI_ID.fullmatch(cdi_id)]:
        raise ValueError(f"CDI id of device {device.device} must be like vendor.example.com/gpu=0, got {strange[0]!r}")
    return replace(device, requests=tuple(dict.fromkeys(request.split("/")[0] for request in device.requests)))


def _add(answer: Any, device: Device) -> None:
    message = answer.devices.add(
        request_names=device.requests,
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_ids,
    )
    if device.share_id and "share_id" in message.DESCRIPTOR.fields_by_name:  # not in v1beta1
        message.share_id = device.share_id


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
