"""What fakes reply: plain data, as it travels on the control socket. Standard library alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drahealth.fakes.control.taint import Taint


@dataclass(frozen=True, slots=True)
class DriverState:
    """State of a fake driver."""

    running: bool
    registered: bool
    """A kubelet has registered it since the last start, and it has not ended since."""
    registration_error: str
    streams: int
    """Open health streams."""
    stream_requests: Mapping[str, int]
    """Requests for a health stream since the driver was made, over all restarts, by health API; also those answered
    Unimplemented."""
    prepared: tuple[str, ...]
    """Uids of the claims that are prepared now, by any instance."""
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The faults of the devices that have any, by path."""
    taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)
    """The taints of the devices that have any, by path."""
    instance: str = ""
    """The instance; during an upgrade the newer one, once it has taken over."""
    health_apis: tuple[str, ...] = ()
    """The health APIs that it advertises."""
    heartbeat: float = 0.0
    """Seconds between reports while nothing changes; 0: none."""
    upgrading: bool = False
    """Another instance starts, or is about to end."""
    stream_faults: tuple[str, ...] = ()
    """What goes wrong on its health streams, such as `stall 1`, `drop 0.2`, `silence`."""

    @property
    def streams_opened(self) -> int:
        """Total stream requests."""
        return sum(self.stream_requests.values())


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """What a device plugin lists of a device."""

    device: str
    """Its id."""
    health: str
    listed: bool = True


@dataclass(frozen=True, slots=True)
class PluginState:
    """State of a fake device plugin."""

    running: bool
    registered: bool
    """A kubelet has registered it since the last start."""
    registration_error: str
    streams: int
    """Open ListAndWatch streams."""
    allocated: tuple[tuple[str, ...], ...]
    """The devices of each container in Allocate calls: of the newest `KEPT`, the newest last."""
    started: tuple[tuple[str, ...], ...]
    """The devices of each PreStartContainer call, likewise."""
    listed: tuple[str, ...] = ()
    """The devices that it lists."""
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The faults of the devices that have any, by path."""
    instance: str = ""
    allocations: int = 0
    """Containers in Allocate calls since the plugin was made, kept or not."""
    starts: int = 0
    """PreStartContainer calls, likewise."""
