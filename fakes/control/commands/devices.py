"""The commands about the devices of a driver: faults, recoveries and taints."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.fakes.control.commands.definition import (
    DRIVER,
    Command,
    Control,
    Devices,
    Joined,
    Kind,
    Method,
    argument,
    command,
)
from drahealth.fakes.control.taint import TAINT_EFFECTS, Taint, taint_fields

_SHORTEST = 0.01
"""Seconds between two changes of a flap; with less, reports would use all processor time."""
DEVICE = "A device such as gpu-0 or gpu-0/mig-1, a pattern such as gpu-*, or all."


@command("inject", undo=lambda done: Clear(done.fault, done.device))
class Inject(Command[Sequence[str]]):
    """Add a fault of the catalogue to devices. The fake immediately reports each device with
    the health that the policy assigns to the fault.

    If the policy assigns Healthy to the fault, the reply names the devices that stay Healthy. If a device already has
    the fault, the command fails and changes nothing.
    """

    fault: str = argument("Name of a fault, such as xid/48. `drahealth faults list` prints all.")
    device: Devices = argument(DEVICE, Kind.DEVICES)


@command("clear")
class Clear(Command[Sequence[str]]):
    """Remove a fault from devices.

    The reply names the devices that had the fault.
    """

    fault: str = argument("The fault to clear.")
    device: Devices = argument(DEVICE, Kind.DEVICES)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of a recovery: faults that will be gone and faults that stay, such as `xid/48 on gpu-0`."""

    cleared: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    takes: float = 0.0
    """Seconds until then, on the driver's clock."""


@command("recover")
class Recover(Command[Attempt]):
    """Run a recovery action on devices. The action clears the faults that need this action or a weaker one."""

    action: str = argument("app-restart, gpu-reset, reboot or replace.")
    device: Devices = argument(f"{DEVICE} Default: all.", Kind.DEVICES, default="")
    fails: bool = argument("Let the action fail: no fault is cleared.", Kind.FLAG, option="--fails", default=False)
    claimed: bool = argument(
        "Report Healthy, although the faults remain.", Kind.FLAG, option="--claimed", default=False
    )
    takes: float | None = argument(
        "Duration of the action, such as 30s. `catalogue` means the recovery time of each fault in the catalogue.",
        Kind.RECOVERY_TIME,
        option="--takes",
        metavar="TIME",
        default=0.0,
    )

    def __post_init__(self) -> None:
        if self.takes is not None and not 0 <= self.takes < math.inf:
            raise ValueError(f"takes must be a finite number of seconds, 0 or more, got {self.takes:g}")


@command("flap", step="")
class Flap(Command[None]):
    """Toggle a fault of devices: add it immediately, remove it after one interval, add it again after the next
    interval, and so on.

    The flapping ends with `clear`, `reset`, a stop of the fake, or a recovery action that clears the fault. If a
    device already has the fault, the command fails and changes nothing.
    """

    device: Devices = argument(DEVICE, Kind.DEVICES)
    every: float = argument("The interval, such as 2s.", Kind.DURATION, option="--every", metavar="TIME")
    fault: str = argument(
        "Name of the fault; default: the first fault of the catalogue that makes a device Unhealthy.",
        option="--fault",
        metavar="NAME",
        default="",
    )

    def __post_init__(self) -> None:
        if not _SHORTEST <= self.every < math.inf:
            raise ValueError(f"`every` must be a finite number of seconds, at least {_SHORTEST:g}, got {self.every:g}")


@command("reset")
class Reset(Command[None]):
    """Make all devices Healthy, without faults.

    A driver also removes all taints, clears all stream faults, and sets the heartbeat and the timeouts to their initial
    values.
    """


def _parse_untaint(text: str) -> dict[str, str]:
    key, _, effect = text.partition(":")
    return {"key": key, "effect": effect}


@command(
    "taint",
    DRIVER,
    undo=lambda done: UntaintDevices(done.device, done.key, done.effect),
    joined=Joined("TAINT", "KEY[=VALUE][:EFFECT], such as example.com/unhealthy:NoExecute.", taint_fields),
)
class TaintDevices(Command[None]):
    """Publish devices with a taint. The new taint replaces a taint with the same key and effect.

    The command returns when the API server has stored the taint. If the API server is unavailable, the command
    succeeds, and the driver publishes the taint later. If the API server rejects or drops the taint, the command
    fails, and nothing changes. A stopped driver publishes the taint at its next start.
    """

    device: Devices = argument(DEVICE, Kind.DEVICES)
    key: str = argument("Key of the taint, such as gpu.example.com/unhealthy.")
    value: str = argument("Value of the taint.", default="")
    effect: str = argument(
        "Effect of the taint: None, NoSchedule or NoExecute.", choices=TAINT_EFFECTS, default="NoSchedule"
    )

    def __post_init__(self) -> None:
        Taint(self.key, self.value, self.effect)


@command(
    "untaint",
    DRIVER,
    joined=Joined(
        "TAINT", "KEY[:EFFECT]. Without an effect, the command removes all taints with this key.", _parse_untaint
    ),
)
class UntaintDevices(Command[Sequence[str]]):
    """Remove a taint from devices.

    The reply names the devices that had the taint.
    """

    device: Devices = argument(DEVICE, Kind.DEVICES)
    key: str = argument("Key of the taint, such as gpu.example.com/unhealthy.")
    effect: str = argument("Effect of the taint; default: every effect.", choices=TAINT_EFFECTS, default="")

    def __post_init__(self) -> None:
        Taint(self.key, effect=self.effect or "NoSchedule")


class DeviceControl(Control):
    """The methods of both drivers and device plugins."""

    inject = Method(Inject)
    clear = Method(Clear)
    recover = Method(Recover)
    flap = Method(Flap)
    reset = Method(Reset)


class DriverDevices(DeviceControl):
    """The methods of drivers."""

    taint = Method(TaintDevices)
    untaint = Method(UntaintDevices)
