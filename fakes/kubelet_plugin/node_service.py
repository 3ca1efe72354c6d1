"""The node service (W-07): claims are read and checked, and given to the plugin."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import grpc

from drahealth.fakes.cluster.api import CLAIMS, ApiError, Object
from drahealth.fakes.kubelet_plugin.interface import Device, DRAPlugin, NamespacedObject, PrepareResult
from drahealth.fakes.kubelet_plugin.options import Options
from drahealth.fakes.kubelet_plugin.serialization import NoTurns, Turns
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE, UNPREPARE, Method

log = logging.getLogger(__name__)

T = TypeVar("T")

_FORGOTTEN = ValueError("the driver has no result for this claim")
_CDI_ID = re.compile(r"[^/=\s]+/[^/=\s]+=[^/=\s]+")


class NodeService:
    """Answers NodePrepareResources and NodeUnprepareResources with what a plugin does."""

    def __init__(self, plugin: DRAPlugin, options: Options) -> None:
        self._plugin = plugin
        self._options = options
        self._turns: Turns = NoTurns()
        if options.serialize:
            self._turns = Turns((options.flock_dir or options.data_dir) if options.rolling_update else None)

    def methods(self) -> dict[Method, Any]:
        """The handlers of the versions that are served."""
        versions = self._options.dra_versions
        methods: dict[Method, Any] = {PREPARE[version]: self._prepare_with(version) for version in versions}
        return methods | {UNPREPARE[version]: self._unprepare_with(version) for version in versions}

    def _prepare_with(self, version: str) -> Any:
        async def prepare(request: Any, context: Any) -> Any:
            response = PREPARE[version].response()
            claims = list[Object]()
            for asked in request.claims:
                answer = response.claims[asked.uid]
                try:
                    claims.append(await self._allocated(asked))
                except ValueError as error:
                    answer.error = f"claim {asked.namespace}/{asked.name} {error}"
            if claims:
                results = await self._asked(self._plugin.prepare_resource_claims, claims, context)
                for uid in (claim["metadata"]["uid"] for claim in claims):
                    self._write(response.claims[uid], results.get(uid, PrepareResult(error=_FORGOTTEN)))
            return response

        return prepare

    def _unprepare_with(self, version: str) -> Any:
        async def unprepare(request: Any, context: Any) -> Any:
            response = UNPREPARE[version].response()
            claims = [NamespacedObject(claim.namespace, claim.name, claim.uid) for claim in request.claims]
            if claims:
                results = await self._asked(self._plugin.unprepare_resource_claims, claims, context)
                for claim in claims:
                    answer = response.claims[claim.uid]
                    answer.SetInParent()
                    if error := results.get(claim.uid, _FORGOTTEN):
                        answer.error = _words(error)
            return response

        return unprepare

    async def _allocated(self, asked: Any) -> Object:
        """The claim. Raises ValueError where it cannot be read, or is not one to prepare."""
        if self._options.api is None:
            raise ValueError("cannot be read: the driver has no API server")
        try:
            found = await self._options.api.get(CLAIMS, asked.name, asked.namespace)
        except ApiError as error:
            raise ValueError(f"cannot be read: {error}") from None
        if found["metadata"]["uid"] != asked.uid:
            raise ValueError(f"cannot be read: NotFound: its uid is {found['metadata']['uid']}, not {asked.uid}")
        if not found.get("status", {}).get("allocation"):
            raise ValueError("is not allocated")
        return found

    async def _asked(self, call: Callable[[Sequence[Any]], Awaitable[T]], claims: Sequence[Any], context: Any) -> T:
        """What the plugin says. What it raises is the answer to the kubelet."""
        try:
            async with self._turns.turn():
                return await call(claims)
        except Exception as error:
            log.exception("a call of driver %s failed", one_line(self._options.driver_name))
            await context.abort(grpc.StatusCode.UNKNOWN, _words(error))
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
            answer.error = _words(error)


def _checked(device: Device) -> Device:
    """With requests by their own names alone. Raises ValueError for what no kubelet knows what to do with."""
    if not device.pool or not device.device:
        raise ValueError(f"the driver has prepared a device without a {'name' if device.pool else 'pool'}")
    if strange := [cdi_id for cdi_id in device.cdi_ids if not _CDI_ID.fullmatch(cdi_id)]:
        raise ValueError(f"{strange[0]!r} of device {device.device} is no CDI id, such as vendor.example.com/gpu=0")
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


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
