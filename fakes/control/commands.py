"""The commands with a subcommand of `drahealth ctl`: about devices, the life of a fake, and health streams."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.fakes.control.definition import (
    DEVICE_PLUGIN,
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
from drahealth.fakes.hints import near

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


_OFFER = (
    "Health API to serve after the command, such as v1, v1alpha1 or v1alpha1.NodeHealth. The option can be repeated. "
    "Default: the health APIs that the driver served before."
)


@command("start", step="life start")
class Start(Command[None]):
    """Start the fake. If a driver already runs without its registration socket, only create the socket again.

    If another start of the fake is in progress, the command waits until that start is complete. The command fails if
    the fake ends before the start is complete.
    """


@command("stop", step="life stop", undo=lambda done: Start())
class Stop(Command[None]):
    """Stop the fake: unregister, end the streams, remove the sockets.

    The process keeps running, and `start` starts the fake again.
    """


@command("restart", DRIVER, step="life restart")
class Restart(Command[None]):
    """Stop the driver and start it again. The restarted driver can serve other health APIs.

    If a health API is unknown, the command fails, and the driver continues unchanged.
    """

    offer: Sequence[str] = argument(_OFFER, Kind.TEXTS, option="--offer", metavar="API", default=())


@command("restart", DEVICE_PLUGIN, step="life restart")
class RestartDevicePlugin(Command[None]):
    """Stop the device plugin and start it again."""


@command("upgrade", DRIVER, step="life upgrade")
class Upgrade(Command[None]):
    """Run a rolling update: a newer instance takes over. The command returns when the older instance has ended.

    The newer instance starts beside the older one, with its own sockets. If a kubelet has registered the older
    instance, the command waits until the kubelet has also registered the newer instance. Both instances run during the
    time `overlap`. Then the older instance stops.

    Devices keep their faults, taints, running recoveries and the values of `set`. Stream faults end with the older
    instance.

    The command fails if the driver does not run, or if another upgrade is in progress. If the newer instance cannot
    start, or if no kubelet registers it, the older instance continues. If the caller disconnects, the upgrade still
    continues.
    """

    overlap: float = argument(
        "Time for which both instances run, such as 2s.", Kind.DURATION, option="--overlap", metavar="TIME", default=1.0
    )
    offer: Sequence[str] = argument(_OFFER, Kind.TEXTS, option="--offer", metavar="API", default=())

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < math.inf:
            raise ValueError(f"overlap must be a finite number of seconds, 0 or more, got {self.overlap:g}")


@command("register", DEVICE_PLUGIN, ctl="", step="")
class Register(Command[None]):
    """Register again without a restart. The command fails for a device plugin that does not run."""


@command("unregister", DRIVER, step="life unregister", undo=lambda done: Start())
class Unregister(Command[None]):
    """Remove the registration socket. The driver keeps running; `start` creates the socket again."""


@command("unregister", DEVICE_PLUGIN, ctl="", step="")
class UnregisterDevicePlugin(Command[None]):
    """Remove the socket in the registration directory. The device plugin keeps running; `register` creates the socket
    again. The command fails for a device plugin that registers at the socket of the kubelet.
    """


@command("crash", step="life crash", undo=lambda done: Start())
class Crash(Command[None]):
    """End the fake as SIGKILL does: the streams break, and the socket files stay. The process that serves the fake
    keeps running.
    """


@command("retire", ctl="", step="")
class Retire(Command[None]):
    """Stop the fake permanently. A driver deletes its ResourceSlices. A device plugin removes its CDI specification."""


@command("wait_registered", changes=False, ctl="", step="")
class WaitRegistered(Command[None]):
    """Wait until a kubelet has registered the fake after its last start."""


class Life(Control):
    """The methods of both drivers and device plugins."""

    start = Method(Start)
    stop = Method(Stop)
    crash = Method(Crash)
    retire = Method(Retire)
    wait_registered = Method(WaitRegistered)


class DriverLife(Life):
    """The methods of drivers."""

    restart = Method(Restart)
    upgrade = Method(Upgrade)
    unregister = Method(Unregister)


class DevicePluginLife(Life):
    """The methods of device plugins."""

    restart = Method(RestartDevicePlugin)
    register = Method(Register)
    unregister = Method(UnregisterDevicePlugin)


CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
"""The gRPC status codes, as `grpc.StatusCode` has them, which is too heavy for this module."""


class StreamFault(Command[None]):
    """Something that goes wrong on the streams until `stream restore`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """What it is called: silence, stall, drop, ..."""
        return _kind(type(self))

    @property
    def value(self) -> float:
        """How much of it there is; 1 for what is or is not."""
        return next(iter(self.arguments().values()), 1.0)


def _kind(fault: type[StreamFault]) -> str:
    return fault.definition.name.removeprefix("stream_")


def _undone(done: StreamFault) -> Command[None]:
    return StreamRestore(done.kind)


@command("stream_silence", DRIVER, ctl="stream silence", step="stream silence", undo=_undone)
class StreamSilence(StreamFault):
    """Send no reports: no first report on a new stream, no heartbeats, no reports of changes.

    After the silence, the next complete report has the current health of all devices.
    """


