"""Mutants that register wrongly, or only once."""

from typing import Any

from drahealth.proto.device_plugin import GET_OPTIONS
from drahealth.proto.services import Method
from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant

_FIELDS = "registration-fields-are-valid"
_SERVED = "plugin-is-served-when-it-registers"
_AGAIN = "plugin-registers-with-a-restarted-kubelet"


@plugin_mutant("device-plugin-registers")
class NeverRegisters(HealthyPlugin):
    """The plugin serves its socket, but never calls Register."""

    async def register(self) -> bool:
        return True


@plugin_mutant(_FIELDS)
class OldVersion(HealthyPlugin):
    """Register has version v1alpha."""

    version = "v1alpha"


@plugin_mutant(_FIELDS)
class ResourceWithoutDomain(HealthyPlugin):
    """The resource name has no domain."""

    resource = "mutant"


@plugin_mutant(_FIELDS)
class EndpointIsAPath(HealthyPlugin):
    """Register has the absolute path of the socket as endpoint."""

    def registration(self) -> dict[str, Any]:
        return {**super().registration(), "endpoint": str(self.path)}


@plugin_mutant(_SERVED)
class ServesAfterRegistration(HealthyPlugin):
    """The plugin serves its socket only after the kubelet has accepted the registration."""

    async def start(self) -> None:
        self.spawn(self.keep_registered())

    def is_gone(self) -> bool:
        return False

    async def register(self) -> bool:
        if answered := await super().register():
            await self.socket.start()
        return answered


@plugin_mutant(_SERVED)
class NoOptions(HealthyPlugin):
    """GetDevicePluginOptions is not implemented."""

    def methods(self) -> dict[Method, Any]:
        return {method: handler for method, handler in super().methods().items() if method is not GET_OPTIONS}


@plugin_mutant("options-agree")
class NoOptionsInRegister(HealthyPlugin):
    """The options are in the answer to GetDevicePluginOptions, but not in Register."""

    def registration(self) -> dict[str, Any]:
        return {**super().registration(), "options": {}}


class _Once(HealthyPlugin):
    """Registers with the first kubelet only."""

    asked = False

    async def register(self) -> bool:
        asked, self.asked = self.asked, True
        return asked or await super().register()


@plugin_mutant(_AGAIN)
class PluginRegistersOnce(_Once):
    """The plugin does not register again after a restart of the kubelet."""


@plugin_mutant(_AGAIN)
class RegistersWithoutSocket(HealthyPlugin):
    """After a restart of the kubelet, the plugin registers again, but does not serve its removed socket again."""

    async def serve_again(self) -> None:
        return


@plugin_mutant("plugin-serves-a-new-socket")
class SocketStaysRemoved(HealthyPlugin):
    """If its socket is removed, the plugin serves a new socket only after a restart of the kubelet."""

    served_for: tuple[int, int] | None = None

    def is_gone(self) -> bool:
        if super().is_gone() and self.kubelet_identity() != self.served_for:
            self.served_for = self.kubelet_identity()
            return True
        return False

    async def register(self) -> bool:
        self.served_for = self.kubelet_identity()
        return await super().register()


@plugin_mutant("refused-plugin-registers-with-the-next-kubelet")
class GivesUpAfterRefusal(_Once):
    """If the kubelet refuses the registration, the plugin keeps running, but never registers again."""
