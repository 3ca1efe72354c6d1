"""Device plugins that are wrong, and the healthy one with two resources."""

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import grpc

from drahealth.proto.services import GET_OPTIONS, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER, Method
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.device_plugins.healthy import HealthyPlugin, plugin_mutant
from drahealth.suites.driver_checks.mutants.healthy import give_up

# Mutants that answer Allocate and the optional calls wrongly.

_RESPONSES = "each-container-has-its-response"
_PREFERRED = "preferred-devices-are-as-requested"


@plugin_mutant(_RESPONSES)
class NoResponses(HealthyPlugin):
    """Allocate returns no response for any container."""

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return []


@plugin_mutant(_RESPONSES)
class OneResponseForAll(HealthyPlugin):
    """Allocate returns one response for all containers."""

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return [self.response([device for devices in wanted for device in devices])]


@plugin_mutant(_RESPONSES)
class SwappedResponses(HealthyPlugin):
    """The responses are in the reverse order of the requests."""

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return super().responses(wanted)[::-1]


@plugin_mutant("responses-give-access")
class EmptyResponse(HealthyPlugin):
    """The response for a container is empty."""

    def response(self, devices: Sequence[str]) -> dict[str, Any]:
        return {}


@plugin_mutant("unknown-device-is-refused")
class AllocatesAnything(HealthyPlugin):
    """Allocate succeeds for a device that is not listed."""

    def refusal(self, devices: Sequence[str]) -> str:
        return ""

    def cdi_name(self, device: str) -> str:
        return super().cdi_name(device if device in self.devices else self.devices[0])  # another check is for names


@plugin_mutant("device-can-be-allocated-again", "pod-can-use-devices-again")
class DeviceStaysAllocated(HealthyPlugin):
    """A second Allocate call for the same device fails."""

    held: frozenset[str] = frozenset()

    def refusal(self, devices: Sequence[str]) -> str:
        if len(devices) == 1 and devices[0] in self.held:
            return f"device {devices[0]} is in use"
        self.held |= set(devices[:1] if len(devices) == 1 else ())
        return super().refusal(devices)


@plugin_mutant("second-response-is-the-same")
class CountingResponse(HealthyPlugin):
    """Each response sets a different environment variable."""

    def __init__(self, *places: Any) -> None:
        super().__init__(*places)
        self.numbers = count()

    def response(self, devices: Sequence[str]) -> dict[str, Any]:
        return {"envs": {"ALLOCATION": str(next(self.numbers))}}


@plugin_mutant("advertised-preference-is-served")
class PreferenceNotServed(HealthyPlugin):
    """The plugin advertises GetPreferredAllocation, but does not implement it."""

    def methods(self) -> dict[Method, Any]:
        return {key: value for key, value in super().methods().items() if key is not GET_PREFERRED_ALLOCATION}


@plugin_mutant(_PREFERRED)
class PrefersTheFirstDevice(HealthyPlugin):
    """GetPreferredAllocation returns the first devices of the plugin, even if they are not available."""

    def choice(self, available: list[str], included: list[str], size: int) -> list[str]:
        return list(dict.fromkeys((*included, *self.devices)))[:size]


@plugin_mutant(_PREFERRED)
class ForgetsIncludedDevices(HealthyPlugin):
    """GetPreferredAllocation ignores must_include_deviceIDs."""

    def choice(self, available: list[str], included: list[str], size: int) -> list[str]:
        return available[:size]


@plugin_mutant(_PREFERRED)
class PrefersAllDevices(HealthyPlugin):
    """GetPreferredAllocation returns all available devices."""

    def choice(self, available: list[str], included: list[str], size: int) -> list[str]:
        return available


@plugin_mutant("required-pre-start-is-served")
class PreStartNotServed(HealthyPlugin):
    """The plugin requires PreStartContainer, but does not implement it."""

    def methods(self) -> dict[Method, Any]:
        return {key: value for key, value in super().methods().items() if key is not PRE_START_CONTAINER}


@plugin_mutant("cdi-names-are-qualified")
class UnqualifiedCdiName(HealthyPlugin):
    """Allocate returns the names of CDI devices without vendor and class."""

    def cdi_name(self, device: str) -> str:
        return device


@plugin_mutant("cdi-devices-are-in-a-valid-spec")
class CdiDeviceNotDefined(HealthyPlugin):
    """The CDI spec does not define the last device."""

    def cdi_devices(self) -> tuple[str, ...]:
        return self.devices[:-1]


@plugin_mutant("cdi-devices-are-in-a-valid-spec")
class CdiSpecWithUnknownField(HealthyPlugin):
    """The CDI spec has an unknown field."""

    def write_cdi_spec(self) -> None:
        super().write_cdi_spec()
        path = self.cdi_dir / "mutant.json"
        path.write_text(path.read_text().replace('"env"', '"environment"'))


# Mutants with wrong lists.


@plugin_mutant("first-list-is-prompt")
class LateFirstList(HealthyPlugin):
    """The first list comes after 14 s."""

    async def before_first_list(self, stream: int) -> None:
        await asyncio.sleep(14)


@plugin_mutant("device-ids-are-unique")
class DuplicateId(HealthyPlugin):
    """Two devices have the same ID."""

    devices = ("dev-0", "dev-1", "dev-1")


@plugin_mutant("device-ids-are-unique")
class EmptyId(HealthyPlugin):
    """A device has an empty ID."""

    devices = ("dev-0", "", "dev-2")


@plugin_mutant("device-ids-have-at-most-63-characters")
class LongId(HealthyPlugin):
    """The ID of a device has 64 characters."""

    devices = ("dev-0", "d" * 64)


