"""The registration service of a plugin (W-11): it describes the plugin, and receives the registration status."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from drahealth.fakes.kubelet_plugin.options import Options
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, Method


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