@command("stream_stall", DRIVER, ctl="stream stall", step="stream stall", undo=_undone)
class StreamStall(StreamFault):
    """Hold back all messages. `stream restore` sends them."""


@command("stream_delay", DRIVER, ctl="stream delay", step="stream delay", undo=_undone)
class StreamDelay(StreamFault):
    """Delay each message by this time."""

    seconds: float = argument("The delay, such as 500ms or 3s.", Kind.DURATION, metavar="TIME")

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"delay must be a finite number of seconds, 0 or more, got {self.seconds:g}")


@command("stream_drop", DRIVER, ctl="stream drop", step="stream drop", undo=_undone)
class StreamDrop(StreamFault):
    """Discard a share of the messages."""

    share: float = argument("Share of the messages, such as 20%; default: all messages.", Kind.SHARE, default=1.0)

    def __post_init__(self) -> None:
        _check_share(self)


@command("stream_duplicate", DRIVER, ctl="stream duplicate", step="stream duplicate", undo=_undone)
class StreamDuplicate(StreamFault):
    """Send a share of the messages twice."""

    share: float = argument("Share of the messages, such as 20%; default: all messages.", Kind.SHARE, default=1.0)

    def __post_init__(self) -> None:
        _check_share(self)


@command("stream_reorder", DRIVER, ctl="stream reorder", step="stream reorder", undo=_undone)
class StreamReorder(StreamFault):
    """Swap a share of the messages, each with the next message."""

    share: float = argument("Share of the messages, such as 20%; default: all messages.", Kind.SHARE, default=1.0)

    def __post_init__(self) -> None:
        _check_share(self)


@command("stream_partial", DRIVER, ctl="stream partial", step="stream partial", undo=_undone)
class StreamPartial(StreamFault):
    """Report only the changed devices, not all devices."""


@command("stream_skew", DRIVER, ctl="stream skew", step="stream skew", undo=_undone)
class StreamSkew(StreamFault):
    """Shift the timestamps in the reports."""

    seconds: float = argument("The shift, such as -5m.", Kind.OFFSET, metavar="TIME")

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds):
            raise ValueError(f"skew must be a finite number of seconds, got {self.seconds:g}")


FAULTS: tuple[type[StreamFault], ...] = (
    *(StreamSilence, StreamStall, StreamDelay, StreamDrop),
    *(StreamDuplicate, StreamReorder, StreamPartial, StreamSkew),
)
KINDS = tuple(map(_kind, FAULTS))


@command("stream_restore", DRIVER, ctl="stream restore", step="")
class StreamRestore(Command[None]):
    """Clear one stream fault, or all of them."""

    kind: str = argument(f"{', '.join(KINDS)}; default: all stream faults.", metavar="FAULT", default="")

    def __post_init__(self) -> None:
        if self.kind not in ("", "all", *KINDS):
            raise ValueError(f"unknown stream fault {self.kind!r}; {near(self.kind, KINDS)}")


@command("stream_close", DRIVER, ctl="stream close", step="stream close")
class StreamClose(Command[None]):
    """End every open stream with a gRPC status code."""

    code: str = argument("gRPC status code, such as UNAVAILABLE; default: OK.", default="OK")

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown gRPC status code {self.code!r}; valid: {', '.join(CODES)}")


@command("stream_send", DRIVER, ctl="stream send", step="")
class StreamSend(Command[None]):
    """Send these bytes as a message on every open stream."""

    payload: str = argument("The bytes in hexadecimal, such as 0aff.", metavar="HEX")

    def __post_init__(self) -> None:
        try:
            bytes.fromhex(self.payload)
        except ValueError:
            raise ValueError(f"a message must be hexadecimal, such as 0aff, got {self.payload[:40]!r}") from None


@command("set_heartbeat", DRIVER, ctl="", step="")
class SetHeartbeat(Command[None]):
    """Set the time between two heartbeats. 0 means no heartbeats."""

    seconds: float = argument("Seconds between two heartbeats; 0 for none.", Kind.INTERVAL)

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"heartbeat must be a finite number of seconds, 0 for none, got {self.seconds:g}")


class StreamControl(Control):
    """The methods of drivers."""

    stream_silence = Method(StreamSilence)
    stream_stall = Method(StreamStall)
    stream_delay = Method(StreamDelay)
    stream_drop = Method(StreamDrop)
    stream_duplicate = Method(StreamDuplicate)
    stream_reorder = Method(StreamReorder)
    stream_partial = Method(StreamPartial)
    stream_skew = Method(StreamSkew)
    stream_restore = Method(StreamRestore)
    stream_close = Method(StreamClose)
    stream_send = Method(StreamSend)
    set_heartbeat = Method(SetHeartbeat)


def _check_share(fault: StreamFault) -> None:
    if not 0 <= fault.value <= 1:
        raise ValueError(f"{fault.kind} must be between 0% and 100%, got {fault.value * 100:.6g}%")
