"""The registration service of a plugin (W-11): it says what the plugin is, and is told what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.kubelet_plugin.options import Options
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, Method


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """A kubelet's word."""

    plugin_registered: bool
    error: str = ""


class Registration:
    """Answers a kubelet that has found the registration socket. `status` is its last word, None before the first."""

    def __init__(self, options: Options, versions: tuple[str, ...], told: Callable[[RegistrationStatus], None]) -> None:
        self.status: RegistrationStatus | None = None
        self._options = options
        self._versions = versions
        self._told = told

    def methods(self) -> dict[Method, Any]:
        """The handlers."""
        return {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified}

    async def _get_info(self, request: Any, context: Any) -> Any:
        return GET_INFO.response(
            type="DRAPlugin",
            name=self._options.driver_name,
            endpoint=str(self._options.plugin_socket),
            supported_versions=self._versions,
        )

    async def _notified(self, request: Any, context: Any) -> Any:
        self.status = RegistrationStatus(request.plugin_registered, request.error)
        self._told(self.status)
        return NOTIFY_REGISTRATION.response()
