"""The node service (W-07): reads and checks claims, and passes them to the plugin."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import grpc

from drahealth.fakes.cluster.api import CLAIMS, ApiError, Object
from drahealth.fakes.kubelet_plugin.call_lock import CallLock, NoLock
from drahealth.fakes.kubelet_plugin.interface import Device, DRAPlugin, NamespacedObject, PrepareResult
from drahealth.fakes.kubelet_plugin.options import Options
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE, UNPREPARE, Method

log = logging.getLogger(__name__)

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
