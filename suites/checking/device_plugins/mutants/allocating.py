"""Mutants that answer Allocate and the optional calls wrongly."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from drahealth.proto.device_plugin import GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.proto.services import Method
from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant

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
