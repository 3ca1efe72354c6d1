"""Mutants that register wrongly."""

from typing import Any

import grpc

from drahealth.proto.health_apis import HEALTH_APIS, V1ALPHA1
from drahealth.suites.checking.mutants.healthy import Healthy
from drahealth.suites.checking.mutants.table import mutant

_INFO = "get-info-describes-a-dra-driver"


@mutant("driver-has-a-registration-socket")
class NoRegistrationSocket(Healthy):
    """The name of the registration socket starts with a dot. Kubelets ignore such sockets."""

    async def start(self) -> None:
        await super().start()
        self.registration_socket.remove()


@mutant(_INFO)
class WrongType(Healthy):
    """GetInfo returns the type DevicePlugin."""

    def info(self) -> dict[str, Any]:
        return {**super().info(), "type": "DevicePlugin"}


@mutant(_INFO)
class InvalidName(Healthy):
    """The driver name has an underscore and capital letters."""

    name = "Mutant_Example"


@mutant(_INFO)
class NoDraVersion(Healthy):
    """GetInfo lists health APIs, but no DRA service."""

    advertised = tuple(dict.fromkeys(api.advertised for api in HEALTH_APIS.values()))


@mutant(_INFO)
class FailingGetInfo(Healthy):
    """GetInfo fails."""

    async def get_info(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.INTERNAL, "not ready")


@mutant("advertised-services-are-served")
class UnservedVersion(Healthy):
    """GetInfo lists v1beta1.DRAPlugin, but the driver serves only v1.DRAPlugin."""

    served = ("v1.DRAPlugin",)


@mutant("accepted-registration-is-acknowledged")
class FailingNotify(Healthy):
    """NotifyRegistrationStatus fails for the first accepted registration."""

    calls = 0

    async def notified(self, request: Any, context: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            await context.abort(grpc.StatusCode.UNKNOWN, "no handler")
        return await super().notified(request, context)


@mutant("refused-driver-can-be-registered-again")
class SocketRemovedAfterRefusal(Healthy):
    """If the kubelet refuses the registration, the driver removes its registration socket, and keeps running."""

    async def notified(self, request: Any, context: Any) -> Any:
        if not request.plugin_registered:
            self.registration_socket.remove()
        return await super().notified(request, context)


@mutant("refused-driver-can-be-registered-again")
class SilentAfterRefusal(Healthy):
    """If the kubelet refuses the registration, GetInfo fails afterwards, and the driver keeps running."""

    refused = False

    async def notified(self, request: Any, context: Any) -> Any:
        self.refused = not request.plugin_registered
        return await super().notified(request, context)

    async def get_info(self, request: Any, context: Any) -> Any:
        if self.refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the registration was refused")
        return await super().get_info(request, context)


@mutant("driver-registers-again-at-the-same-socket")
class RegistersOnce(Healthy):
    """NotifyRegistrationStatus fails when a restarted kubelet registers the driver again."""

    registered = False

    async def notified(self, request: Any, context: Any) -> Any:
        if self.registered:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "already registered")
        self.registered = True
        return await super().notified(request, context)


@mutant("driver-registers-again-at-the-same-socket")
class NewNameAtSecondRegistration(Healthy):
    """The second GetInfo returns another driver name."""

    calls = 0

    def info(self) -> dict[str, Any]:
        self.calls += 1
        return {**super().info(), "name": self.name if self.calls == 1 else f"second.{self.name}"}


@mutant("served-health-is-advertised")
class HealthNotAdvertised(Healthy):
    """The driver serves v1alpha1.DRAResourceHealth, but GetInfo does not list this API."""

    advertised = tuple(name for name in Healthy.advertised if name != V1ALPHA1.advertised)
