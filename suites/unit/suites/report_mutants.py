"""Wrong reference managers. Each has one error of a kubelet in its handling of reports."""

import asyncio
from dataclasses import replace
from pathlib import Path

from drahealth.manager.calls import Context
from drahealth.manager.dra import DraManager
from drahealth.proto.values import (
    DeviceHealth,
    Health,
    Report,
)


class _Mishears(DraManager):
    """Replaces each report; None drops it."""

    def _heard(self, report: Report) -> Report | None:
        raise NotImplementedError

    def _reported(self, driver: str, report: Report) -> None:
        if (heard := self._heard(report)) is not None:
            super()._reported(driver, heard)


class ForgetsMessages(_Mishears):
    """Messages are dropped."""

    def _heard(self, report: Report) -> Report:
        return tuple(replace(device, message="") for device in report)


class NeverForgives(_Mishears):
    """A device that was unhealthy once stays unhealthy."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._bad: dict[str, DeviceHealth] = {}

    def _heard(self, report: Report) -> Report:
        for device in report:
            if device.health is Health.UNHEALTHY:
                self._bad[device.device] = device
        return tuple(self._bad.get(device.device, device) for device in report)


class TiresOfFaults(_Mishears):
    """Only the first ten reports with an Unhealthy device count."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._faults = 0

    def _heard(self, report: Report) -> Report | None:
        self._faults += any(device.health is Health.UNHEALTHY for device in report)
        return report if self._faults <= 10 else None


class ReportsTheFirst(_Mishears):
    """Only the first of several changes within a minute is used."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._deaf_until = 0.0

    def _heard(self, report: Report) -> Report | None:
        now = asyncio.get_running_loop().time()
        if now < self._deaf_until:
            return None
        self._deaf_until = now + 60
        return report


class ForgetsTheAbsent(_Mishears):
    """A device that is missing from a report is Unknown immediately."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._known: dict[str, DeviceHealth] = {}

    def _heard(self, report: Report) -> Report:
        named = {device.device: device for device in report}
        absent = (replace(d, health=Health.UNKNOWN, message="") for n, d in self._known.items() if n not in named)
        self._known |= named
        return (*report, *absent)


class AlwaysTheDefault(_Mishears):
    """The timeout of a device is ignored."""

    def _heard(self, report: Report) -> Report:
        return tuple(replace(device, timeout=0) for device in report)


class OneTimeoutForAll(_Mishears):
    """The shortest timeout applies to all devices."""

    def _heard(self, report: Report) -> Report:
        shortest = min(device.timeout or 30 for device in report)
        return tuple(replace(device, timeout=shortest) for device in report)


class WaitsForAMinute(_Mishears):
    """The default timeout is wrong."""

    DEFAULT = 60

    def _heard(self, report: Report) -> Report:
        return tuple(replace(device, timeout=device.timeout or self.DEFAULT) for device in report)


class WaitsForTenSeconds(WaitsForAMinute):
    """The default timeout is wrong in another way."""

    DEFAULT = 10
