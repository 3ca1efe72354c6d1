"""The node service of a fake driver: claims are prepared and unprepared (NodePrepareResources, W-07)."""

from collections.abc import Callable, Iterable
from typing import Any

from drahealth.fakes.api import CLAIMS, Api, ApiError
from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.proto import events
from drahealth.proto.events import Observe
from drahealth.proto.services import PREPARE, UNPREPARE, Method
from drahealth.proto.values import DeviceId, PreparedDevice


class NodeService:
    """What is asked of it is written down in `prepared`; `changed()` is called when that is another for it."""

    def __init__(
        self,
        options: DriverOptions,
        api: Api,
        prepared: PreparedClaims,
        observe: Observe,
        changed: Callable[[], None],
    ) -> None:
        self._options = options
        self._api = api
        self._prepared = prepared
        self._observe = observe
        self._changed = changed

    def methods(self, versions: Iterable[str]) -> dict[Method, Any]:
        """The handlers of these versions."""
        known = list(versions)
        methods: dict[Method, Any] = {PREPARE[version]: self._prepare_with(version) for version in known}
        return methods | {UNPREPARE[version]: self._unprepare_with(version) for version in known}

    def _prepare_with(self, version: str) -> Any:
        method = PREPARE[version]

        async def prepare(request: Any, context: Any) -> Any:
            response = method.response()
            for claim in request.claims:
                answer = response.claims[claim.uid]
                try:
                    devices = [d for result in await self._allocated(claim) for d in self._returned(result)]
                except ApiError as error:
                    answer.error = f"claim {claim.namespace}/{claim.name} cannot be read: {error}"
                    continue
                for device in devices:
                    message = answer.devices.add(**_as_message(device))
                    if device.share_id and "share_id" in message.DESCRIPTOR.fields_by_name:  # not in v1beta1
                        message.share_id = device.share_id
                self._prepared.add(claim.uid, devices)
                names = tuple(device.id.device for device in devices)
                self._observe(events.Prepared(self._options.name, self._options.instance, claim.uid, names))
            self._changed()
            return response

        return prepare

    def _unprepare_with(self, version: str) -> Any:
        method = UNPREPARE[version]

        async def unprepare(request: Any, context: Any) -> Any:
            response = method.response()
            for claim in request.claims:
                response.claims[claim.uid].SetInParent()
                self._prepared.drop(claim.uid)
                self._observe(events.Unprepared(self._options.name, self._options.instance, claim.uid))
            self._changed()
            return response

        return unprepare

    async def _allocated(self, claim: Any) -> list[dict[str, Any]]:
        """The results of the claim's allocation that are this driver's."""
        found = await self._api.get(CLAIMS, claim.name, claim.namespace)
        if found["metadata"]["uid"] != claim.uid:
            raise ApiError(404, "NotFound", f"its uid is {found['metadata']['uid']}, not {claim.uid}")
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [result for result in results if result["driver"] == self._options.name]

    def _returned(self, result: dict[str, Any]) -> list[PreparedDevice]:
        """The devices returned for an allocated one: itself, or what the options have in its place."""
        driver, request = self._options.name, (result["request"].split("/")[0],)
        if result["device"] not in self._options.returns:
            cdi_ids = (self._options.cdi_id(result["device"]),) if self._options.cdi_ids else ()
            name = DeviceId(driver, result["pool"], result["device"])
            return [PreparedDevice(name, request, cdi_ids, result.get("shareID"))]
        return [
            PreparedDevice(
                DeviceId(driver, odd.pool, odd.device),
                request if odd.requests is None else odd.requests,
                odd.cdi_ids,
                odd.share_id or None,
            )
            for odd in self._options.returns[result["device"]]
        ]


def _as_message(device: PreparedDevice) -> dict[str, Any]:
    return {
        "request_names": device.requests,
        "pool_name": device.id.pool,
        "device_name": device.id.device,
        "cdi_device_ids": device.cdi_ids,
    }
