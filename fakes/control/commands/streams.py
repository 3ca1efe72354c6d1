"""The commands about the health streams of a driver: what goes wrong on them, and how often it reports."""

import math

from drahealth.fakes.control.commands.definition import DRIVER, Command, Control, Kind, Method, argument, command
from drahealth.fakes.hints import near

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
