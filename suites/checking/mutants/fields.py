"""Mutants whose reports have wrong fields: names, health, messages and times."""

import time
from dataclasses import replace
from typing import Any

from drahealth.proto.health_apis import NODE_HEALTH_DRAFT, V1, HealthApi
from drahealth.proto.values import MESSAGE_LIMIT, DeviceHealth, Health
from drahealth.suites.checking.mutants.healthy import Healthy
from drahealth.suites.checking.mutants.table import mutant

_FIELDS = "required-fields-are-valid"
_SIZE = "messages-have-at-most-1024-bytes"
_TIMES = "timestamps-are-plausible"


class _OneMore(Healthy):
    """Reports one more device; mutants give it a wrong name."""

    def more(self, number: int) -> DeviceHealth:
        """The device."""
        raise NotImplementedError

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        devices = super().listed(api, number)
        return devices if api is NODE_HEALTH_DRAFT else [*devices, self.more(number)]


@mutant(_FIELDS)
class NoPoolName(_OneMore):
    """A reported device has no pool name."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth("", "dev-3", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class InvalidDeviceName(_OneMore):
    """The name of a reported device is a PCI address."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth(self.around.node, "0000:3b:00.0", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class ChangingNames(_OneMore):
    """The name of a reported device contains the number of the report."""

    def more(self, number: int) -> DeviceHealth:
        return DeviceHealth(self.around.node, f"dev-3-{number}", Health.HEALTHY, updated=self.time())


@mutant(_FIELDS)
class UnknownHealthValue(Healthy):
    """A report of v1.DRAResourceHealth has the health number 7."""

    def message(self, api: HealthApi, number: int) -> Any:
        message = super().message(api, number)
        if api is V1 and number == 2:
            message.devices[0].health = 7
        return message


class _Unhealthy(Healthy):
    """Its first device is always unhealthy."""

    text = "failed"

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, health=Health.UNHEALTHY, message=self.text) if device == self.devices[0] else found


@mutant(_SIZE)
class LongMessage(_Unhealthy):
    """A message has 1025 bytes."""

    text = "x" * (MESSAGE_LIMIT + 1)


@mutant(_SIZE)
class LongMessageInBytes(_Unhealthy):
    """A message has 1024 characters, and 2048 bytes."""

    text = "é" * MESSAGE_LIMIT


@mutant("messages-are-stable")
class CountingMessage(_Unhealthy):
    """The message contains the number of the heartbeat."""

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        found = super().health_of(device, api)
        return replace(found, message=f"failed {self.beats} times") if found.message == self.text else found


@mutant(_TIMES)
class TimeInMilliseconds(Healthy):
    """Times are in milliseconds."""

    def time(self) -> int:
        return int(time.time() * 1000)


@mutant(_TIMES)
class TimeInTheFuture(Healthy):
    """Times are one hour in the future."""

    def time(self) -> int:
        return int(time.time()) + 3600


@mutant(_TIMES)
class TimeGoesBack(Healthy):
    """Times decrease with each heartbeat."""

    def time(self) -> int:
        return int(time.time()) - 6 * self.beats


@mutant(_TIMES)
class TimeSinceBoot(Healthy):
    """Times are seconds since the start of the machine."""

    def time(self) -> int:
        return int(time.monotonic())
