"""The socket files of a driver."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from drahealth.manager.calls import path_text
from drahealth.manager.registration import find_sockets
from drahealth.proto.device_plugin import KUBELET_SOCKET
from drahealth.proto.events import SocketsListed
from drahealth.suites.checking.lab import Lab


def list_sockets(lab: Lab, moment: Literal["registered", "ended"]) -> None:
    """Records the sockets that a kubelet finds in the registration directory, and all in the other directories."""
    places = lab.subject.places
    registry = sorted(path_text(socket.path) for socket in find_sockets(places.registry_dir))
    plugins = sorted(map(path_text, _sockets(places.plugins_dir)))
    beside_kubelet = (path for path in _sockets(places.device_plugins_dir) if path.name != KUBELET_SOCKET)
    device_plugins = sorted(map(path_text, beside_kubelet))
    lab.record(SocketsListed(lab.subject.label, moment, tuple(registry), tuple(plugins), tuple(device_plugins)))


def _sockets(directory: Path) -> Iterator[Path]:
    for folder, _, files in os.walk(directory):
        for name in files:
            path = Path(folder, name)
            with suppress(OSError):  # it was removed meanwhile
                if not name.startswith(".") and stat.S_ISSOCK(path.lstat().st_mode):
                    yield path
