"""The commands about the life of a driver or device plugin: it starts, stops, restarts, is upgraded."""

import math
from collections.abc import Sequence

from drahealth.fakes.control.commands.definition import (
    DEVICE_PLUGIN,
    DRIVER,
    Command,
    Control,
    Kind,
    Method,
    argument,
    command,
)

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