@plugin_mutant("device-health-is-known")
class LowerCaseHealth(HealthyPlugin):
    """The health of a device is `healthy`, in lower case."""

    def health_of(self, device: str) -> str:
        return super().health_of(device).lower()


@plugin_mutant("device-health-is-known")
class UnknownHealth(HealthyPlugin):
    """The health of one device is Unknown."""

    def health_of(self, device: str) -> str:
        return "Unknown" if device == self.devices[1] else super().health_of(device)


@plugin_mutant("every-list-has-all-devices")
class ListOfChanges(HealthyPlugin):
    """After a change, the list has only the changed device."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return super().listed(stream, number)[-1 if number else 0 :]


@plugin_mutant("list-stream-stays-open")
class ListEndsAfterChange(HealthyPlugin):
    """ListAndWatch returns after the second list, and the plugin does not register again."""

    async def woken(self, waker: "asyncio.Queue[None]") -> bool:
        await super().woken(waker)
        return False


@plugin_mutant("new-stream-lists-all-devices")
class ListContinues(HealthyPlugin):
    """The first list of a later stream has only the device that changed last."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return super().listed(stream, number)[-1 if stream and not number else 0 :]


@plugin_mutant("new-stream-lists-all-devices")
class OneStreamOnly(HealthyPlugin):
    """Only the first stream gets lists."""

    async def before_first_list(self, stream: int) -> None:
        if stream:
            await asyncio.Event().wait()


# Mutants that end wrongly.

_EXITS = "plugin-exits-after-sigterm"


@plugin_mutant(_EXITS)
class PluginHangsAtTheEnd(HealthyPlugin):
    """The plugin does not exit after SIGTERM."""

    async def stop(self) -> None:
        await asyncio.Event().wait()


@plugin_mutant(_EXITS)
class PluginLeavesAChild(HealthyPlugin):
    """A child process of the plugin still runs after the plugin has exited."""

    async def start(self) -> None:
        await asyncio.create_subprocess_exec("sleep", "600")
        await super().start()


@plugin_mutant("plugin-removes-its-sockets")
class PluginLeavesItsSocket(HealthyPlugin):
    """The socket of the plugin remains after the exit of the plugin."""

    async def stop(self) -> None:
        await self.socket.stop()


@plugin_mutant("plugin-runs-until-it-is-stopped")
class ExitsAfterPreStart(HealthyPlugin):
    """The plugin exits half a second after PreStartContainer."""

    async def pre_start(self, request: Any, context: Any) -> Any:
        asyncio.get_running_loop().call_later(0.5, give_up, "the device was reset")
        return await super().pre_start(request, context)


# Mutants whose answers are right by themselves, but not for a Pod on a kubelet.


@plugin_mutant("pod-with-devices-starts")
class BusyWhileListed(HealthyPlugin):
    """PreStartContainer fails while a ListAndWatch stream is open."""

    async def pre_start(self, request: Any, context: Any) -> Any:
        if self.wakers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the device library is in use")
        return await super().pre_start(request, context)


@plugin_mutant("devices-of-pods-are-listed-and-shown")
class AllocatedDeviceDisappears(HealthyPlugin):
    """The list has only the devices that were never allocated."""

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.taken = frozenset[str]()

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        self.taken |= {device for devices in wanted for device in devices}
        self.wake()
        return super().responses(wanted)

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        return [one for one in super().listed(stream, number) if one[0] not in self.taken]


@plugin_mutant("listed-fault-appears-in-the-pod-status", "kubelet-shows-devices-of-pods", "kubelet-shows-listed-fault")
class BrokenDeviceIsRenamed(HealthyPlugin):
    """A device that breaks is listed under another ID."""

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        found = super().listed(stream, number)
        return [(f"{name}-failed", str(Health.UNHEALTHY)) if name in self.broken else (name, h) for name, h in found]


# Mutants that register wrongly, or only once.

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


# Device plugins with two resources in one process: the healthy one, and mutants.


class OtherResource(HealthyPlugin):
    """The second resource."""

    resource = "example.com/other"
    name = "other"
    cdi_kind = "example.com/other"
    devices = ("other-0", "other-1")
    options: ClassVar[dict[str, bool]] = {"pre_start_required": False, "get_preferred_allocation_available": False}


class TwoResources(HealthyPlugin):
    """A process with two resources, each with its own socket and registration."""

    other: ClassVar[type[HealthyPlugin]] = OtherResource

    def __init__(self, *places: Path) -> None:
        super().__init__(*places)
        self.second = self.other(*places)

    async def start(self) -> None:
        await super().start()
        await self.second.start()

    async def stop(self) -> None:
        await asyncio.gather(super().stop(), self.second.stop())


class _RegistersOnce(OtherResource):
    registered = False

    async def register(self) -> bool:
        if not self.registered:
            self.registered = await super().register()
        return True


@plugin_mutant("plugin-registers-with-a-restarted-kubelet")
class SecondResourceRegistersOnce(TwoResources):
    """The second resource does not register again after a restart of the kubelet."""

    other = _RegistersOnce


class _EmptyResponses(OtherResource):
    def responses(self, wanted: Any) -> list[dict[str, Any]]:
        return []


@plugin_mutant("each-container-has-its-response")
class SecondResourceHasNoResponses(TwoResources):
    """Allocate returns no response for devices of the second resource."""

    other = _EmptyResponses


class _LowerCase(OtherResource):
    def health_of(self, device: str) -> str:
        return super().health_of(device).lower()


@plugin_mutant("device-health-is-known")
class SecondResourceIsInLowerCase(TwoResources):
    """The health of the devices of the second resource is `healthy`, in lower case."""

    other = _LowerCase
