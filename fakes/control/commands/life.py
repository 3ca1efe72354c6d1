"""The commands about the life of a driver or device plugin: it starts, stops, restarts, is upgraded."""

import math
from collections.abc import Sequence

from drahealth.fakes.control.commands.arguments import Kind, argument
from drahealth.fakes.control.commands.definition import DEVICE_PLUGIN, DRIVER, Command, command
from drahealth.fakes.control.commands.surface import Control, Method

_OFFER = "Health API from now on: v1, v1alpha1 or a full name; default: unchanged."


@command("start", step="life start")
class Start(Command[None]):
    """Start the driver. A running driver only creates a missing registration socket again.

    A second start waits for the first. It fails if something ends the driver before it runs.
    """


@command("stop", step="life stop", undo=lambda done: Start())
class Stop(Command[None]):
    """Stop in order: unregister, end the streams, remove the sockets. The process stays, for `start`."""


@command("restart", DRIVER, step="life restart")
class Restart(Command[None]):
    """Stop in order and start again, with the health APIs of `offer` if given.

    An unknown health API is rejected; the driver then continues unchanged.
    """

    offer: Sequence[str] = argument(_OFFER, Kind.TEXTS, option="--offer", metavar="API", default=())


@command("restart", DEVICE_PLUGIN, step="life restart")
class RestartDevicePlugin(Command[None]):
    """Stop in order and start again."""


@command("upgrade", DRIVER, step="life upgrade")
class Upgrade(Command[None]):
    """Run a rolling update: a newer instance takes over. Returns when the older one has ended.

    The newer instance starts beside the older one, with sockets of its own. If a kubelet has registered the older one,
    it has to register the newer one too. Both run for the overlap; then the older one stops in order. Devices keep
    their faults, taints, recoveries and set health; stream faults end with the older instance.

    It is rejected for a driver that does not run or is being upgraded. If the newer instance cannot start or no kubelet
    registers it, the older one continues. The upgrade continues if the caller disconnects.
    """

    overlap: float = argument(
        "How long both instances run, such as 2s.", Kind.DURATION, option="--overlap", metavar="TIME", default=1.0
    )
    offer: Sequence[str] = argument(_OFFER, Kind.TEXTS, option="--offer", metavar="API", default=())

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < math.inf:
            raise ValueError(f"overlap must be a finite number of seconds, 0 or more, got {self.overlap:g}")


@command("unregister", DRIVER, step="life unregister", undo=lambda done: Start())
class Unregister(Command[None]):
    """Remove the registration socket. The next start creates it again."""


@command("crash", step="life crash", undo=lambda done: Start())
class Crash(Command[None]):
    """End immediately, as after SIGKILL: streams break, socket files stay."""


@command("retire", ctl="", step="")
class Retire(Command[None]):
    """Stop for good, and delete the ResourceSlices."""


@command("wait_registered", changes=False, ctl="", step="")
class WaitRegistered(Command[None]):
    """Return when a kubelet has registered the driver, since its last start."""


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
